"""Settings as frozen dataclasses, shared by every layer above; plain Python, no heavy imports.

What comes in: numbers and names from a person (command line, Python, a JSON file). What goes out: values that
are checked once, by `validate()`, with a sentence that says what was got and what was expected.
"""

from egomap.config.agent import (
    LARGEST_MAP,
    MOST_CHANNELS,
    MOTION_UNIT,
    SMALLEST_MAP,
    UNKNOWN_DEPTH,
    AgentConfig,
    AgentKind,
    Anchor,
    MapFrame,
    MapSettings,
    PlaceSettings,
    Similarity,
    Write,
)
from egomap.config.camera import Camera
from egomap.config.learner import AUXILIARIES, MOST_ROLLED_OUT, LearnerSettings, weighted
from egomap.config.plain import distinctive, from_pairs, later, require_pairs, to_pairs
from egomap.config.train import DeviceKind, Precision, TeacherKind, TrainConfig
from egomap.config.worlds import (
    ACTIONS,
    FRAME_SKIP,
    LARGEST_CELL,
    LARGEST_SIZE,
    NUM_ACTIONS,
    OBSERVATION_HEIGHT,
    OBSERVATION_WIDTH,
    SMALLEST_SIZE,
    TASKS,
    EnvSettings,
    ScenarioConfig,
    Task,
    WorldKind,
)
from egomap.util.checks import as_float, require, require_length, require_seed, require_whole, require_within

__all__ = [
    "ACTIONS",
    "AUXILIARIES",
    "AgentConfig",
    "AgentKind",
    "Anchor",
    "Camera",
    "DeviceKind",
    "EnvSettings",
    "FRAME_SKIP",
    "LARGEST_CELL",
    "LARGEST_MAP",
    "LARGEST_SIZE",
    "LearnerSettings",
    "MOST_CHANNELS",
    "MOST_ROLLED_OUT",
    "MOTION_UNIT",
    "MapFrame",
    "MapSettings",
    "NUM_ACTIONS",
    "OBSERVATION_HEIGHT",
    "OBSERVATION_WIDTH",
    "PlaceSettings",
    "Precision",
    "SMALLEST_MAP",
    "SMALLEST_SIZE",
    "ScenarioConfig",
    "Similarity",
    "TASKS",
    "Task",
    "TeacherKind",
    "TrainConfig",
    "UNKNOWN_DEPTH",
    "WorldKind",
    "Write",
    "as_float",
    "distinctive",
    "from_pairs",
    "later",
    "require",
    "require_length",
    "require_pairs",
    "require_seed",
    "require_whole",
    "require_within",
    "to_pairs",
    "weighted",
]
