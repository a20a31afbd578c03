"""Place planes: where it is free, where it is blocked, and where the agent has been, beside any other memory.

Input: depth along the horizon and pose (`MemoryInputs`). Output: planes of a grid in the world's frame, seen from the
agent's place at two scales, and read by a small CNN. Not in the paper: its map cannot distinguish a free cell from
one that was never seen. Everything in the planes is data, like the pose: no gradient goes into them, and their
evidence is computed for all steps of a rollout at once.

Convention: as `egomap.geometry.frames`. A cell's index is row * size + column, row 0 north; index `cells` takes what
lies outside of the grid. Views have the agent in the centre, facing up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from egomap.compute import exactly
from egomap.config import Camera, PlaceSettings
from egomap.geometry import affine_from_pose, cells, ego_from_world, world_from_ego
from egomap.geometry.checks import check_depth, check_pose
from egomap.memory import native
from egomap.memory.convolution import conv_relu
from egomap.memory.earned import earned_so_far
from egomap.memory.lesions import Part, parts_of
from egomap.memory.protocol import (
    Memory,
    MemoryInputs,
    MemoryState,
    MemoryTrace,
    ParameterGroups,
    Rate,
    TensorSpec,
    check_episode_start,
    figures,
    parameter_groups,
    rates,
)
from egomap.memory.reads import orthogonal
from egomap.memory.shown import Shown, ShownPlanes, shown

PLANES = ("free", "blocked", "recent", "old")
"""Free: a ray passed; blocked: one ended; recent: how recently the agent was here; old: how early in the episode it
first was, 1 at the start, so that a trail rises towards home."""
WAYS = ("homeward", "outward")
"""Planes of the near view alone: how much nearer each cell is than the agent's own, from -1 to 1, over cells that can
be walked on, to where the episode began, and to the frontier, the nearest known place beside the unknown."""
REACH = 8.0
"""Steps by which a cell must be nearer for a plane of the ways to be 1."""
SETTING_OUT = 4
"""Steps along a path to the point that defines its initial direction."""
LONG = 64.0
"""Steps that the agent's own distances are divided by."""
NEVER = -1
FAR = 600.0
"""Map units that the way home is divided by."""
_INTO = 4.0
"""Map units behind a surface at which what is blocked begins: half of a thin wall."""


class PlaceState(NamedTuple):
    """What is known of the places of N environments."""

    free: Tensor
    """(N, cells + 1) bool."""
    blocked: Tensor
    """(N, cells + 1) bool."""
    first: Tensor
    """(N, cells + 1) int16 step of the first visit; -1: never."""
    last: Tensor
    """(N, cells + 1) int16 step of the latest visit; -1: never."""
    steps: Tensor
    """(N,) int64 steps since the start of the episode."""
    start: Tensor
    """(N, 2) where the episode began."""
    home: Tensor
    """(N,) int64 the cell of that place."""


class Evidence(NamedTuple):
    """The evidence of one observation, as indices of cells; any leading axes."""

    free: Tensor
    """(..., rays * samples) int64."""
    blocked: Tensor
    """(..., columns of the image) int64."""
    here: Tensor
    """(..., 1) int64."""


class Views(NamedTuple):
    """What is seen of the places, B observations."""

    near: Tensor
    """(B, planes, window, window)."""
    far: Tensor
    """(B, planes, window, window), cells `far_factor` times as large."""
    told: Tensor
    """(B, 6): the way to where the episode began, see `Places.home`; and how far home and frontier are. With the
    compass (B, 10): also the directions, right and ahead, in which the ways to both set out."""


class Places(nn.Module):
    """The planes: evidence from depth and pose, the state's next step, and the two views.

    Args:
        camera: Of the depth image.
        extent: Side of the square that the grid covers at least, in map units.
        settings: Cells, rays and views.
    """

    tangents: Tensor
    all_tangents: Tensor
    columns: Tensor
    distances: Tensor

    def __init__(self, camera: Camera, extent: float, settings: PlaceSettings) -> None:
        super().__init__()
        self.camera, self.settings = camera, settings.validate()
        self.size = 2 * math.ceil(extent / settings.cell / 2)
        self.extent = self.size * settings.cell
        self.row = min(max(math.floor(camera.cy), 0), camera.height - 1)
        step = max(camera.width // settings.rays, 1)
        columns = torch.arange(step // 2, camera.width, step)
        tangents = (torch.arange(camera.width) + 0.5 - camera.cx) / camera.fx
        stretch = settings.cell * 0.75
        for name, values in (
            ("columns", columns),
            ("all_tangents", tangents),
            ("tangents", tangents[columns]),
            ("distances", torch.arange(0.0, settings.sight, stretch)),
        ):
            self.register_buffer(name, values, persistent=False)

    @property
    def near_planes(self) -> int:
        """Planes of the near view."""
        return len(PLANES) + (len(WAYS) if self.settings.ways else 0)

    @property
    def told_size(self) -> int:
        """Further values beside the views."""
        return 4 + len(WAYS) * (3 if self.settings.compass else 1)

    @property
    def num_cells(self) -> int:
        """Cells of the grid."""
        return self.size**2

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """See `PlaceState`."""
        row = (self.num_cells + 1,)
        return (
            TensorSpec(row, torch.bool),
            TensorSpec(row, torch.bool),
            TensorSpec(row, torch.int16),
            TensorSpec(row, torch.int16),
            TensorSpec((), torch.int64),
            TensorSpec((2,), torch.float32),
            TensorSpec((), torch.int64),
        )

    def initial_state(self, n: int) -> PlaceState:
        """Nothing is known, nothing was visited."""
        made = [
            torch.zeros(n, *spec.shape, dtype=spec.dtype, device=self.tangents.device)
            for spec in self.state_spec
        ]
        state = PlaceState(*made)
        return state._replace(first=state.first.fill_(NEVER), last=state.last.fill_(NEVER))

    @torch.no_grad()
    def evidence(self, depth: Tensor, pose: Tensor) -> Evidence:
        """The cells that the rays of an observation pass, those in which they end, and the agent's own.

        Convention: depth is the forward distance; zero, infinite and NaN are unknown. Where it is unknown or beyond
        `sight` the ray ended nowhere. Choice: infinite counts as far, so the ray is free up to `sight`; zero and NaN
        carry no evidence.

        Args:
            depth: (..., H, W) in map units.
            pose: (..., 3).
        """
        pose = pose.float()
        line = depth[..., self.row, :].float()  # (..., W)
        check_depth(line)
        sight = self.settings.sight
        told = line > 0  # False for NaN
        hit = told & (line < sight)
        reach = torch.where(hit, line, sight)
        inside_wall = reach + _INTO
        ends = torch.stack((inside_wall * self.all_tangents, inside_wall), -1)
        told, reach = (part.index_select(-1, self.columns) for part in (told, reach))  # (..., R)
        forward = self.distances.expand(*reach.shape, -1)  # (..., R, S)
        passed = told[..., None] & (forward < reach[..., None])
        right = forward * self.tangents[:, None]
        free = self._index(torch.stack((right, forward), -1).flatten(-3, -2), passed.flatten(-2), pose)
        here, inside = cells(pose[..., None, :2], extent=self.extent, size=self.size)
        return Evidence(free, self._index(ends, hit, pose), torch.where(inside, here, self.num_cells))

    def _index(self, points: Tensor, valid: Tensor, pose: Tensor) -> Tensor:
        """Cells (..., K) of ego points (..., K, 2); `num_cells` where outside or not valid."""
        index, inside = cells(world_from_ego(points, pose), extent=self.extent, size=self.size)
        return torch.where(inside & valid, index, self.num_cells)

    def advance(self, state: PlaceState, evidence: Evidence, pose: Tensor, start: Tensor) -> PlaceState:
        """The state after one observation.

        Args:
            state: Of N environments; it is not changed.
            evidence: Of one observation, (N, ...).
            pose: (N, 3).
            start: (N,) bool, episodes that begin with this observation.
        """
        row = start[:, None]
        steps = torch.where(start, 0, state.steps)
        begins = steps == 0
        place = torch.where(begins[:, None], pose[:, :2].to(state.start.dtype), state.start)
        home = torch.where(begins, evidence.here[:, 0], state.home)
        free = (state.free & ~row).scatter(1, evidence.free, True)
        blocked = (state.blocked & ~row).scatter(1, evidence.blocked, True)
        now = steps.clamp(max=torch.iinfo(torch.int16).max).to(torch.int16)[:, None]
        first, last = (plane.masked_fill(row, NEVER) for plane in (state.first, state.last))
        before = first.gather(1, evidence.here)
        first = first.scatter(1, evidence.here, torch.where(before == NEVER, now, before))
        return PlaceState(free, blocked, first, last.scatter(1, evidence.here, now), steps + 1, place, home)

    def planes(self, state: PlaceState) -> Tensor:
        """The planes (B, len(PLANES), size, size) of states (B, ...) after their latest observation."""
        cells = slice(0, self.num_cells)
        latest = (state.steps - 1)[:, None]
        first, last = state.first[:, cells], state.last[:, cells]
        visited = last >= 0
        recent = torch.exp((last - latest) / self.settings.fade) * visited
        old = (1 - first / (latest + 1)) * visited
        layers = (state.free[:, cells].float(), state.blocked[:, cells].float(), recent, old)
        return torch.stack(layers, 1).unflatten(-1, (self.size, self.size))

    def views(self, planes: Tensor, pose: Tensor) -> tuple[Tensor, Tensor]:
        """The planes (B, P, size, size) from poses (B, 3): near and far views, (B, P, window, window) each."""
        far = F.max_pool2d(planes[:, : len(PLANES)], self.settings.far_factor, ceil_mode=True)
        pairs = zip((planes, far), self.affines(pose), strict=True)
        near, far = (self._sample(image, affine) for image, affine in pairs)
        return near, far

    def ways(self, state: PlaceState, here: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The planes (B, 2, size, size) of the ways, the agent's distances (B, 2), and where the ways set out to.

        A cell can be walked on if it was visited, or is free and not blocked; the frontier are those beside two or
        more cells of which nothing is known, and beside another such cell. A step leads to one of four neighbours.
        Where the agent's cell has no path, the nearest one within two cells is used. A distance is in steps, -1
        without a way. A way sets out to the place (B, 2, 2), column and row in cells, `SETTING_OUT` steps along it;
        if that is the frontier, to the unknown beside it.

        Args:
            state: After the latest observation, (B, ...).
            here: (B,) the agent's cell.
        """
        size, cells = self.size, slice(0, self.num_cells)

        def image(plane: Tensor) -> Tensor:
            return plane[:, cells].unflatten(-1, (size, size))

        visited = image(state.last) >= 0
        free, blocked = image(state.free), image(state.blocked)
        passable = visited | (free & ~blocked)
        known = F.pad((free | blocked | visited).float(), (1, 1, 1, 1), value=1.0)
        edge = passable & (_around(known) < 7.5)
        edge = edge & (_around(F.pad(edge.float(), (1, 1, 1, 1))) > 1.5)
        home = F.one_hot(state.home, self.num_cells + 1)[:, cells].unflatten(-1, (size, size)).bool()
        planes, own, aims = [], [], []
        for goals, beyond in ((home, None), (edge, known)):
            distance = _steps_to(goals, passable)
            begin = _begin(distance, here)
            mine = torch.where(
                begin >= 0, distance.flatten(1).gather(1, begin.clamp(min=0)[:, None])[:, 0], -1.0
            )
            nearer = ((mine[:, None, None] - distance) / REACH).clamp(-1, 1)
            reached = (distance >= 0) & (mine >= 0)[:, None, None]
            planes.append(torch.where(reached, nearer, 0.0))
            own.append(mine)
            aims.append(_aim(distance, begin, beyond))
        return torch.stack(planes, 1), torch.stack(own, 1), torch.stack(aims, 1)

    def affines(self, pose: Tensor) -> tuple[Tensor, Tensor]:
        """The matrices (B, 2, 3) that find the places of the near and of the far view in their planes.

        Convention: as `geometry.affine_from_pose`, for a view that covers another square than the planes do. The
        far view's planes are pooled; they may reach beyond the first ones, to the south and east.
        """
        factor, cell, window = self.settings.far_factor, self.settings.cell, self.settings.window
        pooled = math.ceil(self.size / factor) * factor * cell
        found = []
        for extent, side in ((self.extent, window * cell), (pooled, window * cell * factor)):
            beyond = (extent - self.extent) / 2
            affine = affine_from_pose(pose.float() - pose.new_tensor([beyond, -beyond, 0.0]), extent)
            found.append(torch.cat((affine[..., :2] * (side / extent), affine[..., 2:]), -1))
        return found[0], found[1]

    def _sample(self, planes: Tensor, affine: Tensor) -> Tensor:
        window = self.settings.window
        with exactly(planes):
            grid = F.affine_grid(affine, [len(planes), 1, window, window], align_corners=False)
            return F.grid_sample(planes, grid, mode="bilinear", padding_mode="zeros", align_corners=False)

    @torch.no_grad()
    def follow(
        self, depth: Tensor, pose: Tensor, state: PlaceState, episode_start: Tensor
    ) -> tuple[Views, PlaceState]:
        """T steps: depth (T, N, H, W), pose (T, N, 3), episode_start (T, N) -> views (T * N, ...), the last state."""
        pose = pose.float()
        evidence = self.evidence(depth, pose)
        if native.enabled(pose):
            return self._follow_natively(evidence, pose, state, episode_start)
        rows = []
        for t, (pose_t, start) in enumerate(zip(pose.unbind(0), episode_start.unbind(0), strict=True)):
            state = self.advance(state, Evidence(*(part[t] for part in evidence)), pose_t, start)
            rows.append(state)
        whole = PlaceState(*(torch.cat(parts) for parts in zip(*rows, strict=True)))
        flat, planes = pose.flatten(0, 1), self.planes(whole)
        own, aims = pose.new_zeros(len(flat), len(WAYS)), pose.new_zeros(len(flat), len(WAYS), 2)
        if self.settings.ways:
            drawn, own, aims = self.ways(whole, evidence.here.flatten())
            planes = torch.cat((planes, drawn), 1)
        return Views(*self.views(planes, flat), self._told(whole.start, flat, own, aims)), state

    def _follow_natively(
        self, evidence: Evidence, pose: Tensor, state: PlaceState, episode_start: Tensor
    ) -> tuple[Views, PlaceState]:
        """The same, by a kernel that draws no planes but those of the step it is at."""
        lead, settings = tuple(pose.shape[:2]), self.settings
        affines = (affine.unflatten(0, lead).contiguous() for affine in self.affines(pose.flatten(0, 1)))
        after = PlaceState(*(tensor.clone(memory_format=torch.contiguous_format) for tensor in state))
        near, far = (
            pose.new_empty(*lead, settings.window, settings.window, planes)
            for planes in (self.near_planes, len(PLANES))
        )
        starts, own = pose.new_empty(*lead, 2), pose.new_zeros(*lead, len(WAYS))
        aims = pose.new_zeros(*lead, len(WAYS), 2)
        given = (*(part.contiguous() for part in evidence), pose.contiguous(), episode_start.contiguous())
        factors = (float(settings.fade), settings.far_factor, REACH, SETTING_OUT)
        native.follow_places(lead[1], *given, *affines, *factors, *after, near, far, starts, own, aims)
        near, far = (view.flatten(0, 1).movedim(-1, 1) for view in (near, far))
        told = self._told(*(each.flatten(0, 1) for each in (starts, pose, own, aims)))
        return Views(near, far, told), after

    def _told(self, start: Tensor, pose: Tensor, own: Tensor, aims: Tensor) -> Tensor:
        told = (self.home(start, pose), own / LONG)
        if not self.settings.compass:
            return torch.cat(told, -1)
        return torch.cat((*told, self.directions(aims, own, pose)), -1)

    def directions(self, aims: Tensor, own: Tensor, pose: Tensor) -> Tensor:
        """(B, 4): right and ahead to the aims (B, 2, 2), as unit vectors; 0 where own distances (B, 2) are below 0.

        Convention: aims are columns and rows in cells from the grid's north-western corner, as `ways` has them.
        """
        half = self.extent / 2
        cell = self.settings.cell
        points = torch.stack((aims[..., 0] * cell - half, half - aims[..., 1] * cell), -1)
        way = F.normalize(ego_from_world(points, pose), dim=-1, eps=1.0)
        return torch.where((own >= 0)[..., None], way, 0.0).flatten(1)

    def home(self, start: Tensor, pose: Tensor) -> Tensor:
        """(B, 4): the start (B, 2) in the agent's frame, right and ahead, in units of `FAR`; and its direction."""
        way = ego_from_world(start[:, None].to(pose.dtype), pose)[:, 0]
        return torch.cat((way / FAR, F.normalize(way, dim=-1, eps=1.0)), -1)


def _around(framed: Tensor) -> Tensor:
    """The sum over 3 x 3 cells: (B, size + 2, size + 2) -> (B, size, size)."""
    return F.avg_pool2d(framed[:, None], 3, 1, divisor_override=1)[:, 0]


def _steps_to(goals: Tensor, passable: Tensor) -> Tensor:
    """Steps (B, size, size) from every passable cell to the nearest goal, by four neighbours; -1 without a way."""
    distance = torch.where(goals, 0.0, -1.0)
    reached, steps = goals, 0
    while True:
        down, right = torch.zeros_like(reached), torch.zeros_like(reached)
        up, left = torch.zeros_like(reached), torch.zeros_like(reached)
        down[:, 1:], up[:, :-1] = reached[:, :-1], reached[:, 1:]
        right[:, :, 1:], left[:, :, :-1] = reached[:, :, :-1], reached[:, :, 1:]
        fresh = (down | up | right | left) & passable & ~reached
        if not bool(fresh.any()):
            return distance
        steps += 1
        distance = torch.where(fresh, float(steps), distance)
        reached = reached | fresh


def _begin(distance: Tensor, here: Tensor) -> Tensor:
    """Where a way begins (B,): in the cells `here`, or in the nearest to the goal within two cells; -1: nowhere."""
    size = distance.shape[-1]
    some = torch.where(distance >= 0, distance, math.inf)
    at = here.clamp(max=size * size - 1)
    corner = at // size * (size + 4) + at % size  # of 5 x 5 cells, in a frame two cells wide
    offsets = torch.tensor([r * (size + 4) + c for r in range(5) for c in range(5)], device=at.device)
    framed = F.pad(some, (2, 2, 2, 2), value=math.inf).flatten(1)
    around = framed.gather(1, corner[:, None] + offsets)  # (B, 25)
    least = around.amin(-1)
    which = (around == least[:, None]).int().argmax(-1)  # the first of equals
    near = at + (which // 5 - 2) * size + which % 5 - 2
    own = some.flatten(1).gather(1, at[:, None])[:, 0] < math.inf
    found = torch.where(own, at, torch.where(least < math.inf, near, -1))
    return torch.where(here < size * size, found, -1)


def _aim(distance: Tensor, begin: Tensor, known: Tensor | None) -> Tensor:
    """Where ways (B, size, size) that begin in cells (B,) set out to: column and row (B, 2) in cells; 0 without one.

    Args:
        distance: From `_steps_to`.
        begin: From `_begin`.
        known: (B, size + 2, size + 2) framed; given, a way that ends leads on to the middle of the unknown around it.
    """
    size = distance.shape[-1]
    framed = F.pad(distance, (1, 1, 1, 1), value=-1.0).flatten(1)
    side = size + 2
    cell = begin.clamp(min=0)
    at = (cell // size + 1) * side + cell % size + 1
    for _ in range(SETTING_OUT):
        left = framed.gather(1, at[:, None])
        beside = at[:, None] + torch.tensor([side, -side, 1, -1], device=at.device)
        nearer = (framed.gather(1, beside) == left - 1) & (left > 0)
        first = nearer.int().argmax(-1)[:, None]
        at = torch.where(nearer.any(-1), beside.gather(1, first)[:, 0], at)
    row, column = at // side, at % side
    aim = torch.stack((column - 0.5, row - 0.5), -1)  # the frame is one cell wide
    if known is not None:
        offsets = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)]
        around = at[:, None] + torch.tensor([r * side + c for r, c in offsets], device=at.device)
        unknown = 1 - known.flatten(1).gather(1, around)
        middle = unknown @ torch.tensor([(c, r) for r, c in offsets], dtype=unknown.dtype, device=at.device)
        ends = framed.gather(1, at[:, None]) == 0
        aim = aim + torch.where(ends, middle / unknown.sum(-1, keepdim=True).clamp(min=1), 0.0)
    return torch.where((begin >= 0)[:, None], aim, 0.0)


class PlaceRead(nn.Module):
    """Summary of the two views and of the way home: two convolutions for each view, one layer over all.

    The first convolution takes patches of 4 x 4 cells that do not overlap, the second 3 x 3 of these at every second.

    Shapes: near and far (B, planes, window, window), told (B, told_size) -> (B, output_size).
    """

    def __init__(
        self, window: int, near_planes: int, *, told_size: int = 4 + len(WAYS), output_size: int = 128
    ) -> None:
        super().__init__()
        gain = nn.init.calculate_gain("relu")
        self.near, self.far = (
            nn.ModuleList(
                orthogonal(nn.Conv2d(width, 32, kernel, stride), gain)
                for width, kernel, stride in ((planes, 4, 4), (32, 3, 2))
            )
            for planes in (near_planes, len(PLANES))
        )
        side = (window // 4 - 3) // 2 + 1
        if side < 1:
            raise ValueError(f"the window must have 12 cells or more a side; got {window}.")
        self.output_size = output_size
        self.head = orthogonal(nn.Linear(2 * 32 * side * side + told_size, output_size), gain)

    def forward(self, near: Tensor, far: Tensor, told: Tensor) -> Tensor:
        """The read (B, output_size), 0 or more."""
        seen = [told]
        for view, layers in ((near, self.near), (far, self.far)):
            x = view.contiguous(memory_format=torch.channels_last)
            for layer in cast(Iterable[nn.Conv2d], layers):
                x = conv_relu(x, layer.weight, cast(Tensor, layer.bias), layer.stride[0])
            seen.append(x.flatten(1))
        return F.relu(self.head(torch.cat(seen, -1)))


class PlacesMemory(nn.Module):
    """Any memory with place planes beside it: output [inner output, ReLU(FC(inner output, place read))].

    Args:
        inner: The memory that is kept beside the places; it works as it does alone.
        camera: Of the depth image.
        extent: Side of the square that the planes cover, in map units.
        settings: Of the planes.
        hidden_size: Units of the place read and of the layer that joins both.
        use_reward: Keep the reward earned in the episode so far, the sum of the rewards above 0, as an input.
    """

    has_map = True

    def __init__(
        self,
        inner: Memory,
        camera: Camera,
        extent: float,
        settings: PlaceSettings | None = None,
        *,
        hidden_size: int = 128,
        use_reward: bool = False,
    ) -> None:
        super().__init__()
        self.use_reward = use_reward
        self.inner = inner
        self.places = Places(camera, extent, settings or PlaceSettings())
        told = self.places.told_size
        self.place_read = PlaceRead(
            self.places.settings.window, self.places.near_planes, told_size=told, output_size=hidden_size
        )
        direct = told if self.places.settings.compass else 0
        self.join = nn.Linear(inner.output_size + hidden_size + 1 + direct, hidden_size)
        orthogonal(self.join, nn.init.calculate_gain("relu"))
        self.output_size = inner.output_size + hidden_size

    @property
    def _inner_tensors(self) -> int:
        return len(self.inner.state_spec)

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        """The inner memory's, the places', and what was earned."""
        earned = TensorSpec((), torch.float32)
        return (*self.inner.state_spec, *self.places.state_spec, earned)

    @property
    def lesions(self) -> dict[str, Part]:
        """The inner memory's parts; the place read, and what is known of the places."""
        inner = {
            name: part._replace(module=f"inner.{part.module}" if part.module else "")
            for name, part in parts_of(self.inner).items()
        }
        first = self._inner_tensors
        known = tuple(range(first, first + len(self.places.state_spec)))
        earned = {"earned": Part(state=(known[-1] + 1,))} if self.use_reward else {}
        return {**inner, "place-read": Part(module="place_read"), "places": Part(state=known), **earned}

    @property
    def shown(self) -> Shown:
        """What the inner memory shows, and the planes of the near view."""
        inner, places = shown(self.inner), self.places
        window, cell = places.settings.window, places.settings.cell
        names = (*PLANES, *WAYS)[: places.near_planes]
        planes = ShownPlanes(names, tuple(name in WAYS for name in names), window * cell)
        words = f"{window} × {window} cells of {cell:g} map units around it, {len(names)} planes"
        return inner._replace(planes=planes, words={**inner.words, "places": words})

    def initial_state(self, n: int) -> MemoryState:
        """Nothing seen, nothing earned."""
        nothing = torch.zeros(n, device=self.join.weight.device)
        return (*self.inner.initial_state(n), *self.places.initial_state(n), nothing)

    def step(
        self, inputs: MemoryInputs, state: MemoryState, *, trace: MemoryTrace | None = None
    ) -> tuple[Tensor, MemoryState]:
        """One step: inputs (N, ...) -> output (N, output_size), next state.

        A trace gets the views, `place_near` and `place_far`, and `place_read`.
        """
        check_pose(inputs.pose)
        inner_state, old, before = self._divide(state, len(inputs.pose))
        out, inner_state = self.inner.step(inputs, inner_state, trace=trace)
        start = torch.zeros(1, len(inputs.pose), dtype=torch.bool, device=inputs.pose.device)
        views, places = self.places.follow(inputs.depth[None], inputs.pose.detach()[None], old, start)
        earned = self._earned(inputs, before, start)
        return self._output(out, views, earned[0], trace), (*inner_state, *places, earned[-1])

    def unroll(
        self, inputs: MemoryInputs, state: MemoryState, episode_start: Tensor
    ) -> tuple[Tensor, MemoryState]:
        """T steps: inputs (T, N, ...), episode_start (T, N) -> output (T, N, output_size), last state."""
        lead = tuple(inputs.pose.shape[:2])
        check_episode_start(episode_start, lead)
        check_pose(inputs.pose)
        inner_state, places, before = self._divide(state, lead[1])
        out, inner_state = self.inner.unroll(inputs, inner_state, episode_start)
        views, places = self.places.follow(inputs.depth, inputs.pose.detach(), places, episode_start)
        earned = self._earned(inputs, before, episode_start)
        output = self._output(out.flatten(0, 1), views, earned.flatten(), None)
        return output.unflatten(0, lead), (*inner_state, *places, earned[-1])

    def _earned(self, inputs: MemoryInputs, before: Tensor, episode_start: Tensor) -> Tensor:
        """What was earned in the episode up to each step (T, N); at an episode's start the reward is 0."""
        if not self.use_reward:
            return before.expand(episode_start.shape)
        return earned_so_far(inputs, before, episode_start)

    def _divide(self, state: MemoryState, num_envs: int) -> tuple[MemoryState, PlaceState, Tensor]:
        expected = [((num_envs, *spec.shape), spec.dtype) for spec in self.state_spec]
        got = [(tuple(tensor.shape), tensor.dtype) for tensor in state]
        if got != expected:
            raise ValueError(f"the state of {num_envs} environments must be {expected}; got {got}.")
        first = self._inner_tensors
        return state[:first], PlaceState(*state[first:-1]), state[-1]

    def _output(self, out: Tensor, views: Views, earned: Tensor, trace: MemoryTrace | None) -> Tensor:
        dtype = self.join.weight.dtype
        read = self.place_read(*(view.to(dtype) for view in views))
        if trace is not None:
            trace["place_near"], trace["place_far"], trace["place_read"] = (*views[:2], read.detach())
        # A direction is worth something only if no long chain of layers has to learn to pass it on.
        direct = (views.told.to(dtype),) if self.places.settings.compass else ()
        both = torch.cat((out, read, earned[:, None].to(dtype), *direct), -1)
        return torch.cat((out, F.relu(self.join(both))), -1)

    def parameter_groups(self) -> ParameterGroups:
        """The inner memory's groups, the place read, and the layer that joins both."""
        return {
            **parameter_groups(self.inner),
            "place_read": tuple(self.place_read.parameters()),
            "join": tuple(self.join.parameters()),
        }

    @property
    def rates(self) -> dict[str, Rate]:
        """The inner memory's."""
        return rates(self.inner)

    def figures(self, trace: MemoryTrace) -> dict[str, float]:
        """The inner memory's, and how much of the near view is known."""
        known = (trace["place_near"][:, :2].amax(1) > 0).float().mean()
        return {**figures(self.inner, trace), "place_known": float(known)}
