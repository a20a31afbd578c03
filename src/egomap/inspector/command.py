"""The commands: from options to files. What is wrong with the input is a ValueError before anything is played."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import torch

from egomap.config import require
from egomap.inspector.components import Basis, fit_basis, known_rows, load_basis, save_basis
from egomap.inspector.options import InspectOptions
from egomap.inspector.outputs import check_outputs, require_ending
from egomap.inspector.page import page
from egomap.inspector.record import Stage, driver_of, mind_of
from egomap.inspector.recording import Recording
from egomap.inspector.subject import Subject, find_subject
from egomap.training.files import write_whole

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""A progress bar with a title."""


def inspect(options: InspectOptions, bar: Bar) -> list[Path]:
    """Play the episodes and write what was asked for; the files that were written."""
    if not any((options.out, options.figure, options.video, options.rrd, options.basis)):
        options = replace(options, out=Path("episode.html"))
    _check(options)
    subject = find_subject(options)
    _check_layouts(options, subject)
    recordings = record(options, subject, bar)
    basis = _basis(options, recordings)
    written: list[Path] = []
    if options.out is not None:
        write_whole(options.out, page(recordings[0], basis))
        written.append(options.out)
    if options.basis is not None and not options.basis.exists() and basis is not None:
        save_basis(options.basis, basis)
        written.append(options.basis)
    return written


def record(options: InspectOptions, subject: Subject, bar: Bar) -> list[Recording]:
    """The episodes."""
    kind = subject.scripted or ("self" if options.driver == "agent" else options.driver)
    driver = driver_of(kind, deterministic=options.deterministic, frame_skip=subject.settings.frame_skip)
    found = []
    # One observation at a time is too little work to share out among threads.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with Stage(subject.worlds, subject.settings) as stage:
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
    finally:
        torch.set_num_threads(threads)
    return found


def _check(options: InspectOptions) -> None:
    require_ending(options.out, ".html", ".htm")
    require_ending(options.figure, ".png", ".svg", ".pdf")
    require_ending(options.video, ".mp4")
    require_ending(options.rrd, ".rrd")
    require(bool(options.layout), "give a layout.")
    alone = len(options.layout) == 1
    for name, path in (("page", options.out), ("figure", options.figure), ("Rerun file", options.rrd)):
        require(alone or path is None, f"a {name} shows one episode; --video shows several layouts.")
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


def _basis(options: InspectOptions, recordings: list[Recording]) -> Basis | None:
    """The colours of the map: those of the file, or fitted to the episodes; None without a map."""
    maps = [recording.map for recording in recordings if recording.map is not None]
    if not maps:
        require(options.basis is None, "this agent has no map, so there is no basis of its features.")
        return None
    if options.basis is not None and options.basis.exists():
        return load_basis(options.basis)
    return fit_basis(known_rows(maps))
