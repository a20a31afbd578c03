"""Linear probes: what a plain linear model can read out of vectors. Pure functions, no agent and no engine.

Input: training and test rows with what they stand for. Output: predictions for the test rows. Rows
are standardised by the training rows, so that the scale of a memory gives it no advantage.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F


def standardised(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with mean 0 and deviation 1 in the training rows; what does not vary becomes 0."""
    mean, deviation = train.mean(0), train.std(0)
    scale = np.where(deviation > 1e-8, deviation, np.inf)
    return (train - mean) / scale, (test - mean) / scale


def classify(
    train: np.ndarray, labels: np.ndarray, test: np.ndarray, classes: int, *, penalty: float = 1e-3
) -> np.ndarray:
    """Predicted class of each test row by multinomial logistic regression.

    Each class has the same weight in all, for walls are a hundred times as frequent as items; the fit is convex, so
    the answer depends on the rows alone.

    Args:
        train: (K, C) rows.
        labels: (K,) int64 in 0..classes - 1; every class must occur.
        test: (L, C) rows.
        classes: How many.
        penalty: Weight of the squared coefficients.

    Returns:
        (L,) int64.
    """
    x, y = (
        torch.from_numpy(rows) for rows in standardised(train.astype(np.float64), test.astype(np.float64))
    )
    target = torch.from_numpy(labels.astype(np.int64))
    counts = torch.bincount(target, minlength=classes).double()
    if (counts == 0).any():
        raise ValueError("every class must occur in the training rows.")
    balance = 1.0 / counts[target] / classes  # sums to 1
    weight = torch.zeros(classes, x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weight, bias], max_iter=300, line_search_fn="strong_wolfe", tolerance_change=1e-10
    )

    def loss() -> torch.Tensor:
        solver.zero_grad()
        errors = F.cross_entropy(x @ weight.T + bias, target, reduction="none")
        total = (balance * errors).sum() + penalty * weight.square().sum()
        total.backward()
        return total

    solver.step(loss)
    with torch.no_grad():
        return (y @ weight.T + bias).argmax(1).numpy()


def regress(train: np.ndarray, targets: np.ndarray, test: np.ndarray, *, penalty: float = 1e-2) -> np.ndarray:
    """Predicted targets (L, D) of the test rows by ridge regression on (K, C) rows and (K, D) targets."""
    x, y = standardised(train.astype(np.float64), test.astype(np.float64))
    mean = targets.mean(0)
    gram = x.T @ x / len(x) + penalty * np.eye(x.shape[1])
    coefficients = np.linalg.solve(gram, x.T @ (targets - mean) / len(x))
    return y @ coefficients + mean


def angle_errors(predicted: np.ndarray, bearing: np.ndarray) -> np.ndarray:
    """(L,) radians in [0, pi] between predicted (cos, sin) vectors (L, 2) and bearings (L,)."""
    difference = np.arctan2(predicted[:, 1], predicted[:, 0]) - bearing
    return np.abs(np.arctan2(np.sin(difference), np.cos(difference)))
