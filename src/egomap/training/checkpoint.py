"""Checkpoints: one safetensors file each, with everything a run needs to resume; no pickle.

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

from egomap.config import TrainConfig, require
from egomap.training.counters import Counters
from egomap.util.files import write_whole
from egomap.util.reading import MEGABYTE, require_plain

FORMAT = "egomap checkpoint 2"
KEEP = 2
"""How many of the latest checkpoints stay; the best one stays besides."""
BEST = "best.safetensors"
LARGEST = 65536 * MEGABYTE
"""Bytes; they are read where they lie, tensor by tensor."""
OPTIMIZER_STATES = {
    torch.optim.Adam: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.RMSprop: {"step", "square_avg"},
}
"""What each optimiser keeps for a parameter."""
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


def save_checkpoint(path: Path, tensors: Tensors, data: dict[str, Any], *, format: str = FORMAT) -> None:
    """Write a checkpoint, or another file of tensors and plain data, which `format` then names."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"format": format, "data": json.dumps(data, sort_keys=True), "digest": digest(plain, data)}
    write_whole(path, save(plain, metadata=header))


def load_checkpoint(path: Path, *, format: str = FORMAT, what: str = "checkpoint") -> Checkpoint:
    """Read a checkpoint back, or another file of this kind, of which `what` is the word in a refusal.

    Raises:
        ValueError: It is not one of ours, of another version, truncated or changed; the sentence says which.
    """
    try:
        require_plain(path, LARGEST)
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != format:
                found = header.get("format", "no format")
                raise ValueError(
                    f"{path} is no {what} of this version: it says {found!r:.80}, not {format!r}."
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        data = json.loads(header["data"])
        whole = isinstance(data, dict) and digest(tensors, data) == header.get("digest")
    except (SafetensorError, KeyError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is truncated or no {what}: {error}") from error
    except FileNotFoundError as error:
        raise ValueError(f"there is no {what} {path}.") from error
    if not whole:
        raise ValueError(f"{path} was changed after it was written: its digest does not match.")
    return Checkpoint(tensors, data)


def require_run(found: Checkpoint, config: TrainConfig, extent: float, where: Path) -> None:
    """Raise a ValueError unless a checkpoint is of the run with these settings, in arenas of this side.

    Only the budget and the device may have been changed since: a run may be extended, and moved. Checkpoints of the
    first release do not tell their arena.
    """
    try:
        Counters.from_json(found.data.get("counters"))
        own = {"extent": extent, **TrainConfig.from_json(found.data.get("config")).to_json()}
    except ValueError as error:
        raise ValueError(f"{where} is no checkpoint of a training: {error}") from error
    own["extent"] = found.data.get("extent", extent)
    told = {"extent": extent, **config.to_json(), "budget": own["budget"], "device": own["device"]}
    changed = _differences(own, told)
    require(
        not changed, f"{where} was trained with other settings than config.json has: {', '.join(changed)}."
    )


def _differences(own: dict[str, Any], told: dict[str, Any], group: str = "") -> list[str]:
    """What is not the same in two tables of settings, with the value of the first."""
    found = []
    for name, value in own.items():
        if isinstance(value, dict) and isinstance(told[name], dict):
            found += _differences(value, told[name], f"{group}{name}.")
        elif value != told[name]:
            found.append(f"{group}{name} was {value!r:.40}")
    return found


def require_resumable(found: Checkpoint, where: Path) -> None:
    """Raise a ValueError unless a checkpoint has what a run resumes from, besides weights and optimiser."""
    tensors, ranks = found.tensors, len(found.tensors.get("positions", ()))
    state = torch.get_rng_state().numel()
    expected: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        "positions": (torch.int64, (ranks,)),
        "random": (torch.uint8, (ranks, state)),
        "shuffle": (torch.uint8, (ranks, state)),
        "scale": (torch.float64, (2,)),
    }
    for name, (dtype, shape) in expected.items():
        tensor = tensors.get(name)
        fits = tensor is not None and tensor.dtype == dtype and tuple(tensor.shape) == shape
        require(fits, f"{where} holds no {name!r} of {ranks} ranks to go on from.")
    numbers = bool(torch.isfinite(tensors["scale"]).all())
    require(
        ranks > 0 and bool((tensors["positions"] >= 0).all()) and numbers,
        f"{where} holds positions or a scale that no training has.",
    )
    try:
        for row in (*tensors["random"], *tensors["shuffle"]):
            torch.Generator().set_state(row.clone())
    except RuntimeError as error:
        raise ValueError(f"{where} holds random states that torch does not take: {error}.") from error


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


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors, where: Path) -> None:
    """Give the optimiser back what `optimizer_tensors` took.

    Raises:
        ValueError: It belongs to another agent.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    shapes = {str(index): parameter.shape for index, parameter in enumerate(parameters)}
    names = OPTIMIZER_STATES[type(optimizer)]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        kind, index, name = (*key.split(".", 2), "", "")[:3]
        if kind == "optimizer":
            shape = torch.Size(()) if name == "step" else shapes.get(index)
            fits = index in shapes and name in names and tensor.shape == shape
            require(fits, f"{where} holds the state of another optimiser: {key} does not fit.")
            state.setdefault(int(index), {})[name] = tensor
    require(
        all(set(entries) == names for entries in state.values()),
        f"{where} holds a part of an optimiser's state only.",
    )
    whole = optimizer.state_dict()
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def module_tensors(module: nn.Module) -> Tensors:
    """The weights by name: `agent.<name>`."""
    return {f"agent.{name}": tensor for name, tensor in module.state_dict().items()}


def load_module(module: nn.Module, tensors: Tensors, where: Path) -> None:
    """Give a module its weights back.

    Raises:
        ValueError: They belong to another agent, or are no numbers.
    """
    weights = {
        name.removeprefix("agent."): value for name, value in tensors.items() if name.startswith("agent.")
    }
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in module.state_dict().items()}
    require(
        {name: (tensor.shape, tensor.dtype) for name, tensor in weights.items()} == shapes,
        f"{where} holds the weights of another agent than the config says.",
    )
    broken = [name for name, tensor in weights.items() if not bool(torch.isfinite(tensor).all())]
    require(
        not broken, f"{where} holds weights that are no numbers (NaN or infinite): {', '.join(broken[:3])}."
    )
    module.load_state_dict(weights)


def require_last(found: Checkpoint, config: TrainConfig, extent: float, folder: Path) -> None:
    """Raise a ValueError unless the last checkpoint of a folder is one that this run can resume from."""
    there = checkpoints(folder)
    before = f"; the one before it is {there[1].name}" if len(there) > 1 else ""
    try:
        require_run(found, config, extent, there[0])
        require_resumable(found, there[0])
    except ValueError as error:
        raise ValueError(
            f"{error} The last checkpoint in {folder} is of another run, or none to go on from; move it away{before}."
        ) from error
