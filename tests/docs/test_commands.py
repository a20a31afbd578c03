"""Every `egomap` command of README.md, CONTRIBUTING.md and the pages is understood by the real parser.

They are parsed and their settings checked, not run: most of them take minutes or hours. Those of the guides that can
be run in seconds are run by the other files beside this one.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import tyro

from egomap import cli
from egomap.commands import COMMANDS
from egomap.commands.train_flags import TrainFlags

from .blocks import DOCS

PROJECT = DOCS.parent
PLACEHOLDERS = {"NAME": "egomap", "S": "0"}
"""What sentences have where a choice or a number must be; other names (RUN) may stay as they are."""
PAGES = sorted([*DOCS.glob("*.md"), PROJECT / "README.md", PROJECT / "CONTRIBUTING.md"])


def of_blocks(text: str) -> list[str]:
    """The command lines of the fenced blocks; in a block of plain text an explanation follows after blanks."""
    found = []
    for language, code in re.findall(r"^```(bash|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in code.replace("\\\n", " ").splitlines():
            command = re.search(r"(?:^|\s-m )(egomap .*)$", line)
            if command:
                found.append(re.split(r"\s{2,}", command[1])[0] if language == "text" else command[1])
    return found


def of_sentences(text: str) -> list[str]:
    """Whole commands within sentences; those that leave something out are no commands."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = (" ".join(span.split()) for span in re.findall(r"`(egomap [^`]+)`", text))
    return [span for span in spans if " ..." not in span and not re.search(r"--\S*[A-Z|]|\b[A-Z]+\|", span)]


def commands() -> list[tuple[str, str]]:
    found: dict[tuple[str, str], None] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found |= {(page.name, line): None for line in [*of_blocks(text), *of_sentences(text)]}
    return list(found)


def arguments(line: str) -> list[str]:
    """The words after `egomap`, up to what a shell would take for itself."""
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(line, comments=True)[1:]]
    ends = [index for index, word in enumerate(words) if word in ("|", ">", "&&")]
    return words[: min(ends, default=len(words))]


def quiet(command: Any, parsed: list[Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command as the parser sees it; run, it does nothing."""
    if isinstance(command, type):
        monkeypatch.setattr(command, "run", lambda self: parsed.append(self) or 0)
        return command

    @functools.wraps(command)
    def nothing(*given: Any, **named: Any) -> int:
        parsed.append((given, named))
        return 0

    return nothing


@pytest.mark.parametrize(("page", "line"), commands())
def test_it_is_understood(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []
    original: Callable[..., Any] = tyro.extras.subcommand_cli_from_dict

    def without_work(subcommands: dict[str, Any], **named: Any) -> Any:
        return original(
            {name: quiet(command, parsed, monkeypatch) for name, command in subcommands.items()}, **named
        )

    def train(flags: TrainFlags) -> int:
        if flags.scenarios is None and not flags.resume:
            flags.config().validate()
        parsed.append(flags)
        return 0

    given = arguments(line)
    monkeypatch.setattr(tyro.extras, "subcommand_cli_from_dict", without_work)
    name = given[0]
    if name in COMMANDS and name != "reproduce":  # its commands are those of `subcommand_cli_from_dict`
        module = import_module(f"egomap.commands.{name}")
        command = getattr(module, name)
        silent = functools.wraps(command)(train) if name == "train" else quiet(command, parsed, monkeypatch)
        monkeypatch.setattr(module, name, silent)
    if given[-1] == "--help" or (len(given) == 1 and given != ["doctor"]):  # the name of a command alone
        with pytest.raises(SystemExit) as left:
            cli.main([*given, "--help"])
        assert left.value.code == 0
        return
    assert cli.main(given) == 0
    assert len(parsed) == 1, line


def test_there_are_many() -> None:
    assert len(commands()) > 80
    assert {page for page, _ in commands()} >= {
        "README.md",
        "getting-started.md",
        "training.md",
        "evaluation.md",
    }


def test_make_targets_exist() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())
    for page in PAGES:
        used = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE))
        assert used <= targets, f"{page.name}: {used - targets}"
