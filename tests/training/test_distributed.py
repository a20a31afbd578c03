"""Several ranks as real processes under torchrun: weights, gradients, a killed rank, network namespaces."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_runs import Train

from egomap.scenarios.dataset import ScenarioSet
from egomap.training.distributed import join_ranks
from egomap.training.metrics import read_metrics
from warm import Warm

pytestmark = pytest.mark.slow(seconds=8)

RANK_CHECK = Path(__file__).with_name("rank_check.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def flags(scenarios: ScenarioSet, run: Path, *, budget: int) -> list[str]:
    return [
        "-m",
        "egomap",
        "train",
        f"--scenarios={scenarios.folder}",
        f"--budget={budget}",
        "--agent=gru",
        "--checkpoint-every=32",
        "--evaluate-every=0",
        "--learner.num-envs=2",
        "--learner.rollout-steps=8",
        "--learner.minibatches=2",
        f"--folder={run}",
    ]


def test_two_ranks_agree() -> None:
    done = subprocess.run(
        [*TORCHRUN, "--standalone", "--nproc-per-node=2", str(RANK_CHECK), "egomap", "gru"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 2 agrees" in done.stdout
    assert "rank 1 of 2 agrees" in done.stdout


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (
            {"RANK": "0"},
            "WORLD_SIZE must be a whole number of 1 or more; it is missing. Start the ranks by torchrun",
        ),
        ({"WORLD_SIZE": "2"}, "RANK must be a whole number of 0 or more; it is missing."),
        ({"RANK": "0", "MASTER_PORT": "29500"}, "WORLD_SIZE must be"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_PORT must be a whole number of 1 or more; it is missing."),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "99999"}, "MASTER_PORT must be"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK must be a whole number of 0 or more; it is 'one'."),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE must be a whole number of 1 or more; it is '0'."),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK must be below WORLD_SIZE; got 2 and 2."),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "5"}, "LOCAL_RANK must be below LOCAL_WORLD_SIZE"),
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "9999999"}, "LOCAL_WORLD_SIZE must be"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_variables_that_torchrun_does_not_set(
    variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=re.escape(told)), join_ranks():
        pass


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--budget=-5", "budget must be 1 decision or more; got -5."),
        ("--bogus=1", "the flags are not understood; what is wrong with them is shown further up."),
    ],
)
def test_bad_input_is_the_last_that_torchrun_shows(flag: str, told: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*TORCHRUN, "--standalone", "--nproc-per-node=2", "-m", "egomap", "train", flag, "--folder=run"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        cwd=tmp_path,
        timeout=200,
        check=False,
    )
    assert done.returncode != 0
    *_, reason, end = done.stderr.rstrip().splitlines()
    assert reason.split(":", 1)[1].strip() == told and set(end) == {"="}, done.stderr
    assert done.stderr.count("egomap: ") <= 1, "every rank says it"
    assert not list(tmp_path.iterdir())


def ranks_of(torchrun: int, only: int | None = None) -> list[int]:
    """Processes that torchrun started, by the rank in their environment; of one rank alone if that is asked for."""
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            variables = dict(
                pair.split("=", 1)
                for pair in (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                if "=" in pair
            )
        except (OSError, IndexError, ValueError):
            continue
        if parent == torchrun and "RANK" in variables:
            found[int(variables["RANK"])] = int(entry.name)
    return [found[rank] for rank in sorted(found) if only in (None, rank)]


def listens(pid: int, port: int) -> bool:
    """Whether a process listens at a port of this box."""
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and int(local.rsplit(":", 1)[1], 16) == port:
                sockets.add(f"socket:[{inode}]")
    held = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    return bool(sockets & held)


def wait_for_updates(run: Path, count: int, group: Sequence[subprocess.Popen[str] | Warm]) -> None:
    deadline = time.monotonic() + 120
    while len(read_metrics(run / "metrics.csv")) < count:
        assert all(each.poll() is None for each in group), [each.communicate()[1] for each in group]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_rank_and_another_number_of_ranks(
    mazes: ScenarioSet, train_here: Train, tmp_path: Path
) -> None:
    """The group starts anew from the checkpoint and finishes; every update is there once.

    Then the run of two ranks goes on with one: the counters count decisions, not updates of some number of ranks.
    """
    run, budget = tmp_path / "run", 12 * 32
    arguments = flags(mazes, run, budget=budget)
    process = subprocess.Popen(
        [*TORCHRUN, "--standalone", "--nproc-per-node=2", "--max-restarts=3", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )
    try:
        wait_for_updates(run, 4, [process])
        os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
        _, said = process.communicate(timeout=200)
    finally:
        end([process])
    assert process.returncode == 0, said
    rows = read_metrics(run / "metrics.csv")
    assert [int(row["update"]) for row in rows] == list(range(1, 13))
    assert [int(row["decisions"]) for row in rows] == list(range(32, budget + 1, 32))
    alone = train_here(f"--run={run}", "--resume", f"--budget={budget + 32}")
    assert alone.returncode == 0, alone.stderr
    decisions = [int(row["decisions"]) for row in read_metrics(run / "metrics.csv")]
    assert decisions == [*range(32, budget + 1, 32), budget + 16, budget + 32]


def test_who_survives_a_rank_says_so(mazes: ScenarioSet, tmp_path: Path) -> None:
    """In one sentence, without gloo's own; no torchrun, which would stop it before it has spoken.

    Rank 0 dies, and the store where the ranks found each other with it.
    """
    run, port = tmp_path / "run", free_port()
    arguments = flags(mazes, run, budget=10_000 * 32)[2:]  # those of egomap
    together = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    together["TORCHELASTIC_USE_AGENT_STORE"] = "False"
    group = [Warm(*arguments, env={**ENVIRONMENT, **together, "RANK": str(each)}) for each in range(2)]
    try:
        wait_for_updates(run, 2, group)
        group[0].kill()
        said = group[1].communicate(timeout=100)[1]
    finally:
        for each in group:
            each.kill()
    assert group[1].returncode == 2, said
    assert said.splitlines()[-1].startswith("egomap: rank 1 has lost another rank, which has ended")
    assert "gloo" not in said and "Traceback" not in said


def boxes(nodes: str, port: int, *arguments: str) -> list[subprocess.Popen[str]]:
    """Two torchruns with one rank each, as on two boxes, that find each other on this one."""
    together = ["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=boxes"]
    together += [
        "--rdzv-conf=last_call_timeout=2,keep_alive_interval=1"
    ]  # seconds; so long a death goes unnoticed
    return [
        subprocess.Popen(
            [*TORCHRUN, f"--nnodes={nodes}", "--nproc-per-node=1", "--max-restarts=3", *together, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**ENVIRONMENT, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
            text=True,
        )
        for _ in range(2)
    ]


def end(group: list[subprocess.Popen[str]]) -> None:
    """Kill torchruns that still run, and their ranks, which would train on without them."""
    for each in group:
        ranks = ranks_of(each.pid) if each.poll() is None else []
        each.kill()
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


@pytest.mark.timeout(400)
def test_killed_ranks_of_two_boxes(mazes: ScenarioSet, tmp_path: Path) -> None:
    """Its box counts a restart, the other one sees a new member and counts none; they meet all the same."""
    run = tmp_path / "run"
    arguments = [*flags(mazes, run, budget=40 * 32), "--auto-resume"]
    group = boxes("2", free_port(), *arguments)
    try:
        for rank in (0, 1):
            wait_for_updates(run, len(read_metrics(run / "metrics.csv")) + 4, group)
            (victim,) = [pid for each in group for pid in ranks_of(each.pid, rank)]
            os.kill(victim, signal.SIGKILL)
        said = [each.communicate(timeout=300)[1] for each in group]
    finally:
        end(group)
    assert [each.returncode for each in group] == [0, 0], said
    rows = read_metrics(run / "metrics.csv")
    assert [int(row["update"]) for row in rows] == list(range(1, 41))


@pytest.mark.timeout(400)
def test_a_box_that_dies(mazes: ScenarioSet, tmp_path: Path) -> None:
    """Torchrun and rank of one box are gone: the other goes on alone, to the end of the budget."""
    run, port = tmp_path / "run", free_port()
    arguments = [*flags(mazes, run, budget=60 * 32), "--auto-resume"]
    group = boxes("1:2", port, *arguments)
    try:
        wait_for_updates(run, 4, group)
        # The rendezvous is at one of the two; the job does not outlive that one.
        (holds,) = [each for each in group if listens(each.pid, port)]
        (dies,) = [each for each in group if each is not holds]
        for pid in (dies.pid, *ranks_of(dies.pid)):
            os.kill(pid, signal.SIGKILL)
        said = holds.communicate(timeout=300)[1]
    finally:
        end(group)
    assert holds.returncode == 0, said
    rows = read_metrics(run / "metrics.csv")
    assert [int(row["update"]) for row in rows] == list(range(1, len(rows) + 1))
    steps = {int(b["decisions"]) - int(a["decisions"]) for a, b in itertools.pairwise(rows)}
    assert steps == {32, 16}, "first two ranks, then one"
    assert int(rows[-1]["decisions"]) >= 60 * 32


def namespaces_work() -> bool:
    """Whether two network namespaces can be made and joined here."""
    ip = shutil.which("ip")
    if ip is None or os.geteuid() != 0:
        return False
    made = (
        subprocess.run([ip, "netns", "add", "egomap-probe"], capture_output=True, check=False).returncode == 0
    )
    if made:
        subprocess.run([ip, "netns", "delete", "egomap-probe"], capture_output=True, check=False)
    return made


@pytest.mark.skipif(not namespaces_work(), reason="this machine lets nobody make network namespaces")
def test_two_ranks_in_two_network_namespaces() -> None:
    """Two machines as far as the network goes: no loopback in common, only a pair of virtual cables."""

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    names = [f"egomap-{os.getpid()}-{side}" for side in "ab"]
    cables = [f"em{os.getpid() % 10_000}{side}" for side in "ab"]
    try:
        ip("link", "add", cables[0], "type", "veth", "peer", "name", cables[1])
        for name, cable, address in zip(names, cables, ("10.77.0.1", "10.77.0.2"), strict=True):
            ip("netns", "add", name)
            ip("link", "set", cable, "netns", name)
            ip("-n", name, "address", "add", f"{address}/24", "dev", cable)
            ip("-n", name, "link", "set", cable, "up")
            ip("-n", name, "link", "set", "lo", "up")
        nodes = [
            subprocess.Popen(
                [
                    *("ip", "netns", "exec", name),
                    *TORCHRUN,
                    "--nnodes=2",
                    f"--node-rank={rank}",
                    "--nproc-per-node=1",
                    "--master-addr=10.77.0.1",
                    "--master-port=29511",
                    str(RANK_CHECK),
                    "gru",
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": cable},
            )
            for rank, (name, cable) in enumerate(zip(names, cables, strict=True))
        ]
        said = [node.communicate(timeout=200)[0] for node in nodes]
        assert [node.returncode for node in nodes] == [0, 0], said
        assert "rank 1 of 2 agrees" in said[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", cables[0]], capture_output=True, check=False)
