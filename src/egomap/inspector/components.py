"""Features as colours: the first three principal components of map cells, as the paper's figures show them.

Input: feature vectors of cells. Output: a `Basis`, which can be kept in a file so that many episodes
share their colours, and red, green and blue for any cell. Numpy only; pure functions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from egomap.config import require
from egomap.inspector.recording import MapTrack
from egomap.util.files import write_whole
from egomap.util.reading import read_json

FORMAT = "egomap basis 1"
DARKEST = 24
"""Of 255: what the least value of a component is shown as, so that a known cell never looks like an unknown one."""
SHARE = 0.005
"""Of the cells, at either end, that may be beyond the scale: few odd cells must not take the colour from all."""


class Basis(NamedTuple):
    """Three directions in feature space, and the scale of the colours along them."""

    mean: np.ndarray
    """(C,)."""
    axes: np.ndarray
    """(3, C) unit vectors, the direction of most variance first."""
    low: np.ndarray
    """(3,) what is shown darkest along each."""
    high: np.ndarray
    """(3,) what is shown brightest."""
    explained: float
    """Part of the variance that the three carry, 0 to 1."""


def fit_basis(rows: np.ndarray) -> Basis:
    """The principal components of feature vectors (K, C).

    Choice: the sign of an axis is such that its largest entry is positive, so that the same cells give the same
    colours on every machine.

    Raises:
        ValueError: There is no row.
    """
    require(rows.ndim == 2 and len(rows) > 0, "there is no known cell to fit a basis to.")
    rows = rows.astype(np.float64)
    channels = rows.shape[1]
    mean = rows.mean(0)
    centred = rows - mean
    variances, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
    order = np.argsort(variances)[::-1][:3]
    axes = np.zeros((3, channels))
    axes[: len(order)] = vectors[:, order].T
    largest = np.abs(axes).argmax(1)
    axes *= np.where(axes[np.arange(3), largest] < 0, -1.0, 1.0)[:, None]
    places = centred @ axes.T
    total = float(variances.sum())
    explained = float(variances[order].sum() / total) if total > 0 else 1.0
    return Basis(mean, axes, np.quantile(places, SHARE, 0), np.quantile(places, 1 - SHARE, 0), explained)


def known_rows(maps: list[MapTrack]) -> np.ndarray:
    """(K, C) features of the known cells of all decisions of some episodes."""
    return np.concatenate([np.moveaxis(track.features, 2, -1)[track.known] for track in maps])


def colours(basis: Basis, features: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Features (..., C, size, size) as uint8 (..., size, size, 3); black where not known (..., size, size)."""
    require(
        features.shape[-3] == len(basis.mean),
        f"the basis is for {len(basis.mean)} channels; this map has {features.shape[-3]}.",
    )
    places = (np.moveaxis(features, -3, -1) - basis.mean) @ basis.axes.T
    span = basis.high - basis.low
    # A component that does not vary is drawn half-way.
    shares = np.where(span > 1e-9, (places - basis.low) / np.where(span > 1e-9, span, 1.0), 0.5)
    shown = DARKEST + np.clip(shares, 0.0, 1.0) * (255 - DARKEST)
    return np.where(known[..., None], np.round(shown), 0).astype(np.uint8)


def save_basis(path: Path, basis: Basis) -> None:
    """Keep a basis as JSON."""
    parts = {name: np.asarray(value).tolist() for name, value in basis._asdict().items()}
    write_whole(path, json.dumps({"format": FORMAT, **parts}, indent=1) + "\n")


def load_basis(path: Path) -> Basis:
    """The basis that `save_basis` kept.

    Raises:
        ValueError: It is something else, or damaged.
    """
    try:
        data = read_json(path)
        require(data["format"] == FORMAT, f"it says {data['format']!r:.80}, not {FORMAT!r}")
        mean, axes, low, high = (np.array(data[name], float) for name in ("mean", "axes", "low", "high"))
        fits = mean.ndim == 1 and axes.shape == (3, len(mean)) and low.shape == high.shape == (3,)
        sound = all(np.isfinite(part).all() for part in (mean, axes, low, high, float(data["explained"])))
        require(fits and sound, "its numbers do not fit together")
        return Basis(mean, axes, low, high, float(data["explained"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is no basis of `egomap inspect --basis`: {error}.") from error
