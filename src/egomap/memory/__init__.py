"""Memories with one protocol: EgoMap, Neural Map, the recurrent baseline and two floors; no simulator needed."""

from egomap.config import Camera, MapSettings
from egomap.memory.egomap import EgoMapMemory
from egomap.memory.floors import FrameStackMemory, NoMemory
from egomap.memory.lesions import Part
from egomap.memory.neural_map import NeuralMapMemory
from egomap.memory.protocol import Memory, MemoryInputs, MemoryState, MemoryTrace, TensorSpec, reset_state
from egomap.memory.recurrent import RecurrentMemory

__all__ = [
    "Camera",
    "EgoMapMemory",
    "FrameStackMemory",
    "MapSettings",
    "Memory",
    "MemoryInputs",
    "MemoryState",
    "MemoryTrace",
    "NeuralMapMemory",
    "NoMemory",
    "Part",
    "RecurrentMemory",
    "TensorSpec",
    "reset_state",
]
