from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from egomap import kinds
from egomap.agents import Agent, Perception, build_agent, log_prob
from egomap.config import AgentConfig, Camera, MapSettings
from egomap.memory.protocol import MemoryInputs, TensorSpec

CAMERA = Camera.from_fov(112, 64, horizontal=1.85, vertical=1.2)
EXTENT = 640.0
KINDS = list(kinds.KINDS)


def observations(*lead: int, seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    depth = torch.rand(*lead, 64, 112, generator=g) * 400 + 5
    depth[depth > 380] = float("inf")
    return {
        "rgb": torch.randint(0, 120, (*lead, 64, 112, 3), dtype=torch.uint8, generator=g).movedim(-1, -3),
        "depth": depth,
        "pose": (torch.rand(*lead, 3, generator=g) - 0.5) * torch.tensor([600.0, 600.0, 6.0]),
        "ego_motion": torch.randn(*lead, 3, generator=g),
    }


def at(observation: dict[str, torch.Tensor], t: int) -> dict[str, torch.Tensor]:
    return {key: value[t] for key, value in observation.items()}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None)
@given(steps=st.integers(1, 5), num_envs=st.integers(1, 3), seed=st.integers(0, 1000))
def test_unroll_equals_a_loop_of_steps(kind, steps, num_envs, seed):
    """Gradients in float64 alone: of so many ReLUs some are within a float32's rounding of their kink."""
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-10)):
        torch.manual_seed(seed)
        agent = build_agent(AgentConfig(kind=kind), CAMERA, EXTENT).to(dtype)
        obs, state = observations(steps, num_envs, seed=seed), agent.initial_state(num_envs)
        episode_start = torch.rand(steps, num_envs) < 0.3
        output = agent.unroll(obs, state, episode_start)
        logits, values = [], []
        for t in range(steps):
            decided = agent.step(at(obs, t), state, episode_start[t])
            state = decided.state
            logits.append(decided.logits)
            values.append(decided.value)
        torch.testing.assert_close(output.logits, torch.stack(logits), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(output.value, torch.stack(values), rtol=tolerance, atol=tolerance)
        if dtype == torch.float32:
            continue
        gradients = [
            torch.autograd.grad(v.sin().sum() + p.cos().sum(), list(agent.parameters()), allow_unused=True)
            for v, p in ((output.value, output.logits), (torch.stack(values), torch.stack(logits)))
        ]
        for fast, slow in zip(*gradients, strict=True):
            assert (fast is None) == (slow is None)
            if fast is not None and slow is not None:
                scale = max(1.0, float(slow.abs().max()))
                torch.testing.assert_close(fast, slow, rtol=10 * tolerance, atol=10 * tolerance * scale)


def test_sizes_of_the_paper():
    gru = build_agent(AgentConfig(kind="gru"), CAMERA, EXTENT)
    assert gru.memory.reduce.in_features == 640 + 4 and gru.heads.policy.in_features == 128
    agent = build_agent(AgentConfig(kind="egomap"), CAMERA, EXTENT)
    memory = agent.memory
    assert memory.reduce.in_features == 672 and memory.reduce.out_features == 128
    linear = [layer for layer in memory.global_read.head if isinstance(layer, torch.nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(256, 256), (256, 32)]
    assert memory.context_read.query.out_features == 17 and memory.context_read.output_size == 18
    assert agent.heads.policy.in_features == agent.heads.value.in_features == 146
    assert agent.heads.policy.out_features == 5
    assert memory.settings.extent == pytest.approx(EXTENT * 1.2)
    assert memory.settings.map_size == 24


@pytest.mark.parametrize("kind", KINDS)
def test_step_under_no_grad(kind):
    torch.manual_seed(0)
    agent = build_agent(AgentConfig(kind=kind), CAMERA, EXTENT)
    obs, state = observations(3), agent.initial_state(3)
    start = torch.ones(3, dtype=torch.bool)
    with torch.no_grad():
        one = agent.step(obs, state, start, generator=torch.Generator().manual_seed(4))
        two = agent.step(obs, state, start, generator=torch.Generator().manual_seed(4))
        best = agent.step(obs, state, start, deterministic=True)
    assert torch.equal(one.action, two.action)
    assert torch.equal(best.action, one.logits.argmax(-1))
    torch.testing.assert_close(one.log_prob, log_prob(one.logits, one.action))
    assert one.action.dtype == torch.int64 and one.value.shape == (3,)
    # Not yet trained, the policy's own actions are close to uniform; those of guides are not.
    own = one.logits[:, : agent.heads.num_actions].softmax(-1)
    assert (own - 0.2).abs().max() < 0.05


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"none"}))
def test_episode_start_forgets(kind):
    torch.manual_seed(0)
    agent = build_agent(AgentConfig(kind=kind), CAMERA, EXTENT)
    obs = observations(2, 3)
    with torch.no_grad():
        fresh = agent.initial_state(3)
        used = agent.step(at(obs, 0), fresh, torch.ones(3, dtype=torch.bool)).state
        some = torch.tensor([True, False, True])
        mixed = agent.step(at(obs, 1), used, some)
        reset = agent.step(at(obs, 1), agent.initial_state(3), torch.zeros(3, dtype=torch.bool))
        going = agent.step(at(obs, 1), used, torch.zeros(3, dtype=torch.bool))
    torch.testing.assert_close(mixed.logits[some], reset.logits[some])
    torch.testing.assert_close(mixed.logits[~some], going.logits[~some])
    assert not torch.equal(reset.logits, going.logits)


def test_without_memory_nothing_but_the_latest_observation_counts():
    agent = build_agent(AgentConfig(kind="none"), CAMERA, EXTENT)
    obs, calm = observations(4, 3), torch.zeros(4, 3, dtype=torch.bool)
    whole = agent.unroll(obs, agent.initial_state(3), calm).logits
    backwards = {key: value.flip(0) for key, value in obs.items()}
    torch.testing.assert_close(agent.unroll(backwards, (), calm).logits.flip(0), whole)
    assert agent.initial_state(3) == agent.memory.state_spec == ()


def test_every_kind_can_be_built_and_named():
    assert len({kind.label for kind in kinds.KINDS.values()}) == len(kinds.KINDS)
    assert len({kind.colour for kind in kinds.KINDS.values()}) == len(kinds.KINDS)
    agent = build_agent(AgentConfig(kind="frame-stack", stack_size=7), CAMERA, EXTENT)
    assert agent.memory.reduce.in_features == 7 * 644 and agent.memory.state_spec[0].shape == (6, 644)


def test_trace_is_filled_on_request():
    agent = build_agent(AgentConfig(kind="egomap"), CAMERA, EXTENT)
    trace: dict[str, torch.Tensor] = {}
    agent.step(observations(2), agent.initial_state(2), torch.ones(2, dtype=torch.bool), trace=trace)
    assert {"map_ego", "map_world", "attention", "query_position", "beta", "features"} <= trace.keys()
    torch.testing.assert_close(trace["attention"].sum((1, 2)), torch.ones(2))


class _LastView(torch.nn.Module):
    """A user's own memory: it remembers nothing, and reports the mean of each feature channel."""

    output_size = 16

    @property
    def state_spec(self) -> tuple[TensorSpec, ...]:
        return ()

    def initial_state(self, n):
        return ()

    def step(self, inputs: MemoryInputs, state, *, trace=None):
        return inputs.features.mean((-2, -1)), state

    def unroll(self, inputs: MemoryInputs, state, episode_start):
        return inputs.features.mean((-2, -1)), state


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_keeps_places_exact(kind, monkeypatch):
    torch.manual_seed(0)
    agent = build_agent(AgentConfig(kind=kind), CAMERA, EXTENT)
    seen, unroll = [], agent.memory.unroll

    def listen(inputs, *rest):
        seen.append(inputs)
        return unroll(inputs, *rest)

    monkeypatch.setattr(agent.memory, "unroll", listen)
    obs = observations(4, 2)
    with torch.autocast("cpu", torch.bfloat16):
        output = agent(obs, agent.initial_state(2), torch.zeros(4, 2, dtype=torch.bool))
    assert seen[0].features.dtype == torch.bfloat16
    for key in ("depth", "pose", "ego_motion"):
        torch.testing.assert_close(getattr(seen[0], key), obs[key], rtol=0, atol=0, equal_nan=True)
    assert torch.isfinite(output.logits).all()


def test_a_users_own_memory_serves():
    agent = Agent(Perception(), _LastView(), num_actions=3)
    output = agent(observations(4, 2), agent.initial_state(2), torch.zeros(4, 2, dtype=torch.bool))
    assert output.logits.shape == (4, 2, 3) and output.value.shape == (4, 2)


def test_wrong_observations_and_settings_are_told():
    agent = build_agent(AgentConfig(kind="gru"), CAMERA, EXTENT)
    obs, start = observations(2), torch.zeros(2, dtype=torch.bool)
    with pytest.raises(ValueError, match="the observation lacks pose, ego_motion"):
        agent.step({k: obs[k] for k in ("rgb", "depth")}, agent.initial_state(2), start)
    with pytest.raises(ValueError, match="in unroll"):
        agent.unroll(obs, agent.initial_state(2), start)
    for wrong, message in (
        (
            AgentConfig(kind="an elephant"),
            "kind must be one of none, frame-stack, gru, .*, or package.module:Class of .*; got 'an elephant'",
        ),
        (AgentConfig(kind="neural-map", use_reward=True), "neural-map does not take the reward"),
        (AgentConfig(hidden_size=0), "hidden-size must be 1 or more"),
        (AgentConfig(unknown_depth=0.0), "unknown-depth must be a length above 0"),
        (AgentConfig(motion_unit=float("nan")), "motion-unit must be a length above 0"),
        (AgentConfig(padding=-1.0), "padding must be between"),
        (AgentConfig(stack_size=1), "stack-size must be 2 or more"),
        (AgentConfig(neural_map_size=8), "neural-map-size must be 12 or more"),
        (AgentConfig(map=MapSettings(alpha=2.0)), "alpha must be between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            build_agent(wrong, CAMERA, EXTENT)


@pytest.mark.slow
def test_agents_need_no_engine():
    program = (
        "import sys; import egomap.agents; sys.exit(any(m.split('.')[0] == 'vizdoom' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
