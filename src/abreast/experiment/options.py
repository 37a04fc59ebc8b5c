"""What a run can be told, and what it comes to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import StoreError
from abreast.preflight.context import TRIED_CASES
from abreast.store import Store, open_store
from abreast.store.run_names import check_label
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.execute.deciding import Decision
    from abreast.execute.flying import Flown
    from abreast.execute.listener import Listener


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line, or a call of `run`, overrides."""

    parallel: Any = None
    trial_parallelism: int | None = None
    repeats: int | None = None
    seed: int | None = None
    store: str | Path | None = None
    case: tuple[str, ...] = ()
    tag: Mapping[str, str] = field(default_factory=dict)
    variant: tuple[str, ...] = ()
    limit: int | None = None
    debug: int | None = None
    fresh: bool = False
    retry_failed: bool = False
    budget_usd: float | None = None
    quota: str | None = None
    free_cores: float | None = None
    allow_failing: bool = False
    on_quota: str = "wait"
    until_decided: bool | None = None
    margin: float | None = None
    min_cases: int | None = None
    label: str | None = None
    lock: bool | str | Path | None = None  # write the plan to a file; None: compare if there is one; False: do not
    strict: bool = False
    force: bool = False
    keep_workspaces: bool = False
    try_tests: int = TRIED_CASES  # try the tests of this many cases before anything is paid for
    try_setup: bool = True  # make the environments of workspaces before anything is paid for
    online: bool = True  # connect to the providers before anything is paid for
    resume: str | None = None
    listeners: tuple[Listener, ...] = ()

    def __post_init__(self) -> None:
        if self.label is not None:
            check_label(self.label)


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """What a run came to. Print `verdict`; the rest is for programs."""

    run: str
    store: Path
    status: str
    planned: int
    executed: int
    reused: int
    done_before: int
    stopped: str | None
    fix: str
    in_flight: Flown
    analysis: Analysis
    decision: Decision | None = None  # why it stopped early
    saved: int = 0  # trials that were not needed

    def __repr__(self) -> str:
        return f"Result({self.run}, {self.status}: {'; '.join(self.verdict.splitlines())})"

    @property
    def verdict(self) -> str:
        """The verdict in words, a line for each variant against the baseline."""
        from abreast.report.sentence import verdict_lines

        return "\n".join(verdict_lines(self.analysis))

    def report(self, format: str = "terminal") -> str:
        """The whole report as text: terminal, markdown, json, csv, junit or html."""
        from abreast.report import formats

        return formats.text(formats.Asked(self.analysis), format)

    def write_files(self, output: str | Path | None = None, pictures: bool = True) -> list[Path]:
        """Write the files of results that the suite of the run makes under the name `output` of the experiment: beside
        the store, or into a folder. `run` does it at its end. What goes wrong is a warning."""
        from abreast.report import results

        written = results.write(self.analysis, output, pictures)
        for told in written.warnings:
            warnings.warn(printable(told), stacklevel=2)
        return written.paths

    def rows(self) -> list[dict[str, Any]]:
        """Every trial of this run, in plan order, with the columns of `predictions`."""
        with open_store(self.store) as store:
            return predictions(store, self.run)

    def log(self, values: Mapping[str, Any], variant: str | None = None, segment: str = "all") -> None:
        """A row of your own in `metrics`: of one variant, or of the run as a whole. It is kept with the run."""
        with open_store(self.store) as store:
            store.log_metrics(self.run, variant, segment, values)
            with suppress(
                StoreError
            ):  # somebody has the DuckDB file open: the row is safe, and comes with the next look
                store.materialise()


def predictions(store: Store, run: str) -> list[dict[str, Any]]:
    """The rows of a run in plan order."""
    cases = "SELECT c.id, MIN(t.position) FROM trials t JOIN cases c ON c.digest = t.case_digest WHERE t.run_id = ?"
    variants = "SELECT name, variant FROM variants WHERE run_id = ?"
    run_id = store.run(run)["run_id"]
    first, number = dict(store.each(f"{cases} GROUP BY c.id", (run_id,))), dict(store.rows(variants, (run_id,)))
    found = store.dicts("SELECT * FROM predictions WHERE run = ?", (run,))
    found.sort(key=lambda row: (first[row["case_id"]], row["repeat"], number[row["variant"]]))
    return found
