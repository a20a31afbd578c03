"""The command line: from a command's name to its module, and from an error to one sentence.

Whatever is wrong with the input ends with one sentence on stderr and exit code 2; Ctrl-C with exit code 130.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import tyro

from egomap import __version__
from egomap.commands import COMMANDS
from egomap.flags import FLAGS

INPUT_ERRORS = (ValueError, OSError, RuntimeError)
"""What our own code raises with a sentence that a person can act upon."""
LONGEST = 1500
"""Characters of such a sentence: it may quote a file, which may be anything."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    # Read by OpenMP when torch loads it: threads that wait must not spin while engines want the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as left:  # flags that nobody knows; they are shown already
        if left.code == 2:
            _tell_torchrun("the flags are not understood; what is wrong with them is shown further up.")
        raise
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # e.g. `egomap ... | head`
        return 141
    except ImportError as error:  # a package that is missing or broken
        return _refuse(f"{error}; install egomap again, with all that it needs.")
    except MemoryError:
        return _refuse("there is not enough memory for this; ask for less at once.")
    except INPUT_ERRORS as error:
        return _refuse(sentence(error))


def _run(given: list[str]) -> int:
    """The command that is named first, with the arguments that follow; only its own module is imported."""
    if given == ["--version"]:
        print(f"egomap {__version__}")
        return 0
    if not given or given[0] not in COMMANDS:
        return tyro.extras.subcommand_cli_from_dict(
            {name: getattr(import_module(f"egomap.commands.{name}"), name) for name in COMMANDS},
            prog="egomap",
            description="Projective mapping and structured egocentric memory for reinforcement learning.",
            args=given,
            registry=FLAGS,
        )
    name, *rest = given
    module = import_module(f"egomap.commands.{name}")
    if hasattr(module, "main"):
        return int(module.main(rest))
    return int(tyro.cli(getattr(module, name), prog=f"egomap {name}", args=rest, registry=FLAGS))


def _refuse(told: str) -> int:
    """Tell a person why nothing is done, and return the exit code for it.

    Of several ranks, which mostly say the same, the first alone says it here; torchrun shows the others'.
    """
    _tell_torchrun(told)
    if "TORCHELASTIC_ERROR_FILE" not in os.environ or os.environ.get("RANK", "0") == "0":
        print(f"egomap: {told}", file=sys.stderr)
    return 2


def _tell_torchrun(told: str) -> None:
    """Under torchrun, which shows forty lines of its own when a rank fails: let `told` be at their end."""
    report = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if report:
        about = {"message": told, "errorCode": 2, "extraInfo": {"timestamp": str(int(time.time()))}}
        with suppress(OSError):
            Path(report).write_text(json.dumps({"message": about}))


def sentence(error: BaseException) -> str:
    """What a person needs to know of `error`."""
    if "can't allocate memory" in str(error):  # torch's own words for it go on for lines
        return "there is not enough memory for this; ask for less at once."
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}."
    return " ".join(str(error).split())[:LONGEST] or type(error).__name__
