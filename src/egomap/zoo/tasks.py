"""Four scripted tasks, each of which isolates one thing that a memory must do, as Gymnasium environments.

Input: an action, which counts where a question is asked; otherwise the agent is led and only watches. What
goes out: rgb, depth and pose; reward for right answers, 1 for an episode in which all are right. Not in the paper.
Episodes are made so that what is seen at a question, with the motion that led to it, is independent of the answer:
without memory only guessing is possible. `room` draws the pictures.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from egomap.config import Camera, require_within
from egomap.zoo.room import CAMERA, GREY, HALF, HEIGHT, WIDTH, Colour, Picture, card, fog, room

Observation = dict[str, np.ndarray]

RED, GREEN, BLUE, YELLOW = COLOURS = ((230, 40, 40), (40, 200, 60), (50, 80, 240), (240, 220, 40))
ASK: Colour = (255, 255, 255)
"""Of the card that asks."""
STRIDE = 32.0
"""Map units of a step."""
QUARTER = math.pi / 2


class Frame(NamedTuple):
    """What is seen at one step, and from where."""

    picture: Picture
    pose: tuple[float, float, float]
    """x, y (map units), phi (radians, counter-clockwise from east)."""
    answer: int | None = None
    """The action that is right here; None where nothing is asked."""


Script = list[Frame]
"""One episode, independent of the agent's actions."""


def facing(quarter: int) -> float:
    """The heading of a number of quarter turns from east, within (-pi, pi]."""
    return QUARTER * ((quarter + 1) % 4 - 1)


class ScriptedTask(gymnasium.Env[Observation, np.int64]):
    """An episode that is shown frame by frame; where a question is asked the action is the answer.

    Observation: rgb (3, 44, 60) uint8, depth (44, 60) map units, infinite where unknown, pose (3,). The return is the
    share of right answers; `info["success"]`, whether all were right, is reported at the end. The same seed gives the
    same episode.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012
    camera: Camera = CAMERA
    extent: float = 2 * HALF
    """Side, in map units, of the square around the origin in which everything happens."""
    actions: tuple[str, ...]
    """What can be answered."""

    def __init__(self, *, render_mode: str | None = None) -> None:
        box = gymnasium.spaces.Box
        self.observation_space: gymnasium.spaces.Dict = gymnasium.spaces.Dict(  # type: ignore[assignment]
            {
                "rgb": box(0, 255, (3, HEIGHT, WIDTH), np.uint8),
                "depth": box(0.0, np.inf, (HEIGHT, WIDTH), np.float32),
                "pose": box(-np.inf, np.inf, (3,), np.float32),
            }
        )
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array'; got {render_mode!r}.")
        self.render_mode = render_mode
        self._script: Script | None = None
        self._now = self._right = 0

    def script(self, draws: np.random.Generator) -> Script:
        """A new episode."""
        raise NotImplementedError

    @property
    def egomap(self) -> dict[str, Any]:
        """What `egomap train --env egomap.zoo:ID` must know of it."""
        return {"camera": self.camera, "extent": self.extent, "actions": self.actions}

    @property
    def chance(self) -> float:
        """The mean return of guessing."""
        return 1 / len(self.actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; it depends on the seed, or on the generator that an earlier seed began."""
        super().reset(seed=seed)
        self._script = self.script(self.np_random)
        self._now = self._right = 0
        return self._observation(), {}

    def step(self, action: int | np.integer) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Judge the answer, if there was a question, and show the next frame; the last one stays."""
        if self._script is None:
            raise ValueError("no episode was begun, or it is over: call reset() first.")
        if not self.action_space.contains(action):
            raise ValueError(f"action must be 0 to {len(self.actions) - 1}; got {action!r}.")
        script, asked = self._script, sum(frame.answer is not None for frame in self._script)
        right = script[self._now].answer == int(action)
        self._right += right
        if self._now + 1 < len(script):
            self._now += 1
            return self._observation(), right / asked, False, False, {}
        observation, self._script = self._observation(), None
        return observation, right / asked, True, False, {"success": self._right == asked}

    def render(self) -> np.ndarray | None:
        """What is seen (height, width, 3)."""
        if self.render_mode is None or self._script is None:
            return None
        return np.moveaxis(self._script[self._now].picture[0], 0, -1).copy()

    def _observation(self) -> Observation:
        assert self._script is not None
        (rgb, depth), pose, _ = self._script[self._now]
        return {"rgb": rgb.copy(), "depth": depth.copy(), "pose": np.array(pose, np.float32)}


class Recall(ScriptedTask):
    """What colour was the wall? It is seen once; `delay` steps of grey walls follow, then a white card asks.

    What a memory must do: keep one of four symbols over time. Nothing moves.
    """

    actions = ("red", "green", "blue", "yellow")

    def __init__(self, *, delay: int = 8, render_mode: str | None = None) -> None:
        require_within("delay", delay, 0, 10_000)
        super().__init__(render_mode=render_mode)
        self.delay = delay

    def script(self, draws: np.random.Generator) -> Script:
        """A colour, `delay` times nothing, the question."""
        answer = int(draws.integers(4))
        pose = (0.0, 0.0, facing(int(draws.integers(4))))
        place = np.array(pose)
        seen = Frame(room(place, (COLOURS[answer],) * 4), pose)
        grey = Frame(room(place, (GREY,) * 4), pose)
        return [seen, *[grey] * self.delay, Frame(card(ASK), pose, answer)]


class WayHome(ScriptedTask):
    """Where is home? After `moves` moves in fog: is it ahead, to the left, behind or to the right?

    What a memory must do: add up motions. There is nothing to see, so a map stays empty. The walk ends with a step of
    rest, so neither the last view nor the last motion is informative. Home is never on a diagonal: one of the two
    distances is at least a stride longer than the other. With `turns` the agent turns before every move and to any
    side at the end, so that each motion has to be turned by all before it; that is much harder to learn.
    """

    actions = ("ahead", "left", "behind", "right")

    def __init__(self, *, moves: int = 6, turns: bool = False, render_mode: str | None = None) -> None:
        require_within("moves", moves, 1, 1000)
        super().__init__(render_mode=render_mode)
        self.moves, self.turns = moves, turns
        self.extent = 2 * (HALF + 2 * STRIDE * moves)

    def script(self, draws: np.random.Generator) -> Script:
        """A walk whose end is clearly to one side of its start."""
        while True:
            frames, (east, north, heading) = self._walk(draws)
            if abs(abs(east) - abs(north)) >= STRIDE:
                break
        home = (
            (2 if east > 0 else 0) if abs(east) > abs(north) else (3 if north > 0 else 1)
        )  # quarters from east
        return [*frames, frames[-1]._replace(answer=(home - heading) % 4)]

    def _walk(self, draws: np.random.Generator) -> tuple[list[Frame], tuple[float, float, int]]:
        """The frames, and where it ended: from home to the east and north, and the heading in quarters from east."""
        begin = draws.uniform(-HALF, HALF, 2)
        place, heading = begin.copy(), int(draws.integers(4))
        path = [(*begin, facing(heading))]
        for _ in range(self.moves):
            way = int(draws.integers(4))  # without turns it is pushed to any side
            if self.turns:
                heading = way = (heading + int(draws.integers(-1, 2))) % 4
                path.append((*place, facing(heading)))
            place = place + STRIDE * int(draws.integers(1, 3)) * _ahead(way)
            path.append((*place, facing(heading)))
        if self.turns:
            heading = int(draws.integers(4))
            path.append((*place, facing(heading)))
        east, north = place - begin
        return [Frame(fog(), (float(x), float(y), phi)) for x, y, phi in path], (east, north, heading)


class WhereSeen(ScriptedTask):
    """Where did I see this? Two walls are coloured; a look around, then a card of each of the colours asks.

    What a memory must do: bind what was seen to a place. The answer is the side on which that wall is: ahead, left,
    behind or right. After the look around the agent faces the first wall again; with `turns` it is turned to any side
    with covered eyes, so that the place must be transformed to another heading; that is much harder to learn.
    """

    actions = ("ahead", "left", "behind", "right")

    def __init__(self, *, turns: bool = False, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self.turns = turns

    def script(self, draws: np.random.Generator) -> Script:
        """Four views, the last turn, two questions at rest."""
        walls, colours = draws.permutation(4)[:2], draws.permutation(4)[:2]
        painted = [GREY] * 4
        for wall, colour in zip(walls, colours, strict=True):
            painted[wall] = COLOURS[colour]
        first = int(draws.integers(4))
        last = int(draws.integers(4)) if self.turns else first
        poses = [(0.0, 0.0, facing(first + turn)) for turn in range(4)]
        views = [Frame(room(np.array(pose), tuple(painted)), pose) for pose in poses]  # type: ignore[arg-type]
        end = (0.0, 0.0, facing(last))
        questions = [
            Frame(card(COLOURS[colour]), end, (int(wall) - last) % 4)
            for wall, colour in zip(walls, colours, strict=True)
        ]
        return [*views, Frame(card(GREY), end), *questions]


class Revisit(ScriptedTask):
    """What colour was it here? A wall has coloured panels; after a walk along it the agent comes back to them.

    What a memory must do: know a place again by the way that led to it. The agent faces the wall, so near that it
    sees one panel at a time, red or green. After the first walk past all `places` its eyes are covered; at each of
    `visits` it has moved to another panel and must answer with its colour.
    """

    actions = ("red", "green")

    def __init__(self, *, places: int = 3, visits: int = 4, render_mode: str | None = None) -> None:
        require_within("places", places, 2, 6)
        require_within("visits", visits, 1, 10_000)
        super().__init__(render_mode=render_mode)
        self.places, self.visits = places, visits

    def script(self, draws: np.random.Generator) -> Script:
        """Past the panels, then to one of the others at each visit."""
        colours = draws.integers(2, size=self.places)
        heading, width = int(draws.integers(4)), 2 * STRIDE  # what a view of 90 degrees shows of the wall
        along = _ahead(heading + 1)
        begin = (HALF - STRIDE) * _ahead(heading) - (self.places - 1) / 2 * width * along

        def pose(place: int) -> tuple[float, float, float]:
            x, y = begin + place * width * along
            return float(x), float(y), facing(heading)

        frames = []
        for place, colour in enumerate(colours):
            here = pose(place)
            frames.append(Frame(room(np.array(here), (COLOURS[colour],) * 4), here))
        place = self.places - 1
        for _ in range(self.visits):
            place = (place + int(draws.integers(1, self.places))) % self.places  # one of the others
            frames.append(Frame(card(ASK), pose(place), int(colours[place])))
        return frames


def _ahead(heading: int) -> np.ndarray:
    """The unit vector (2,), east and north, of a heading in quarters from east."""
    return np.array(((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[heading % 4])


TASKS: dict[str, type[ScriptedTask]] = {
    "EgoMap/Recall-v0": Recall,
    "EgoMap/WayHome-v0": WayHome,
    "EgoMap/WhereSeen-v0": WhereSeen,
    "EgoMap/Revisit-v0": Revisit,
}
"""By their Gymnasium id."""


def register() -> None:
    """Make the tasks known to Gymnasium, once."""
    for name, task in TASKS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name, entry_point=f"{task.__module__}:{task.__qualname__}", disable_env_checker=True
            )
