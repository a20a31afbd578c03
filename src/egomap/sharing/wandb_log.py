"""Metrics of a training for Weights & Biases (extra `wandb`), as a callback of `egomap.train`.

Input: a config, then a `Progress` after each update. Output: a run of wandb, online or, with
`mode="offline"`, in files. The run folder's own `metrics.csv` and TensorBoard events are written as always.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from egomap.config import TrainConfig

if TYPE_CHECKING:
    from egomap.training.trainer import Progress


class WandbLog:
    """Logs every update of a training to Weights & Biases; a context manager that finishes the run.

    The horizontal axis of every chart is the number of decisions, so that a resumed training continues its curves.
    """

    def __init__(self, config: TrainConfig | None = None, *, project: str = "egomap", **options: Any) -> None:
        """Start a run.

        Args:
            config: Settings to show with the run.
            project: Project of wandb.
            options: Passed to `wandb.init`: name, group, mode="offline", id and resume, ...

        Raises:
            ValueError: The package wandb is missing.
        """
        try:
            import wandb
        except ImportError as error:
            raise ValueError(
                "logging to Weights & Biases needs the package wandb: pip install 'egomap[wandb]'."
            ) from error
        settings = None if config is None else asdict(config)
        self.run = wandb.init(project=project, config=settings, **options)
        self.run.define_metric("decisions")
        self.run.define_metric("*", step_metric="decisions")

    def __call__(self, progress: Progress) -> None:
        """Log the metrics of the latest update."""
        self.run.log(progress.row)

    def finish(self) -> None:
        """Finish the run: what is left is uploaded, or written."""
        self.run.finish()

    def __enter__(self) -> WandbLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.run.finish(exit_code=0 if kind is None else 1)
