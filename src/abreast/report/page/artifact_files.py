"""The files beside a page: what trials left, each text as it is stored, and a page with the changes of each case.

A name of theirs ends in `.diff` or `.txt`, whatever somebody called it, so that no browser runs what is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from abreast.analyse.run import Analysis
from abreast.filenames import FileNames
from abreast.report import folder
from abreast.report.page import rendering
from abreast.report.page.changes import HUMAN, ON_ITS_OWN, Block, Changes
from abreast.report.page.trial_artifacts import DIFF, Links, RunArtifacts, SizeBudget, cut, line, scores
from abreast.report.words.verdict_sentence import SIMULATED
from abreast.store.queries.artifacts import ArtifactSize

EACH = 2_500_000  # bytes of an artifact that is written
TOTAL = 60_000_000  # of all of them
PAGE = 800_000  # of a page of changes
PAGES = 24_000_000  # of all of them
LINES = 1_000_000  # of all diffs that are read for them

Told = Callable[[Path], object]


def write(analysis: Analysis, left: RunArtifacts, place: Path, told: Told) -> Links:
    """Write what has room; `told` hears of each file."""
    links = Links()
    _write_artifacts(left, place, links, told)
    _write_pages(analysis, left, place, links, told)
    return links


def _write_artifacts(left: RunArtifacts, place: Path, links: Links, told: Told) -> None:
    rows, room = left.rows, SizeBudget(TOTAL)
    cases, variants, names = FileNames(), FileNames(), FileNames()
    for artifact in left.listed:
        trial = left.trials.get(artifact.position)
        if trial is None or artifact.size > EACH or not room.takes(artifact.size):
            continue
        content = rows.store.queries.artifact(rows.run_id, artifact.position, artifact.name)
        name = f"{variants.of(rows.variants[trial.variant])}-{trial.repeat + 1}{_suffix(artifact, names)}"
        of_case = place / "artifacts" / cases.of(rows.cases[trial.case].id)
        path = folder.keep(of_case, name, [content.encode()])
        told(path)
        links.artifacts[artifact.position, artifact.name] = quote(path.relative_to(place).as_posix())


def _suffix(artifact: ArtifactSize, names: FileNames) -> str:
    return ".diff" if artifact.name == DIFF else f".{names.of(artifact.name)}.txt"


def _write_pages(analysis: Analysis, left: RunArtifacts, place: Path, links: Links, told: Told) -> None:
    """A page for each case that somebody changed something in, until there is no room."""
    template = rendering.environment().get_template("changes.html.j2")
    changes, room, names = Changes(left, LINES), SizeBudget(PAGES), FileNames()
    style = rendering.style()
    for case, trials in left.cases.items():
        if not any(trial.has_change for trial in trials):
            continue
        blocks, missing = _blocks(changes, case)
        if not blocks:
            return
        text = template.render(
            run=analysis.run,
            banner=SIMULATED if analysis.simulated else "",
            style=style,
            case=cut(left.rows.cases[case].id, 300),
            human=HUMAN if blocks[0].left == HUMAN else "",
            blocks=blocks,
            missing=missing,
            lines=[line(left, trial, links, "../") for trial in trials],
            scores=scores(left),
        ).encode()
        if not room.takes(len(text)):
            return
        path = folder.keep(place / "changes", f"{names.of(left.rows.cases[case].id)}.html", [text])
        told(path)
        links.changes[case] = quote(path.relative_to(place).as_posix())


def _blocks(changes: Changes, case: int) -> tuple[list[Block], bool]:
    """Those of a case that have room, and whether there are more."""
    found: list[Block] = []
    room = SizeBudget(PAGE)
    for block in changes.of_case(case, ON_ITS_OWN):
        if not room.takes(block.size()):
            break
        found.append(block)
    return found, room.used_up or changes.used_up
