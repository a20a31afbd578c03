"""Projective and planar geometry as pure torch functions; conventions in `frames`."""

from egomap.geometry.camera import receptive_field_centres, sample_depth, touching_pixels, unproject
from egomap.geometry.frames import (
    cells,
    compose,
    ego_from_world,
    invert,
    motion_between,
    relative_pose,
    world_from_ego,
    wrap,
)
from egomap.geometry.splat import blend, image_from_rows, keep_max, rows_from_image, splat_max, splat_mean
from egomap.geometry.warp import affine_from_motion, affine_from_pose, warp, warp_transposed

__all__ = [
    "affine_from_motion",
    "affine_from_pose",
    "blend",
    "cells",
    "compose",
    "ego_from_world",
    "image_from_rows",
    "invert",
    "keep_max",
    "motion_between",
    "receptive_field_centres",
    "relative_pose",
    "rows_from_image",
    "sample_depth",
    "splat_max",
    "splat_mean",
    "touching_pixels",
    "unproject",
    "warp",
    "warp_transposed",
    "world_from_ego",
    "wrap",
]
