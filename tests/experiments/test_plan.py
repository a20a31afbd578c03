"""The plans of the paper's experiments: which rows and runs, and that their commands give the very configs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egomap.commands.train_flags import TrainFlags
from egomap.experiments import paper, plan
from egomap.experiments.command import Ablation, Campaign, Curves, Noise, Results
from egomap.experiments.dry_run import clock, queue_end
from egomap.experiments.plan import Scale, evaluate_command, train_command
from egomap.experiments.speed import GUESSED_START, Speed, of_rows, seconds_left
from egomap.experiments.state import training_curve
from egomap.kinds import KINDS
from egomap.memory.registry import complete
from egomap.presets import preset
from egomap.scenarios.dataset import generate
from egomap.training.metrics import Metrics

CAMPAIGNS: list[Campaign] = [
    Results(agents=("random", *KINDS, "planner")),
    Ablation(),
    Noise(),
    Curves(preset="paper", size=5, budget=1e4),
    Results(preset="full", agents=("gru", "egomap+"), budget=1e4),
]


@pytest.mark.parametrize(
    "campaign", CAMPAIGNS, ids=lambda campaign: f"{campaign.experiment}-{campaign.preset}"
)
def test_commands_give_the_planned_configs(campaign: Campaign) -> None:
    """What the child process makes of its flags is what the plan expects to find in the folder."""
    learners = [job for row in campaign.rows(campaign.scale()) for job in row.jobs if job.config is not None]
    assert learners
    import tyro

    for job in learners:
        arguments = train_command(job)[1:]
        flags = tyro.cli(TrainFlags, args=arguments, default=TrainFlags.of(arguments))
        config = flags.config()
        assert replace(config, agent=complete(config.agent)) == job.config  # as `egomap train` completes it
        assert (flags.run, flags.auto_resume) == (job.folder, True)


def test_sets_with_other_numbers_of_layouts(tmp_path: Path) -> None:
    scale = Scale(budget=10, seeds=1, size=3, train=3, test=2, runs=tmp_path)
    job = plan.ablation(scale)[0].jobs[0]
    generate(job.scenario, scale.set_folder(job.scenario))
    import tyro

    arguments = train_command(job)[1:]
    flags = tyro.cli(TrainFlags, args=arguments, default=TrainFlags.of(arguments))
    assert flags.config() == job.config
    assert (job.scenario.train, job.scenario.test) == (3, 2)


def test_the_curriculum_of_a_preset_ends_with_the_mazes_of_the_task(tmp_path: Path) -> None:
    stages = {
        task: plan.results(Scale(budget=10, seeds=1, preset="full", size=size), [task], ["gru"])[0]
        .jobs[0]
        .config
        for task, size in (("labyrinth", None), ("find-return", 7), ("4-item", None))
    }
    assert {task: config.curriculum for task, config in stages.items() if config} == {
        "labyrinth": (5, 7, 9),
        "find-return": (5, 7),
        "4-item": (),  # its mazes are as small as the first stage
    }
    own = Scale(budget=10, seeds=1, preset="full", size=9, train=3, test=2, runs=tmp_path)
    job = plan.results(own, ["labyrinth"], ["gru"])[0].jobs[0]
    assert job.config is not None
    assert job.config.curriculum == ()  # the mazes come from a folder


def test_rows_of_the_paper() -> None:
    scale = Scale(budget=2_000_000, seeds=3)
    rows = plan.results(scale, plan.TASK_NAMES, plan.PAPER_AGENTS)
    assert len(rows) == 24 and all(len(row.jobs) == 3 for row in rows)
    assert {(row.task, row.jobs[0].scenario.size, row.jobs[0].scenario.items) for row in rows} == {
        ("4-item", 5, 4),
        ("6-item", 5, 6),
        ("find-return", 9, 4),
        ("labyrinth", 9, 4),
    }
    rows = plan.ablation(scale)
    assert [row.label for row in rows] == list(paper.ABLATION)
    configs = [row.jobs[0].config for row in rows]
    assert [config and config.agent.kind for config in configs] == ["gru"] + ["egomap"] * 6
    maps = [config.agent.map for config in configs[1:] if config is not None]
    assert len(set(maps)) == 6 and maps[4] == preset("fast").agent.map
    assert [row.noise for row in plan.noise(scale)] == [*paper.NOISE, 0.0]
    assert [job.config and job.config.env.ego_motion_noise for job in plan.noise(scale)[3].jobs] == [0.06] * 3


def test_agents_that_are_not_in_the_paper_have_rows_without_its_figures() -> None:
    floors = plan.results(Scale(budget=1000, seeds=1), ("labyrinth",), ("none", "frame-stack", "gru"))
    assert [row.label for row in floors] == ["No memory", "Frame stack", "GRU"]
    assert [row.paper_test is None for row in floors] == [True, True, False]
    assert [job.config and job.config.agent.kind for row in floors for job in row.jobs] == [
        "none",
        "frame-stack",
        "gru",
    ]


def test_every_job_has_a_folder_of_its_own_and_experiments_share_them() -> None:
    scale = Scale(budget=1000, seeds=2)
    jobs = [
        job
        for rows in (
            plan.results(scale, plan.TASK_NAMES, plan.PAPER_AGENTS),
            plan.ablation(scale),
            plan.noise(scale),
        )
        for row in rows
        for job in row.jobs
    ]
    by_name = {job.name: job for job in jobs}
    assert all(by_name[job.name] == job for job in jobs)
    # 24 rows; of the ablations the baseline and EgoMap are among them; of the noise the baseline and no noise.
    assert len(by_name) == 2 * (24 + 5 + 9)


def test_seeds_may_begin_later() -> None:
    rows = plan.results(Scale(budget=1000, seeds=2, first_seed=3), ("labyrinth",), ("random", "egomap"))
    assert [[job.seed for job in row.jobs] for row in rows] == [[3, 4], [3, 4]]
    assert [job.config.seed for job in rows[1].jobs if job.config] == [3, 4]
    # They are the runs that five seeds from 0 would have.
    five = plan.results(Scale(budget=1000, seeds=5), ("labyrinth",), ("random", "egomap"))
    assert [job.name for row in rows for job in row.jobs] == [
        job.name for row in five for job in row.jobs[3:]
    ]


def test_curves_are_evaluated_not_too_often() -> None:
    assert Scale(budget=20_000, seeds=1).spacing == 0
    assert Scale(budget=400_000, seeds=1).spacing == 100_000
    assert Scale(budget=5_000_000, seeds=1).spacing == 500_000
    assert Scale(budget=20_000, seeds=1, evaluate_every=5000).spacing == 5000


def test_the_printed_command_is_the_whole_truth() -> None:
    assert Ablation(budget=2e4, seeds=1).command() == "egomap reproduce ablation --budget 20000 --seeds 1"
    some = Results(
        budget=1e6, size=5, tasks=("labyrinth",), agents=("gru",), jobs=2, evaluate_every=1e5, first_seed=2
    )
    assert some.command() == (
        "egomap reproduce results --budget 1000000 --seeds 3 --first-seed 2 --size 5 --evaluate-every 100000 "
        "--tasks labyrinth --agents gru"
    )
    scripted = Results(agents=("random", "explorer", "planner"), size=5, tasks=("labyrinth",))
    assert not scripted.learns()
    commands = [evaluate_command(row.jobs[0], "test")[:3] for row in scripted.rows(scripted.scale())]
    assert commands == [["evaluate", "--agents", name] for name in ("random", "explorer", "planner")]
    assert Results(agents=("random", "planner")).command() == (
        "egomap reproduce results --seeds 3 --agents random planner"
    )


@pytest.mark.parametrize(
    ("campaign", "told"),
    [
        (Ablation(budget=0), "budget must be 1 or more; got 0"),
        (Ablation(budget=0.5), "budget must be a whole number"),
        (Ablation(budget=float("inf")), "budget must be a whole number; got inf"),
        (Results(agents=("random",), evaluate_every=-5), "evaluate-every must be 0 or more; got -5"),
        (Ablation(evaluate_every=float("nan")), "evaluate-every must be a whole number; got nan"),
        (Ablation(seeds=0), "seeds must be 1 or more"),
        (Ablation(first_seed=-1), "first-seed must be 0 or more"),
        (Ablation(jobs=0), "jobs must be 1 or more"),
        (Ablation(size=2), "size must be 3 to 21"),
        (Results(tasks=()), "at least one task"),
        (Ablation(train_layouts=0), "train-layouts"),
    ],
)
def test_refused(campaign: Campaign, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        campaign.run()


def test_estimates(tmp_path: Path) -> None:
    rows = [
        {"decisions_per_second": "1000", "collect_seconds": "1.0", "update_seconds": "1.0"},
        {"decisions_per_second": "500", "collect_seconds": "1.5", "update_seconds": "0.5"},
    ]
    speed = of_rows(rows, "by hand")
    assert speed == Speed(3000 / 4, 3000 / 2.5, "by hand", GUESSED_START)
    scale = Scale(budget=750_000, seeds=1, runs=tmp_path)  # evaluated every 100 000: 8 times
    job = plan.ablation(scale)[0].jobs[0]
    evaluation = 64 * 525 / 1200
    expected = 10 + 1000 + 8 * evaluation + 2 * (10 + evaluation)
    assert seconds_left(job, {"gru": speed}) == pytest.approx(expected)


def test_a_queue_ends_with_its_last_job() -> None:
    assert queue_end([60.0], 8) == 60.0
    assert queue_end([10.0, 10.0, 10.0], 2) == 20.0
    assert queue_end([5.0, 1.0, 1.0, 1.0, 7.0], 2) == 10.0
    assert queue_end([], 3) == 0.0


def test_clock() -> None:
    assert [clock(s) for s in (12, 150, 3660, 200_000)] == ["12 s", "2 min", "1 h 01 min", "2 d 7 h"]


def test_a_training_curve_begins_without_the_first_successes_and_is_thinned_out(tmp_path: Path) -> None:
    rows = plan.results(Scale(budget=1000, seeds=1, runs=tmp_path), ("labyrinth",), ("gru",))
    job = rows[0].jobs[0]
    job.folder.mkdir()
    metrics = Metrics(job.folder, keep_updates=0)
    for update in range(1, 131):  # one episode ends in each; there are 32 environments
        metrics.add(
            {"update": update, "decisions": 64 * update, "seconds": 2.0 * update, "episodes": update}
            | {"mean_return": 1.0 / update}
        )
    metrics.close()
    found = training_curve(job)
    assert found[0] == (64 * 32, 64.0, pytest.approx(1 / 32))
    assert [point[0] for point in found] == [64 * update for update in range(32, 131, 2)]
