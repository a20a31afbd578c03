"""A pinhole camera: its intrinsics, and nothing of where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass

from egomap.util.checks import require


@dataclass(frozen=True)
class Camera:
    """A pinhole camera over an image of height x width pixels.

    Convention: pixel (u, v) is column u from the left, row v from the top; its centre is at
    (u + 0.5, v + 0.5). Camera axes: x right, y down, z forward. `right = z * (u + 0.5 - cx) / fx`,
    `down = z * (v + 0.5 - cy) / fy`.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    def __post_init__(self) -> None:
        """Refuse what is no camera: everything that is unprojected through it would be somewhere else."""
        require(
            self.width >= 1 and self.height >= 1,
            f"a camera's image has 1 pixel or more along each side; got {self.width} x {self.height}.",
        )
        for name in ("fx", "fy"):
            length = getattr(self, name)
            require(0 < length < math.inf, f"{name} must be a focal length above 0 pixels; got {length}.")
        for name in ("cx", "cy"):
            place = getattr(self, name)
            require(math.isfinite(place), f"{name} must be a place in the image, in pixels; got {place}.")

    @staticmethod
    def from_fov(width: int, height: int, *, horizontal: float, vertical: float) -> Camera:
        """The camera of an image with these full opening angles (radians) and its axis through the centre."""
        for name, angle in (("horizontal", horizontal), ("vertical", vertical)):
            require(
                0 < angle < math.pi,
                f"{name} must be an opening angle above 0 and below pi radians; got {angle}. Degrees are converted "
                "by math.radians.",
            )
        return Camera(
            width=width,
            height=height,
            fx=width / 2 / math.tan(horizontal / 2),
            fy=height / 2 / math.tan(vertical / 2),
            cx=width / 2,
            cy=height / 2,
        )

    def resized(self, width: int, height: int) -> Camera:
        """The same camera after its image has been scaled to width x height."""
        across, down = width / self.width, height / self.height
        return Camera(width, height, self.fx * across, self.fy * down, self.cx * across, self.cy * down)
