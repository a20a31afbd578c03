"""Check the built documentation: it loads nothing from elsewhere, and every link within it leads somewhere.

Usage: python tools/check_site.py SITE

mkdocs checks the links of the pages it is given; this reads what it made, theme and API reference included. Prints
what is wrong, one line each; exit code 1 if anything is, 2 without a built site.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids of a page, its links, and what a browser fetches to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if "src" in given:
            self.fetched.add(given["src"])
        if "href" in given:
            (self.fetched if tag == "link" else self.links).add(given["href"])


def faults(site: Path) -> list[str]:
    """One line for each thing that is wrong."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":
            continue  # its links are meant for the root of a server
        for target in sorted(page.fetched | page.links):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.fetched and parts.scheme != "data":
                    found.append(f"{name} fetches {target}")
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.exists():
                found.append(f"{name} leads to {target}, which does not exist")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].ids:
                found.append(f"{name} leads to {target}, but there is no such anchor")
    return found


def main() -> int:
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "index.html").exists():
        print(__doc__)
        return 2
    found = faults(Path(sys.argv[1]))
    print(
        "\n".join(found)
        if found
        else "The pages load nothing from elsewhere, and every link leads somewhere."
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
