"""Memories with one protocol: EgoMap, the recurrent baseline, floors, those of other work; no simulator needed."""

from egomap.config import Camera, MapSettings
from egomap.memory.dnc import DNCMemory
from egomap.memory.egomap import EgoMapMemory
from egomap.memory.ffm import FFMMemory
from egomap.memory.floors import FrameStackMemory, NoMemory
from egomap.memory.gtrxl import GTrXLMemory
from egomap.memory.lesions import Part
from egomap.memory.lru import LRUMemory
from egomap.memory.neural_map import NeuralMapMemory
from egomap.memory.protocol import Memory, MemoryInputs, MemoryState, MemoryTrace, TensorSpec, reset_state
from egomap.memory.recurrent import RecurrentMemory
from egomap.memory.smt import SMTMemory

__all__ = [
    "Camera",
    "DNCMemory",
    "EgoMapMemory",
    "FFMMemory",
    "FrameStackMemory",
    "GTrXLMemory",
    "LRUMemory",
    "MapSettings",
    "Memory",
    "MemoryInputs",
    "MemoryState",
    "MemoryTrace",
    "NeuralMapMemory",
    "NoMemory",
    "Part",
    "RecurrentMemory",
    "SMTMemory",
    "TensorSpec",
    "reset_state",
]
