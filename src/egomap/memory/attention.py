"""Content-based attention over rows of map cells: similarity, softmax with a temperature, weighted mean.

Input: rows (B, cells, C), queries and inverse temperatures. Output: the attended features and
position and, to look at, the attention itself. Paper: section 3, equation 7. Plain torch here; on a CPU the
fused kernels of `egomap.memory.kernels` do the same in one pass over the rows, which is what makes it cheap.
"""

from __future__ import annotations

import torch
from torch import Tensor

from egomap.compute import exactly
from egomap.config import Similarity
from egomap.geometry.checks import require_shape
from egomap.memory import native

EPSILON = 1e-4
"""Added to squared lengths in the cosine, so that an empty cell has similarity 0 and a finite gradient."""

_PIECE = 256
"""Samples at a time in plain torch, so that what lies between rows and attention is never as large as the rows."""


def normalise(vectors: Tensor) -> Tensor:
    """Vectors (..., C) divided by their length; Choice: by sqrt(length^2 + EPSILON), smooth even at zero."""
    return vectors * (vectors.square().sum(-1, keepdim=True) + EPSILON).rsqrt()


def similarities(rows: Tensor, query: Tensor, similarity: Similarity) -> Tensor:
    """Similarity of each cell with the query.

    Choice: "l1" is the negative sum of absolute differences (the paper does not define its L1 similarity).

    Args:
        rows: (B, cells, C) map cells.
        query: (B, C) queries.
        similarity: "cosine" or "l1".

    Returns:
        (B, cells) scores, larger where more alike.
    """
    if similarity == "cosine":
        # Matrix products and sums over the contiguous axis; a norm over a strided one costs ten times that.
        dots = torch.bmm(rows, normalise(query)[..., None]).squeeze(-1)
        return dots * (rows.square().sum(-1) + EPSILON).rsqrt()
    return -(rows - query[:, None]).abs().sum(-1)


def attend(
    rows: Tensor, query: Tensor, beta: Tensor, positions: Tensor, similarity: Similarity
) -> tuple[Tensor, Tensor]:
    """Mean of the cells and of their positions, weighted by `softmax(beta * similarity)` (equation 7).

    Args:
        rows: (B, cells, C) map cells.
        query: (B, C) queries.
        beta: (B,) inverse temperatures: they multiply the scores.
        positions: (cells, 2) x, y of each cell.
        similarity: "cosine" or "l1".

    Returns:
        context (B, C + 2) and attention (B, cells); the attention is for looking at and carries no gradient.

    Raises:
        ValueError: If the shapes do not fit together, or the similarity is unknown.
    """
    if similarity not in ("cosine", "l1"):
        raise ValueError(f"similarity must be 'cosine' or 'l1'; got {similarity!r}.")
    # Nothing may broadcast, and a kernel would not notice.
    require_shape("rows", rows, (None, None, None), leading=0)
    batch, cells, channels = rows.shape
    require_shape("query", query, (batch, channels), leading=0)
    require_shape("beta", beta, (batch,), leading=0)
    require_shape("positions", positions, (cells, 2), leading=0)
    query, beta = query.to(rows.dtype), beta.to(rows.dtype)  # they may be less under autocast
    if native.enabled(rows):
        cosine = similarity == "cosine"
        query = normalise(query) if cosine else query
        return native.attend(rows, query, beta, positions, epsilon=EPSILON, cosine=cosine)
    if torch.compiler.is_compiling():
        return _attend(rows, query, beta, positions, similarity)
    # Positions are coordinates, and are attended exactly, as by the kernel.
    pieces = zip(rows.split(_PIECE), query.split(_PIECE), beta.split(_PIECE), strict=True)
    with exactly(rows):
        contexts, attentions = zip(*(_attend(*piece, positions, similarity) for piece in pieces), strict=True)
    return torch.cat(contexts), torch.cat(attentions)


def _attend(
    rows: Tensor, query: Tensor, beta: Tensor, positions: Tensor, similarity: Similarity
) -> tuple[Tensor, Tensor]:
    attention = torch.softmax(beta[:, None] * similarities(rows, query, similarity), dim=-1)
    features = torch.bmm(attention[:, None], rows).squeeze(1)
    return torch.cat((features, attention @ positions), dim=-1), attention.detach()
