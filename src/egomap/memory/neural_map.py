"""Neural Map: a memory in which the agent writes one vector at the cell where it stands.

Input: features of the view and the pose (`MemoryInputs`). Output: [r_t, c_t, w_t] for the
heads. After Parisotto and Salakhutdinov, "Neural Map", ICLR 2018, with their gated write; the paper compares
EgoMap with it (section 4). Every write depends on both reads, so the time loop holds the whole map: only the
layer over the view is parallel in time. It deliberately ignores depth: what is seen goes where the agent is.

Cost with the default sizes, T = 128, N = 16, two cores: 28 800 values (115 kB) of state per environment; a
training unroll keeps one map per step (0.25 GB, 0.6 GB with what its layers keep) and takes 0.9 to 1.1 s
forward and backward; a step of 16 environments on one thread takes 3 ms.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import AgentConfig, require
from egomap.geometry import cells
from egomap.geometry.checks import check_features, check_pose, require_shape
from egomap.memory.cores import GRUCore
from egomap.memory.figures import attention_entropy, saturation
from egomap.memory.lesions import Part
from egomap.memory.protocol import (
    Fitting,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    ParameterGroups,
    Rate,
    TensorSpec,
    check_episode_start,
)
from egomap.memory.reads import GlobalRead
from egomap.memory.shown import Shown, ShownMap

HEADINGS = 4
HEADING_NAMES = ("facing east", "facing north", "facing west", "facing south")


def heading_bin(phi: Tensor) -> Tensor:
    """Which of the four maps a heading belongs to: 0 east, 1 north, 2 west, 3 south, each +-45 degrees.

    Args:
        phi: (...) radians, counter-clockwise from +x.

    Returns:
        (...) int64 in 0..3.
    """
    return torch.floor(phi / (math.pi / 2) + 0.5).long() % HEADINGS


class NeuralMapMemory(nn.Module):
    """Global read, context read, gated write at the agent's own cell; one map for each of four headings.

    With s_t = ReLU(FC(ReLU(features))) of `hidden_size` values, M the maps and m the vector at the agent's
    cell: r_t = CNN(M) with all headings as channels (layers as EgoMap's global read); query q = W [s_t, r_t];
    c_t = the average of all cells of all headings, weighted by softmax(q . M); w_t = GRU([s_t, r_t, c_t], m),
    written to the cell. Output [r_t, c_t, w_t].

    Choices: positions outside of the map count as its border cell; maps start at zero; 15 x 15 cells and 32
    channels, so that the layers have about as many weights as EgoMap's.

    Shapes: features (..., C, Hf, Wf), pose (..., 3) -> output (..., read_size + 2 * channels).
    """

    has_map = True
    rates: ClassVar[dict[str, Rate]] = {"global_read": "read"}

    def __init__(
        self,
        extent: float,
        *,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        channels: int = 32,
        map_size: int = 15,
        hidden_size: int = 128,
    ):
        super().__init__()
        if not (math.isfinite(extent) and extent > 0):
            raise ValueError(f"extent must be a positive length in map units; got {extent}.")
        if channels < 1:
            raise ValueError(f"channels must be 1 or more; got {channels}.")
        self.extent, self.channels, self.map_size = float(extent), channels, map_size
        self.feature_shape = tuple(feature_shape)
        self.reduce = nn.Linear(math.prod(feature_shape), hidden_size)
        self.global_read = GlobalRead(HEADINGS * channels, map_size)
        read_size = self.global_read.output_size
        self.query = nn.Linear(hidden_size + read_size, channels)
        self.context = nn.Identity()  # what is read by the query passes here, where a lesion can reach it
        self.write = GRUCore(hidden_size + read_size + channels, channels)
        for layer, gain in ((self.reduce, 2**0.5), (self.query, 1.0)):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)
        self.output_size = read_size + 2 * channels

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting) -> NeuralMapMemory:
        """A new one as an agent's settings ask for it."""
        require(not config.use_reward, "neural-map does not take the reward; leave out --use-reward.")
        return cls(
            fitting.extent,
            feature_shape=fitting.feature_shape,
            channels=config.neural_map_channels,
            map_size=config.neural_map_size,
            hidden_size=config.hidden_size,
        )

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """The maps (cells * headings, C): row (row * size + column) * 4 + heading."""
        return (TensorSpec((self.map_size**2 * HEADINGS, self.channels), self.reduce.weight.dtype),)

    @property
    def lesions(self) -> dict[str, Part]:
        """Both reads, and what was written before.

        Choice: not w_t itself, for it is also the only way of the view to the heads.
        """
        return {
            "global-read": Part(module="global_read"),
            "context": Part(module="context"),
            "write": Part(state=(0,)),
        }

    @property
    def shown(self) -> Shown:
        """The maps, one for each heading, north up."""
        size = self.map_size
        words = f"4 maps of {size} × {size} cells, {self.channels} channels, {self.extent:g} map units"
        return Shown(ShownMap("world", self.extent, HEADING_NAMES), words={"map": words})

    def initial_state(self, n: int) -> MemoryState:
        """Empty maps."""
        return (self.reduce.weight.new_zeros(n, self.map_size**2 * HEADINGS, self.channels),)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: features (N, C, Hf, Wf), pose (N, 3) -> output (N, output_size), next state."""
        view, row = self._parallel(inputs, axes=1)
        self._check_state(state, view.shape[0])
        out, map_next = self._advance(view, row, state[0], trace)
        return out, (map_next,)

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: features (T, N, C, Hf, Wf), pose (T, N, 3) -> output (T, N, output_size), last state."""
        view, row = self._parallel(inputs, axes=2)
        check_episode_start(episode_start, tuple(view.shape[:2]))
        self._check_state(state, view.shape[1])
        keep = episode_start.logical_not().to(view.dtype)[:, :, None, None]  # (T, N, 1, 1)
        # A reset touches the whole map, so steps in which no episode starts leave it out.
        starts = episode_start.any(1).cpu().tolist()
        outs, maps = [], state[0]
        for view_t, row_t, keep_t, start in zip(
            view.unbind(0), row.unbind(0), keep.unbind(0), starts, strict=True
        ):
            out, maps = self._advance(view_t, row_t, maps * keep_t if start else maps, None)
            outs.append(out)
        return torch.stack(outs), (maps,)

    def parameter_groups(self) -> ParameterGroups:
        """Global read, and the core: the layer over the view, the query and the write."""
        parts = (self.reduce, self.query, self.write)
        return {
            "global_read": tuple(self.global_read.parameters()),
            "core": tuple(parameter for part in parts for parameter in part.parameters()),
        }

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """How the maps are read and written: see docs/training.md for each figure."""
        return {
            "read_saturation": saturation(trace["global_read"]),
            "write_saturation": saturation(trace["written"]),
            "attention_entropy": attention_entropy(trace["attention"]),
        }

    def _parallel(self, inputs: MemoryInputs, *, axes: int) -> tuple[Tensor, Tensor]:
        """What does not depend on the map: the view s_t (..., hidden_size), and the agent's row (...)."""
        features, pose = inputs.features, inputs.pose
        require_shape("features", features, self.feature_shape, leading=axes)
        require_shape("pose", pose, (3,), leading=axes)
        if pose.shape[:-1] != features.shape[:axes]:
            raise ValueError(f"pose must be {(*features.shape[:axes], 3)}; got {tuple(pose.shape)}.")
        check_pose(pose)
        check_features(features)
        view = F.relu(self.reduce(F.relu(features.movedim(-3, -1).flatten(-3))))
        # The last representable place inside: a cell owns its western and northern edge only.
        limit = self.extent / 2 * (1 - 1e-6)
        cell, _ = cells(pose[..., :2].clamp(-limit, limit), extent=self.extent, size=self.map_size)
        return view, cell * HEADINGS + heading_bin(pose[..., 2])

    def _advance(
        self, view: Tensor, row: Tensor, maps: Tensor, trace: MemoryTrace | None
    ) -> tuple[Tensor, Tensor]:
        """One step of the recursion: view (N, hidden_size), row (N,), maps (N, rows, C)."""
        size, num_envs = self.map_size, view.shape[0]
        # The rows of one cell's four headings are neighbours: as an image the same memory is channels last.
        image = maps.view(num_envs, size, size, HEADINGS * self.channels).permute(0, 3, 1, 2)
        global_read = self.global_read(image)
        query = self.query(torch.cat((view, global_read), -1))
        attention = torch.bmm(maps, query.unsqueeze(-1)).squeeze(-1).softmax(-1)  # (N, rows)
        context = self.context(torch.bmm(attention.unsqueeze(1), maps).squeeze(1))
        flat = maps.flatten(0, 1)  # (N * rows, C)
        own = row + torch.arange(num_envs, device=row.device) * maps.shape[1]
        written = self.write.step(torch.cat((view, global_read, context), -1), flat.index_select(0, own))
        map_next = flat.index_copy(0, own, written).view_as(maps)
        if trace is not None:
            trace["map_world"] = map_next.detach().unflatten(1, (size, size, HEADINGS)).permute(0, 3, 4, 1, 2)
            trace["attention"] = attention.detach().unflatten(1, (size, size, HEADINGS)).permute(0, 3, 1, 2)
            trace["query"], trace["row"] = query.detach(), row
            trace["global_read"], trace["written"] = global_read.detach(), written.detach()
        return torch.cat((global_read, context, written), -1), map_next

    def _check_state(self, state: MemoryState, num_envs: int) -> None:
        expected = (num_envs, *self.state_spec[0].shape)
        if len(state) != 1 or state[0].shape != expected:
            got = [tuple(tensor.shape) for tensor in state]
            raise ValueError(f"the state must be one tensor of {expected}; got {got}.")
