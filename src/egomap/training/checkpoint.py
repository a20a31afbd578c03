"""Checkpoints: one safetensors file each, with everything a run needs to go on; no pickle.

What comes in: tensors by name (weights, optimiser, random states) and plain data (counters, the config). What goes
out: a file `step-<decisions>.safetensors`, written whole or not at all. Its header carries the plain data as JSON
and a digest of both, so that an old, foreign, truncated or changed file is told from a good one.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from egomap.training.files import write_whole

FORMAT = "egomap checkpoint 2"
KEEP = 2
"""How many of the latest checkpoints stay; the best one stays besides."""
BEST = "best.safetensors"
_NAME = re.compile(r"step-(\d+)\.safetensors")

Tensors = dict[str, Tensor]


class Checkpoint(NamedTuple):
    """What a file holds."""

    tensors: Tensors
    data: dict[str, Any]


def digest(tensors: Tensors, data: dict[str, Any]) -> str:
    """SHA-256 over names, types, shapes and bytes of the tensors, and the plain data."""
    total = hashlib.sha256(json.dumps(data, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return total.hexdigest()


def save_checkpoint(path: Path, tensors: Tensors, data: dict[str, Any]) -> None:
    """Write a checkpoint."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"format": FORMAT, "data": json.dumps(data, sort_keys=True), "digest": digest(plain, data)}
    write_whole(path, save(plain, metadata=header))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint back.

    Raises:
        ValueError: It is not one of ours, of another version, truncated or changed; the sentence says which.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                found = header.get("format", "no format")
                raise ValueError(
                    f"{path} is no checkpoint of this version: it says {found!r}, not {FORMAT!r}."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        data = json.loads(header["data"])
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is truncated or no checkpoint: {error}") from error
    except FileNotFoundError as error:
        raise ValueError(f"there is no checkpoint {path}.") from error
    if digest(tensors, data) != header.get("digest"):
        raise ValueError(f"{path} was changed after it was written: its digest does not match.")
    return Checkpoint(tensors, data)


def checkpoints(folder: Path) -> list[Path]:
    """The numbered checkpoints in `folder`, latest first."""
    found = [(int(match[1]), path) for path in folder.glob("step-*") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True)]


def checkpoint_path(folder: Path, decisions: int) -> Path:
    """Where the checkpoint after so many decisions goes."""
    return folder / f"step-{decisions:012d}.safetensors"


def latest(folder: Path) -> tuple[Path, Checkpoint]:
    """The latest checkpoint.

    Raises:
        ValueError: There is none, or it is damaged; then the sentence names the one before it, if that is good.
    """
    paths = checkpoints(folder)
    if not paths:
        raise ValueError(f"there is no checkpoint in {folder}.")
    try:
        return paths[0], load_checkpoint(paths[0])
    except ValueError as error:
        for path in paths[1:]:
            try:
                load_checkpoint(path)
            except ValueError:
                continue
            raise ValueError(
                f"{error} The one before it, {path}, is whole: delete the damaged file to use it."
            ) from error
        raise


def prune(folder: Path) -> None:
    """Delete all but the latest few."""
    for path in checkpoints(folder)[KEEP:]:
        path.unlink(missing_ok=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimiser's state by name: `optimizer.<parameter>.<name>`."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, entries in state.items()
        for name, value in entries.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give the optimiser back what `optimizer_tensors` took."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, index, name = (*key.split(".", 2), "", "")[:3]
        if kind == "optimizer":
            state.setdefault(int(index), {})[name] = tensor
    whole = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def module_tensors(module: nn.Module) -> Tensors:
    """The weights by name: `agent.<name>`."""
    return {f"agent.{name}": tensor for name, tensor in module.state_dict().items()}


def load_module(module: nn.Module, tensors: Tensors, where: Path) -> None:
    """Give a module its weights back.

    Raises:
        ValueError: They belong to another agent.
    """
    weights = {
        name.removeprefix("agent."): value for name, value in tensors.items() if name.startswith("agent.")
    }
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{where} holds the weights of another agent than the config says.") from error
