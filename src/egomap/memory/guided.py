"""Guides beside a memory: options with planned paths, so that an agent acts through its memory.

Input: any memory, and depth and pose (`MemoryInputs`). Output: the memory's output, features of the guides' paths,
their votes (for each guide the first action of its path), and the guide selected so far. The heads select a guide, or
none (`egomap.agents.heads`). A memory that keeps a map of features (EgoMap) has one more guide, the pointer:
attention over the cells of its map with its own query, in which each cell votes for the first action of the path to
it. Not in the paper, whose agent learns to navigate from a CNN's summary of its map.

The paths are data, like the pose: they are computed once, as notes, and no gradient flows into them. It flows through
the votes into the selection, and through the pointer's attention into query, map and perception.

Convention: as `egomap.ways.guides`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.config import Camera
from egomap.geometry.checks import check_depth, check_pose
from egomap.memory.earned import earned_so_far
from egomap.memory.figures import attention_entropy
from egomap.memory.lesions import Part, parts_of
from egomap.memory.native import share_out
from egomap.memory.protocol import (
    PAID,
    PAID_AT,
    Memory,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    Notes,
    ParameterGroups,
    Rate,
    TensorSpec,
    check_episode_start,
    figures,
    parameter_groups,
    rates,
)
from egomap.memory.reads import POINTED, PointRead, orthogonal
from egomap.memory.shown import Shown, ShownGuides, shown
from egomap.ways.grid import Grid
from egomap.ways.guides import GUIDES, LONG, NO_WAY, NUM_ACTIONS, advise

POINTER = "pointer"
NOBODY = -1
WORTH = 4.0
"""Scale of the earned reward as an input: the rewards of our tasks are then about 1."""
TRUST = (0.7, 0.0, 0.0)
"""Initial logits of the guides and the pointer, where the policy's own actions have 0. Choice: a new policy explores
outward; when to turn back, and for what, is to be learned."""


class GuideState(NamedTuple):
    """What the guides know of N environments."""

    score: Tensor
    """(N, side, side) int8: below 0 free, above 0 blocked, 0 unknown; see `egomap.ways.grid.Grid`."""
    home: Tensor
    """(N, 2) float32 where the episode began."""
    kept: Tensor
    """(N,) int32 the frontier that was chosen last; -1 without one."""
    begun: Tensor
    """(N,) bool: the episode has begun."""


class Following(NamedTuple):
    """The selection of N environments, and whether it is still active."""

    whom: Tensor
    """(N,) int64: 0 the policy itself, then the guides and the pointer."""
    now: Tensor
    """(N,) bool: it is active; otherwise nothing is selected yet, or no longer."""


class Advice(NamedTuple):
    """What the guides propose; any leading axes."""

    action: Tensor
    """(..., guides) int64; NO_WAY where a guide has no path."""
    told: Tensor
    """(..., guides, 3) right and forward of the direction of each way, and its length; 0 without one."""
    begins: Tensor
    """(..., size, size) int8: for each cell of the map in the agent's frame the action that begins the way there."""
    lengths: Tensor
    """(..., size, size) float32."""


def still_followed(following: Following, action: Tensor, paid: Tensor, start: Tensor) -> Following:
    """The selections that stay active after this step: none where a reward came, the path ended or an episode begins.

    Args:
        following: Of N environments.
        action: (N, guides) from the guides.
        paid: (N,) bool, the last decision was rewarded.
        start: (N,) bool, an episode begins.
    """
    known = F.pad(action != NO_WAY, (1, 1), value=True)  # the policy itself, the guides, the pointer
    lost = ~known.gather(1, following.whom[:, None])[:, 0]
    over = paid | lost | start
    return Following(following.whom.masked_fill(start, 0), following.now & ~over)


class Guides(nn.Module):
    """The guides: their next state, and what they propose.

    Args:
        camera: Of the depth image.
        extent: Side of the square, around the world's origin, in which ways are looked for; map units.
        map_extent: Side of the map in the agent's frame to whose cells ways are looked for.
        map_size: Its cells along each side; 0: no such map.
    """

    def __init__(self, camera: Camera, extent: float, *, map_extent: float = 0.0, map_size: int = 0) -> None:
        super().__init__()
        grid = Grid.over(extent)
        self.side, self.origin = len(grid.score), grid.origin
        self.map_extent, self.map_size = map_extent, map_size
        self._row = min(max(int(camera.cy) - 1, 0), camera.height - 1)  # sees neither floor nor ceiling
        self._tangents = (np.arange(camera.width) + 0.5 - camera.cx) / camera.fx

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """See `GuideState`."""
        return (
            TensorSpec((self.side, self.side), torch.int8),
            TensorSpec((2,), torch.float32),
            TensorSpec((), torch.int32),
            TensorSpec((), torch.bool),
        )

    def initial_state(self, n: int) -> GuideState:
        """Nothing seen, nothing begun."""
        return GuideState(*(torch.zeros(n, *spec.shape, dtype=spec.dtype) for spec in self.state_spec))

    @torch.no_grad()
    def follow(
        self, inputs: MemoryInputs, state: GuideState, episode_start: Tensor
    ) -> tuple[Advice, GuideState]:
        """T steps: inputs (T, N, ...), episode_start (T, N) -> advice (T, N, ...), the state after them.

        The loops run on the CPU, wherever the inputs are.
        """
        device, lead = inputs.pose.device, tuple(inputs.pose.shape[:2])
        line = inputs.depth[..., self._row, :]
        check_depth(line)
        seen = (line.float(), inputs.pose, inputs.ego_motion[..., 2], episode_start)
        line, pose, turned, start = (part.detach().cpu().contiguous() for part in seen)
        pose, turned = pose.double(), turned.double()  # here, for not every device has doubles
        after = GuideState(*(part.cpu().clone(memory_format=torch.contiguous_format) for part in state))
        advice = Advice(
            torch.empty(*lead, len(GUIDES), dtype=torch.int64),
            torch.empty(*lead, len(GUIDES), 3),
            torch.empty(*lead, self.map_size, self.map_size, dtype=torch.int8),
            torch.empty(*lead, self.map_size, self.map_size),
        )
        seen_by = (line, self._tangents, pose, turned, start, self.origin, self.map_extent)
        share_out(advise, lead[1], *seen_by, *after, *advice)
        to = (part.to(device) for part in advice)
        return Advice(*to), GuideState(*(part.to(device) for part in after))


class GuidedMemory(nn.Module):
    """Any memory with guides.

    Output: [inner output, ReLU(FC(inner output, paths)), paths, place, votes, selection, share]. `paths` are
    direction and length of each guide's path and, with `use_reward`, the reward earned so far; `place` describes the
    place that the pointer attends to (`PointRead`). `share` is the logarithm of the pointer's attention near the
    place in the note `PAID_AT` (right, ahead; map units): for a term of the loss, not an input of the heads.

    Args:
        inner: The memory; it works as it does alone. One with `step_with_map` and `unroll_with_map` gets a pointer.
        camera: Of the depth image.
        extent: Side of the square in which paths are planned, in map units.
        hidden_size: Units of the layer that joins the paths to the inner memory's output.
        use_reward: Keep the reward earned in the episode so far, the sum of the rewards above 0, as an input.
    """

    has_map = True

    def __init__(
        self,
        inner: Memory,
        camera: Camera,
        extent: float,
        *,
        hidden_size: int = 128,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        self.inner, self.use_reward = inner, use_reward
        settings = getattr(inner, "settings", None) if hasattr(inner, "unroll_with_map") else None
        self.guides = Guides(
            camera,
            extent,
            map_extent=settings.extent if settings else 0.0,
            map_size=settings.map_size if settings else 0,
        )
        self._told_size = 3 * len(GUIDES) + 1
        self.join = nn.Linear(inner.output_size + self._told_size, hidden_size)
        orthogonal(self.join, nn.init.calculate_gain("relu"))
        self.point = (
            PointRead(hidden_size, settings.channels, settings.map_size, NUM_ACTIONS) if settings else None
        )
        self.votes = TRUST if self.point is not None else TRUST[: len(GUIDES)]
        own = inner.output_size + hidden_size + self._told_size + POINTED * self.points
        self.output_size = own + len(self.votes) * NUM_ACTIONS + 2

    # -- the protocol ---------------------------------------------------------------------------------------

    @property
    def points(self) -> bool:
        """Whether it points at places of a map, so that hindsight can train it."""
        return self.point is not None

    @property
    def _inner_tensors(self) -> int:
        return len(self.inner.state_spec)

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """The inner memory's, the guides', the selection, and the reward earned."""
        following = (TensorSpec((), torch.int64), TensorSpec((), torch.bool))
        earned = TensorSpec((), torch.float32)
        return (*self.inner.state_spec, *self.guides.state_spec, *following, earned)

    @property
    def lesions(self) -> dict[str, Part]:
        """The inner memory's parts, the guides' knowledge, the selection, the pointer, and the reward earned."""
        inner = {
            name: part._replace(module=f"inner.{part.module}" if part.module else "")
            for name, part in parts_of(self.inner).items()
        }
        first = self._inner_tensors
        known = range(first, first + len(GuideState._fields))
        following = range(known.stop, known.stop + len(Following._fields))
        pointer = {POINTER: Part(module="point")} if self.point is not None else {}
        earned = {"earned": Part(state=(len(self.state_spec) - 1,))} if self.use_reward else {}
        guides = {"ways": Part(state=tuple(known)), "following": Part(state=tuple(following))}
        return {**inner, **guides, **pointer, **earned}

    @property
    def guide_names(self) -> tuple[str, ...]:
        """The guides in the order of their votes, the pointer last."""
        return GUIDES if self.point is None else (*GUIDES, POINTER)

    @property
    def shown(self) -> Shown:
        """What the inner memory shows, and the guides."""
        return shown(self.inner)._replace(guides=ShownGuides(self.guide_names))

    def initial_state(self, n: int) -> MemoryState:
        """Nothing seen, nothing earned."""
        device = self.join.weight.device
        guides = (part.to(device) for part in self.guides.initial_state(n))
        nobody = (torch.zeros(n, dtype=dtype, device=device) for dtype in (torch.int64, torch.bool))
        return (*self.inner.initial_state(n), *guides, *nobody, torch.zeros(n, device=device))

    note_names = (*Advice._fields, "running", PAID_AT)

    def note(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Notes, MemoryState]:
        """The guides' part of T steps: inputs (T, N, ...) -> advice by name (T, N, ...), and the state after it.

        Another note, `running` (T, N), is the selection that is still active, -1 for none. New selections are known
        only step by step (`commit`): in a sequence without notes, the selection in the given state counts as made
        again at every step.
        """
        inner, guides, following, earned = self._divide(state)
        advice, guides = self.guides.follow(inputs, guides, episode_start)
        paid = (inputs.told.view(episode_start.shape) > PAID) & self.use_reward
        running = []
        for paid_t, action_t, start_t in zip(paid, advice.action, episode_start, strict=True):
            following = still_followed(following, action_t, paid_t, start_t)
            running.append(torch.where(following.now, following.whom, NOBODY))
            following = following._replace(now=torch.ones_like(following.now))
        notes = {**advice._asdict(), "running": torch.stack(running)}
        return notes, (*inner, *guides, *following, earned)

    def commit(self, state: MemoryState, choice: Tensor) -> MemoryState:
        """The state with what was chosen (N,): an entry of the table of selections times actions."""
        inner, guides, following, earned = self._divide(state)
        return (*inner, *guides, choice // NUM_ACTIONS, following.now, earned)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: inputs (N, ...) -> output (N, output_size), next state.

        Trace: `votes` (N, votes, actions), `ways` (N, guides, 3), and with a pointer `pointing` (N, size, size).
        """
        check_pose(inputs.pose)
        state = self._check_state(state, len(inputs.pose))
        start = torch.zeros(1, len(inputs.pose), dtype=torch.bool, device=inputs.pose.device)
        if inputs.notes is None:
            notes, state = self.note(inputs.each(lambda part: part[None]), state, start)
            inputs = inputs._replace(notes={name: note[0] for name, note in notes.items()})
        inner, guides, following, before = self._divide(state)
        map_ego = None
        if self.point is None:
            out, inner = self.inner.step(inputs, inner, trace=trace)
        else:
            out, map_ego, inner = cast(Any, self.inner).step_with_map(inputs, inner, trace=trace)
        earned = self._earned(inputs, before, start)
        output = self._output(out, map_ego, inputs.notes or {}, earned[0], trace)
        return output, (*inner, *guides, *following, earned[-1])

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: inputs (T, N, ...), episode_start (T, N) -> output (T, N, output_size), last state.

        Where the inputs come with notes, the guides' part of the state stays as it was given.
        """
        lead = tuple(inputs.pose.shape[:2])
        check_episode_start(episode_start, lead)
        check_pose(inputs.pose)
        state = self._check_state(state, lead[1])
        if inputs.notes is None:
            notes, state = self.note(inputs, state, episode_start)
            inputs = inputs._replace(notes=notes)
        inner, guides, following, before = self._divide(state)
        map_ego = None
        if self.point is None:
            out, inner = self.inner.unroll(inputs, inner, episode_start)
        else:
            out, map_ego, inner = cast(Any, self.inner).unroll_with_map(inputs, inner, episode_start)
        earned = self._earned(inputs, before, episode_start)
        notes = {name: note.flatten(0, 1) for name, note in (inputs.notes or {}).items()}
        output = self._output(out.flatten(0, 1), map_ego, notes, earned.flatten(), None)
        return output.unflatten(0, lead), (*inner, *guides, *following, earned[-1])

    # -- for the log ----------------------------------------------------------------------------------------

    def parameter_groups(self) -> ParameterGroups:
        """The inner memory's groups, the layer that joins, and the pointer."""
        point = {} if self.point is None else {"point": tuple(self.point.parameters())}
        return {**parameter_groups(self.inner), "join": tuple(self.join.parameters()), **point}

    @property
    def rates(self) -> dict[str, Rate]:
        """The inner memory's."""
        return rates(self.inner)

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """The inner memory's, and how spread the pointer's attention is."""
        pointing = trace.get("pointing")
        found = {} if pointing is None else {"pointing_entropy": attention_entropy(pointing)}
        return {**figures(self.inner, trace), **found}

    # -- parts ----------------------------------------------------------------------------------------------

    def _divide(self, state: MemoryState) -> tuple[MemoryState, GuideState, Following, Tensor]:
        """The state's parts: the inner memory's, the guides', the selection, and the reward earned."""
        first = self._inner_tensors
        second = first + len(GuideState._fields)
        return state[:first], GuideState(*state[first:second]), Following(*state[second:-1]), state[-1]

    def _earned(self, inputs: MemoryInputs, before: Tensor, episode_start: Tensor) -> Tensor:
        """What was earned in the episode up to each step (T, N); at an episode's start the reward is 0."""
        if not self.use_reward:
            return before.expand(episode_start.shape)
        return earned_so_far(inputs, before, episode_start)

    def _output(
        self, out: Tensor, map_ego: Tensor | None, notes: Notes, earned: Tensor, trace: MemoryTrace | None
    ) -> Tensor:
        advice = Advice(*(notes[name] for name in Advice._fields))
        told = torch.cat((advice.told.flatten(1), WORTH * earned[:, None]), -1).to(out.dtype)
        latent = F.relu(self.join(torch.cat((out, told), -1)))
        known = (advice.action != NO_WAY)[..., None]
        sure = F.one_hot(advice.action.clamp(max=NUM_ACTIONS - 1), NUM_ACTIONS).to(out.dtype)
        votes = torch.where(known, sure, 0.0)
        own, share = [out, latent, told], out.new_zeros(len(out), 1)
        if self.point is not None and map_ego is not None:
            place = notes[PAID_AT] * (2 / self.guides.map_extent) if PAID_AT in notes else None
            pointed = self.point(latent, map_ego, advice.begins, advice.lengths, place=place, trace=trace)
            vote, of_place, share = pointed.split((NUM_ACTIONS, POINTED, 1), -1)
            votes = torch.cat((votes, vote[:, None]), 1)
            own.append(of_place)
        if trace is not None:
            trace["votes"] = votes.detach()
            trace["ways"] = advice.told * advice.told.new_tensor((1, 1, LONG))
        # A direction is worth something only if no long chain of layers has to learn to pass it on.
        running = notes["running"][:, None].to(out.dtype)
        return torch.cat((*own, votes.flatten(1), running, share), -1)

    def _check_state(self, state: MemoryState, num_envs: int) -> MemoryState:
        expected = [((num_envs, *spec.shape), spec.dtype) for spec in self.state_spec]
        got = [(tuple(tensor.shape), tensor.dtype) for tensor in state]
        if got != expected:
            raise ValueError(f"the state of {num_envs} environments must be {expected}; got {got}.")
        return state
