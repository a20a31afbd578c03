"""Digests of plain data: equal data, equal digests, on any machine."""

from __future__ import annotations

import hashlib
import json


def canonical(content: object) -> bytes:
    """JSON in its one form: sorted keys, no spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")


def sha256(data: bytes) -> str:
    """Hex SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()
