"""The documentation as a whole: every page is in the navigation, and every link between files leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import DOCS

PROJECT = DOCS.parent
PAGES = sorted([*DOCS.rglob("*.md"), *PROJECT.glob("*.md")])


def test_every_page_is_in_the_navigation() -> None:
    navigation = (PROJECT / "mkdocs.yml").read_text().split("\nnav:\n", 1)[1]
    listed = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
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
