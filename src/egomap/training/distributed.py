"""Many ranks: each has its own engines, rollout and memory; only gradients are averaged.

What comes in: the environment variables that torchrun sets. What goes out: who this process is, and a few collective
calls that are no-ops for a single process. A rank or node that dies makes torchrun start all of them again
(`--max-restarts`), and they resume from the last checkpoint.

Gradients are averaged as one flat tensor after the backward pass, not by DistributedDataParallel. The agents are
small (1.2 MB), so there is nothing to gain from sending parts of it early; and at the end of a process the wrapper's
reducer waits for a gloo thread that waits for Python's lock, which it holds (seen in one of two runs of torch 2.13).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist

# Imported for its side effect, and before any group exists: its functions have the default argument
# `group=group.WORLD`, evaluated at import. The first optimiser imports it (by way of torch._dynamo); after
# `init_process_group` the defaults would then hold the group until the interpreter ends. `destroy_process_group`
# would stop none of its threads, and one that frees its last work while the interpreter is finalising aborts the
# process: SIGABRT, "terminate called without an active exception".
import torch.distributed.nn.functional
from torch import Tensor, nn

from egomap.training.place import own_place, variable
from egomap.util.cores import core_shares

TIMEOUT = timedelta(seconds=300)
"""How long a rank waits for another before it gives up and lets torchrun restart the group."""
PATIENCE = timedelta(days=1)
"""The same while rank 0 works alone. If it dies, its connections break at once."""


class RankLost(RuntimeError):
    """Another rank has ended, or cannot be reached."""


@contextmanager
def _peers(rank: int) -> Iterator[None]:
    """Says in words what gloo says by a line of its source and an address."""
    try:
        yield
    except RuntimeError as error:
        raise RankLost(
            f"rank {rank} has lost another rank, which has ended or cannot be reached: see what that rank said, then "
            "resume the run (torchrun does so by itself with --max-restarts)."
        ) from error


class Ranks(NamedTuple):
    """This process among all of them."""

    rank: int = 0
    world_size: int = 1
    restarts: int = 0
    """How often torchrun has restarted the ranks of this machine. Another machine may have another count: it
    may have failed when this one did not, or have come later."""
    local_rank: int = 0
    """Its place among the ranks of its machine, which take the machine's GPUs in turn."""
    gpus: dist.ProcessGroup | None = None
    """The ranks by way of NCCL, for gradients that are on GPUs; everything else goes by way of gloo."""

    @property
    def first(self) -> bool:
        """Whether this is the rank that logs, evaluates and saves."""
        return self.rank == 0

    def on(self, device: torch.device) -> Ranks:
        """The same, for gradients on this device; all ranks must call it."""
        if self.world_size == 1 or device.type != "cuda":
            return self
        torch.cuda.set_device(device)
        with _peers(self.rank):
            return self._replace(gpus=dist.new_group(backend="nccl", timeout=TIMEOUT))

    @torch.no_grad()
    def share_weights(self, module: nn.Module) -> None:
        """Give every rank the weights of rank 0."""
        if self.world_size > 1:
            tensors = [*module.parameters(), *module.buffers()]
            flat = torch.cat([tensor.detach().cpu().flatten().to(torch.float64) for tensor in tensors])
            with _peers(self.rank):
                dist.broadcast(flat, src=0)
            for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
                tensor.copy_(part.view_as(tensor))

    @torch.no_grad()
    def average_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace the gradients by their mean over the ranks."""
        if self.world_size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        flat = flat if self.gpus is not None else flat.cpu()
        with _peers(self.rank):
            dist.all_reduce(flat, group=self.gpus)
        flat /= self.world_size
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    @torch.no_grad()
    def require_together(self, module: nn.Module) -> None:
        """Raise a RuntimeError unless the ranks' weights are alike but for rounding; then give all rank 0's.

        All take the same steps of the optimiser, but boxes of other kinds may round them otherwise.
        """
        sums = torch.stack([parameter.detach().cpu().double().sum() for parameter in module.parameters()])
        if not all(torch.allclose(sums, other, rtol=1e-3, atol=1e-3) for other in self.gather(sums)):
            raise RuntimeError("the ranks' weights have come apart, so nothing was saved.")
        self.share_weights(module)

    def sum(self, *values: float) -> list[float]:
        """Sums over the ranks."""
        total = torch.tensor(values, dtype=torch.float64)
        if self.world_size > 1:
            with _peers(self.rank):
                dist.all_reduce(total)
        return total.tolist()

    def any(self, flag: bool) -> bool:
        """Whether any rank says yes."""
        return self.sum(float(flag))[0] > 0

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, in order, on every rank."""
        if self.world_size == 1:
            return [tensor]
        found = [torch.empty_like(tensor) for _ in range(self.world_size)]
        with _peers(self.rank):
            dist.all_gather(found, tensor)
        return found

    def barrier(self) -> None:
        """Wait for all."""
        if self.world_size > 1:
            with _peers(self.rank):
                dist.barrier()

    def wait_for_first(self) -> None:
        """Wait for all, however long rank 0 has something to do that the others have not."""
        if self.world_size > 1:
            with _peers(self.rank):
                dist.monitored_barrier(timeout=PATIENCE)


def _take_cores(rank: int, ranks: int) -> None:
    """Keep to this rank's share of the box's cores, engines included, and compute with as many threads.

    torchrun lets every rank use every core, with one thread of torch.
    """
    cores = core_shares(ranks)[rank]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    torch.set_num_threads(len(cores))


@contextmanager
def join_ranks() -> Iterator[Ranks]:
    """This process among its ranks; a group of one where torchrun did not start it."""
    place = own_place()
    if place is None:
        yield Ranks()
        return
    _take_cores(place.local_rank, place.local_size)
    ranks = Ranks(place.rank, place.world_size, place.restarts, place.local_rank)
    if ranks.world_size == 1:
        yield ranks
        return
    # If torchrun hosts the store, it survives a restart, with the addresses of the dead attempt in it: each attempt
    # gets its own corner. But then boxes must count their restarts alike, which only a single one is sure to do. With
    # several, rank 0 is to host a new store for each attempt (docs/scaling.md).
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "True") == "True"
    store = dist.TCPStore(
        os.environ.get("MASTER_ADDR", "localhost"),
        place.port,
        ranks.world_size,
        is_master=ranks.first and not hosted,
        timeout=TIMEOUT,
    )
    if hosted and ranks.first and variable("GROUP_WORLD_SIZE", "1") > 1:
        print(
            "Note: for restarts on several boxes, export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 on each of them.",
            file=sys.stderr,
        )
    attempt = f"attempt{ranks.restarts}" if hosted else "attempt"
    run = os.environ.get("TORCHELASTIC_RUN_ID", "run")
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore(f"{run}/{attempt}", store),
        rank=ranks.rank,
        world_size=ranks.world_size,
        timeout=TIMEOUT,
    )
    try:
        yield ranks
        ranks.barrier()  # no rank leaves while another still needs the connections
    finally:
        dist.destroy_process_group()
