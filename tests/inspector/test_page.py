"""The page as a file: what it holds is what was recorded, it is small, and no text of ours becomes markup."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from egomap.inspector.components import fit_basis, known_rows
from egomap.inspector.page import embedded, page
from egomap.inspector.pictures import fitting_strips, packed
from egomap.inspector.recording import LesionTrack, MapTrack, MindTrack, PlanesTrack, Recording

from .conftest import Lesioned, Recorder

HOSTILE = '</script><script>alert(1)</script><!-- <script> " & \u2028'


def page_of(recording: Recording) -> str:
    basis = None if recording.map is None else fit_basis(known_rows([recording.map]))
    return page(recording, basis)


class Parts(HTMLParser):
    """The scripts of a page by id, and every tag with its attributes, as a browser's parser sees them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._id: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._id = dict(attrs).get("id") or "" if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._id = None if tag == "script" else self._id

    def handle_data(self, data: str) -> None:
        if self._id is not None:
            self.scripts[self._id] = self.scripts.get(self._id, "") + data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts["data"])

    def array(self, name: str) -> np.ndarray:
        about = self.data["arrays"][name]
        raw = zlib.decompress(base64.b64decode(self.scripts[f"part-{name}"]))
        return np.frombuffer(raw, about["dtype"]).reshape(about["shape"])

    def pictures(self) -> np.ndarray:
        strips = [Image.open(io.BytesIO(base64.b64decode(text))) for text in self.scripts["part-rgb"].split()]
        rows = np.concatenate([np.asarray(strip.convert("RGB")) for strip in strips])
        return rows.reshape(-1, 64, 112, 3)


def longer(recording: Recording, decisions: int) -> Recording:
    """The recording again and again, for as many decisions."""

    def repeat(value: Any) -> Any:
        if isinstance(value, (MindTrack, MapTrack, PlanesTrack, LesionTrack)):
            return type(value)(*(repeat(part) for part in value))
        if isinstance(value, tuple):
            return tuple(repeat(part) for part in value)
        if isinstance(value, np.ndarray) and len(value) == len(recording):
            return np.concatenate([value] * -(-decisions // len(value)))[:decisions]
        return value

    fields = {field.name: repeat(getattr(recording, field.name)) for field in dataclasses.fields(recording)}
    return Recording(**fields)


def test_the_page_holds_what_was_recorded(recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    track = recording.map
    assert track is not None and track.attention is not None and track.position is not None
    parts = Parts(page_of(recording))
    assert np.array_equal(parts.pictures(), recording.rgb), "a short episode is kept without loss"
    levels = parts.array("levels")
    depth = np.where(levels < 0, np.inf, levels)[parts.array("depth")]
    assert np.array_equal(depth, recording.depth)
    data = parts.data
    attention = parts.array("attention") / 65535 * np.array(data["map"]["peak"])[:, None, None, None]
    assert attention == pytest.approx(track.attention, abs=1e-6)
    assert attention.sum((1, 2, 3)) == pytest.approx(1.0, abs=1e-3)
    assert np.array(data["map"]["position"]) == pytest.approx(track.position, abs=1e-4)
    assert np.array(data["pose"]) == pytest.approx(recording.true_pose, abs=1e-3)
    assert np.array(data["return"]) == pytest.approx(np.cumsum(recording.reward), abs=1e-5)
    assert [event["decision"] for event in data["events"]] == np.flatnonzero(recording.event).tolist()
    norms = parts.array("norm") / 255 * data["map"]["largest_norm"]
    assert norms == pytest.approx(track.norms, abs=data["map"]["largest_norm"] / 400)
    assert np.array_equal(parts.array("known").astype(bool), track.known)


@pytest.mark.parametrize(
    ("kind", "present", "absent"),
    [
        ("egomap", {"map", "attention"}, {"hidden"}),
        ("neural-map", {"map", "attention"}, {"hidden"}),
        ("gru", {"hidden"}, {"map", "attention", "planes"}),
        ("egomap-places", {"map", "attention", "planes"}, {"hidden"}),
        ("places", {"hidden", "planes"}, {"map", "attention"}),
        ("none", set(), {"map", "attention", "hidden"}),
        ("frame-stack", set(), {"map", "attention", "hidden"}),
        (None, set(), {"map", "attention", "hidden"}),
    ],
)
def test_agents_get_the_panels_that_they_have(
    recorded: Recorder, kind: str | None, present: set[str], absent: set[str]
) -> None:
    data = Parts(page_of(recorded("labyrinth", kind, "planner"))).data
    assert present <= data["arrays"].keys() and not absent & data["arrays"].keys()
    assert (data["probabilities"] is None) == (kind is None)


@pytest.mark.slow
def test_the_page_holds_every_lesion(lesioned: Lesioned) -> None:
    recording = lesioned.recording
    mind = recording.mind
    assert mind is not None
    parts = Parts(page_of(recording))
    assert [entry["name"] for entry in parts.data["lesions"]] == list(lesioned.live)
    told = np.stack([track.probabilities for track in recording.lesions])
    assert np.array_equal(parts.array("lesioned"), told)
    divergence = (mind.probabilities * np.log(mind.probabilities / told.astype(np.float64))).sum(-1)
    assert parts.array("divergence") == pytest.approx(divergence, abs=1e-6)
    assert np.array_equal(parts.array("differs"), told.argmax(-1) != mind.probabilities.argmax(-1))
    assert parts.data["favourite"] == mind.probabilities.argmax(-1).tolist()


def test_a_recording_without_lesions_has_none_on_its_page(recorded: Recorder) -> None:
    data = Parts(page_of(recorded("labyrinth", "gru", "planner"))).data
    assert data["lesions"] == [] and not data["arrays"].keys() & {"lesioned", "divergence", "differs"}


@pytest.mark.slow
def test_a_whole_episode_is_at_most_six_megabytes(recorded: Recorder) -> None:
    # The planner never stands still, so hardly two of its pictures are alike; a map of the paper's size.
    recording = recorded("find-return", "egomap", "planner", layout=1, map_size=24)
    assert recording.mind is not None
    track = LesionTrack("all", {}, recording.mind.probabilities)
    recording = longer(dataclasses.replace(recording, lesions=(track,) * 5), 525)
    text = page_of(recording)
    assert len(text.encode()) <= 6_000_000
    assert Parts(text).pictures().shape[0] == 525


def test_pictures_give_way_where_they_must(recorded: Recorder) -> None:
    rgb = recorded("find-return", "egomap", "planner").rgb
    exact, quality = fitting_strips(rgb, 10**9)
    assert quality is None
    small, quality = fitting_strips(rgb, sum(map(len, exact)) // 2)
    assert quality is not None and sum(map(len, small)) <= sum(map(len, exact)) // 2


def test_no_text_becomes_markup(recorded: Recorder) -> None:
    recording = dataclasses.replace(
        recorded("labyrinth", "gru", "planner"),
        agent=HOSTILE,
        driver=HOSTILE,
        layout_id=HOSTILE,
        split=HOSTILE,
        settings={HOSTILE: HOSTILE},
    )
    hostile, plain = Parts(page_of(recording)), Parts(page_of(recorded("labyrinth", "gru", "planner")))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert hostile.data["settings"] == {HOSTILE: HOSTILE}, "the text itself is kept"


def test_embedded_json_cannot_end_its_element() -> None:
    text = embedded({"<!--": HOSTILE})
    assert not re.search(r"[<>&]", text) and text.isascii()
    assert json.loads(text) == {"<!--": HOSTILE}
    with pytest.raises(ValueError):
        embedded(float("nan"))


def test_nothing_is_loaded_from_elsewhere(recorded: Recorder) -> None:
    text = page_of(recorded("labyrinth", "egomap", "planner"))
    parts = Parts(text)
    for tag, attributes in parts.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base")
        assert not attributes.keys() & {"src", "srcset", "style", "onclick", "onload"}, (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(attributes["content"] for tag, attributes in parts.tags if "http-equiv" in attributes)
    assert policy is not None and policy.startswith("default-src 'none'; img-src data:;")
    own = parts.scripts[""] + text[text.index("<style>") : text.index("</style>")]
    assert set(re.findall(r"https?://[^\s\"']+", own)) <= {"http://www.w3.org/2000/svg"}


def test_packed_arrays_are_little_endian() -> None:
    about, text = packed(np.array([[1, 258]], ">u2"))
    assert about == {"dtype": "uint16", "shape": [1, 2]}
    assert zlib.decompress(base64.b64decode(text)) == bytes([1, 0, 2, 1])
