"""The page in a real browser: it loads alone, its controls move all panels together, and what it shows is true."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from egomap.inspector.events import events, goals_reached
from egomap.inspector.recording import Recording
from egomap.inspector.surroundings import FIRST_GOAL, label_cells, label_names, standing

from .browser import Watched, chromium, missing
from .conftest import MAP_SIZE, Lesioned, Recorder
from .test_page import HOSTILE, longer, page_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

PIXELS = """id => { const c = document.getElementById(id);
    return Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data); }"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


Opener = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    """opened(recording, decision): its page in a browser; afterwards nothing was asked for or complained of."""
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    watched = Watched(context)
    path = tmp_path / "an episode.html"

    def open_page(recording: Recording, decision: int = 0) -> Any:
        path.write_text(page_of(recording), encoding="utf-8")
        return watched.open(path, decision)

    yield open_page
    context.close()
    assert watched.complaints == []
    outside = [url for url in watched.requests if not url.startswith(("file:", "data:"))]
    assert outside == [] and sum(url.startswith("file:") for url in watched.requests) == 1


def pixels(page: Any, name: str, channels: int = 3) -> np.ndarray:
    width = page.evaluate("id => document.getElementById(id).width", name)
    return np.array(page.evaluate(PIXELS, name), np.uint8).reshape(-1, width, 4)[..., :channels]


def decision(page: Any) -> int:
    return int(page.evaluate("document.body.dataset.decision"))


def check_all_panels(page: Any, recording: Recording, t: int) -> None:
    """Every panel shows decision t."""
    assert decision(page) == t and page.locator("#now").inner_text() == str(t)
    assert int(page.locator("#scrubber").input_value()) == t
    assert np.array_equal(pixels(page, "rgb"), recording.rgb[t])
    unknown = ~np.isfinite(recording.depth[t])
    assert np.array_equal(pixels(page, "depth", 4)[..., 3] == 0, unknown)
    x, y, phi = recording.true_pose[t]
    place = page.evaluate(
        "(() => { const m = document.getElementById('walker').transform.baseVal.consolidate().matrix;"
        " return [m.a, m.b, m.e, m.f]; })()"
    )
    assert place[2:] == pytest.approx([x, -y], abs=1e-2), "the marker is at the pose"
    # The marker points up; turned by the matrix it points to (b, -a) on the screen, where y goes down.
    assert [place[1], place[0]] == pytest.approx([np.cos(phi), np.sin(phi)], abs=1e-3)
    taken = page.locator("#policy .taken .name").get_attribute("aria-label")
    assert taken == f"{page.evaluate('inspector.data.actions')[recording.action[t]]}, taken"
    done = page.evaluate("[...document.querySelectorAll('.goal')].map(g => g.classList.contains('done'))")
    assert done == goals_reached(recording)[t].tolist()
    reward = page.locator("#signals dd").first.inner_text().replace("−", "-")
    assert float(reward) == pytest.approx(recording.reward[: t + 1].sum(), abs=6e-4)
    track = recording.map
    if track is not None and track.position is not None and track.attention is not None:
        arrow = page.evaluate(
            "(e => [+e.dataset.x, +e.dataset.y])(document.querySelector('#attention-marks .arrow'))"
        )
        assert arrow == pytest.approx(track.position[t].tolist(), abs=1e-4)
        tip = page.evaluate(
            "document.querySelector('#attention-marks .arrow').getAttribute('d').match(/L(\\S+) (\\S+?)M/).slice(1)"
        )
        half = track.size / 2
        wanted = [half + track.position[t, 0] * half, half - track.position[t, 1] * half]
        assert [float(value) for value in tip] == pytest.approx(wanted, abs=1e-3)
        shown = pixels(page, "map", 4)
        assert np.array_equal(shown[..., 3] > 0, track.known[t, 0])


def test_keys_and_buttons_move_all_panels_together(opened: Opener, recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    page, last = opened(recording), len(recording) - 1
    check_all_panels(page, recording, 0)
    for key, there in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("Shift+ArrowRight", 11),
        ("End", last),
        ("ArrowRight", last),
        ("Home", 0),
        ("ArrowLeft", 0),
    ):
        page.keyboard.press(key)
        check_all_panels(page, recording, there)
    for button, there in (("last", last), ("back", last - 1), ("first", 0), ("forward", 1)):
        page.click(f"#{button}")
        check_all_panels(page, recording, there)


def test_the_scrubber_and_event_marks(opened: Opener, recorded: Recorder) -> None:
    recording = recorded("ordered-items", "egomap", "planner")
    page = opened(recording)
    box = page.locator("#scrubber").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    there = decision(page)
    assert abs(there - (len(recording) - 1) / 2) <= 1
    check_all_panels(page, recording, there)
    marks = page.locator("#marks button")
    found = events(recording)
    assert marks.count() == len(found) == 4
    for index, event in enumerate(found):
        assert marks.nth(index).get_attribute("aria-label") == f"{event.name}, decision {event.decision}"
        marks.nth(index).click()
        check_all_panels(page, recording, event.decision)
        assert event.name in page.locator("#happening").inner_text()
    page.keyboard.press("p")
    assert decision(page) == found[-2].decision
    page.keyboard.press("n")
    assert decision(page) == found[-1].decision


def test_space_plays_and_pauses(opened: Opener, recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    page = opened(recording)
    page.select_option("#speed", "4")
    page.locator("body").click(position={"x": 4, "y": 4})
    page.keyboard.press("Space")
    page.wait_for_selector("body.playing:not([data-decision='0']):not([data-decision='1'])")
    assert page.locator("#play").get_attribute("aria-label") == "Pause"
    page.keyboard.press("Space")
    check_all_panels(page, recording, decision(page))
    assert page.locator("#play").get_attribute("aria-label") == "Play"
    page.click("#play")
    page.wait_for_selector(f"body[data-decision='{len(recording) - 1}']:not(.playing)")


def test_a_link_leads_to_its_decision(opened: Opener, recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    page = opened(recording, 7)
    check_all_panels(page, recording, 7)


@pytest.mark.parametrize("kind", ["egomap", "neural-map"])
def test_a_cell_tells_what_is_there(opened: Opener, recorded: Recorder, kind: str) -> None:
    recording = recorded("ordered-items", kind, "planner")
    track, layout = recording.map, recording.layout
    assert track is not None and layout is not None and track.attention is not None
    t = events(recording)[1].decision + 1
    page = opened(recording, t)
    present = standing(layout, goals_reached(recording))[t]
    pose = recording.true_pose[t] if track.frame == "ego" else None
    labels = label_cells(layout, track.size, track.extent, pose, present)
    names = label_names(layout)
    told = page.evaluate(
        "n => Array.from({length: n * n}, (_, i) => inspector.describe(i % n, Math.floor(i / n)))", track.size
    )
    there = np.array([cell["there"] for cell in told]).reshape(track.size, track.size)
    assert np.array_equal(there, np.array(names)[labels])
    assert {"wall", "free", "outside"} <= set(there.flat)
    attention = np.array([cell["attention"] for cell in told]).reshape(track.size, track.size)
    assert attention == pytest.approx(track.attention[t, 0], abs=1e-5)
    norm = np.array([cell["norm"] for cell in told]).reshape(track.size, track.size)
    assert norm == pytest.approx(track.norms[t, 0], abs=float(track.norms.max()) / 400)
    # The mouse over a cell, and the keys.
    box = page.locator("#attention-box").bounding_box()
    side = track.size * (2 if len(track.tiles) > 1 else 1)
    column, row = 3, 5
    page.mouse.move(
        box["x"] + (column + 0.5) / side * box["width"], box["y"] + (row + 0.5) / side * box["height"]
    )
    assert there[row, column] in page.locator("#cell").inner_text()
    page.mouse.move(2, 2)
    assert not page.locator("#cell").is_visible()
    page.focus("#map-box")
    page.keyboard.press("ArrowRight")
    assert "attention" in page.locator("#cell").inner_text()
    assert decision(page) == t, "keys in the map move from cell to cell, not in time"


@pytest.mark.parametrize(
    ("kind", "shown", "hidden"),
    [
        ("neural-map", {"map", "attention"}, {"hidden"}),
        ("gru", {"hidden"}, {"map", "attention", "places"}),
        ("egomap-places", {"map", "attention", "places"}, {"hidden"}),
        ("places", {"hidden", "places"}, {"map", "attention"}),
        ("none", set(), {"map", "attention", "hidden"}),
        (None, set(), {"map", "attention", "hidden"}),
    ],
)
def test_agents_without_all_of_it(
    opened: Opener, recorded: Recorder, kind: str | None, shown: set[str], hidden: set[str]
) -> None:
    recording = recorded("labyrinth", kind, "planner")
    page = opened(recording, 3)
    for name in shown:
        assert page.locator(f"#panel-{name}").is_visible()
    for name in hidden:
        assert not page.locator(f"#panel-{name}").is_visible()
    check_all_panels(page, recording, 3)
    assert page.locator("#overlay").is_visible() == ("map" in shown)


def test_hostile_text_does_nothing(opened: Opener, recorded: Recorder) -> None:
    recording = dataclasses.replace(
        recorded("labyrinth", "egomap", "planner"),
        agent=HOSTILE,
        layout_id=HOSTILE,
        settings={HOSTILE: HOSTILE},
    )
    page = opened(recording)
    assert "<script>alert(1)</script>" in page.locator("#lede").inner_text()
    assert page.locator("#settings").evaluate("dl => dl.textContent.includes('</script>')")


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (1366, 768), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_is_not_blank(
    browser: Any, recorded: Recorder, tmp_path: Path, width: int, height: int, scheme: str
) -> None:
    recording = recorded("find-return", "egomap", "planner")
    path = tmp_path / "page.html"
    path.write_text(page_of(recording), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = Watched(context).open(path, len(recording) // 2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing to scroll sideways"
    picture = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 500
    background = picture[0, 0].mean()
    assert background > 200 if scheme == "light" else background < 60
    for name in ("rgb", "map", "attention", "above-box"):
        box = page.locator(f"#{name}").bounding_box()
        assert box["width"] > 100 and box["x"] >= 0 and box["x"] + box["width"] <= width
    if width >= 1366:
        bottom = max(page.locator(f"#{name}").bounding_box()["y"] for name in ("scrubber", "policy"))
        assert bottom < height, "a laptop shows everything at once"
    context.close()


def test_people_who_do_not_see_or_point(opened: Opener, recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    page = opened(recording)
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, canvas, [tabindex]')].filter(e => "
        "!e.hidden && e.getAttribute('aria-hidden') !== 'true' && !e.getAttribute('aria-label') && "
        "!e.closest('label')).map(e => e.outerHTML.slice(0, 80))"
    )
    assert nameless == []
    first = events(recording)[0]
    page.evaluate("t => inspector.show(t)", first.decision)
    spoken = page.locator("#scrubber").get_attribute("aria-valuetext")
    assert spoken.startswith(f"decision {first.decision} of {len(recording) - 1}: ") and first.name in spoken
    page.keyboard.press("Tab")
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid", "the focus can be seen"
    headings = page.evaluate(
        "[...document.querySelectorAll('section.panel:not([hidden])')].map(s => "
        "[s.querySelector('h2').textContent.trim(), s.querySelector('.why').textContent.trim()])"
    )
    assert len(headings) == 6 and all(title and line for title, line in headings)


def test_a_whole_episode_with_lossy_pictures_shows_the_right_ones(opened: Opener, recorded: Recorder) -> None:
    recording = longer(recorded("find-return", "egomap", "planner", layout=1, map_size=24), 525)
    page = opened(recording, 100)
    for t in (100, 524, 31, 32):
        page.evaluate("t => inspector.show(t)", t)
        shown = pixels(page, "rgb").astype(int)
        off = np.abs(shown - recording.rgb.astype(int)).mean((1, 2, 3))
        assert off[t] == off.min() < 4


def test_the_map_over_the_maze_is_where_the_agent_is(opened: Opener, recorded: Recorder) -> None:
    recording = recorded("find-return", "egomap", "planner")
    page = opened(recording, 9)
    assert recording.map is not None and recording.map.size == MAP_SIZE
    place = page.evaluate(
        "(() => { const o = document.getElementById('over').getBoundingClientRect(),"
        " b = document.getElementById('above-box').getBoundingClientRect();"
        " return [(o.left + o.right) / 2 - b.left, (o.top + o.bottom) / 2 - b.top, b.width]; })()"
    )
    view = page.evaluate("document.getElementById('above').getAttribute('viewBox').split(' ').map(Number)")
    x, y = recording.true_pose[9, :2]
    wanted = [(x - view[0]) / view[2] * place[2], (-y - view[1]) / view[3] * place[2]]
    assert place[:2] == pytest.approx(wanted, abs=1.0)
    page.locator("#overlay span", has_text="none").click()
    assert not page.locator("#over").is_visible()
    page.locator("#overlay span", has_text="attention").click()
    assert page.locator("#over").is_visible()


def level(recording: Recording, t: int, name: str) -> np.ndarray:
    track = recording.planes
    assert track is not None
    return track.levels[t, track.names.index(name)].astype(int)


@pytest.mark.parametrize("kind", ["egomap-places", "places"])
def test_places_are_shown_as_the_memory_has_them(opened: Opener, recorded: Recorder, kind: str) -> None:
    recording = recorded("find-return", kind, "planner")
    track = recording.planes
    assert track is not None and recording.layout is not None
    t = len(recording) // 2
    page = opened(recording, t)
    check_all_panels(page, recording, t)
    assert page.locator("#drawn label").all_inner_texts() == ["trail", "homeward", "outward"]
    free, blocked, recent, old = (level(recording, t, name) for name in ("free", "blocked", "recent", "old"))
    trail = pixels(page, "places", 4).astype(int)
    assert np.array_equal(trail[..., 3], np.maximum.reduce([free, blocked, recent, old]))
    clear = (free == 255) & (blocked + recent + old == 0)
    wall = (blocked == 255) & (recent + old == 0)
    assert clear.any() and wall.any()
    # As in the style sheet: --open and --wall of the light theme.
    assert (trail[clear] == [255, 254, 251, 255]).all() and (trail[wall] == [58, 65, 72, 255]).all()
    assert page.locator("#why-places").inner_text().startswith("What it saw")
    page.focus("#drawn :checked")
    for name in ("homeward", "outward"):
        page.keyboard.press("ArrowRight")
        way, shown = level(recording, t, name), pixels(page, "places", 4).astype(int)
        assert np.array_equal(shown[..., 3], np.maximum(free, blocked))
        floor = (free == 255) & (blocked == 0)
        nearer, farther = floor & (way > 192), floor & (way < 64)
        assert (nearer | farther).any()
        assert (shown[nearer][:, 0] > shown[nearer][:, 2]).all(), "orange"
        assert (shown[farther][:, 0] < shown[farther][:, 2]).all(), "blue"
        assert "nearer" in page.locator("#places-key").inner_text()
    assert decision(page) == t, "the switch does not move in time"
    page.keyboard.press("l")
    dark = pixels(page, "places", 4).astype(int)[wall]
    assert (dark == [138, 149, 161, 255]).all(), "the colours follow the theme at once"


def test_rings_of_the_places_are_where_goals_are(opened: Opener, recorded: Recorder) -> None:
    recording = recorded("find-return", "places", "planner")
    track, layout = recording.planes, recording.layout
    assert track is not None and layout is not None
    page = opened(recording)
    inside = 0
    for t in (0, len(recording) // 2, len(recording) - 1):
        page.evaluate("t => inspector.show(t)", t)
        x, y, phi = recording.true_pose[t]
        rings = page.evaluate(
            "[...document.querySelectorAll('#places-marks .spot')].map(g => { const m = "
            "g.transform.baseVal.consolidate().matrix; return [m.e, m.f, g.classList.contains('outside')]; })"
        )
        assert len(rings) == 1 + len(layout.goals)
        for (across, down, outside), cell in zip(rings[1:], layout.goals, strict=True):
            gx, gy = layout.center(cell)
            right = (gx - x) * np.sin(phi) - (gy - y) * np.cos(phi)
            ahead = (gx - x) * np.cos(phi) + (gy - y) * np.sin(phi)
            assert outside == (max(abs(right), abs(ahead)) > track.extent / 2)
            if not outside:
                inside += 1
                wanted = [track.size / 2 + right / 32, track.size / 2 - ahead / 32]
                assert [across, down] == pytest.approx(wanted, abs=0.01)
        agent = page.evaluate(
            "(m => [m.a, m.e, m.f])(document.querySelector('#places-marks .agent').transform.baseVal"
            ".consolidate().matrix)"
        )
        assert agent == [1, track.size / 2, track.size / 2], "in the centre, facing up"
    assert inside > 0


@pytest.mark.parametrize("kind", ["egomap-places", "places"])
@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (1366, 768), (900, 1200), (390, 844)])
def test_places_fit_beside_the_others(
    opened: Opener, recorded: Recorder, kind: str, width: int, height: int
) -> None:
    recording = recorded("find-return", kind, "planner")
    page = opened(recording, len(recording) // 2)
    page.set_viewport_size({"width": width, "height": height})
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing to scroll sideways"
    boxes = page.evaluate(
        "[...document.querySelectorAll('section.panel:not([hidden])')].map(s => { const b = "
        "s.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"
    )
    for i, (left, top, right, bottom) in enumerate(boxes):
        for other_left, other_top, other_right, other_bottom in boxes[:i]:
            apart = left >= other_right or right <= other_left or top >= other_bottom or bottom <= other_top
            assert apart, "panels do not overlap"
    assert page.locator("#places-box").bounding_box()["width"] > 100
    if width >= 1366:
        lowest = max(page.locator(f"#{name}").bounding_box()["y"] for name in ("scrubber", "policy"))
        assert lowest < height, "a laptop shows everything at once"


def test_the_switch_of_lesions(opened: Opener, lesioned: Lesioned) -> None:
    recording = lesioned.recording
    page, mind, count = opened(recording, 2), recording.mind, len(recording)
    assert mind is not None
    names = page.locator("#lesion label").all_inner_texts()
    assert names == ["none", *lesioned.live]
    shown = ("#strip", "#lesion-told", "#lesion-kl", "#policy .share.other >> nth=0")
    assert not any(page.locator(name).is_visible() for name in shown)
    page.focus("#lesion :checked")
    for track in recording.lesions:
        page.keyboard.press("ArrowRight")  # radio buttons: by keyboard, and time stands still
        differs, t = track.differs(mind.probabilities), decision(page)
        assert all(page.locator(name).is_visible() for name in shown)
        assert page.locator("#lesion :checked").get_attribute("value") == track.lesion
        assert page.locator("#lesion-count").inner_text() == f"{differs.sum()} of {count}"
        assert page.locator("#strip .ticks").get_attribute("data-count") == str(differs.sum())
        shares = page.evaluate(
            "[...document.querySelectorAll('#policy .other i')].map(i => parseFloat(i.style.width))"
        )
        assert shares == pytest.approx((100 * track.probabilities[t]).tolist(), abs=1e-2)
        bold = [
            page.evaluate(
                f"[...document.querySelectorAll('#policy .share{kind}')].findIndex(s => s.matches('.favourite'))"
            )
            for kind in (":not(.other)", ".other")
        ]
        assert bold == [mind.probabilities[t].argmax(), track.probabilities[t].argmax()]
        page.keyboard.press("d")
        later = [step for step in np.flatnonzero(differs).tolist() if step > t]
        assert decision(page) == (later[0] if later else t)
        words = "other" if differs[decision(page)] else "same"
        assert page.locator("#lesion-kl").inner_text().startswith(f"{words} choice, KL ")
        page.evaluate("inspector.show(2)")
    page.locator("#lesion label", has_text="none").click()
    assert not any(page.locator(name).is_visible() for name in shown)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1366


def test_no_lesions_no_switch(opened: Opener, recorded: Recorder) -> None:
    page = opened(recorded("labyrinth", "gru", "planner"))
    for name in ("#lesion", "#strip", "#lesion-told", "#lesion-kl"):
        assert not page.locator(name).is_visible()
    page.click("summary")
    assert not page.locator(".more dt.lesions").is_visible()


def test_lesions_on_a_phone(browser: Any, lesioned: Lesioned, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page_of(lesioned.recording), encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = Watched(context).open(path)
    page.locator("#lesion label", has_text="global-read").click()
    assert page.locator("#strip").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing to scroll sideways"
    context.close()


SPOTS = """([id, kind]) => [...document.querySelectorAll(`#${id}-marks .${kind}`)].map(g => {
    const m = g.transform.baseVal.consolidate().matrix; return [m.e, m.f, g.classList.contains('outside')]; })"""


@pytest.mark.parametrize("kind", ["egomap", "neural-map"])
def test_start_and_goals_are_where_the_map_has_them(opened: Opener, recorded: Recorder, kind: str) -> None:
    """Against the labels of the cells, which were reckoned from the layout the other way round."""
    recording = recorded("find-return", kind, "planner")
    track, layout = recording.map, recording.layout
    assert track is not None and layout is not None
    page, inside = opened(recording), 0
    for t in (0, 8, len(recording) - 1):
        page.evaluate("t => inspector.show(t)", t)
        pose = recording.true_pose[t] if track.frame == "ego" else None
        present = np.ones(len(layout.goals), bool)
        labels = label_cells(layout, track.size, track.extent, pose, present)
        for name in ("map", "attention"):
            assert len(page.evaluate(SPOTS, [name, "from"])) == len(track.tiles)
            spots = page.evaluate(SPOTS, [name, "aim"])
            assert len(spots) == len(layout.goals) * len(track.tiles)
            for index, (x, y, outside) in enumerate(spots):
                goal = index // len(track.tiles)
                assert x % track.size > 0 and y % track.size > 0
                if outside:
                    assert not (labels == FIRST_GOAL + goal)[1:-1, 1:-1].any()
                else:
                    inside += 1
                    assert labels[int(y % track.size), int(x % track.size)] == FIRST_GOAL + goal
    assert inside > 0
