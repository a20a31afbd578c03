"""Checkpoints: what goes in comes out; what is not whole is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from torch import nn

from egomap.training import checkpoint as cp

TENSORS = {
    "agent.weight": torch.arange(6.0).reshape(2, 3),
    "flags": torch.tensor([True, False]),
    "none": torch.zeros(0),
}
DATA = {"counters": {"update": 3}, "name": "run"}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    cp.save_checkpoint(path, TENSORS, DATA)
    found = cp.load_checkpoint(path)
    assert found.data == DATA
    assert set(found.tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert torch.equal(found.tensors[name], tensor)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_truncated(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.safetensors"
    cp.save_checkpoint(path, TENSORS, DATA)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="truncated or no checkpoint"):
        cp.load_checkpoint(path)


def test_tampered(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    cp.save_checkpoint(path, TENSORS, DATA)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1  # a bit of a weight
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="was changed"):
        cp.load_checkpoint(path)


def test_foreign_and_old(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(save(TENSORS))
    with pytest.raises(ValueError, match="no checkpoint of this version"):
        cp.load_checkpoint(path)
    path.write_bytes(save(TENSORS, metadata={"format": "egomap checkpoint 0", "data": "{}"}))
    with pytest.raises(ValueError, match="egomap checkpoint 0"):
        cp.load_checkpoint(path)
    with pytest.raises(ValueError, match="no checkpoint"):
        cp.load_checkpoint(tmp_path / "missing.safetensors")


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    torch.save(TENSORS, path)
    with pytest.raises(ValueError, match="no checkpoint"):
        cp.load_checkpoint(path)


def test_the_one_before_is_offered(tmp_path: Path) -> None:
    for decisions in (100, 2000, 30):
        cp.save_checkpoint(cp.checkpoint_path(tmp_path, decisions), TENSORS, {"decisions": decisions})
    path, found = cp.latest(tmp_path)
    assert found.data["decisions"] == 2000
    path.write_bytes(b"rubbish")
    with pytest.raises(ValueError, match=r"step-000000000100.safetensors, is whole"):
        cp.latest(tmp_path)
    cp.prune(tmp_path)
    assert len(cp.checkpoints(tmp_path)) == cp.KEEP


def test_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no checkpoint"):
        cp.latest(tmp_path)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop])
def test_an_optimiser_goes_on_where_it_was(tmp_path: Path, kind: type[torch.optim.Optimizer]) -> None:
    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        module = nn.Linear(3, 2)
        return module, kind(module.parameters(), lr=0.1)  # type: ignore[call-arg]

    def step(module: nn.Module, optimizer: torch.optim.Optimizer, x: float) -> None:
        optimizer.zero_grad()
        module(torch.full((1, 3), x)).square().sum().backward()
        optimizer.step()

    straight, optimizer = make()
    for x in (1.0, 2.0, 3.0, 4.0):
        step(straight, optimizer, x)
    first, optimizer = make()
    for x in (1.0, 2.0):
        step(first, optimizer, x)
    path = tmp_path / "a.safetensors"
    cp.save_checkpoint(path, cp.module_tensors(first) | cp.optimizer_tensors(optimizer), {})
    second, optimizer = make()
    found = cp.load_checkpoint(path)
    cp.load_module(second, found.tensors, path)
    cp.load_optimizer(optimizer, found.tensors, path)
    for x in (3.0, 4.0):
        step(second, optimizer, x)
    for mine, theirs in zip(second.parameters(), straight.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_weights_of_another_agent(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another agent"):
        cp.load_module(nn.Linear(4, 2), cp.module_tensors(nn.Linear(3, 2)), tmp_path)


def test_a_full_disk_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says that there is no space, as it does at a file-size limit: nothing is left but what was there."""
    import resource
    import signal

    path = tmp_path / "a.safetensors"
    cp.save_checkpoint(path, TENSORS, DATA)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError):
            cp.save_checkpoint(path, {"agent.weight": torch.zeros(10_000)}, DATA)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert json.loads(json.dumps(cp.load_checkpoint(path).data)) == DATA
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
