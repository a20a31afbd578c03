from __future__ import annotations

import math

import pytest
import torch
from replay import random_inputs, random_state

from egomap.memory.gtrxl import GRUGate, GTrXLMemory, RelativeAttention, sinusoids


def doubles(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_sinusoids_by_hand():
    found = sinusoids(3, 4)
    expected = [[math.sin(a), math.sin(a / 100), math.cos(a), math.cos(a / 100)] for a in range(3)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_a_gate_by_hand():
    gate = GRUGate(1).double()
    with torch.no_grad():
        gate.of_layer.weight.copy_(torch.tensor([[1.0], [2.0], [3.0]]))
        gate.of_stream.weight.copy_(torch.tensor([[4.0], [5.0]]))
        gate.of_reset.weight.fill_(6.0)
        gate.bias.fill_(0.5)
    x, y = 0.2, -0.3
    reset = 1 / (1 + math.exp(-(1 * y + 4 * x)))
    update = 1 / (1 + math.exp(-(2 * y + 5 * x - 0.5)))
    candidate = math.tanh(3 * y + 6 * reset * x)
    found = gate(torch.tensor([x], dtype=torch.float64), torch.tensor([y], dtype=torch.float64))
    assert abs(float(found.detach()) - ((1 - update) * x + update * candidate)) < 1e-12


def test_a_new_gate_lets_most_of_the_stream_through():
    gate, x = GRUGate(4).double(), doubles(5, 4)
    with torch.no_grad():
        for parameter in (gate.of_layer.weight, gate.of_stream.weight, gate.of_reset.weight):
            parameter.zero_()
        torch.testing.assert_close(gate(x, doubles(5, 4, seed=1)), x * (1 - 1 / (1 + math.exp(2))))


def test_attention_by_definition():
    """Score by score: two heads, three remembered inputs of which environment 1 has one, and an episode's start."""
    torch.manual_seed(0)
    attention = RelativeAttention(4, 2, 3).double()
    with torch.no_grad():
        attention.content_bias.normal_()
        attention.age_bias.normal_()
    x, earlier = doubles(4, 2, 4), doubles(2, 3, 4, seed=1)
    seen = torch.tensor([[3, 1], [4, 2], [0, 3], [1, 4]])
    out, found = attention(x, earlier, seen)
    w_q, w_a, w_o = (layer.weight for layer in (attention.query, attention.age, attention.out))
    w_k, w_v = attention.key_value.weight.chunk(2)
    for n in range(2):
        line = torch.cat((earlier[n], x[:, n]))
        for t in range(4):
            read = []
            for head in range(2):
                part = slice(2 * head, 2 * head + 2)
                query = (w_q @ x[t, n])[part]
                scores, values = [], []
                for s in range(7):
                    age = t + 3 - s
                    if 0 <= age <= min(int(seen[t, n]), 3):
                        by_content = (query + attention.content_bias[head]) @ (w_k @ line[s])[part]
                        by_age = (query + attention.age_bias[head]) @ (w_a @ attention.ages[age])[part]
                        scores.append((by_content + by_age) / math.sqrt(2))
                        values.append((w_v @ line[s])[part])
                    else:
                        assert float(found[n, head, t, s].detach()) == 0
                weights = torch.stack(scores).softmax(0)
                read.append((weights[:, None] * torch.stack(values)).sum(0))
            torch.testing.assert_close(out[t, n], w_o @ torch.cat(read), rtol=1e-10, atol=1e-12)


def test_gradcheck_of_the_attention():
    torch.manual_seed(0)
    attention = RelativeAttention(4, 2, 3).double()
    seen = torch.tensor([[3, 0], [0, 1]])

    def run(x: torch.Tensor, earlier: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        named = dict(zip(dict(attention.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(attention, named, (x, earlier, seen))[0]

    leaves = (doubles(2, 2, 4), doubles(2, 3, 4, seed=1), *(p.detach() for p in attention.parameters()))
    assert torch.autograd.gradcheck(run, tuple(leaf.clone().requires_grad_() for leaf in leaves))


def test_each_layer_looks_back_as_far_as_its_memory():
    """Two layers of three steps: what was before the rollout is known for six steps, and then for none."""
    torch.manual_seed(0)
    memory = GTrXLMemory(hidden_size=8, size=8, heads=2, memory_size=3).double()
    inputs, calm = random_inputs(9, 2, 0, dtype=torch.float64), torch.zeros(9, 2, dtype=torch.bool)
    full = torch.full((2,), 3)
    one, two = (memory.unroll(inputs, (random_state(memory, 2, s)[0], full), calm)[0] for s in (1, 2))
    assert not torch.isclose(one[:6], two[:6]).all(-1).any()
    torch.testing.assert_close(one[6:], two[6:], rtol=1e-12, atol=1e-12)


def test_what_is_not_yet_remembered_is_not_attended_to():
    """At the first step of an episode there is only itself; then one more at each step, up to M."""
    memory = GTrXLMemory(hidden_size=8, size=8, heads=2, layers=1, memory_size=3).double()
    with torch.no_grad():  # no score: the attention is flat over what is visible
        memory.layers[0].attention.query.weight.zero_()
    state, shares = memory.initial_state(1), []
    inputs = random_inputs(5, 1, 0, dtype=torch.float64)
    for t in range(5):
        trace: dict[str, torch.Tensor] = {}
        _, state = memory.step(inputs.at(t), state, trace=trace)
        shares.append(trace["attended"][0, 0, 0].tolist())
        found = memory.figures(trace)
    thirds = [[0, 0, 0, 1], [0, 0, 1 / 2, 1 / 2], [0, 1 / 3, 1 / 3, 1 / 3], [1 / 4] * 4, [1 / 4] * 4]
    torch.testing.assert_close(torch.tensor(shares), torch.tensor(thirds))
    assert state[1].tolist() == [3]
    assert found["lookback"] == pytest.approx(1.5) and found["attention_past"] == pytest.approx(0.75)


@pytest.mark.parametrize(
    "sizes",
    [{"size": 10, "heads": 4}, {"size": 9, "heads": 3}, {"heads": 0}, {"layers": 0}, {"memory_size": 0}],
)
def test_wrong_settings_are_told(sizes):
    with pytest.raises(ValueError, match="must be"):
        GTrXLMemory(**sizes)
