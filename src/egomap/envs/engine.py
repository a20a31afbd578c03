"""One Doom engine: started safely, watched, stepped, and ended without a trace.

What comes in: scenario files that have been checked, a map name and a seed per episode, an action per decision.
What goes out: the engine's pictures, rewards and flags; `EngineDied` when the engine was killed, crashed or got
stuck (then call `restart`). It knows nothing of tasks, observations or Gymnasium. An engine belongs to the process
that started it and is used by one thread at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import vizdoom as vzd

from egomap.config import FRAME_SKIP
from egomap.envs.frames import Frame, shared_frame
from egomap.envs.guard import Berth, guard
from egomap.envs.rendering import RenderMode
from egomap.scenarios.layout import Cell, Layout
from egomap.scenarios.tasks import things
from egomap.scenarios.udmf import textmap
from egomap.scenarios.wad import Lump, write_wad

BUTTONS = (vzd.Button.TURN_LEFT, vzd.Button.TURN_RIGHT, vzd.Button.MOVE_FORWARD)
ACTIONS = ("left", "right", "forward", "forward+left", "forward+right")
"""What the actions 0 to 4 do; `PRESSED` says which buttons that takes."""
PRESSED = ([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1])
VARIABLES = (
    vzd.GameVariable.POSITION_X,
    vzd.GameVariable.POSITION_Y,
    vzd.GameVariable.POSITION_Z,
    vzd.GameVariable.ANGLE,
)

# Everything that ViZDoom raises when its engine is gone.
_DEATHS = (
    vzd.ViZDoomErrorException,
    vzd.ViZDoomIsNotRunningException,
    vzd.ViZDoomUnexpectedExitException,
    vzd.MessageQueueException,
    vzd.SharedMemoryException,
)
_FOR_TRAINER_ALONE = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}
ROOM = "EGOROOM"
_START_SECONDS = 180.0
"""Choice: loading its files is a fifth of a second of a core, which a crowded machine may take minutes to give."""
_START_ATTEMPTS = 5


@functools.cache
def room_wad() -> bytes:
    """A WAD with one small room, named `ROOM`."""
    layout = Layout("labyrinth", 3, 128, (), Cell(0, 0), (Cell(2, 2),))
    return write_wad([Lump(ROOM, b""), Lump("TEXTMAP", textmap(layout, things(layout))), Lump("ENDMAP", b"")])


class EngineDied(RuntimeError):
    """The engine was killed, crashed, or got stuck and was killed by the guard."""


class EngineCannotStart(ValueError):
    """No engine can be had with these files on this machine."""


class Engine:
    """A running Doom engine for one WAD.

    Args:
        cfg: a ViZDoom `.cfg`, for rewards, time-out, skill and the like; rendering, buttons and variables are ours.
        wad: the scenario file; it must have been checked (`egomap.scenarios.check`), for the engine itself
            plays another map without a word when this one is broken.
        mode: how to draw.
        watchdog: seconds after which an engine that does not answer is killed.
        executable: another engine binary than ViZDoom's own.
        share: read pictures straight from the engine's memory; False: take ViZDoom's copies.
    """

    def __init__(
        self,
        cfg: Path,
        wad: Path,
        mode: RenderMode,
        *,
        watchdog: float = 30.0,
        frame_skip: int = FRAME_SKIP,
        executable: str | None = None,
        share: bool = True,
    ) -> None:
        self._cfg, self._wad, self._mode = Path(cfg), Path(wad), mode
        self._watchdog, self._frame_skip = watchdog, frame_skip
        self._executable = executable or vzd.exe_path
        self._share = share
        self._berth: Berth | None = None
        self._game: Any = None
        self._shared: Frame | None = None
        self._forked = False
        self.restarts = 0
        self._start()
        _living.add(self)

    @property
    def pid(self) -> int | None:
        """The engine's process."""
        return self._berth.engine_pid if self._berth else None

    @property
    def launcher_pid(self) -> int | None:
        """The small process that started the engine and waits for it."""
        return self._berth.launcher_pid if self._berth else None

    @property
    def game(self) -> Any:
        """ViZDoom's own object, for what this class does not offer; unwatched."""
        return self._game

    def load(self, map_name: str, seed: int) -> None:
        """Begin an episode that depends on (map, seed) alone, whatever was played before.

        The engine's map is the text `$egomap_map`, which the engine's console replaces by that variable's value.
        So one load does what `set_doom_map` and `new_episode` do in two, and without holding Python's lock.
        """
        self._watched(self._load, map_name, seed)

    def act(self, action: int) -> float:
        """One decision: hold the action for `frame_skip` tics; return the reward of those tics.

        The same as `_watched`, written out: this runs thousands of times a second, mostly with cold caches.
        """
        berth = self._berth
        if berth is None:
            raise self._gone()
        deadlines, number = berth.deadlines, berth.number
        deadlines[number] = time.monotonic() + self._watchdog
        try:
            return self._game.make_action(PRESSED[action], self._frame_skip)
        except _DEATHS as error:
            raise EngineDied(str(error)) from error
        finally:
            deadlines[number] = 0.0

    def frame(self) -> Frame:
        """What the engine shows, to be used before the next `act` or `load`; only while an episode runs."""
        return self._shared if self._shared is not None else self._copied_frame()

    @property
    def finished(self) -> bool:
        """The episode is over, for whatever reason."""
        return bool(self._game.is_episode_finished())

    @property
    def timed_out(self) -> bool:
        """The episode's time is up."""
        return bool(self._game.is_episode_timeout_reached())

    @property
    def player_dead(self) -> bool:
        """The player has died."""
        return bool(self._game.is_player_dead())

    @property
    def status(self) -> int:
        """How the episode stands, in the words of the scripts of our own maps (`egomap.scenarios.tasks`)."""
        return int(self._game.get_game_variable(vzd.GameVariable.USER2))

    @property
    def living_reward(self) -> float:
        """What the scenario pays for each tic."""
        return float(self._game.get_living_reward())

    def restart(self) -> None:
        """Replace a dead engine by a new one; the caller then calls `load`."""
        self._end()
        self.restarts += 1
        self._start()

    def switch(self, cfg: Path, wad: Path) -> None:
        """Go over to other files, with a new engine; the caller then calls `load`."""
        self.close()
        self._cfg, self._wad = Path(cfg), Path(wad)
        self._start()

    @property
    def files(self) -> tuple[Path, Path]:
        """The `.cfg` and the WAD."""
        return self._cfg, self._wad

    @property
    def busy(self) -> bool:
        """Whether some thread is inside the engine."""
        return self._berth is not None and self._berth.has_deadline

    def close(self) -> None:
        """End the engine; nothing of it is left. May be called twice."""
        game, self._game = self._game, None
        self._shared = None
        if game is not None and self._berth is not None:
            self._berth.set_deadline(self._watchdog)
            with contextlib.suppress(*_DEATHS):
                game.close()
        self._end()

    def __del__(self) -> None:
        if getattr(self, "_berth", None) is not None:
            self.close()

    def _start(self) -> None:
        """Start an engine, with several attempts: it may also be killed while it starts."""
        for _ in range(_START_ATTEMPTS):
            try:
                self._start_once()
                return
            except EngineDied:
                self._end()
        raise EngineCannotStart(f"The Doom engine cannot start: it died {_START_ATTEMPTS} times in a row.")

    def _start_once(self) -> None:
        berth = guard().berth()
        try:
            game = self._configure(berth)
        except BaseException:
            guard().release(berth)
            raise
        berth.set_deadline(_START_SECONDS + 5)
        failure: list[BaseException] = []

        def init() -> None:
            # The launcher ignores these, but not in its first moment, and if it dies there ViZDoom crashes Python.
            # What is blocked here is blocked in the processes that this thread starts.
            signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_TRAINER_ALONE)
            try:
                game.init()
            except BaseException as error:
                failure.append(error)

        starter = threading.Thread(target=init, daemon=True, name="egomap-engine-start")
        starter.start()
        give_up = time.monotonic() + _START_SECONDS
        while starter.is_alive():
            starter.join(0.02)
            reason = berth.failure() or ("it did not answer" if time.monotonic() > give_up else None)
            if starter.is_alive() and reason is not None:
                guard().abandon(berth)
                raise EngineCannotStart(
                    f"The Doom engine cannot start: {reason}. Run `egomap doctor` to find out why."
                )
        if failure:
            guard().release(berth)
            raise EngineCannotStart(f"The Doom engine cannot start: {failure[0]}") from failure[0]
        berth.mark_ready()
        self._berth, self._game = berth, game
        game.send_game_command(f"set egomap_map {ROOM}")
        self._watched(game.advance_action, 1)
        self._watched(game.set_doom_map, "$egomap_map")
        self._shared = shared_frame(berth.instance or "", self._copied_frame()) if self._share else None

    def _configure(self, berth: Berth) -> Any:
        game = vzd.DoomGame()
        game.load_config(str(self._cfg.resolve()))
        game.set_doom_scenario_path(str(self._wad.resolve()))
        game.set_doom_map(ROOM)
        game.set_vizdoom_path(str(berth.prepare(self._executable)))
        game.set_doom_config_path(str(berth.folder / "engine.ini"))
        game.set_screen_resolution(getattr(vzd.ScreenResolution, self._mode.resolution))
        game.set_screen_format(vzd.ScreenFormat.RGB24)
        game.set_depth_buffer_enabled(True)
        game.set_labels_buffer_enabled(False)
        game.set_automap_buffer_enabled(False)
        game.set_render_hud(False)
        game.set_render_weapon(False)  # its sprite would cover the view and write depth 0
        game.set_render_crosshair(False)
        game.set_render_decals(False)
        game.set_render_particles(False)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        game.set_mode(vzd.Mode.PLAYER)
        game.set_available_buttons(list(BUTTONS))
        game.set_available_game_variables(list(VARIABLES))
        # No head-bob: the camera keeps its height, as the camera model says.
        game.add_game_args(f"+movebob 0 {self._mode.arguments}")
        # Engines start in a room of ours: with a map that the engine refuses, ViZDoom would crash Python here.
        guard().keep("room.wad", room_wad())
        game.add_game_args("-file ../room.wad")  # as seen from the berth; the full path may have blanks
        return game

    def _copied_frame(self) -> Frame:
        state = self._game.get_state()
        return Frame(state.screen_buffer, state.depth_buffer, np.array(state.game_variables))

    def _load(self, map_name: str, seed: int) -> None:
        self._game.send_game_command(f"set egomap_map {map_name}")
        self._game.set_seed(seed)
        self._game.new_episode()

    def _watched(self, function: Any, *arguments: Any) -> Any:
        """Call into the engine under the guard's eyes."""
        berth = self._berth
        if berth is None:
            raise self._gone()
        berth.set_deadline(self._watchdog)
        try:
            return function(*arguments)
        except _DEATHS as error:
            raise EngineDied(str(error)) from error
        finally:
            berth.clear_deadline()

    def _gone(self) -> Exception:
        if self._forked:
            return ValueError("these engines belong to the parent process; make an environment in this one.")
        return EngineDied("this engine is closed")

    def _end(self) -> None:
        berth, self._berth = self._berth, None
        if berth is not None:
            guard().release(berth)

    def _leave_to_parent(self) -> None:
        """In a forked child: forget the engine without ending it, for it is the parent's."""
        if self._game is not None:
            # Not even ViZDoom's own object may go: its end would end the engine.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._game))
        self._game = self._berth = self._shared = None
        self._forked = True


_living: weakref.WeakSet[Engine] = weakref.WeakSet()


def _in_child() -> None:
    for engine in list(_living):
        engine._leave_to_parent()


def _at_exit() -> None:
    """End all engines while Python is whole; one that a thread still waits for is left to the guard."""
    for engine in list(_living):
        if not engine.busy:
            engine.close()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
