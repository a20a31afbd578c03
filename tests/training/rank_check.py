"""Run by torchrun in several ranks: gradients are the mean over the ranks, weights stay equal, threads end.

Each rank has observations of its own. The averaged gradients must be the mean of what each rank finds by itself, and
after an optimiser step all ranks must hold the same bytes. When the ranks have parted, none of the group's threads
may be alive: one that outlives it can abort the process at its end.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from egomap.agents import build_agent
from egomap.config import AgentConfig, Camera
from egomap.training.distributed import Ranks, join_ranks
from egomap.util.cores import usable_cores

STEPS, ENVS = 3, 2
CORES = usable_cores()
"""Before the ranks have shared them out."""


def observations(rank: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + rank)
    return {
        "rgb": torch.randint(0, 256, (STEPS, ENVS, 3, 64, 112), generator=generator, dtype=torch.uint8),
        "depth": 400 * torch.rand(STEPS, ENVS, 64, 112, generator=generator),
        "pose": 50 * torch.rand(STEPS, ENVS, 3, generator=generator),
        "ego_motion": torch.rand(STEPS, ENVS, 3, generator=generator),
    }


def gloo_threads() -> list[str]:
    """Threads of this process that serve a gloo group."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return [name for name in names if "gloo" in name]


def require_own_cores(ranks: Ranks) -> None:
    """On one box every core has one rank, and each rank as many threads as cores."""
    cores, own_cores = CORES, usable_cores()
    taken = sum(ranks.gather(torch.tensor([core in own_cores for core in cores], dtype=torch.int64)))
    on_one_box = ranks.world_size == int(os.environ["LOCAL_WORLD_SIZE"])
    if on_one_box and ranks.world_size <= len(cores):
        assert taken.tolist() == [1] * len(cores), "every core has one rank"
    assert torch.get_num_threads() == len(own_cores)


def check(ranks: Ranks, kind: str) -> None:
    """Weights, gradients and what the ranks tell each other, with an agent of that kind."""
    torch.manual_seed(ranks.rank)  # other weights in each rank, until they are shared
    agent = build_agent(
        AgentConfig(kind=kind),  # type: ignore[arg-type]
        Camera.from_fov(112, 64, horizontal=1.8, vertical=1.2),
        640.0,
    )
    ranks.share_weights(agent)
    start = torch.zeros(STEPS, ENVS, dtype=torch.bool)

    def gradients() -> torch.Tensor:
        return torch.cat([p.grad.flatten() for p in agent.parameters() if p.grad is not None])

    output = agent.unroll(observations(ranks.rank), agent.initial_state(ENVS), start)
    (output.logits.square().mean() + output.value.square().mean()).backward()
    own = gradients()
    mean = torch.stack(ranks.gather(own)).mean(0)
    ranks.average_gradients(list(agent.parameters()))
    torch.testing.assert_close(gradients(), mean, atol=1e-8, rtol=1e-5)
    if ranks.world_size > 1:
        assert not torch.allclose(own, mean), "every rank saw the same; the check would prove nothing"
    torch.optim.Adam(agent.parameters()).step()
    weights = torch.cat([p.detach().flatten() for p in agent.parameters()])
    assert all(torch.equal(weights, other) for other in ranks.gather(weights))
    assert ranks.sum(ranks.rank, 1.0) == [ranks.world_size * (ranks.world_size - 1) / 2, ranks.world_size]
    assert ranks.any(ranks.rank == 0)
    assert not ranks.any(False)
    # They do exist, by the name that is looked for below; a thread names itself when it first runs.
    assert ("pt_gloo_runloop" in gloo_threads()) == (ranks.world_size > 1)
    ranks.require_together(agent)
    with torch.no_grad():
        next(agent.parameters()).add_(1e-9 * ranks.rank)
    ranks.require_together(agent)  # rounding is mended
    assert torch.equal(weights[:1], torch.cat([p.detach().flatten() for p in agent.parameters()])[:1])
    with torch.no_grad():
        next(agent.parameters()).add_(0.01 * ranks.rank)
    try:
        ranks.require_together(agent)
        assert ranks.world_size == 1, "ranks that have come apart are told"
    except RuntimeError as error:
        assert "come apart" in str(error)


def main() -> int:
    with join_ranks() as ranks:
        require_own_cores(ranks)
        for kind in sys.argv[1:]:
            check(ranks, kind)
    assert gloo_threads() == [], "the group's threads have outlived it"
    print(f"rank {ranks.rank} of {ranks.world_size} agrees", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
