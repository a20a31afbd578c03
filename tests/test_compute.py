"""Any device, any precision: the same run on a device that refuses to mix, and what bfloat16 keeps exact."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import twin
from egomap import compute
from egomap.agents import Agent, build_agent
from egomap.agents.rgbd import assemble_rgbd
from egomap.compute import Compute, choose, choose_device, fastest_precision
from egomap.config import AgentConfig, Camera, EnvSettings, LearnerSettings, TrainConfig
from egomap.kinds import KINDS
from egomap.memory import native
from egomap.training import trainer
from egomap.training.checkpoint import load_checkpoint
from egomap.training.command import train

CAMERA = Camera.from_fov(60, 44, horizontal=1.5, vertical=1.1)
EXTENT = 640.0
BFLOAT16 = Compute(dtype=torch.bfloat16)


def observations(*lead: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(0)
    depth = torch.rand(*lead, 44, 60, generator=g) * 400 + 5
    return {
        "rgb": torch.randint(0, 120, (*lead, 44, 60, 3), dtype=torch.uint8, generator=g).movedim(-1, -3),
        "depth": torch.where(depth > 380, torch.inf, depth),
        "pose": (torch.rand(*lead, 3, generator=g) - 0.5) * torch.tensor([600.0, 600.0, 6.0]),
        "ego_motion": torch.randn(*lead, 3, generator=g),
    }


SEEN = observations(5, 2)
START = torch.tensor([[True, False], [False, False], [False, True], [False, False], [False, False]])


def agent_of(kind: str) -> Agent:
    torch.manual_seed(0)
    return build_agent(AgentConfig(kind=kind), CAMERA, EXTENT)


def stepped(agent: Agent) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Logits and values (T, N) of a loop of steps, observations from the CPU, and the last state."""
    state, found = agent.initial_state(2), []
    with torch.no_grad():
        for t, start in enumerate(START):
            step = agent.step({name: row[t] for name, row in SEEN.items()}, state, start, deterministic=True)
            state = step.state
            found.append(step)
    return torch.stack([each.logits for each in found]), torch.stack([each.value for each in found]), state


def learned(agent: Agent) -> tuple[Tensor, list[Tensor]]:
    """Values (T, N) of an unroll, and the parameters' gradients."""
    output = agent.unroll(SEEN, agent.initial_state(2), START)
    (output.value.square().mean() + output.logits.exp().mean()).backward()
    return output.value.detach(), [p.grad for p in agent.parameters() if p.grad is not None]


def assert_close(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    """To a part of the largest value, by what is lost when numbers of that size are added up."""
    scale = max(1.0, float(wanted.abs().max()))
    torch.testing.assert_close(found, wanted, rtol=0.0, atol=tolerance * scale)


# -- devices ------------------------------------------------------------------------------------------------


def test_the_device_refuses_to_mix() -> None:
    with twin.device() as there:
        far = there.put(torch.ones(3))
        assert far.device == twin.DEVICE and (far + 1.0).cpu().tolist() == [2.0, 2.0, 2.0]
        assert torch.tensor([1.0, 2.0], device=twin.DEVICE).sum().item() == 3.0
        with pytest.raises(RuntimeError, match="same device"):
            far + torch.ones(3)
        with pytest.raises(RuntimeError, match="no float64"):
            far.double()


@pytest.mark.parametrize("kind", KINDS)
def test_every_agent_decides_and_learns_on_another_device(kind: str) -> None:
    agent = agent_of(kind)
    with native.use_kernels("torch"):
        again = copy.deepcopy(agent)
        logits, values, _ = stepped(agent)
        value, gradients = learned(agent)
        with twin.device() as there:
            again.on(there)
            far = stepped(again)
            assert {part.device for part in (*far[:2], *far[2])} == {twin.DEVICE}
            found = [part.cpu() for part in far[:2]]
            far_value, far_gradients = learned(again)
            far_value, far_gradients = far_value.cpu(), [each.cpu() for each in far_gradients]
    for mine, theirs in zip((*found, far_value), (logits, values, value), strict=True):
        assert_close(mine, theirs, 1e-5)
    for mine, theirs in zip(far_gradients, gradients, strict=True):
        assert_close(mine, theirs, 1e-4)


def run_config(kind: str, **changed: object) -> TrainConfig:
    return replace(
        TrainConfig(),
        agent=AgentConfig(kind=kind),
        env=EnvSettings(id="rooms:Room", frame_skip=1, workers=0, held_out=2),
        learner=LearnerSettings(
            "ppo", rollout_steps=4, num_envs=4, epochs=2, minibatches=2, optimizer="adam"
        ),
        budget=32,
        evaluate_every=0,
        **changed,  # type: ignore[arg-type]
    )


def weights(folder: Path) -> dict[str, Tensor]:
    (last,) = sorted((folder / "checkpoints").glob("step-*32.safetensors"))
    tensors = load_checkpoint(last).tensors
    return {name: tensor for name, tensor in tensors.items() if name.startswith("agent.")}


def test_a_whole_training_on_another_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts, updates, an evaluation and checkpoints: the weights are those of a training on the CPU."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "worlds"))
    config = run_config("egomap")
    with native.use_kernels("torch"):
        train(config, tmp_path / "cpu", quiet=True)
        monkeypatch.setattr(trainer, "choose", lambda *_, **__: Compute(twin.DEVICE))
        monkeypatch.setattr(Compute, "random_state", lambda self: None)
        with twin.device():
            train(config, tmp_path / "twin", quiet=True)
    wanted, found = weights(tmp_path / "cpu"), weights(tmp_path / "twin")
    assert wanted.keys() == found.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError, match=f"finds no device {kind} here; choose auto or cpu"):
        choose_device(kind)  # type: ignore[arg-type]
    assert choose("auto", "float32") == Compute()


def test_ranks_take_the_gpus_of_their_machine_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [choose_device("auto", local_rank=rank).index for rank in range(3)] == [0, 1, 0]


# -- precision ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_bfloat16_steps_and_unroll_agree_and_places_are_exact(kind: str, backend: native.Backend) -> None:
    agent = agent_of(kind)
    with native.use_kernels(backend):
        exact = stepped(agent)
        agent.on(BFLOAT16)
        logits, values, state = stepped(agent)
        with torch.no_grad():
            output = agent.unroll(SEEN, agent.initial_state(2), START)
    for mine, theirs in ((output.logits, logits), (output.value, values)):
        assert mine.dtype == torch.float32
        assert_close(mine, theirs, 0.02)
    assert_close(values, exact[1], 0.1)
    # What follows from poses and depth alone is the same to the last bit: flags, counters, cells, origins.
    for spec, mine, theirs in zip(agent.memory.state_spec, state, exact[2], strict=True):
        assert mine.dtype == theirs.dtype == spec.dtype
        if not spec.dtype.is_floating_point or spec.shape in ((2,), (3,)):
            assert torch.equal(mine, theirs)


def test_in_bfloat16_gradients_point_the_same_way() -> None:
    agent = agent_of("egomap")
    _, exact = learned(agent)
    agent.zero_grad()
    _, found = learned(agent.on(BFLOAT16))
    mine, theirs = (torch.cat([each.flatten() for each in one]) for one in (found, exact))
    assert {each.dtype for each in found} == {torch.float32}
    assert float(torch.cosine_similarity(mine, theirs, 0)) > 0.99


@settings(max_examples=30, deadline=None)
@given(
    depths=st.lists(st.floats(width=32), min_size=12, max_size=12),
    unknown=st.floats(1, 1e4, width=32),
    seed=st.integers(0, 99),
)
def test_pictures_are_rounded_as_torch_rounds(depths: list[float], unknown: float, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    rgb = torch.randint(0, 256, (1, 3, 4, 3), dtype=torch.uint8, generator=g).movedim(-1, -3)
    depth = torch.tensor(depths).view(1, 3, 4)
    found = []
    for backend in ("torch", "auto"):
        out = torch.empty(1, 4, 3, 4, dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
        with native.use_kernels(backend):  # type: ignore[arg-type]
            found.append(assemble_rgbd(rgb, depth, unknown, out))
    assert torch.equal(*found)


def test_a_training_in_bfloat16_keeps_weights_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "worlds"))
    for precision in ("float32", "bfloat16"):
        train(run_config("gru", precision=precision), tmp_path / precision, quiet=True)
    exact, found = weights(tmp_path / "float32"), weights(tmp_path / "bfloat16")
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}
    assert any(not torch.equal(found[name], tensor) for name, tensor in exact.items())


def test_auto_is_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    for seconds, wanted in ((0.5, "bfloat16"), (0.9, "float32"), (2.0, "float32")):
        fastest_precision.cache_clear()
        monkeypatch.setattr(
            compute, "_probe", lambda _, dtype, s=seconds: s if dtype == torch.bfloat16 else 1.0
        )
        assert fastest_precision(cpu) == wanted
    monkeypatch.undo()
    fastest_precision.cache_clear()
    assert choose("cpu", "auto").dtype in (torch.float32, torch.bfloat16)
