"""The documentation as a whole: every page is in the navigation, and every link between files leads somewhere."""

from __future__ import annotations

import importlib.util
import re
import runpy
from pathlib import Path

import pytest

from egomap.training.names import released_names

from .blocks import DOCS

PROJECT = DOCS.parent
PAGES = sorted([*DOCS.rglob("*.md"), *PROJECT.glob("*.md")])


def test_every_page_is_in_the_navigation() -> None:
    navigation = (PROJECT / "mkdocs.yml").read_text().split("\nnav:\n", 1)[1]
    listed = re.findall(r"[:-] (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue  # the web
        name, _, anchor = target.partition("#")
        found = page.parent / name if name else page
        assert found.exists(), f"{page.name} links to {target}, which does not exist"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_reference_names_modules_that_exist() -> None:
    pages = sorted((DOCS / "reference").glob("*.md"))
    named = [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
    assert len(named) == len(set(named)) > 50
    assert [name for name in named if importlib.util.find_spec(name) is None] == []
    told = (DOCS / "reference" / "index.md").read_text()
    assert {page.name for page in pages} == {"index.md", *re.findall(r"\]\((\w+\.md)\)", told)}


def test_the_check_of_the_built_site_finds_what_is_wrong(tmp_path: Path) -> None:
    faults = runpy.run_path(str(PROJECT / "tools" / "check_site.py"))["faults"]
    (tmp_path / "good.html").write_text(
        '<h1 id="here">x</h1><a href="https://example.org">y</a><a href="#here">z</a>'
    )
    (tmp_path / "index.html").write_text(
        '<a href="good.html#here">x</a><img src="data:image/png;base64,AA==">'
    )
    assert faults(tmp_path) == []
    (tmp_path / "index.html").write_text(
        '<a href="good.html#there">x</a><a href="none.html">y</a>'
        '<script src="https://example.org/a.js"></script><link rel="stylesheet" href="https://example.org/a.css">'
    )
    assert faults(tmp_path) == [
        "index.html leads to good.html#there, but there is no such anchor",
        "index.html fetches https://example.org/a.css",
        "index.html fetches https://example.org/a.js",
        "index.html leads to none.html, which does not exist",
    ]


def test_released_agents_are_called_by_their_names() -> None:
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"\bfind-return-9/[a-z+-]+", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 3
    assert [one for one in sorted(named) if one[1] not in released_names()] == []
