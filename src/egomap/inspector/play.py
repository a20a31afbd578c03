"""A person plays a layout in a window, with what an agent's memory makes of it beside the view.

Input: worlds, a layout and, if wished, a mind that watches. Output: the recording of the episode. The
window is Tk's, which comes with Python. None of the five actions stands still, so time passes only while a key is
held.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from egomap.envs.worlds import World
from egomap.inspector.components import Basis, colours, fit_basis
from egomap.inspector.frame import HEIGHT, WIDTH, Moment, paint
from egomap.inspector.mind import Mind, Thought
from egomap.inspector.record import Act, Observation, Stage
from egomap.inspector.recording import Recording
from egomap.scenarios.tasks import FAMILIES, TOUCH_DISTANCE

if TYPE_CHECKING:
    import tkinter

KEYS = {"Up": "up", "w": "up", "Left": "left", "a": "left", "Right": "right", "d": "right"}
ACTION_OF = {
    frozenset({"left"}): 0,
    frozenset({"right"}): 1,
    frozenset({"up"}): 2,
    frozenset({"up", "left"}): 3,
    frozenset({"up", "right"}): 4,
}
BOUNCE = 40
"""Milliseconds after which a key that was let go is up; systems that repeat keys let them go in between."""
HELP = "arrow keys or W, A, D: walk and turn (time stands still while no key is held) · Esc: end"


def action_of(held: set[str]) -> int | None:
    """The action of the keys that are held; left and right together are neither."""
    keys = held - {"left", "right"} if {"left", "right"} <= held else held
    return ACTION_OF.get(frozenset(keys))


class Window:
    """A window with one picture in it, and which keys are held.

    Raises:
        ValueError: There is no screen, or Python has no Tk.
    """

    def __init__(self, title: str) -> None:
        try:
            import tkinter
        except ImportError as error:
            raise ValueError(f"`egomap play` needs Python's tkinter, which is missing: {error}.") from None
        try:
            self.root = tkinter.Tk()
        except tkinter.TclError as error:
            raise ValueError(f"`egomap play` needs a screen, and there is none: {error}.") from None
        self.root.title(title)
        self.root.resizable(False, False)
        self._label = tkinter.Label(self.root, width=WIDTH, height=HEIGHT, borderwidth=0)
        self._label.pack()
        self._picture: tkinter.PhotoImage | None = None
        self.held: set[str] = set()
        self._tapped: set[str] = set()
        self._letting_go: dict[str, str] = {}
        self.closed = False
        self.root.bind("<KeyPress>", self._pressed)
        self.root.bind("<KeyRelease>", self._released)
        self.root.bind("<Escape>", lambda _: self.close())
        self.root.protocol("WM_DELETE_WINDOW", self.close)
        self.root.focus_force()

    def show(self, moment: Moment) -> None:
        """Paint a moment."""
        import tkinter

        if self.closed:
            return
        picture = paint(moment)
        ppm = b"P6 %d %d 255 " % picture.size + picture.tobytes()
        self._picture = tkinter.PhotoImage(data=ppm, format="PPM")
        self._label.configure(image=self._picture)
        self.root.update()

    def wait_for_action(self, not_before: float) -> int | None:
        """The next action, not before that time (monotonic seconds); None when the window was closed."""
        while not self.closed:
            self.root.update()
            if time.monotonic() >= not_before:
                action = action_of(self.held | self._tapped)
                # Forgotten even if they gave no action: left and right, both kept, would block each other for good.
                self._tapped.clear()
                if action is not None:
                    return action
            time.sleep(0.004)
        return None

    def close(self) -> None:
        """End it."""
        if not self.closed:
            self.closed = True
            self.root.destroy()

    def _pressed(self, event: tkinter.Event) -> None:
        key = KEYS.get(event.keysym)
        if key is None:
            return
        if key in self._letting_go:
            self.root.after_cancel(self._letting_go.pop(key))
        self.held.add(key)
        self._tapped.add(key)

    def _released(self, event: tkinter.Event) -> None:
        key = KEYS.get(event.keysym)
        if key is not None:
            self._letting_go[key] = self.root.after(BOUNCE, self._let_go, key)

    def _let_go(self, key: str) -> None:
        self._letting_go.pop(key, None)
        self.held.discard(key)


class Person:
    """Chooses actions by the keys of a window, at the game's own pace."""

    def __init__(self, window: Window, seconds: float) -> None:
        self._window, self._seconds = window, seconds
        self._next = 0.0

    def begin(self, world: World, seed: int) -> None:
        """An episode begins."""
        self._next = time.monotonic()

    def act(self, true_pose: np.ndarray, thought: Thought | None) -> Act | None:
        """What the keys say."""
        action = self._window.wait_for_action(self._next)
        self._next = time.monotonic() + self._seconds
        return None if action is None else Act(action)


class LiveView:
    """Shows an episode while it happens; the colours of the map are fitted again each time its length has doubled."""

    def __init__(self, window: Window, world: World, *, title: str, most: int) -> None:
        self._window, self._world, self._title, self._most = window, world, title, most
        self._way: list[np.ndarray] = []
        self._basis: Basis | None = None
        self._fit_at = 0
        goals = () if world.layout is None else world.layout.goals
        self._reached = np.zeros(len(goals), bool)
        self._reward = 0.0

    def __call__(
        self, observation: Observation, pose: np.ndarray, thought: Thought | None, reward: float
    ) -> None:
        """Called before each decision."""
        self._way.append(pose)
        self._count_goals(pose, reward)
        shown = None
        if thought is not None and thought.features is not None and thought.known is not None:
            if len(self._way) > self._fit_at:
                self._basis = fit_basis(np.moveaxis(thought.features, 1, -1)[thought.known])
                self._fit_at = 2 * len(self._way)
            assert self._basis is not None
            shown = colours(self._basis, thought.features, thought.known)
        depth = observation["depth"]
        self._window.show(
            Moment(
                title=self._title,
                subtitle=HELP,
                rgb=np.moveaxis(observation["rgb"], 0, -1),
                depth=depth,
                farthest=450.0,
                way=np.array(self._way),
                layout=self._world.layout,
                arena=self._world.extent,
                reached=self._reached,
                reward=reward,
                action=None,
                probabilities=None if thought is None else thought.probabilities,
                value=None if thought is None else thought.value,
                beta=None if thought is None else thought.beta,
                colours=shown,
                known=None if thought is None else thought.known,
                attention=None if thought is None else thought.attention,
                position=None if thought is None else thought.position,
                planes=None if thought is None else thought.planes,
                decision=len(self._way) - 1,
                decisions=self._most,
            )
        )

    def _count_goals(self, pose: np.ndarray, reward: float) -> None:
        """A jump of the reward is the next goal, if the player is there."""
        layout = self._world.layout
        if layout is not None and reward - self._reward > 0.1 and not self._reached.all():
            goal = int(self._reached.argmin())
            gx, gy = layout.center(layout.goals[goal])
            near = max(abs(pose[0] - gx), abs(pose[1] - gy)) < 2 * TOUCH_DISTANCE
            self._reached[goal] = self._reached[goal] or near
        self._reward = reward


def play(
    stage: Stage, layout: int, *, mind: Mind | None, name: str, split: str, seed: int, speed: float
) -> Recording:
    """Let a person play one layout; the recording of it."""
    stage.check(layout)
    world = stage.worlds[layout]
    task = "Doom map" if world.layout is None else FAMILIES[world.layout.task].title
    rule = "" if world.layout is None else f": {FAMILIES[world.layout.task].rule}"
    window = Window(f"egomap: {task}, layout {layout}")
    try:
        view = LiveView(window, world, title=f"{task}{rule}", most=2100 // stage.settings.frame_skip)
        return stage.play(
            layout,
            Person(window, stage.settings.frame_skip / 35 / speed),
            mind=mind,
            seed=seed,
            show=view,
            agent=name or "you",
            driven_by="you" if name else "",
            split=split,
        )
    finally:
        window.close()
