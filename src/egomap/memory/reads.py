"""The two ways an agent reads its map: a CNN over all of it, and attention with a query.

Input: maps in the agent's frame (B, C, size, size) and, for the query, the hidden state. What goes
out: the global read r_t (B, 32) and the context c_t (B, 18). Paper: section 3, "Read operations", equation 7,
and the appendix "Architectures". Both run over any batch, so over all T x N steps of a rollout at once. They
know nothing of poses: the map that they are given is already centred on the agent, facing up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import Similarity
from egomap.geometry import rows_from_image
from egomap.geometry.checks import require_shape
from egomap.memory.attention import attend, similarities
from egomap.memory.convolution import conv_relu
from egomap.memory.protocol import MemoryTrace


def oneplus(x: Tensor) -> Tensor:
    """`1 + log(1 + e^x)`, always 1 or more: keeps the inverse temperature from flattening the softmax."""
    return 1.0 + F.softplus(x)


def cell_positions(size: int) -> Tensor:
    """The coordinate planes of a map as rows (cells, 2): x to the right and y ahead of each cell's centre.

    Convention: normalised to (-1, 1) over the map, so the border cells are at +-(1 - 1 / size); the agent is
    at 0, 0.
    """
    centre = (torch.arange(size, dtype=torch.float64) + 0.5) * (2.0 / size) - 1.0
    ahead, right = torch.meshgrid(-centre, centre, indexing="ij")
    return torch.stack((right, ahead), dim=-1).flatten(0, 1)


def orthogonal(layer: nn.Linear | nn.Conv2d, gain: float) -> nn.Module:
    """The layer with an orthogonal weight and no bias, the initialisation of the paper's A2C code."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class GlobalRead(nn.Module):
    """Summary of a whole map by three convolutions and two linear layers; the paper's Read, r_t.

    Kernels 3, 4, 4, strides 1, 2, 2, 16 filters each, no padding: 24 -> 22 -> 10 -> 4 cells, so 256 values ->
    256 -> 32. ReLU after each layer but the last, which has a tanh.

    Shapes: map_ego (B, channels, size, size) -> (B, output_size).
    """

    def __init__(self, channels: int = 16, map_size: int = 24, *, output_size: int = 32):
        super().__init__()
        filters, hidden = 16, 256
        side = ((map_size - 2) - 4) // 2 + 1
        side = (side - 4) // 2 + 1
        if side < 1:
            raise ValueError(f"map_size must be 12 or more for the global read; got {map_size}.")
        self.map_shape = (channels, map_size, map_size)
        self.output_size = output_size
        gain = nn.init.calculate_gain("relu")
        self.convolutions = nn.ModuleList(
            orthogonal(nn.Conv2d(width, filters, kernel, stride), gain)
            for width, kernel, stride in ((channels, 3, 1), (filters, 4, 2), (filters, 4, 2))
        )
        self.head = nn.Sequential(
            orthogonal(nn.Linear(filters * side * side, hidden), gain),
            nn.ReLU(inplace=True),
            orthogonal(nn.Linear(hidden, output_size), nn.init.calculate_gain("tanh")),
            nn.Tanh(),
        )

    def forward(self, map_ego: Tensor) -> Tensor:
        """Map (B, C, size, size) -> global read (B, output_size)."""
        require_shape("map_ego", map_ego, self.map_shape, leading=1)
        x = map_ego
        for layer in cast(Iterable[nn.Conv2d], self.convolutions):
            x = conv_relu(x, layer.weight, cast(Tensor, layer.bias), layer.stride[0])
        return self.head(x.flatten(1))


class ContextRead(nn.Module):
    """Attention over the cells of a map with a query from the hidden state; the paper's Context, c_t.

    One linear layer gives the query (one value per channel) and, last, the temperature. Choice: the query
    comes from h_t, as the paper's text says (its equation 5 writes s_t, r_t). Choice: the softmax runs over
    all cells, seen or not. To start with sharper attention, set `query.bias[-1]` (beta = oneplus of it) or
    rescale `query.weight`.

    Shapes: hidden (B, hidden_size), map_ego (B, C, size, size) -> context (B, output_size), that is C
    features and, with `use_position`, the attended x, y in (-1, 1) (paper: 16 + 2).
    """

    positions: Tensor

    def __init__(
        self,
        hidden_size: int = 128,
        channels: int = 16,
        map_size: int = 24,
        *,
        similarity: Similarity = "cosine",
        use_beta: bool = True,
        use_position: bool = True,
    ):
        super().__init__()
        if similarity not in ("cosine", "l1"):
            raise ValueError(f"similarity must be 'cosine' or 'l1'; got {similarity!r}.")
        self.channels, self.map_size, self.similarity = channels, map_size, similarity
        self.use_beta, self.use_position = use_beta, use_position
        self.output_size = channels + 2 * use_position
        self.query = nn.Linear(hidden_size, channels + use_beta)
        orthogonal(self.query, 1.0)
        positions = cell_positions(map_size).to(torch.get_default_dtype())
        self.register_buffer("positions", positions, persistent=False)

    def forward(self, hidden: Tensor, map_ego: Tensor, *, trace: MemoryTrace | None = None) -> Tensor:
        """Hidden (B, hidden_size), map (B, C, size, size) -> context (B, output_size)."""
        require_shape("hidden", hidden, (self.query.in_features,), leading=1)
        shape = (hidden.shape[0], self.channels, self.map_size, self.map_size)
        require_shape("map_ego", map_ego, shape, leading=0)
        query = self.query(hidden)
        if self.use_beta:
            query, beta = query[:, :-1], oneplus(query[:, -1])
        else:
            beta = torch.ones_like(query[:, 0])
        rows = rows_from_image(map_ego)  # (B, cells, C)
        context, attention = attend(rows, query, beta, self.positions, self.similarity)
        if trace is not None:
            trace["query"], trace["beta"] = query.detach(), beta.detach()
            trace["attention"] = attention.unflatten(-1, (self.map_size, self.map_size))
            trace["query_position"] = context[:, self.channels :].detach()
        return context if self.use_position else context[:, : self.channels]


POINTED = 4
"""Values that describe the place that a pointer attends to."""
NEAR = 1.5
"""Cells around a place, to each side, that count as there: agents stop in front of a goal, and cells are coarse."""
NOWHERE = -1e4
"""Score of a cell without a known path: its attention is 0."""


class PointRead(nn.Module):
    """Attention over the cells of a map as a vote: each cell votes for the first action of the path to it.

    One linear layer gives the query (one value per channel), the inverse temperature and, last, how much nearer cells
    are preferred to farther ones. The softmax runs over the cells with a known path; without any there is no vote. It
    is differentiable in everything but the paths, so that a rewarded action draws attention to the cells that voted
    for it.

    Shapes: latent (B, latent_size), map_ego (B, C, size, size), begins (B, size, size) whole numbers, the action that
    begins the path to each cell or `num_actions` where there is none, lengths (B, size, size) -> (B, output_size):
    the vote, which sums to 1, or 0 without any path; the description of the place, `POINTED` values: x and y of the
    attended position in (-1, 1), how well query and cells agree, from -1 to 1, and the length of the path; and last
    the logarithm of the attention's share within `NEAR` cells of a given place, 0 without one and where no path leads
    there.
    """

    positions: Tensor

    def __init__(self, latent_size: int, channels: int, map_size: int, num_actions: int) -> None:
        super().__init__()
        self.channels, self.num_actions = channels, num_actions
        self.output_size = num_actions + POINTED + 1
        self.register_buffer(
            "positions", cell_positions(map_size).to(torch.get_default_dtype()), persistent=False
        )
        self.query = nn.Linear(latent_size, channels + 2)
        orthogonal(self.query, 1.0)
        with torch.no_grad():
            self.query.bias[-2] = 3.0  # flat attention votes for everything at once, and learns little

    def forward(
        self,
        latent: Tensor,
        map_ego: Tensor,
        begins: Tensor,
        lengths: Tensor,
        *,
        place: Tensor | None = None,
        trace: MemoryTrace | None = None,
    ) -> Tensor:
        """Vote, description of the place, and share near `place` (B, 2), in the units of the positions; NaN for none.

        A trace gets the attention, `pointing` (B, size, size).
        """
        query, beta, near = self.query(latent).split((self.channels, 1, 1), -1)
        agree = similarities(rows_from_image(map_ego), query, "cosine")
        far = lengths.flatten(1).to(agree.dtype)
        speaks_for = begins.flatten(1).long()
        nowhere = speaks_for == self.num_actions
        scores = (oneplus(beta) * agree - F.softplus(near) * far).masked_fill(nowhere, NOWHERE)
        log_attention = scores.log_softmax(-1)  # uniform over cells without a path, if all are
        attention = log_attention.exp()
        if trace is not None:
            trace["pointing"] = attention.detach().unflatten(-1, begins.shape[1:])
        sums = attention.new_zeros(len(attention), self.num_actions + 1).scatter_add(1, speaks_for, attention)
        votes = sums[:, : self.num_actions]
        of_place = ((attention * agree).sum(-1, keepdim=True), (attention * far).sum(-1, keepdim=True))
        told = torch.cat((attention @ self.positions.to(attention.dtype), *of_place), -1)
        told = told.masked_fill(nowhere.all(-1, keepdim=True), 0.0)
        share = self._share(log_attention, nowhere, place)
        return torch.cat((votes, told, share[:, None]), -1)

    def _share(self, log_attention: Tensor, nowhere: Tensor, place: Tensor | None) -> Tensor:
        if place is None:
            return log_attention.new_zeros(len(log_attention))
        within = NEAR * 2 / math.isqrt(len(self.positions))
        close = (self.positions - place[:, None]).abs().amax(-1) <= within  # NaN is close to nothing
        close = close & ~nowhere
        share = log_attention.masked_fill(~close, NOWHERE).logsumexp(-1)
        return torch.where(close.any(-1), share, 0.0)
