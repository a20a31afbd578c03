"""MiniWorld draws our mazes: the walls of a layout, its pillars and items, as the player sees them.

What comes in: a layout, the goals that are there, a pose. What goes out: a picture and its depth. MiniWorld gives the
camera, the frame buffers, the textures and the boxes; the walls are those of `egomap.scenarios.udmf`, and shades fall
off with the distance as Doom's do, so that an agent of one can be tried in the other. Importing this opens a display
of EGL, so it is done where environments run: in workers.

Convention: MiniWorld's x is ours, its z is minus our y, its heading is ours; `METRE` map units are one of its
lengths. Its pixels are square and those of our camera are not, so all heights are stretched by fy / fx, which gives
the same picture and leaves the depth (z, not the ray's length) as it is.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from egomap.config import Camera
from egomap.scenarios.layout import Layout
from egomap.scenarios.tasks import FAMILIES, goal_looks
from egomap.scenarios.udmf import CEILING_HEIGHT, wall_outline
from egomap.simulators.extras import need, without_screen

without_screen()
need("pyglet", "miniworld").options.update(headless=True, debug_gl=False)
mini: Any = need("miniworld.miniworld", "miniworld")
entity: Any = need("miniworld.entity", "miniworld")
opengl: Any = need("miniworld.opengl", "miniworld")
parameters: Any = need("miniworld.params", "miniworld")
gl: Any = need("pyglet.gl", "miniworld")

METRE = 128.0
"""Map units. MiniWorld sees from 0.04 to 100 of its lengths, with 16 bits of depth: 0.6 map units at 450."""
NEAR, FAR = 0.04, 100.0
EYE = 41.0
"""Map units above the floor."""
PILLAR, ITEM = (28.0, 52.0), (24.0, 20.0)
"""Width and height of a goal's box in map units, about those of Doom's sprites."""
FADE = 460.0
"""Map units over which shades fall to 1/e, as measured in Doom."""
PIECE = 128.0
"""Map units: no surface is longer, since shades are computed at its corners."""


class Surface(NamedTuple):
    """How walls, floor or ceiling look."""

    texture: str
    mean: tuple[int, int, int]
    """Of the texture."""
    shade: tuple[int, int, int]
    """What is seen of it near by, on average; as measured in Doom."""


WALLS = Surface("rock", (115, 117, 115), (58, 58, 58))
FLOOR = Surface("wood", (154, 112, 66), (66, 47, 26))
CEILING = Surface("rock", (115, 117, 115), (46, 46, 46))


class Maze(mini.Room):
    """The walls, the floor and the ceiling of a layout.

    Args:
        layout: Whose.
        stretch: Of all heights.
    """

    def __init__(self, layout: Layout, stretch: float) -> None:
        half = layout.size * layout.cell / 2 / METRE
        outline = np.array([[half, half], [half, -half], [-half, -half], [-half, half]])
        super().__init__(outline, wall_height=CEILING_HEIGHT * stretch / METRE)
        self._lines = [
            line for loop in wall_outline(layout) for line in zip(loop, loop[1:] + loop[:1], strict=True)
        ]

    def _gen_static_data(self, params: Any, rng: Any) -> None:
        """What is drawn: the corners of pieces, (K, 5) each: place in the texture, place in the room."""
        self.wall_segs = np.zeros((0, 2, 3))  # nobody is stopped by MiniWorld itself
        high, walls, floor = self.wall_height, [], []
        for line in self._lines:
            # Courses of stones run on from piece to piece. Seen from the floor, on the right of the line, the corners
            # are counter-clockwise, which is how MiniWorld knows a front.
            for (x0, y0), (x1, y1) in itertools.pairwise(_cut(*line)):
                u0, u1 = (x0, x1) if y0 == y1 else (y0, y1)
                walls += [(u1, 0.0, x1, 0.0, -y1), (u1, high, x1, high, -y1)]
                walls += [(u0, high, x0, high, -y0), (u0, 0.0, x0, 0.0, -y0)]
        marks = [x for x, _ in _cut((self.min_x * METRE, 0.0), (self.max_x * METRE, 0.0))]
        for (x0, x1), (y0, y1) in itertools.product(itertools.pairwise(marks), repeat=2):
            floor += [(x, y, x, 0.0, -y) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]
        ceiling = np.array(floor)[::-1] + (0.0, 0.0, 0.0, high, 0.0)
        parts = ((WALLS, walls), (FLOOR, floor), (CEILING, ceiling))
        self._parts = [
            (surface, opengl.Texture.get(surface.texture), np.array(all_)) for surface, all_ in parts
        ]

    def _render(self) -> None:
        """Draw it all, into a display list."""
        gl.glEnable(gl.GL_TEXTURE_2D)
        gl.glEnable(gl.GL_FOG)
        gl.glFogi(gl.GL_FOG_MODE, gl.GL_EXP)
        gl.glFogf(gl.GL_FOG_DENSITY, METRE / FADE)
        gl.glFogfv(gl.GL_FOG_COLOR, (gl.GLfloat * 4)(0.0, 0.0, 0.0, 1.0))
        for surface, texture, corners in self._parts:
            gl.glColor3f(*(part / mean for part, mean in zip(surface.shade, surface.mean, strict=True)))
            texture.bind()
            gl.glBegin(gl.GL_QUADS)
            for u, v, x, y, z in corners.tolist():
                gl.glTexCoord2f(u, v)
                gl.glVertex3f(x, y, z)
            gl.glEnd()
        gl.glDisable(gl.GL_FOG)
        gl.glDisable(gl.GL_TEXTURE_2D)


def _cut(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    """Places along a line of map units, in MiniWorld's lengths, no farther from one to the next than a piece."""
    pieces = max(1, math.ceil(math.dist(start, end) / PIECE))
    xs, ys = (np.linspace(a, b, pieces + 1) / METRE for a, b in zip(start, end, strict=True))
    return list(zip(xs.tolist(), ys.tolist(), strict=True))


class Drawing(mini.MiniWorldEnv):
    """One maze, drawn from where the player stands.

    Args:
        camera: Of the pictures; its axis is in the middle.
    """

    def __init__(self, camera: Camera) -> None:
        self._stretch = camera.fy / camera.fx
        self._layout: Layout | None = None
        self._list = 0
        seen = parameters.DEFAULT_PARAMS.no_random()
        vertical = 2 * math.atan(camera.height / 2 / camera.fx)  # of square pixels as wide as ours
        seen.set("cam_fov_y", math.degrees(vertical))
        seen.set("cam_height", EYE * self._stretch / METRE)
        with contextlib.redirect_stdout(io.StringIO()):  # it tells how many samples a pixel gets
            super().__init__(1, camera.width, camera.height, 8, 8, params=seen)
            # One sample, in the middle of the pixel, since the depth is read from it, too.
            self.obs_fb = opengl.FrameBuffer(camera.width, camera.height, 1)

    def enter(self, layout: Layout) -> None:
        """Draw this layout from now on."""
        if layout != self._layout:
            self._layout = layout
            self.reset()

    def look(self, x: float, y: float, phi: float, goals: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The picture (H, W, 3) uint8 and its depth (H, W) float32, map units.

        Args:
            x: Of the player, map units.
            y: The same.
            phi: The player's heading.
            goals: Which of the layout's are to be seen.
        """
        self.agent.pos, self.agent.dir = np.array([x / METRE, 0.0, -y / METRE]), phi
        self.entities = [self._things[goal] for goal in goals]
        picture = self.render_obs()
        return picture, self.obs_fb.get_depth_map(NEAR, FAR)[..., 0] * np.float32(METRE)

    def close(self) -> None:
        """Let go of the maze; the buffers go with the process."""
        if self._list:
            self.shadow_window.switch_to()
            gl.glDeleteLists(self._list, 1)
            self._list = 0
        super().close()

    def _gen_world(self) -> None:
        layout, height = self._layout, self._stretch / METRE
        self.agent.pos, self.agent.dir = np.zeros(3), 0.0
        self.agent.randomize(self.params, None)
        self._things: list[Any] = []
        if layout is None:  # before the first episode
            self.add_rect_room(-1, 1, -1, 1)
            return
        self.rooms.append(Maze(layout, self._stretch))
        width, tall = PILLAR if FAMILIES[layout.task].hides_last else ITEM
        for goal, look in zip(layout.goals, goal_looks(layout), strict=True):
            thing = entity.Box("red", (width / METRE, tall * height, width / METRE))
            x, y = layout.center(goal)
            thing.pos, thing.dir = np.array([x / METRE, 0.0, -y / METRE]), 0.0
            thing.color_vec = np.array([int(look.colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
            self._things.append(thing)

    def _render_static(self) -> None:
        """The maze as a display list of its own: MiniWorld's has one number for all environments of a process."""
        self.shadow_window.switch_to()
        self._list = self._list or gl.glGenLists(1)
        gl.glNewList(self._list, gl.GL_COMPILE)
        for room in self.rooms:
            room._render()
        gl.glEndList()

    def _render_world(self, frame_buffer: Any, render_agent: bool) -> np.ndarray:
        gl.glCallList(self._list)
        for thing in self.entities:
            thing.render()
        picture: np.ndarray = frame_buffer.resolve()
        return picture
