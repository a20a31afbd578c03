"""The training loop: collect, learn, log, evaluate, save; until the budget is spent.

What comes in: a config and a run folder, new or to resume. What goes out: the folder's metrics, checkpoints and
evaluations. The trainer never looks into a memory's state and knows no agent by name. It may be killed at any
moment: what was saved last is intact, and `resume` continues from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from egomap.compute import choose, torch_threads
from egomap.config import TeacherKind, TrainConfig
from egomap.evaluation.network import NetworkPlayer
from egomap.evaluation.runner import EpisodeResult, play
from egomap.evaluation.tables import summary
from egomap.rl import hindsight
from egomap.rl.auxiliary import Targets
from egomap.rl.bonuses import Bonuses
from egomap.rl.collect import Collector, EndedEpisode
from egomap.rl.returns import RunningScale
from egomap.rl.teaching import NO_LESSON, Lesson, lesson_at
from egomap.rl.threads import GradientThreads
from egomap.rl.update import Diverged, make_optimizer, set_learning_rate, update
from egomap.training.allocator import keep_memory
from egomap.training.checkpoint import (
    BEST,
    Checkpoint,
    checkpoint_path,
    checkpoints,
    load_module,
    load_optimizer,
    module_tensors,
    optimizer_tensors,
    prune,
    require_last,
    save_checkpoint,
)
from egomap.training.counters import WINDOW, Counters
from egomap.training.distributed import Ranks
from egomap.training.initial import take_weights
from egomap.training.metrics import Metrics
from egomap.training.run import RunFolder, new_agent, run_spec
from egomap.training.sources import source_of
from egomap.training.teachers import TEACHERS, teacher_kind
from egomap.util.files import write_whole
from egomap.worlds.api import Simulated

EVALUATION_ENVS = 16
RANDOM_ON = {"cuda": "random_cuda", "mps": "random_mps"}
"""What a checkpoint calls the random states of devices; that of the CPU is "random"."""


class Progress(NamedTuple):
    """What is shown during a run."""

    decisions: int
    budget: int
    row: dict[str, float]
    """The latest row of the metrics."""
    seconds_left: float


class Trainer:
    """One run of one process; under torchrun there is one in every rank."""

    def __init__(
        self,
        config: TrainConfig,
        run: RunFolder,
        *,
        extent: float,
        ranks: Ranks | None = None,
        checkpoint: Checkpoint | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        keep_memory()
        ranks = ranks or Ranks()
        self.compute = choose(config.device, config.precision, local_rank=ranks.local_rank)
        self.config, self.run, self.ranks = config, run, ranks.on(self.compute.device)
        self._extent = extent
        self._on_progress = on_progress
        self.counters = Counters()
        self._stop = False
        torch.manual_seed(config.seed)
        self._source, self._spec = source_of(config), run_spec(run.path)
        self.agent = new_agent(config, self._spec).on(self.compute)
        self._optimizer = make_optimizer(self.agent, config.learner)
        self._groups = self.agent.parameter_groups()
        self._scale = RunningScale()
        self._bonuses = Bonuses(config.learner)
        self._targets = Targets(config.learner)
        self._shuffle = torch.Generator()
        torch.manual_seed(self._rank_seed())
        self._shuffle.manual_seed(self._rank_seed())
        position = 0
        if checkpoint is not None:
            position = self._restore(checkpoint)
        elif config.init is not None:
            take_weights(run, self.agent)
        self.ranks.share_weights(self.agent)
        self._threads = torch.get_num_threads()
        self._learners = GradientThreads(self._threads if self.compute.on_cpu else 1)
        self._test_env: Simulated | None = None
        self._env = self._open("train")
        self._collector = self._new_collector(position)
        self._metrics = Metrics(run.path, keep_updates=self.counters.update) if self.ranks.first else None
        self._began = time.monotonic() - self.counters.seconds

    # -- the loop -------------------------------------------------------------------------------------------

    def train(self) -> Counters:
        """Train until the budget is spent or `stop` was called; then save, and evaluate if the budget is spent.

        Raises:
            Diverged: The loss is no number any more; the last checkpoint is as it was.
        """
        config, counters = self.config, self.counters
        with torch_threads(self._threads):
            while counters.decisions < config.budget and not self.ranks.any(self._stop):
                row = self._update_once()
                finished = counters.decisions >= config.budget
                due = (
                    config.evaluate_every
                    and counters.decisions - counters.evaluated_at >= config.evaluate_every
                )
                if finished or due:
                    row |= self._evaluate()
                if self._metrics is not None:
                    self._metrics.add(row)
                    self._tell(row)
                climbed = not finished and self._climb()
                if (
                    finished
                    or due
                    or climbed
                    or counters.decisions - counters.saved_at >= config.checkpoint_every
                ):
                    self._save()
            if counters.saved_at < counters.decisions:
                self._save()
        return counters

    def stop(self) -> None:
        """Ask the loop to end after the current update; a checkpoint is written."""
        self._stop = True

    def close(self) -> None:
        """End all engines."""
        for env in (self._env, self._test_env):
            if env is not None:
                env.close()
        self._learners.close()
        if self._metrics is not None:
            self._metrics.close()

    def _update_once(self) -> dict[str, float]:
        config, counters, learner = self.config, self.counters, self.config.learner
        if config.reset_every_update:
            self._collector.restart()
        begin = time.perf_counter()
        spent = counters.decisions / config.budget
        lesson = self._lesson(spent)
        ended = self._collector.collect(lesson)
        bonuses = self._bonuses.pay(self._collector.rollout, spent)
        self._targets.fill(self._collector.rollout)
        hindsight.fill(self._collector.rollout, self.agent.memory, learner.hindsight_weight)
        collected = time.perf_counter()
        rate = learner.learning_rate
        if learner.learning_rate_decay == "linear":
            rate *= max(0.0, 1 - spent)
        set_learning_rate(self._optimizer, rate)
        figures = update(
            self.agent.unroll,
            self._collector.rollout,
            self._optimizer,
            learner,
            generator=self._shuffle,
            spent=spent,
            threads=self._learners,
            scale=self._scale,
            average=self.ranks.average_gradients,
            mean_over_ranks=lambda value: self.ranks.sum(value)[0] / self.ranks.world_size,
            groups=self._groups,
            compute=self.compute,
        )
        if self.ranks.first:  # the others log nothing
            figures |= {f"memory_{name}": value for name, value in self._collector.figures().items()}
        learned = time.perf_counter()
        counters.update += 1
        size = learner.rollout_steps * learner.num_envs
        decisions, episodes = self.ranks.sum(size, len(ended))
        counters.decisions += int(decisions)
        counters.episodes += int(episodes)
        counters.seconds = time.monotonic() - self._began
        counters.recent.extend((e.total_reward, e.success, e.decisions) for e in ended if not e.helped)
        return {
            "update": counters.update,
            "decisions": counters.decisions,
            "frames": counters.decisions * config.env.frame_skip,
            "seconds": counters.seconds,
            "decisions_per_second": decisions / (learned - begin),
            "episodes": counters.episodes,
            **self._recent(),
            **figures,
            **bonuses,
            **(lesson.figures(learner.num_envs) if self._teacher_kind != "none" else {}),
            "learning_rate": rate,
            "collect_seconds": collected - begin,
            "update_seconds": learned - collected,
            "engine_restarts": counters.engine_restarts + self._env.engine_restarts,
            "maze_size": 0 if config.env.id or config.files else self._size or config.scenario.size,
        }

    def _lesson(self, spent: float) -> Lesson:
        if self._teacher_kind == "none":
            return NO_LESSON
        return lesson_at(self.config.learner, spent, imitate=self.config.imitate != "none")

    @property
    def _teacher_kind(self) -> TeacherKind:
        """Who is beside the learner: whom it imitates, or who gives it head starts."""
        return teacher_kind(self.config)

    def _recent(self) -> dict[str, float]:
        # The first episodes to end are the short ones, and those are successes: their mean would begin at 1 and
        # fall to the truth. So nothing is told before as many have ended as there are environments.
        if len(self.counters.recent) < min(WINDOW, self.config.learner.num_envs):
            return {}
        rewards, successes, decisions = zip(*self.counters.recent, strict=True)
        found = {"mean_return": float(np.mean(rewards)), "mean_decisions": float(np.mean(decisions))}
        if None not in successes:
            found["success"] = float(np.mean(successes))
        return found

    def _tell(self, row: dict[str, float]) -> None:
        if self._on_progress is not None:
            to_do = max(0, self.config.budget - self.counters.decisions)
            left = to_do / max(row["decisions_per_second"], 1e-9)
            self._on_progress(Progress(self.counters.decisions, self.config.budget, row, left))

    # -- worlds ---------------------------------------------------------------------------------------------

    @property
    def _size(self) -> int | None:
        """Maze size of the curriculum's stage; None without a curriculum."""
        stages = self.config.curriculum
        return stages[min(self.counters.stage, len(stages) - 1)] if stages else None

    def _open(self, split: str) -> Simulated:
        episodes, size = self.config.evaluation_episodes, self._size
        if split == "test":
            worlds = self._source.worlds(split)
            envs = min(EVALUATION_ENVS, len(worlds) * episodes)
            return self._source.open(self._spec, worlds, envs, episodes_per_layout=episodes)
        if self.ranks.first:
            self._source.worlds(split, size=size)  # made once, by one
        self.ranks.barrier()
        worlds = self._source.worlds(split, size=size)
        return self._source.open(self._spec, worlds, self.config.learner.num_envs)

    def _new_collector(self, position: int) -> Collector:
        return Collector(
            self._env,
            self.agent,
            self.config.learner.rollout_steps,
            seed=self._rank_seed(),
            position=position,
            teacher=TEACHERS[self._teacher_kind](self._env),
        )

    def _rank_seed(self) -> int:
        """A seed for what each rank draws by itself; another for each rank, stage of a curriculum apart."""
        key = (self.config.seed, self.ranks.rank, self.counters.stage)
        return int(np.random.SeedSequence(key).generate_state(1)[0] >> 1)

    def _climb(self) -> bool:
        """Go to the next size of the curriculum when this one is learned; whether that was so."""
        counters, config = self.counters, self.config
        if counters.stage + 1 >= len(config.curriculum):
            return False
        learned = len(counters.recent) == WINDOW and self._recent()["mean_return"] >= config.curriculum_bar
        # Rank 0 decides for all: every rank has episodes of its own.
        if not self.ranks.any(learned and self.ranks.first):
            return False
        counters.stage += 1
        counters.recent.clear()
        counters.engine_restarts += self._env.engine_restarts
        self._env.close()
        self._env = self._open("train")
        self._collector = self._new_collector(0)
        return True

    # -- evaluation and checkpoints -------------------------------------------------------------------------

    def _evaluate(self) -> dict[str, float]:
        """Play the held-out layouts; rank 0 does it, the others wait."""
        self._collector.require_numbers()
        self.counters.evaluated_at = self.counters.decisions
        found: dict[str, float] = {}
        if self.ranks.first:
            if self._test_env is None:
                self._test_env = self._open("test")
            player = NetworkPlayer(self.agent, self._test_env.num_envs)
            with torch_threads(1):
                results = play(self._test_env, player, seed=self.config.seed)
            found = self._write_evaluation(results)
            self.counters.seconds = time.monotonic() - self._began
        self.ranks.wait_for_first()
        return found

    def _write_evaluation(self, results: list[EpisodeResult]) -> dict[str, float]:
        counters, scores = self.counters, summary(results)
        data = {
            "decisions": counters.decisions,
            "split": "test",
            "summary": scores,
            "episodes": [result._asdict() for result in results],
        }
        name = f"step-{counters.decisions:012d}.json"
        write_whole(self.run.evaluation / name, json.dumps(data, indent=1, allow_nan=False) + "\n")
        if scores["mean_return"] > counters.best_return:
            counters.best_return = scores["mean_return"]
            save_checkpoint(self.run.checkpoints / BEST, *self._snapshot())
        told = {} if scores["success"] is None else {"test_success": scores["success"]}
        return {"test_return": scores["mean_return"], **told}

    def _save(self) -> None:
        self._collector.require_numbers()  # a saved run must be able to resume
        self.counters.saved_at = self.counters.decisions
        tensors, data = self._snapshot()
        self.ranks.require_together(self.agent)
        positions = self.ranks.gather(torch.tensor([self._collector.position]))
        states = self.ranks.gather(torch.get_rng_state())
        shuffles = self.ranks.gather(self._shuffle.get_state())
        of_device = self.compute.random_state()
        of_devices = None if of_device is None else self.ranks.gather(of_device)
        if not self.ranks.first:
            return
        tensors["positions"] = torch.cat(positions)
        tensors["random"] = torch.stack(states)
        tensors["shuffle"] = torch.stack(shuffles)
        if of_devices is not None:
            tensors[RANDOM_ON[self.compute.device.type]] = torch.stack(of_devices)
        if self._metrics is not None:
            self._metrics.sync()
        save_checkpoint(checkpoint_path(self.run.checkpoints, self.counters.decisions), tensors, data)
        prune(self.run.checkpoints)

    def _snapshot(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        tensors = module_tensors(self.agent) | optimizer_tensors(self._optimizer)
        tensors["scale"] = torch.tensor([self._scale.mean_square, self._scale.weight], dtype=torch.float64)
        restarts = self.counters.engine_restarts + self._env.engine_restarts
        counters = {**self.counters.to_json(), "engine_restarts": restarts}
        return tensors, {"counters": counters, "config": self.config.to_json(), "extent": self._extent}

    def _restore(self, checkpoint: Checkpoint) -> int:
        """Restore everything; return the position in the sequence of episodes to continue from."""
        tensors, data = checkpoint
        there = checkpoints(self.run.checkpoints)
        require_last(checkpoint, self.config, self._extent, self.run.checkpoints)
        self.counters = Counters.from_json(data["counters"])
        load_module(self.agent, tensors, there[0])
        load_optimizer(self._optimizer, tensors, there[0])
        self._scale.mean_square, self._scale.weight = tensors["scale"].tolist()
        positions, rank = tensors["positions"], self.ranks.rank
        if rank < len(positions) and len(positions) == self.ranks.world_size:
            # Copies: torch reads a state from the beginning of its storage, whichever row it is given.
            torch.set_rng_state(tensors["random"][rank].clone())
            self._shuffle.set_state(tensors["shuffle"][rank].clone())
            # A run that goes on on another kind of device has no state for it.
            of_devices = tensors.get(RANDOM_ON.get(self.compute.device.type, ""))
            if of_devices is not None:
                self.compute.set_random_state(of_devices[rank].clone())
            return int(positions[rank])
        # Another number of ranks than before: continue after everything that any of them has played.
        torch.manual_seed(self._rank_seed() + self.counters.update)
        self._shuffle.manual_seed(self._rank_seed() + self.counters.update)
        return int(positions.max())


__all__ = ["Counters", "Diverged", "EndedEpisode", "Progress", "Trainer"]
