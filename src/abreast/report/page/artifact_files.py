"""Files that a page links to: the artifacts of trials as stored, and for each case a page with its changes.

Artifacts are written as `.diff` or `.txt`, whatever their names, so that no browser executes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from abreast.analyse.run import Analysis
from abreast.filenames import FileNames
from abreast.report import folder
from abreast.report.page import rendering
from abreast.report.page.changes import HUMAN, ON_ITS_OWN, Block, Changes
from abreast.report.page.trial_artifacts import (
    DIFF,
    Links,
    RunArtifacts,
    SizeBudget,
    TrialArtifacts,
    cut,
    line,
    score_titles,
)
from abreast.report.words.verdict_sentence import SIMULATED

MAX_ARTIFACT_BYTES = 2_500_000  # bytes of one artifact
MAX_TOTAL_BYTES = 60_000_000  # bytes of all artifacts
MAX_PAGE_BYTES = 800_000  # bytes of one page of changes
MAX_PAGES_BYTES = 24_000_000  # bytes of all pages
LINES = 1_000_000  # lines read from all diffs together

OnWritten = Callable[[Path], object]


def write(analysis: Analysis, artifacts: RunArtifacts, place: Path, on_written: OnWritten) -> Links:
    """Write as many files as fit; `on_written` is called with each path."""
    links = Links()
    _write_artifacts(artifacts, place, links, on_written)
    _write_pages(analysis, artifacts, place, links, on_written)
    return links


def _write_artifacts(artifacts: RunArtifacts, place: Path, links: Links, on_written: OnWritten) -> None:
    rows, budget = artifacts.rows, SizeBudget(MAX_TOTAL_BYTES)
    cases, variants, names = FileNames(), FileNames(), FileNames()
    for artifact in artifacts.listed:
        trial = artifacts.trials.get(artifact.position)
        if trial is None or artifact.size > MAX_ARTIFACT_BYTES or not budget.take(artifact.size):
            continue
        content = rows.store.queries.artifact(rows.run_id, artifact.position, artifact.name)
        suffix = ".diff" if artifact.name == DIFF else f".{names.of(artifact.name)}.txt"
        name = f"{variants.of(rows.variants[trial.variant])}-{trial.repeat + 1}{suffix}"
        path = folder.keep(place / "artifacts" / cases.of(rows.cases[trial.case].id), name, [content.encode()])
        on_written(path)
        links.artifacts[artifact.position, artifact.name] = quote(path.relative_to(place).as_posix())


def _write_pages(analysis: Analysis, artifacts: RunArtifacts, place: Path, links: Links, on_written: OnWritten) -> None:
    """Write a page for each case with changes, until the budget is used up."""
    template = rendering.environment().get_template("changes.html.j2")
    rows = artifacts.rows
    changes = Changes(rows.store.queries, rows.run_id, artifacts.trial_name, LINES)
    budget, names = SizeBudget(MAX_PAGES_BYTES), FileNames()
    style = rendering.style()
    for case, trials in artifacts.cases.items():
        if not any(trial.has_change for trial in trials):
            continue
        blocks, missing = _blocks(changes, trials, rows.variants.index(rows.meta["baseline"]))
        if not blocks:
            return
        text = template.render(
            run=analysis.run,
            banner=SIMULATED if analysis.simulated else "",
            style=style,
            case=cut(rows.cases[case].id, 300),
            human=HUMAN if blocks[0].left == HUMAN else "",
            blocks=blocks,
            missing=missing,
            lines=[line(artifacts, trial, links, "../") for trial in trials],
            scores=score_titles(artifacts),
        ).encode()
        if not budget.take(len(text)):
            return
        path = folder.keep(place / "changes", f"{names.of(rows.cases[case].id)}.html", [text])
        on_written(path)
        links.changes[case] = quote(path.relative_to(place).as_posix())


def _blocks(changes: Changes, trials: Sequence[TrialArtifacts], baseline: int) -> tuple[list[Block], bool]:
    """The blocks of a case that fit on its page, and whether some are missing."""
    blocks: list[Block] = []
    budget = SizeBudget(MAX_PAGE_BYTES)
    for block in changes.of_case(trials, baseline, ON_ITS_OWN):
        if not budget.take(block.size()):
            break
        blocks.append(block)
    return blocks, budget.is_used_up or changes.is_used_up
