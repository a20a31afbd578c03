"""Lesioned copies say what they would have decided; the intact agent, and its episode, stay as they are."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from egomap.config import Task
from egomap.envs.worlds import worlds_of_set
from egomap.evaluation.lesions import Record
from egomap.inspector.lesioned import intact_record, lesion_names, with_lesions
from egomap.inspector.mind import Mind
from egomap.inspector.record import NetworkDriver, Stage
from egomap.inspector.recording import LesionTrack
from egomap.scenarios.dataset import ScenarioSet

from .conftest import Lesioned, small_agent

ROUNDING = 1e-5
"""Of float32 probabilities through a network; pictures of a recording lie otherwise in storage than live ones."""


@pytest.mark.slow
def test_they_say_what_a_player_with_the_same_surgery_says_live(lesioned: Lesioned) -> None:
    names = ["global-read", "context", "map", "hidden", "all"]
    assert [track.lesion for track in lesioned.recording.lesions] == names == list(lesioned.live)
    for track in lesioned.recording.lesions:
        assert track.probabilities.shape == (len(lesioned.recording), 5)
        assert track.probabilities == pytest.approx(lesioned.live[track.lesion], abs=ROUNDING)
    by = dict(lesioned.recording.lesions[-1].by)
    assert by == {"global-read": "mean", "context": "mean", "map": "zero", "hidden": "zero"}


@pytest.mark.slow
def test_the_intact_agent_is_not_touched(lesioned: Lesioned) -> None:
    mind = lesioned.recording.mind
    assert mind is not None
    assert all(not module._forward_hooks for module in lesioned.agent.modules())
    again = Mind(lesioned.agent).watch(lesioned.recording)
    assert again.probabilities == pytest.approx(mind.probabilities, abs=ROUNDING)
    # A copy without its hidden state begins like the intact one, and soon thinks otherwise.
    hidden = next(track for track in lesioned.recording.lesions if track.lesion == "hidden")
    assert hidden.probabilities[0] == pytest.approx(mind.probabilities[0], abs=ROUNDING)
    assert np.abs(hidden.probabilities - mind.probabilities)[1:].max() > 10 * ROUNDING


@pytest.mark.slow
def test_without_its_state_a_gru_sees_every_picture_for_the_first_time(
    sets: dict[Task, ScenarioSet],
) -> None:
    worlds = worlds_of_set(sets["labyrinth"], "test")
    agent = small_agent("gru", worlds)
    with Stage(worlds) as stage:
        played = stage.play(0, NetworkDriver(), mind=Mind(agent))
        record = intact_record(agent, ["hidden"], worlds, stage.settings)
    (track,) = with_lesions(played, agent, ["hidden"], worlds[0], record).lesions
    tensors = {
        name: torch.stack([torch.from_numpy(played.observation(t)[name].copy()) for t in range(len(played))])
        for name in played.observation(0)
    }
    count = len(played)
    with torch.no_grad():
        alone = agent.step(tensors, agent.initial_state(count), torch.ones(count, dtype=torch.bool))
    assert track.probabilities == pytest.approx(alone.logits.softmax(-1).numpy(), abs=ROUNDING)


@pytest.mark.slow
def test_zeros_need_no_episodes(sets: dict[Task, ScenarioSet]) -> None:
    """There is no engine that could play worlds without files."""
    worlds = worlds_of_set(sets["labyrinth"], "test")
    nowhere = dataclasses.replace(
        worlds, worlds=tuple(dataclasses.replace(world, cfg=world.cfg / "no") for world in worlds)
    )
    agent = small_agent("egomap", worlds)
    with Stage(worlds) as stage:
        assert isinstance(intact_record(agent, ["map+hidden"], nowhere, stage.settings), Record)


def test_differences_and_divergence_by_hand() -> None:
    intact = np.array([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5]], np.float32)
    track = LesionTrack(
        "all", {}, np.array([[0.25, 0.75, 0.0], [0.75, 0.25, 0.0], [0.2, 0.3, 0.5]], np.float32)
    )
    assert track.differs(intact).tolist() == [True, True, False]
    # 0.5 ln(2) + 0.5 ln(2/3);  0.25 ln(1/3) + 0.75 ln(3) = 0.5 ln(3)
    expected = [0.5 * np.log(4 / 3), 0.5 * np.log(3), 0.0]
    assert track.divergence(intact) == pytest.approx(expected, abs=1e-7)
    sure = LesionTrack("all", {}, np.array([[1.0, 0.0, 0.0]], np.float32))
    assert np.isfinite(sure.divergence(intact[:1])).all(), "never infinite"
    assert sure.divergence(sure.probabilities) == pytest.approx([0.0])


def test_names(sets: dict[Task, ScenarioSet]) -> None:
    worlds = worlds_of_set(sets["labyrinth"], "test")
    egomap, gru, none = (small_agent(kind, worlds).memory for kind in ("egomap", "gru", "none"))
    assert lesion_names(egomap, ["each"]) == ["global-read", "context", "map", "hidden", "all"]
    assert lesion_names(egomap, ["map+hidden", "all"]) == ["map+hidden", "all"]
    assert lesion_names(gru, ["each"]) == ["hidden"], "of a single part, all is the same"
    with pytest.raises(ValueError, match="a lesion is given twice"):
        lesion_names(egomap, ["each", "all"])
    with pytest.raises(ValueError, match="RecurrentMemory has no part 'map'"):
        lesion_names(gru, ["map"])
    with pytest.raises(ValueError, match="names no parts"):
        lesion_names(none, ["each"])
