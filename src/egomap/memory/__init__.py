"""Memories with one protocol: the EgoMap, the Neural Map and the recurrent baseline; no simulator needed."""

from egomap.config import Camera, MapSettings
from egomap.memory.egomap import EgoMapMemory
from egomap.memory.neural_map import NeuralMapMemory
from egomap.memory.protocol import Memory, MemoryInputs, MemoryState, MemoryTrace, TensorSpec, reset_state
from egomap.memory.recurrent import RecurrentMemory

__all__ = [
    "Camera",
    "EgoMapMemory",
    "MapSettings",
    "Memory",
    "MemoryInputs",
    "MemoryState",
    "MemoryTrace",
    "NeuralMapMemory",
    "RecurrentMemory",
    "TensorSpec",
    "reset_state",
]
