"""Rendering modes: for each, the engine's settings, the camera, and what a depth level means.

Measured on ViZDoom 1.3.2 against rooms of known walls (`egomap doctor` repeats the check on any machine).
The depth buffer holds the forward distance (z, not the ray's length), linear in its 8-bit level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from egomap.config import OBSERVATION_HEIGHT, OBSERVATION_WIDTH, Camera

# Map units per depth level: one scale for all modes, within the fits' error.
DEPTH_SCALE = 7.139
# Floors and ceilings follow a law of their own, a little farther per level, that does not saturate with walls.
FLOOR_OFFSET = 12.5
SKY_LEVEL = 255


@dataclass(frozen=True)
class RenderMode:
    """How the engine draws: size, aspect, and its calibration.

    `depth = DEPTH_SCALE * level + depth_offset` for walls and things; at `saturation` they are farther than can
    be told (unknown). Levels above it come from floors and ceilings only.
    """

    width: int
    height: int
    wide: bool
    """True: the picture spans 106.26 degrees (as 16:9); False: 90 degrees (4:3)."""
    depth_offset: float
    force_aspect: bool = False
    """A 4:3 buffer that shows the 16:9 view, by the engine argument `+vid_aspect 1`."""

    @property
    def resolution(self) -> str:
        """ViZDoom's name for the size."""
        return f"RES_{self.width}X{self.height}"

    @property
    def arguments(self) -> str:
        """Extra arguments for the engine."""
        return "+vid_aspect 1" if self.force_aspect else ""

    @property
    def saturation(self) -> int:
        """The level at which walls saturate."""
        return 255 * self.height // 480

    @property
    def unknown_depth(self) -> float:
        """Whole map units that stand for an unknown depth: where walls saturate, beyond all known walls."""
        return float(round(DEPTH_SCALE * self.saturation + self.depth_offset))

    @property
    def camera(self) -> Camera:
        """The camera of the rendered picture: the vertical opening is 64 degrees in every mode."""
        fx = self.width * (0.375 if self.wide else 0.5)
        return Camera(self.width, self.height, fx, 0.8 * self.height, self.width / 2, self.height / 2)

    @property
    def observation_camera(self) -> Camera:
        """The camera of the observation, after resizing to 112 x 64."""
        return self.camera.resized(OBSERVATION_WIDTH, OBSERVATION_HEIGHT)

    def depth_table(self) -> np.ndarray:
        """(256,) float32: map units for each level; inf where the distance is unknown."""
        level = np.arange(256, dtype=np.float64)
        table = DEPTH_SCALE * level + self.depth_offset
        above = level > self.saturation
        table[above] = DEPTH_SCALE * level[above] + FLOOR_OFFSET
        table[[self.saturation, SKY_LEVEL]] = np.inf
        return table.astype(np.float32)


RENDER_MODES: dict[str, RenderMode] = {
    "160x120-wide": RenderMode(160, 120, wide=True, depth_offset=6.30, force_aspect=True),
    "200x150-wide": RenderMode(200, 150, wide=True, depth_offset=7.97, force_aspect=True),
    "160x120": RenderMode(160, 120, wide=False, depth_offset=6.30),
    "256x144": RenderMode(256, 144, wide=True, depth_offset=7.84),
    "320x180": RenderMode(320, 180, wide=True, depth_offset=8.56),
}
"""The modes that have been calibrated; 160x120-wide is the default, 320x180 the paper's."""

DEFAULT_RENDER_MODE = "160x120-wide"


def render_mode(name: str) -> RenderMode:
    """The mode of that name, or a ValueError that lists the names."""
    if name not in RENDER_MODES:
        raise ValueError(f"rendering must be one of {', '.join(RENDER_MODES)}; got {name!r}.")
    return RENDER_MODES[name]
