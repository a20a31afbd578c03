"""`egomap evaluate`: trained agents and those without a network on the same layouts."""

from egomap.commands.evaluate.command import EvaluateOptions, evaluate

__all__ = ["EvaluateOptions", "evaluate"]
