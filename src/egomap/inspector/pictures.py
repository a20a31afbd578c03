"""Arrays as text for a page: pictures as WebP strips, numbers as compressed bytes; both in base64.

Input: arrays with time first. Output: strings of ASCII letters, so nothing in them needs escaping.
"""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import numpy as np

STRIP = 32
"""Pictures in one strip, from top to bottom; WebP allows 16,383 rows."""
QUALITIES = (None, 95, 90, 80, 65)
"""None is without loss."""


def packed(array: np.ndarray) -> tuple[dict[str, Any], str]:
    """What a page must know of an array (little-endian dtype and shape), and its bytes as base64 of zlib."""
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    about = {"dtype": array.dtype.name, "shape": list(array.shape)}
    return about, base64.b64encode(zlib.compress(array.tobytes(), 9)).decode("ascii")


def strips(rgb: np.ndarray, quality: int | None) -> list[str]:
    """Pictures (T, H, W, 3) as strips of WebP, each as base64."""
    from PIL import Image

    found = []
    for first in range(0, len(rgb), STRIP):
        picture = rgb[first : first + STRIP]
        image = Image.fromarray(np.ascontiguousarray(picture.reshape(-1, *picture.shape[2:])))
        data = io.BytesIO()
        if quality is None:
            image.save(data, "WEBP", lossless=True, quality=60, method=4)
        else:
            image.save(data, "WEBP", quality=quality, method=4)
        found.append(base64.b64encode(data.getvalue()).decode("ascii"))
    return found


def fitting_strips(rgb: np.ndarray, most: int) -> tuple[list[str], int | None]:
    """Strips of at most so many letters in all, and their quality: without loss if that fits."""
    found: list[str] = []
    for quality in QUALITIES:
        found = strips(rgb, quality)
        if sum(map(len, found)) <= most:
            return found, quality
    return found, QUALITIES[-1]
