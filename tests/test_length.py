"""No function is longer than a screen, but for the fused kernels: numba compiles each of them as one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import egomap

MOST = 60
ROOT = Path(egomap.__file__).parent
COMPILED = {"_compile", "compiled"}
"""What decorates a kernel."""


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def is_compiled(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a kernel, or holds some."""
    marks = (mark for part in functions(ast.unparse(function)) for mark in part.decorator_list)
    return any(isinstance(mark, ast.Name) and mark.id in COMPILED for mark in marks)


def too_long(source: str) -> list[str]:
    return [
        f"{one.name} has {one.end_lineno - one.lineno + 1} lines"
        for one in functions(source)
        if one.end_lineno is not None and one.end_lineno - one.lineno >= MOST and not is_compiled(one)
    ]


def test_functions_fit_a_screen() -> None:
    found = {str(path.relative_to(ROOT)): too_long(path.read_text()) for path in ROOT.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_long_one_is_found() -> None:
    body = "    x = 1\n" * MOST
    assert too_long(f"def f():\n{body}") == [f"f has {MOST + 1} lines"]
    assert too_long(f"@compiled\ndef f():\n{body}") == too_long(f"def f():\n{body[10:]}") == []
