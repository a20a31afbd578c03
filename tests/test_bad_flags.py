"""Values of flags that no machine could follow, or that would be misread: one sentence, exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from egomap.cli import main, sentence
from egomap.commands.evaluate.question import MOST_LEVELS, parse_levels

MOST_MB = 200
WITH_PEAK = """
import sys
from egomap.cli import main
code = main(sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process")
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            "train --learner.rollout-steps 1000000000000",
            "rollout-steps must be 1048576 or less; got 1000000000000.",
        ),
        (
            "train --learner.rollout-steps 1e12",
            "rollout-steps must be 1048576 or less; got 1000000000000.",
        ),
        ("train --map.map-size 1000000", "map-size must be 256 or less; got 1000000."),
        (
            "evaluate --scenarios /dev/zero",
            "/dev/zero is not an ordinary file but a folder, a device or a pipe",
        ),
        ("train --scenarios /dev/zero", "/dev/zero holds no scenario set"),
        ("evaluate --noise 0,1e-9,...,1", f"0,0.02,...,0.2, at most {MOST_LEVELS}; got '0,1e-9,...,1'."),
        ("reproduce results --seeds 1000000000", "seeds must be 1000 or less; got 1000000000."),
        ("reproduce results --jobs 1000000000 --dry-run", "jobs must be 1024 or less; got 1000000000."),
        ("inspect /dev/zero", "/dev/zero holds no run: it has no config.json."),
        ("train --resume --run /dev/zero", "/dev/zero holds no run: it has no config.json."),
        ("train --init /dev/zero", "/dev/zero holds no run: it has no config.json."),
    ],
    ids=lambda value: value if value.startswith(("train", "evaluate", "inspect", "reproduce")) else "",
)
def test_more_than_any_machine_has(flags: str, told: str, tmp_path: Path) -> None:
    """Refused before anything of that size is made, and before torch is loaded."""
    refused_in_a_process(flags, told, tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process")
def test_a_rank_without_its_group(tmp_path: Path) -> None:
    told = "the environment variable WORLD_SIZE must be a whole number of 1 or more; it is missing."
    refused_in_a_process("train --budget 64", told, tmp_path, RANK="0")


def refused_in_a_process(flags: str, told: str, folder: Path, **variables: str) -> None:
    """Exit code 2, one sentence, little memory, nothing written."""
    run = subprocess.run(
        [sys.executable, "-c", WITH_PEAK, *flags.split()],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert run.stderr.startswith("egomap: ") and run.stderr.count("\n") == 1 and told in run.stderr
    assert int(run.stdout) / 1024 < MOST_MB
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            "train --curriculum 3,5 --curriculum-bar nan",
            "curriculum-bar must be a return such as 0.6; got nan.",
        ),
        (
            "train --curriculum 3,5 --curriculum-bar inf",
            "curriculum-bar must be a return such as 0.6; got inf.",
        ),
        ("train --seed -1", "seed must be 0 to 2^31 - 1; got -1."),
        ("evaluate --seed -1", "seed must be 0 to 2^63 - 1; got -1."),
        ("inspect --agent gru --seed -1", "seed must be 0 to 2^63 - 1; got -1."),
        (
            "play --agent gru --seed 9223372036854775808",
            "seed must be 0 to 2^63 - 1; got 9223372036854775808.",
        ),
        ("probe nowhere --seed -1", "seed must be 0 to 2^63 - 1; got -1."),
        ("generate labyrinth --seed -1", "seed must be 0 to 2^63 - 1; got -1."),
        ("reproduce curves --first-seed -1", "first-seed must be 0 or more; got -1."),
        (
            "inspect --agent gru --steps 1,2",
            "--steps chooses the decisions of a figure; give the figure's file",
        ),
        ("evaluate --episodes-per-layout 1000000000", "episodes-per-layout must be 1000000 or less"),
        ("train --stack-size 1000000", "stack-size must be 64 or less; got 1000000."),
    ],
)
def test_refused_by_name(
    flags: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(flags.split()) == 2
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith(f"egomap: {told}") and found.err.count("\n") == 1, (
        found.err
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["0,0,...,1", "1,0,...,1e300", "0,nan,...,1", "0,1,...,inf", "...", "0,...,1", "a"]
)
def test_levels_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="noise must be levels like"):
        parse_levels(text)


def test_the_most_levels() -> None:
    assert len(parse_levels("0,0.001,...,0.999")) == MOST_LEVELS
    assert main(["evaluate", "--noise", "0,0.001,...,1"]) == 2


def test_no_memory() -> None:
    """torch's own words for it go on for lines and name none of our flags."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**46)
    assert sentence(caught.value) == "there is not enough memory for this; ask for less at once."
