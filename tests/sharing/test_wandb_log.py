"""Weights & Biases: a real training logs to real files of wandb, offline, which are read back."""

from __future__ import annotations

import builtins
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from wandb.proto.wandb_internal_pb2 import Record

import egomap
from egomap.config import TrainConfig
from egomap.sharing.wandb_log import WandbLog
from egomap.training.metrics import read_metrics

HEAD, BLOCK = 7, 32 * 1024
"""Bytes. A file of wandb is a log of LevelDB's format: blocks of chunks, each chunk a record or a part of one."""
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


def finished_records(folder: Path) -> list[Record]:
    """Everything in the one offline run below `folder`; wandb's own process may still write when `finish` returns."""
    for _ in range(1200):
        found = records(folder)
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        time.sleep(0.1)
    raise AssertionError("wandb has not finished its file.")


def records(folder: Path) -> list[Record]:
    """What has been written."""
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    data, place, parts, found = path.read_bytes(), HEAD, b"", []
    while place + HEAD <= len(data):
        if BLOCK - place % BLOCK < HEAD:  # what is left of a block is padding
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        assert kind in (WHOLE, FIRST, MIDDLE, LAST)
        place += HEAD + length
        if place > len(data):
            break  # still being written
        parts += data[place - length : place]
        if kind in (WHOLE, LAST):
            record = Record()
            record.ParseFromString(parts)
            found.append(record)
            parts = b""
    return found


@pytest.mark.slow
def test_a_training_is_logged_offline(
    tiny_config: TrainConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with WandbLog(tiny_config, project="tests", name="tiny", mode="offline", dir=tmp_path) as log:
        egomap.train(tiny_config, tmp_path / "run", callback=log, quiet=True)
    written = finished_records(tmp_path)
    (begun,) = [record.run for record in written if record.WhichOneof("record_type") == "run"]
    assert (begun.project, begun.display_name) == ("tests", "tiny")
    settings: dict[str, Any] = {item.key: json.loads(item.value_json) for item in begun.config.update}
    assert settings["learner"]["num_envs"] == 2
    rows = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in written
        if record.WhichOneof("record_type") == "history"
    ]
    assert [row["decisions"] for row in rows] == [32, 64, 96]
    kept = read_metrics(tmp_path / "run" / "metrics.csv")
    assert [float(row["entropy"]) for row in kept] == pytest.approx(
        [row["entropy"] for row in rows], rel=1e-4
    )
    (ended,) = [record.exit for record in written if record.WhichOneof("record_type") == "exit"]
    assert ended.exit_code == 0


def test_without_the_package_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without_wandb(name: str, *rest: Any, **named: Any) -> Any:
        if name == "wandb":
            raise ImportError("No module named 'wandb'")
        return found(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_wandb)
    with pytest.raises(ValueError, match=r"pip install 'egomap\[wandb\]'"):
        WandbLog()
