"""The EgoMap memory: a map of features kept in the world, read from where the agent stands.

Input: features, depth and pose (`MemoryInputs`), no simulator needed. Output: [h_t, c_t] for
the heads and the next state. Paper: section 3 and the appendix "Architectures". `step` reads like section 3
and is the reference; `unroll` does the same for a whole rollout with everything but the blend and the GRU in
one batch. Perception and heads are the agent's. Poses are data: no gradient goes to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import MOTION_UNIT, AgentConfig, Camera, MapSettings, require_length
from egomap.geometry import (
    affine_from_motion,
    affine_from_pose,
    blend,
    cells,
    image_from_rows,
    keep_max,
    receptive_field_centres,
    relative_pose,
    rows_from_image,
    sample_depth,
    splat_max,
    splat_mean,
    touching_pixels,
    unproject,
    warp,
    world_from_ego,
)
from egomap.geometry.checks import check_features, check_pose, require_shape
from egomap.memory import native
from egomap.memory.cores import GRUCore
from egomap.memory.figures import attention_entropy, mass_on, saturation, spread
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
from egomap.memory.reads import ContextRead, GlobalRead, orthogonal
from egomap.memory.recurrent import EGO_MOTION_FEATURES, ego_motion_features
from egomap.memory.scan import Writes, write_and_read
from egomap.memory.shown import Shown, ShownMap

KNOWN_PART = 1e-3
"""How much of a cell of the naive map must come from known cells for it to be known; above what rounding adds."""


class EgoMapState(NamedTuple):
    """What EgoMap remembers of N environments; opaque to trainers."""

    map: Tensor
    """(N, cells, C) the map, rows of cells; in the world's frame, or the agent's for `map_frame="ego"`."""
    known: Tensor
    """(N, cells) bool, cells that were ever seen."""
    hidden: Tensor
    """(N, H) state of the GRU."""
    steps: Tensor
    """(N,) int64 writes since the start of the episode."""
    origin: Tensor
    """(N, 3) pose at the start of the episode, the map's centre for `anchor="start"`."""


class Seen(NamedTuple):
    """What a step writes, and where: K features of each of N environments."""

    features: Tensor
    """(N, K, C)."""
    points: Tensor
    """(N, K, 2) in the frame that the map is kept in."""
    valid: Tensor
    """(N, K) bool: the depth is known."""
    affine: Tensor | None
    """(N, 2, 3) from that frame to the agent's; None where the map is kept in the agent's."""
    origin: Tensor
    """(N, 3) the pose at the start of the episode."""


class Written(NamedTuple):
    """A map after a write."""

    map: Tensor
    """(N, cells, C)."""
    known: Tensor
    """(N, cells) bool: seen at some time."""
    observed: Tensor | None
    """(N, cells) bool: seen now; None where nobody asks."""
    map_ego: Tensor | None
    """(N, C, size, size) in the agent's frame, where the same kernel has read it already."""


class EgoMapMemory(nn.Module):
    """Projective map in the world's frame with global and attentive reads in the agent's, beside a GRU.

    Sizes as in the paper: features 16x4x10 = 640 and a global read of 32 (with `use_ego_motion` 4 more) -> FC 128,
    ReLU -> GRU 128; a query from h_t reads a context of 16 + 2; the output is [h_t, c_t] = 146. The features are
    mapped as given (before their last ReLU); the FC layer gets their ReLU. Every ablation of the paper is a switch
    of `MapSettings`.

    Shapes: features (..., C, Hf, Wf), depth (..., H, W), pose and ego_motion (..., 3) ->
    output (..., output_size).

    Args:
        camera: Pinhole camera of the depth image.
        settings: The map and its reads.
        feature_shape: (C, Hf, Wf) of the features.
        kernels: Kernel sizes of the convolutions that made them; they determine the pixel at the centre of each
            feature's receptive field.
        strides: Strides of these convolutions.
        paddings: Zero padding of each; none if not given.
        hidden_size: Units of the FC layer and of the GRU.
        motion_unit: As for the baseline, with `use_ego_motion`.
        use_reward: Give the recurrent layer the last reward, too (not in the paper).
    """

    has_map = True
    rates: ClassVar[dict[str, Rate]] = {"global_read": "read", "query": "read"}
    depth_rows: Tensor
    depth_columns: Tensor
    tangents: Tensor

    def __init__(
        self,
        camera: Camera,
        settings: MapSettings | None = None,
        *,
        feature_shape: tuple[int, int, int] = (16, 4, 10),
        kernels: Sequence[int] = (8, 4, 3),
        strides: Sequence[int] = (4, 2, 1),
        paddings: Sequence[int] | None = None,
        hidden_size: int = 128,
        motion_unit: float = MOTION_UNIT,
        use_reward: bool = False,
    ):
        super().__init__()
        self.use_reward = use_reward
        settings = (settings or MapSettings()).validate()
        rows = receptive_field_centres(camera.height, kernels, strides, paddings)
        columns = receptive_field_centres(camera.width, kernels, strides, paddings)
        expected = (settings.channels, len(rows), len(columns))
        if tuple(feature_shape) != expected:
            raise ValueError(
                f"feature_shape must be {expected}, by {settings.channels} map channels and kernels "
                f"{tuple(kernels)}, strides {tuple(strides)} on {camera.height}x{camera.width} pixels; "
                f"got {tuple(feature_shape)}."
            )
        self.camera, self.settings, self.feature_shape = camera, settings, expected
        self.hidden_size, self.output_size = hidden_size, hidden_size + settings.context_size
        require_length("motion_unit", motion_unit)
        self.motion_unit = motion_unit
        size, channels = settings.map_size, settings.channels
        self.global_read = GlobalRead(channels, size) if settings.use_global_read else None
        self.context_read = None
        if settings.use_query:
            self.context_read = ContextRead(
                hidden_size,
                channels,
                size,
                similarity=settings.similarity,
                use_beta=settings.use_beta,
                use_position=settings.use_query_position,
            )
        read_size = self.global_read.output_size if self.global_read is not None else 0
        motion_size = EGO_MOTION_FEATURES if settings.use_ego_motion else 0
        self.reduce = nn.Linear(math.prod(feature_shape) + read_size + motion_size + use_reward, hidden_size)
        orthogonal(self.reduce, nn.init.calculate_gain("relu"))
        self.core = GRUCore(hidden_size, hidden_size)

        def constant(name: str, values: Sequence[float]) -> None:
            self.register_buffer(name, torch.tensor(values), persistent=False)

        constant("depth_rows", touching_pixels(rows, camera.height))
        constant("depth_columns", touching_pixels(columns, camera.width))
        constant("tangents", [(u + 0.5 - camera.cx) / camera.fx for u in columns])

    @classmethod
    def build(cls, config: AgentConfig, fitting: Fitting) -> EgoMapMemory:
        """A new one as an agent's settings ask for it, with a map of the extent that it must fit."""
        return cls(
            fitting.camera,
            replace(config.map, extent=fitting.extent),
            feature_shape=fitting.feature_shape,
            kernels=fitting.kernels,
            strides=fitting.strides,
            hidden_size=config.hidden_size,
            motion_unit=config.motion_unit,
            use_reward=config.use_reward,
        )

    # -- the protocol ---------------------------------------------------------------------------------------

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """Map, known cells, hidden state, steps and origin; see `EgoMapState`."""
        dtype, cells = self.reduce.weight.dtype, self.settings.num_cells
        return (
            TensorSpec((cells, self.settings.channels), dtype),
            TensorSpec((cells,), torch.bool),
            TensorSpec((self.hidden_size,), dtype),
            TensorSpec((), torch.int64),
            TensorSpec((3,), dtype),
        )

    @property
    def lesions(self) -> dict[str, Part]:
        """Both reads, as far as the settings have them; the map (with what it knows) and the hidden state."""
        reads = {"global-read": "global_read", "context": "context_read"}
        return {
            **{
                name: Part(module=module)
                for name, module in reads.items()
                if getattr(self, module) is not None
            },
            "map": Part(state=(0, 1)),
            "hidden": Part(state=(2,)),
        }

    @property
    def shown(self) -> Shown:
        """The map, as it is seen from where the agent stands."""
        size, channels, extent = self.settings.map_size, self.settings.channels, self.settings.extent
        words = f"{size} × {size} cells of {channels} channels over {extent:g} map units"
        return Shown(ShownMap("ego", extent), words={"map": words})

    def initial_state(self, n: int) -> MemoryState:
        """An empty map and a hidden state of zeros."""
        device = self.reduce.weight.device
        return EgoMapState(
            *(torch.zeros(n, *spec.shape, dtype=spec.dtype, device=device) for spec in self.state_spec)
        )

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: inputs (N, ...) -> output (N, output_size), next state; see `step_with_map` for the trace."""
        output, _, state = self.step_with_map(inputs, state, trace=trace)
        return output, state

    def step_with_map(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, Tensor, MemoryState]:
        """`step`, and the map (N, C, size, size) as it was read, in the agent's frame.

        With `trace`: `map_ego` (N, C, size, size), `map_world` (unless `map_frame="ego"`), `observed` and
        `known` (N, size, size) in the frame that the map is kept in, `known_ego` in the agent's, `hidden`,
        `global_read`, `query`, `beta`, `attention` (N, size, size), `query_position` (N, 2).
        """
        self._check(inputs, 1)
        old = self._check_state(state, inputs.pose.shape[0])
        seen = self._unproject(inputs, old)
        new = self._write(seen, self._followed(inputs, old), observed=trace is not None)
        map_ego = self._read(new, seen)
        hidden = self.core.step(self._recurrent_input(inputs, self._summary(map_ego, trace)), old.hidden)
        output = torch.cat((hidden, self._context(hidden, map_ego, trace)), dim=-1)
        if trace is not None:
            self._show(trace, new, seen, map_ego, hidden)
        return output, map_ego, EgoMapState(new.map, new.known, hidden, old.steps + 1, seen.origin)

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: inputs (T, N, ...), episode_start (T, N) -> output (T, N, output_size), last state."""
        output, _, state = self.unroll_with_map(inputs, state, episode_start)
        return output, state

    def unroll_with_map(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, Tensor, MemoryState]:
        """`unroll`, and the maps (T * N, C, size, size) as they were read, in the agent's frame."""
        self._check(inputs, 2)
        lead = tuple(inputs.pose.shape[:2])
        check_episode_start(episode_start, lead)
        old = self._check_state(state, lead[1])
        pose = inputs.pose.detach().to(old.origin.dtype)
        steps, origin = _episode_clock(pose, old, episode_start)
        points, valid = self._points(inputs.depth, pose.dtype)
        features = self._written(inputs.features, old.map.dtype)  # (T, N, K, C)
        if self.settings.write_gradient_steps == 0:
            features = features.detach()

        if self.settings.map_frame == "global":
            map_pose = self._map_pose(pose, origin)
            points = world_from_ego(points, map_pose)
            affine = affine_from_pose(map_pose.flatten(0, 1), self.settings.extent)
        if self.settings.map_frame == "global" and self.settings.write == "mean":
            index, inside = self._cells(points, valid)
            cut = self._cuts(steps)
            if self.settings.write_gradient_steps == 0:
                old = old._replace(map=old.map.detach())
            writes = Writes(index, inside, episode_start, cut, affine, self.settings.alpha)
            maps_ego, maps_again, map_last, known = write_and_read(features, old.map, old.known, writes)
        else:
            maps_ego, map_last, known = self._in_turn(
                features, points, valid, inputs.ego_motion, old, episode_start, steps
            )
            if self.settings.map_frame == "global":
                maps_ego = rows_from_image(warp(image_from_rows(maps_ego.flatten(0, 1)), affine)).unflatten(
                    0, lead
                )
            maps_again = maps_ego
        images = image_from_rows(maps_ego.flatten(0, 1))  # (T * N, C, size, size), channels last in memory
        each = inputs.each(lambda part: part.flatten(0, 1))
        x = self._recurrent_input(each, self._summary(images, None))
        hiddens, hidden_last = self.core.unroll(x.unflatten(0, lead), old.hidden, episode_start)
        again, hidden = image_from_rows(maps_again.flatten(0, 1)), hiddens.flatten(0, 1)
        output = torch.cat((hidden, self._context(hidden, again, None)), dim=-1)
        last = EgoMapState(map_last, known, hidden_last, steps[-1] + 1, origin[-1])
        return output.unflatten(0, lead), again, last

    # -- for the log ----------------------------------------------------------------------------------------

    def parameter_groups(self) -> ParameterGroups:
        """Global read, query, and the core: the layer before the GRU, and the GRU."""
        return {
            "global_read": () if self.global_read is None else tuple(self.global_read.parameters()),
            "query": () if self.context_read is None else tuple(self.context_read.parameters()),
            "core": (*self.reduce.parameters(), *self.core.parameters()),
        }

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """How the map is read: see docs/training.md for each figure."""
        found = {
            "known": float(trace["known_ego"].float().mean()),
            "hidden_saturation": saturation(trace["hidden"]),
        }
        if "global_read" in trace:
            found["read_saturation"] = saturation(trace["global_read"])
        if "attention" in trace:
            found |= {
                "beta": float(trace["beta"].mean()),
                "attention_entropy": attention_entropy(trace["attention"]),
                "attention_known": mass_on(trace["attention"], trace["known_ego"]),
                "attention_spread": spread(trace["query_position"]),
            }
        return found

    # -- parts ----------------------------------------------------------------------------------------------

    def _points(self, depth: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Ego points (..., K, 2) and valid (..., K) of the features."""
        distance, valid = sample_depth(depth.detach(), self.depth_rows, self.depth_columns)
        return unproject(distance.to(dtype), self.tangents.to(dtype)).flatten(-3, -2), valid.flatten(-2)

    def _written(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        """What is written of the features (..., C, Hf, Wf): rows (..., K, C)."""
        rows = rows_from_image(features).to(dtype)
        return F.layer_norm(rows, rows.shape[-1:]) if self.settings.normalise else rows

    def _map_pose(self, pose: Tensor, origin: Tensor) -> Tensor:
        """The agent's pose (..., 3) in the frame of the map."""
        return relative_pose(pose, origin) if self.settings.anchor == "start" else pose

    def _cells(self, points: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        index, inside = cells(points, extent=self.settings.extent, size=self.settings.map_size)
        return index, inside & valid

    def _unproject(self, inputs: MemoryInputs, old: EgoMapState) -> Seen:
        """The features of one step, and where they lie in the map."""
        pose = inputs.pose.detach().to(old.origin.dtype)
        origin = torch.where((old.steps == 0)[:, None], pose, old.origin)
        points, valid = self._points(inputs.depth, pose.dtype)
        features = self._written(inputs.features, old.map.dtype)
        if self.settings.write_gradient_steps == 0:
            features = features.detach()
        if self.settings.map_frame == "ego":
            return Seen(features, points, valid, None, origin)
        map_pose = self._map_pose(pose, origin)
        affine = affine_from_pose(map_pose, self.settings.extent)
        return Seen(features, world_from_ego(points, map_pose), valid, affine, origin)

    def _followed(self, inputs: MemoryInputs, old: EgoMapState) -> EgoMapState:
        """The state before a write: gradients cut as the settings have it, the naive map moved with the agent."""
        map_prev, known = self._truncate(old.map, old.steps), old.known
        if self.settings.map_frame == "ego":
            map_prev, known = self._follow(map_prev, known, inputs.ego_motion)
        return old._replace(map=map_prev, known=known)

    def _write(self, seen: Seen, old: EgoMapState, *, observed: bool) -> Written:
        """Write one step; a rollout needs neither what was seen now nor gradients: one kernel writes and reads."""
        mean = self.settings.write == "mean"
        if (
            seen.affine is None
            or observed
            or torch.is_grad_enabled()
            or not (mean and native.enabled(seen.features))
        ):
            return Written(*self._splat(seen.features, seen.points, seen.valid, old.map, old.known), None)
        index, inside = self._cells(seen.points, seen.valid)
        start = torch.zeros(1, len(index), dtype=torch.bool, device=index.device)
        writes = Writes(index[None], inside[None], start, None, seen.affine, self.settings.alpha)
        maps_ego, _, map_next, known = write_and_read(seen.features[None], old.map, old.known, writes)
        return Written(map_next, known, None, image_from_rows(maps_ego[0]))

    def _read(self, new: Written, seen: Seen) -> Tensor:
        """The map (N, C, size, size) from where the agent stands."""
        if new.map_ego is not None:
            return new.map_ego
        image = image_from_rows(new.map)
        return image if seen.affine is None else warp(image, seen.affine)

    def _splat(
        self, features: Tensor, points: Tensor, valid: Tensor, map_prev: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Splat and blend: the next map, the cells that it knows, and those seen now."""
        index, inside = self._cells(points, valid)
        if self.settings.write == "max":
            map_observed, observed = splat_max(features, index, inside, self.settings.num_cells)
            map_next, known = keep_max(map_prev, known, map_observed, observed)
            return map_next, known, observed
        map_observed, observed = splat_mean(features, index, inside, self.settings.num_cells)
        map_next, known = blend(map_prev, known, map_observed, observed, self.settings.alpha)
        return map_next, known, observed

    def _follow(self, map_prev: Tensor, known: Tensor, motion: Tensor) -> tuple[Tensor, Tensor]:
        """The naive map (N, cells, C) after the agent's motion (N, 3), and the cells that it still knows.

        Choice: a cell counts as known if any part of it (but for rounding) comes from a known cell.
        """
        affine = affine_from_motion(motion.detach().to(map_prev.dtype), self.settings.extent)
        both = torch.cat((map_prev, known[..., None].to(map_prev.dtype)), dim=-1)
        moved = rows_from_image(warp(image_from_rows(both), affine))
        return moved[..., :-1], moved[..., -1] > KNOWN_PART

    def _in_turn(
        self,
        features: Tensor,
        points: Tensor,
        valid: Tensor,
        motion: Tensor,
        state: EgoMapState,
        episode_start: Tensor,
        steps: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Write by write, for the naive map, which each step resamples, and for maxima; reads run in one batch.

        Gives the maps as they are kept (T, N, cells, C), the last one, and the cells that it knows.
        """
        map_t, known, maps = state.map, state.known, []
        sequences = (features, points, valid, motion, episode_start, steps)
        rows = zip(*(sequence.unbind(0) for sequence in sequences), strict=True)
        for features_t, points_t, valid_t, motion_t, start_t, steps_t in rows:
            map_t = map_t.masked_fill(start_t[:, None, None], 0.0)
            known = known & ~start_t[:, None]
            map_t = self._truncate(map_t, steps_t)
            if self.settings.map_frame == "ego":
                map_t, known = self._follow(map_t, known, motion_t)
            map_t, known, _ = self._splat(features_t, points_t, valid_t, map_t, known)
            maps.append(map_t)
        return torch.stack(maps), map_t, known

    def _cuts(self, steps: Tensor) -> Tensor | None:
        """Where the gradient to earlier writes is cut: like `steps`, or None for nowhere."""
        every = self.settings.write_gradient_steps
        return None if every is None else steps % max(every, 1) == 0

    def _truncate(self, map_prev: Tensor, steps: Tensor) -> Tensor:
        """The map (N, cells, C) without the gradients that the settings drop."""
        cut = self._cuts(steps)
        if cut is None:
            return map_prev
        if self.settings.write_gradient_steps == 0:
            return map_prev.detach()
        return torch.where(cut[:, None, None], map_prev.detach(), map_prev)

    def _summary(self, map_ego: Tensor, trace: MemoryTrace | None) -> Tensor:
        """The global read (B, 32) of maps (B, C, size, size); (B, 0) without one."""
        if self.global_read is None:
            return map_ego.new_zeros(len(map_ego), 0)
        global_read: Tensor = self.global_read(map_ego)
        if trace is not None:
            trace["global_read"] = global_read.detach()
        return global_read

    def _recurrent_input(self, inputs: MemoryInputs, summary: Tensor) -> Tensor:
        """What enters the GRU (B, H): FC over the ReLU of the view (B, C, Hf, Wf), the global read, the motion."""
        # Place by place, then channels: a view of a channels-last tensor; it only orders the layer's columns.
        x = [F.relu(inputs.features.movedim(-3, -1).flatten(-3)), summary]
        if self.settings.use_ego_motion:
            x.append(ego_motion_features(inputs.ego_motion.detach(), self.motion_unit).to(x[0].dtype))
        if self.use_reward:
            x.append(inputs.told[..., None].to(x[0].dtype))
        return F.relu(self.reduce(torch.cat(x, dim=-1)))

    def _context(self, hidden: Tensor, map_ego: Tensor, trace: MemoryTrace | None) -> Tensor:
        """What the query from h_t (B, H) reads from the map: c_t (B, 18); (B, 0) without one."""
        if self.context_read is None:
            return hidden.new_zeros(len(hidden), 0)
        context: Tensor = self.context_read(hidden, map_ego, trace=trace)
        return context

    def _show(self, trace: MemoryTrace, new: Written, seen: Seen, map_ego: Tensor, hidden: Tensor) -> None:
        """Put what was written and read into the trace."""
        square = (self.settings.map_size,) * 2
        assert new.observed is not None
        trace["hidden"], trace["map_ego"] = hidden.detach(), map_ego.detach()
        trace["observed"], trace["known"] = (part.unflatten(-1, square) for part in (new.observed, new.known))
        if seen.affine is None:
            trace["known_ego"] = trace["known"]
            return
        trace["map_world"] = image_from_rows(new.map).detach()
        parts = warp(image_from_rows(new.known[..., None].to(new.map.dtype)), seen.affine)
        trace["known_ego"] = parts[:, 0] > KNOWN_PART

    # -- checks ---------------------------------------------------------------------------------------------

    def _check(self, inputs: MemoryInputs, axes: int) -> None:
        lead = tuple(inputs.features.shape[:axes])
        require_shape("features", inputs.features, self.feature_shape, leading=axes)
        if axes == 2 and lead[0] < 1:
            raise ValueError("a sequence must have one step at least; got 0.")
        require_shape("depth", inputs.depth, (*lead, self.camera.height, self.camera.width), leading=0)
        require_shape("pose", inputs.pose, (*lead, 3), leading=0)
        require_shape("ego_motion", inputs.ego_motion, (*lead, 3), leading=0)
        check_features(inputs.features)
        check_pose(inputs.pose if self.settings.map_frame == "global" else inputs.ego_motion)

    def _check_state(self, state: MemoryState, num_envs: int) -> EgoMapState:
        expected = [((num_envs, *spec.shape), spec.dtype) for spec in self.state_spec]
        got = [(tuple(tensor.shape), tensor.dtype) for tensor in state]
        if got != expected:
            raise ValueError(f"the state of {num_envs} environments must be {expected}; got {got}.")
        known = EgoMapState(*state)
        return known._replace(origin=known.origin.detach())  # a pose, so data


def _episode_clock(pose: Tensor, state: EgoMapState, episode_start: Tensor) -> tuple[Tensor, Tensor]:
    """Writes before each step since its episode's start (T, N), and that episode's first pose (T, N, 3)."""
    time = torch.arange(pose.shape[0], device=pose.device)[:, None]  # (T, 1)
    first = episode_start | ((time == 0) & (state.steps == 0))
    since = torch.where(first, time, -1).cummax(0).values  # (T, N): the step that began the episode, or -1
    origin = pose.gather(0, since.clamp(min=0)[..., None].expand_as(pose))
    began = since >= 0
    steps = torch.where(began, time - since, state.steps + time)
    return steps, torch.where(began[..., None], origin, state.origin)
