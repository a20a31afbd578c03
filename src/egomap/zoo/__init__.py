"""Scripted tasks that ask for a memory and nothing else, in minutes and without an engine; docs/zoo.md.

Importing this module registers them with Gymnasium: `egomap.zoo:EgoMap/Recall-v0` and the others of `TASKS`.
"""

from egomap.zoo.tasks import TASKS, Recall, Revisit, ScriptedTask, WayHome, WhereSeen, register

__all__ = ["TASKS", "Recall", "Revisit", "ScriptedTask", "WayHome", "WhereSeen", "register"]

register()
