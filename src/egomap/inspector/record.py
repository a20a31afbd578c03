"""Play one episode and record everything: pictures, poses, rewards and, with a network, its outputs and memory.

Input: worlds, a layout, a driver that chooses the actions, and the mind to look into, if any. Output:
a `Recording`. An episode depends on (seed, layout) alone and equals the one that an evaluation with that seed plays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from egomap.agents.agent import Agent
from egomap.agents.scripted import ScriptedKind, scripted_agent
from egomap.config import EnvSettings, require
from egomap.envs.worlds import World, Worlds
from egomap.inspector.mind import Mind, Thought
from egomap.inspector.players import Observation, Player, player_of
from egomap.inspector.recording import Outcome, Recording
from egomap.worlds.episodes import episode_seed

Show = Callable[[Observation, np.ndarray, "Thought | None", float], None]
"""Called before each decision with (observation, true pose, thought, reward so far)."""

MOST_DECISIONS = 2100
"""A foreign map may have no time limit; a recording has one."""


class Act(NamedTuple):
    """What a driver chose."""

    action: int
    choice: int | None = None
    """Which of the thought's choices it is; None if it was not drawn from them."""


class Driver(Protocol):
    """Chooses the actions."""

    def begin(self, world: World, seed: int) -> None:
        """An episode begins."""
        ...

    def act(self, true_pose: np.ndarray, thought: Thought | None) -> Act | None:
        """The next action, or None to stop."""
        ...


class NetworkDriver:
    """Acts as the mind thinks: draws from its policy as evaluations do, or takes the most probable action."""

    def __init__(self, *, deterministic: bool = False) -> None:
        self._deterministic = deterministic
        self._draws = np.random.default_rng(0)

    def begin(self, world: World, seed: int) -> None:
        """Begin the episode's own stream of random numbers, the same as an evaluation's."""
        self._draws = np.random.default_rng([seed, 3])

    def act(self, true_pose: np.ndarray, thought: Thought | None) -> Act:
        """One draw."""
        assert thought is not None
        choice = self._choose(thought.choices)
        return Act(choice % len(thought.probabilities), choice)

    def _choose(self, choices: np.ndarray) -> int:
        if self._deterministic:
            return int(choices.argmax())
        shares = choices.cumsum()
        draw = self._draws.random() * shares[-1]
        return min(int(np.searchsorted(shares, draw, side="right")), len(shares) - 1)


class ScriptedDriver:
    """Random or the Planner."""

    def __init__(self, kind: ScriptedKind, *, frame_skip: int = EnvSettings.frame_skip) -> None:
        self._agent = scripted_agent(kind, frame_skip=frame_skip)

    def begin(self, world: World, seed: int) -> None:
        """Give the agent its layout."""
        self._agent.begin(0, world.layout, seed)

    def act(self, true_pose: np.ndarray, thought: Thought | None) -> Act:
        """Ask the agent."""
        return Act(self._agent.act(0, true_pose))


class Tape:
    """What has happened so far in an episode, decision by decision."""

    def __init__(self) -> None:
        self.observations: list[Observation] = []
        self.true_poses: list[np.ndarray] = []
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.events: list[bool] = []
        self.thoughts: list[Thought] = []

    def decide(
        self, observation: Observation, true_pose: np.ndarray, thought: Thought | None, action: int
    ) -> None:
        """What there was when an action was chosen, and the action."""
        self.observations.append(observation)
        self.true_poses.append(true_pose)
        self.actions.append(action)
        if thought is not None:
            self.thoughts.append(thought)

    def receive(self, reward: float, event: bool) -> None:
        """What the action brought."""
        self.rewards.append(reward)
        self.events.append(event)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it but the thoughts, under a recording's names; a row for each decision."""

        def seen(name: str) -> np.ndarray:
            return np.stack([observation[name] for observation in self.observations])

        return {
            "rgb": seen("rgb").transpose(0, 2, 3, 1),
            "depth": seen("depth"),
            "pose": seen("pose").astype(np.float64),
            "ego_motion": seen("ego_motion"),
            "true_pose": np.stack(self.true_poses),
            "action": np.array(self.actions, np.int64),
            "reward": np.array(self.rewards),
            "event": np.array(self.events),
        }


class Stage:
    """One simulator on which episodes are played one after the other; a context manager that ends it."""

    def __init__(self, worlds: Worlds, settings: EnvSettings | None = None) -> None:
        self.worlds = worlds
        self.settings = settings or EnvSettings()
        self._player: Player | None = None

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        if self._player is not None:
            self._player.close()
            self._player = None

    def check(self, layout: int) -> None:
        """Raise a ValueError if there is no such layout; no engine is started for that."""
        require(
            0 <= layout < len(self.worlds),
            f"layout must be 0 to {len(self.worlds) - 1} in these worlds; got {layout}.",
        )

    def play(
        self,
        layout: int,
        driver: Driver,
        *,
        mind: Mind | None = None,
        seed: int = 0,
        show: Show | None = None,
        progress: Callable[[int, int], None] | None = None,
        agent: str = "",
        driven_by: str = "",
        split: str = "",
        about: Mapping[str, str] | None = None,
    ) -> Recording:
        """Play one episode.

        Args:
            layout: Which world.
            driver: The agent that acts.
            mind: The agent to inspect; None for none.
            seed: With the layout it fixes the episode.
            show: Called before each decision with (observation, true pose, thought, reward so far).
            progress: Called with (decisions, decisions at most).
            agent: The inspected agent, in words.
            driven_by: The agent that acts, in words.
            split: Name of the split that the worlds are of.
            about: What else to keep as text.
        """
        self.check(layout)
        if self._player is None:
            self._player = player_of(self.worlds, self.settings)
        world = self.worlds[layout]
        tape, outcome = self._run(self._player, layout, seed, driver, mind, show, progress)
        if progress is not None:
            progress(len(tape.actions), len(tape.actions))
        require(bool(tape.actions), "the episode was stopped before its first decision.")
        return Recording(
            agent=agent,
            driver=driven_by,
            layout_index=layout,
            layout_id=world.id,
            split=split,
            seed=seed,
            layout=world.layout,
            arena=world.extent,
            camera=self._player.camera,
            outcome=outcome,
            settings=dict(about or {}),
            mind=None if mind is None else mind.track(tape.thoughts),
            frame_skip=self.settings.frame_skip,
            lesions=(),
            **tape.arrays(),
        )

    def _run(
        self,
        player: Player,
        layout: int,
        seed: int,
        driver: Driver,
        mind: Mind | None,
        show: Show | None,
        progress: Callable[[int, int], None] | None,
    ) -> tuple[Tape, Outcome]:
        """Play an episode to its end, or to the driver's; what happened, and how it ended."""
        observation = player.begin(layout, seed)
        driver.begin(self.worlds[layout], episode_seed(seed, layout, 0))
        if mind is not None:
            mind.begin()
        tape = Tape()
        while len(tape.actions) < MOST_DECISIONS:
            true_pose = player.true_pose
            thought = None if mind is None else mind.see(observation)
            if show is not None:
                show(observation, true_pose, thought, sum(tape.rewards))
            act = driver.act(true_pose, thought)
            if act is None:
                break
            tape.decide(observation, true_pose, thought, act.action)
            if mind is not None:
                mind.acted(*act)
            observation, reward, event, ended = player.step(act.action)
            tape.receive(reward, event)
            if progress is not None:
                progress(len(tape.actions), MOST_DECISIONS // self.settings.frame_skip)
            if ended is not None:
                return tape, ended
        return tape, "stopped"


def driver_of(kind: str, *, deterministic: bool = False, frame_skip: int = EnvSettings.frame_skip) -> Driver:
    """The driver of that name: "random", "planner", or else the mind itself."""
    if kind == "random" or kind == "planner":
        return ScriptedDriver("random" if kind == "random" else "planner", frame_skip=frame_skip)
    return NetworkDriver(deterministic=deterministic)


def mind_of(agent: Agent | None) -> Mind | None:
    """A mind for an agent; None for none."""
    return None if agent is None else Mind(agent)
