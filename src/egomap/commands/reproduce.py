"""`egomap reproduce`: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from egomap.config import (
    require,
)
from egomap.flags import FLAGS

if TYPE_CHECKING:
    pass


def reproduce() -> int:
    """Make the paper's tables and figures again: results, ablation, noise, curves, smear; report writes the page.

    Example: egomap reproduce ablation --budget 20000 --seeds 1
    """
    return main(["--help"])


def main(arguments: list[str]) -> int:
    """The commands below `reproduce`: each campaign is a dataclass of its options that can `run`."""
    from egomap.experiments import command
    from egomap.experiments.report import Report

    chosen = tyro.extras.subcommand_cli_from_dict(
        {
            "results": command.Results,
            "ablation": command.Ablation,
            "noise": command.Noise,
            "curves": command.Curves,
            "smear": smear,
            "report": Report,
        },
        prog="egomap reproduce",
        description=(reproduce.__doc__ or "").replace("\n    ", "\n"),
        args=arguments,
        registry=FLAGS,
    )
    return chosen if isinstance(chosen, int) else chosen.run()


def smear(*, out: Path = Path("out/smear")) -> int:
    """The figure of what resampling a map at every step does to it; no training, a few seconds.

    Example: egomap reproduce smear --out out/smear

    Args:
        out: Folder to write to; it must hold nothing but an earlier run of the same.
    """
    from egomap.analysis.smear import FILES, STEPS, reproduce_smear

    others = sorted({path.name for path in out.iterdir()} - set(FILES)) if out.exists() else []
    require(not others, f"{out} holds other files ({', '.join(others[:3])}); give another folder.")
    left = reproduce_smear(out).peak_left
    print("\n".join(str(out / name) for name in FILES))
    world, naive = (float(left["turns", method][-1].mean()) for method in ("world", "naive"))
    print(f"After {STEPS} turns of two degrees the world map keeps {world:.1%} of a landmark's peak,")
    print(f"the naive map {naive:.1%}.")
    return 0
