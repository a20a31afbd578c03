"""The commands: from options to files. What is wrong with the input is a ValueError before anything is played."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import torch

from egomap.compute import torch_threads
from egomap.config import require
from egomap.inspector import probe_report
from egomap.inspector.components import Basis, fit_basis, known_rows, load_basis, save_basis
from egomap.inspector.figure import figure, parse_steps
from egomap.inspector.lesioned import intact_record, lesion_names, with_lesions
from egomap.inspector.options import InspectOptions, PlayOptions, ProbeOptions
from egomap.inspector.outputs import check_outputs, require_ending
from egomap.inspector.page import page
from egomap.inspector.play import play as play_in_window
from egomap.inspector.probe import ProbeResult
from egomap.inspector.probe import probe as run_probe
from egomap.inspector.record import Stage, driver_of, mind_of
from egomap.inspector.recording import Recording
from egomap.inspector.rerun_file import find_rerun, write_rrd
from egomap.inspector.subject import Subject, find_subject, require_ours, untrained
from egomap.inspector.video import ENDINGS, find_ffmpeg, write_video
from egomap.training.names import find_source
from egomap.training.run import worlds_of
from egomap.training.trained import find_agent
from egomap.util.files import write_whole

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""A progress bar with a title."""


def inspect(options: InspectOptions, bar: Bar) -> list[Path]:
    """Play the episodes and write what was asked for; the files that were written."""
    fits = options.basis is not None and not options.basis.exists()
    if not (fits or any((options.out, options.figure, options.video, options.rrd))):
        options = replace(options, out=Path("episode.html"))
    _check(options)
    subject = find_subject(options)
    _check_layouts(options, subject)
    lesions = _lesions(options, subject)
    recordings = record(options, subject, bar)
    if lesions:
        recordings = [_lesioned(recordings[0], lesions, options, subject, bar)]
    basis = _basis(options, recordings)
    written: list[Path] = []
    if options.out is not None:
        write_whole(options.out, page(recordings[0], basis))
        written.append(options.out)
    if options.figure is not None:
        steps = parse_steps(options.steps, recordings[0])
        kind = options.figure.suffix.lower().removeprefix(".")
        write_whole(options.figure, figure(recordings[0], basis, steps, kind))
        written.append(options.figure)
    if options.video is not None:
        with bar("video") as progress:
            write_video(options.video, recordings, basis, speed=options.speed, progress=progress)
        written.append(options.video)
    if options.rrd is not None:
        write_rrd(options.rrd, recordings[0], basis)
        written.append(options.rrd)
    if fits and options.basis is not None and basis is not None:
        save_basis(options.basis, basis)
        written.append(options.basis)
    return written


def record(options: InspectOptions, subject: Subject, bar: Bar) -> list[Recording]:
    """The episodes."""
    kind = subject.scripted or ("self" if options.driver == "agent" else options.driver)
    driver = driver_of(kind, deterministic=options.deterministic, frame_skip=subject.settings.frame_skip)
    found = []
    # One observation at a time is too little work to share out among threads.
    with torch_threads(1), Stage(subject.worlds, subject.settings) as stage:
        for layout in options.layout:
            with bar(f"layout {layout}") as progress:
                found.append(
                    stage.play(
                        layout,
                        driver,
                        mind=mind_of(subject.agent),
                        seed=options.seed,
                        progress=progress,
                        agent=subject.name,
                        driven_by="" if kind == "self" or kind == subject.scripted else kind,
                        split=options.split if subject.worlds[layout].layout is not None else "",
                        about=subject.about,
                    )
                )
    return found


def probe(options: ProbeOptions, bar: Bar) -> tuple[ProbeResult, list[Path]]:
    """Probe a run's agent; the result, and the files that were written."""
    options.validate()
    source = find_source(options.run)
    folder = options.out or (source.folder / "probe" if source.is_run else Path(f"{source.stem}-probe"))
    files = [folder / name for name in ("probe.json", "probe.png", "probe.svg")]
    require(not folder.exists() or folder.is_dir(), f"{folder} is a file; give a folder.")
    if folder.exists():
        check_outputs(files, overwrite=options.overwrite)
    found = find_agent(options.run, which=options.checkpoint)
    config = found.config
    require_ours(config, options.run)
    worlds = worlds_of(config, "test")
    with torch_threads(1), bar("layouts") as progress:
        result = run_probe(
            found.agent,
            untrained(config.agent, found.spec, options.seed),
            worlds,
            config.env,
            layouts=options.layouts,
            driver="self" if options.driver == "agent" else options.driver,
            seed=options.seed,
            progress=progress,
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(files[0], json.dumps(result.to_json(), indent=1) + "\n")
    for path in files[1:]:
        write_whole(path, probe_report.figure(result, path.suffix.removeprefix(".")))
    return result, files


def play(options: PlayOptions) -> tuple[Recording, list[Path]]:
    """Let the user play; the episode, and the files that were written."""
    require(0.1 <= options.speed <= 10, f"speed must be 0.1 to 10; got {options.speed}.")
    require(options.agent not in ("random", "planner"), f"{options.agent} has no memory to show; you play.")
    require_ending(options.out, ".html", ".htm")
    check_outputs((options.out,), overwrite=options.overwrite)
    subject = find_subject(options, nobody=True)
    torch.set_num_threads(1)
    with Stage(subject.worlds, subject.settings) as stage:
        recording = play_in_window(
            stage,
            options.layout,
            mind=mind_of(subject.agent),
            name=subject.name,
            split=options.split if subject.worlds[0].layout is not None else "",
            seed=options.seed,
            speed=options.speed,
        )
    if options.out is None:
        return recording, []
    basis = None if recording.map is None else fit_basis(known_rows([recording.map]))
    write_whole(options.out, page(recording, basis))
    return recording, [options.out]


def _check(options: InspectOptions) -> None:
    options.validate()
    require_ending(options.out, ".html", ".htm")
    require_ending(options.figure, ".png", ".svg", ".pdf")
    require_ending(options.video, *ENDINGS)
    require_ending(options.rrd, ".rrd")
    if options.video is not None:
        require(0.05 <= options.speed <= 50, f"speed must be 0.05 to 50; got {options.speed}.")
        if options.video.suffix.lower() == ".mp4":
            find_ffmpeg()
    if options.rrd is not None:
        find_rerun()
    alone = len(options.layout) == 1
    for name, path in (("page", options.out), ("figure", options.figure), ("Rerun file", options.rrd)):
        require(alone or path is None, f"a {name} shows one episode; --video shows several layouts.")
    require(
        not options.lesion or options.out is not None,
        "only the page shows lesions; give its file by --out, or leave --lesion out.",
    )
    check_outputs((options.out, options.figure, options.video, options.rrd), overwrite=options.overwrite)
    if options.basis is not None:
        require(options.basis.resolve().parent.is_dir(), f"{options.basis.parent} is not a folder.")


def _check_layouts(options: InspectOptions, subject: Subject) -> None:
    stage = Stage(subject.worlds, subject.settings)
    for layout in options.layout:
        stage.check(layout)
    if subject.scripted == "planner" or options.driver == "planner":
        known = all(subject.worlds[layout].layout is not None for layout in options.layout)
        require(known, "the planner needs the layout, and these scenario files come without one.")


def _lesions(options: InspectOptions, subject: Subject) -> list[str]:
    """The lesions to show, in full; a ValueError if the agent has no such part."""
    if not options.lesion:
        return []
    require(subject.agent is not None, f"{subject.name} has no memory, so nothing of it can be lesioned.")
    assert subject.agent is not None
    require(
        options.lesion_by != "shuffle" or len(subject.worlds) > 1,
        "a lesion by shuffle takes from an episode in another layout, and there is only one.",
    )
    return lesion_names(subject.agent.memory, options.lesion)


def _lesioned(
    recording: Recording, lesions: list[str], options: InspectOptions, subject: Subject, bar: Bar
) -> Recording:
    """The recording with what lesioned copies of the agent would have decided."""
    assert subject.agent is not None
    with torch_threads(1):
        intact = intact_record(
            subject.agent,
            lesions,
            subject.worlds,
            subject.settings,
            by=options.lesion_by,
            seed=options.seed,
            deterministic=options.deterministic,
            bar=lambda name: bar(f"{name}, for lesions"),
        )
        world = subject.worlds[recording.layout_index]
        return with_lesions(recording, subject.agent, lesions, world, intact, by=options.lesion_by)


def _basis(options: InspectOptions, recordings: list[Recording]) -> Basis | None:
    """The colours of the map: those of the file, or fitted to the episodes; None without a map."""
    maps = [recording.map for recording in recordings if recording.map is not None]
    if not maps:
        require(options.basis is None, "this agent has no map, so there is no basis of its features.")
        return None
    if options.basis is not None and options.basis.exists():
        return load_basis(options.basis)
    return fit_basis(known_rows(maps))
