"""The result of a run: its verdict, rows and report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from abreast.errors import StoreError, did_you_mean
from abreast.store import Store, open_store
from abreast.store.user_tables import tables
from abreast.store.user_tables.data_frame import data_frame
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis, Comparison
    from abreast.execute.early_stopping import Decision
    from abreast.execute.listener import InFlightStats
    from abreast.stats import Population
    from abreast.stats.verdict import Word


class ConfidenceInterval(NamedTuple):
    """The bounds of an effect."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class VariantVerdict:
    """The comparison of a variant with the baseline. `str()` gives the sentences of the report.

    `effect` and `interval` are differences of the score, variant minus baseline: 0.05 is five points. If nothing could
    be compared, `word` is "no comparison", both are None, and `reason` says why.
    """

    word: Word
    effect: float | None = None
    interval: ConfidenceInterval | None = None  # also None if there are too few cases
    level: float | None = None  # of the interval, such as 0.95
    p: float | None = None
    wins: int = 0
    losses: int = 0
    ties: int = 0
    cases: int = 0
    variant: str | None = None
    baseline: str | None = None
    metric: str | None = None
    population: Population | None = None  # whether the verdict is about cases in general or only about these
    reason: str = ""
    text: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            message = f"a verdict never equals text; use verdict.word == {other[:40]!r}"
            warnings.warn(message, stacklevel=2)
        return isinstance(other, VariantVerdict) and astuple(self) == astuple(other)

    def __hash__(self) -> int:
        return hash(astuple(self))

    if not TYPE_CHECKING:  # for a type checker an unknown attribute stays an error

        def __getattr__(self, name: str) -> Any:
            if hasattr(str, name):
                hint = f"; a verdict is not text, use str(verdict).{name}"
            else:
                hint = did_you_mean(name, [item.name for item in fields(self)])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name)


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The result of a run. Print `verdict`; the rest is for programs."""

    run: str
    store: Path | str  # a file or a URL
    status: str
    planned: int
    executed: int
    reused: int
    done_before: int
    stopped: str | None
    fix: str
    in_flight: InFlightStats
    analysis: Analysis
    decision: Decision | None = None  # why it stopped early
    saved: int = 0  # trials that were not needed

    def __repr__(self) -> str:
        return f"Result({self.run}, {self.status}: {'; '.join(self._text.splitlines())})"

    def _repr_html_(self) -> str:
        from abreast.report.formats.notebook import result_html

        return result_html(self.analysis)

    @property
    def _text(self) -> str:
        from abreast.report.words.verdict_sentence import verdict_lines

        return "\n".join(verdict_lines(self.analysis))

    @property
    def verdict(self) -> VariantVerdict:
        """The verdict on the first variant compared with the baseline. Its text covers all of them."""
        text = self._text
        if self.analysis.comparisons:
            return _verdict_on(self.analysis.comparisons[0], text)
        reason = "there is no scorer" if self.analysis.score_name is None else "there is only one variant"
        return VariantVerdict("no comparison", reason=reason, text=text)

    @property
    def verdicts(self) -> dict[str, VariantVerdict]:
        """The verdict on each variant except the baseline, by name."""
        from abreast.report.words.verdict_sentence import comparison_lines

        return {
            item.variant: _verdict_on(item, "\n".join(comparison_lines(self.analysis, item)))
            for item in self.analysis.comparisons
        }

    def report(self, format: str = "terminal") -> str:
        """Return the report as text; `format` is terminal, markdown, json, csv, junit or html."""
        from abreast.report.formats import catalogue

        return catalogue.text(catalogue.ReportRequest(self.analysis), format)

    def write_files(self, output: str | Path | None = None, pictures: bool = True) -> list[Path]:
        """Write the result files of the suite next to the store, or to the folder `output`.

        The `output` setting of the experiment names the files. `run` calls this at its end. Problems become warnings.
        """
        from abreast.report import results

        written = results.write(self.analysis, output, pictures)
        for message in written.warnings:
            warnings.warn(printable(message), stacklevel=2)
        return written.paths

    def rows(self) -> list[dict[str, Any]]:
        """Return every trial of this run, in plan order, with the columns of `predictions`."""
        with open_store(self.store) as store:
            return predictions(store, self.run)

    def to_df(self, library: str | None = None) -> Any:
        """Return the rows as a pandas DataFrame; as a polars one if `library="polars"` or only polars is installed."""
        with open_store(self.store) as store:
            frame = tables.read(store, "predictions", tables.Condition.matching({"run": self.run}))
            sort_key = _plan_order(store, self.run)
        columns = frame.columns
        keys = list(map(sort_key, columns["case_id"], columns["repeat"], columns["variant"]))
        order = sorted(range(len(frame)), key=keys.__getitem__)
        in_order: dict[str, Sequence[Any]] = {name: [column[at] for at in order] for name, column in columns.items()}
        return data_frame(tables.Frame(frame.types, in_order), library)

    def log(self, values: Mapping[str, Any], variant: str | None = None, segment: str = "all") -> None:
        """Add a row to `metrics`, for one variant or the whole run."""
        with open_store(self.store) as store:
            store.log_metrics(self.run, variant, segment, values)
            with suppress(StoreError):  # another process has the DuckDB file open; the row is stored and follows later
                store.materialise()

    if not TYPE_CHECKING:  # for a type checker an unknown attribute stays an error

        def __getattr__(self, name: str) -> Any:
            instead = _INSTEAD.get(name.lower())
            members = [item for item in dir(type(self)) if not item.startswith("_")]
            hint = f"; use result.{instead}" if instead else did_you_mean(name, members)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name)


_INSTEAD = {
    **dict.fromkeys(("df", "dataframe", "to_dataframe", "to_pandas", "frame"), "to_df()"),
    **dict.fromkeys(("results", "predictions", "trials", "answers", "outputs", "errors", "to_list"), "rows()"),
    **dict.fromkeys(("score", "scores", "accuracy", "cost", "cost_usd", "latency", "variants"), "analysis.variants"),
    **dict.fromkeys(("word", "winner"), "verdict.word"),
    **{name: f"verdict.{name}" for name in ("effect", "interval", "level", "p", "wins", "losses", "ties")},
    **dict.fromkeys(("p_value", "pvalue"), "verdict.p"),
    **dict.fromkeys(("ci", "confidence_interval"), "verdict.interval"),
    **dict.fromkeys(("summary", "print", "show", "to_text"), "report()"),
    **{name: f'report("{name.removeprefix("to_")}")' for name in ("html", "markdown", "csv", "to_html", "to_markdown")},
    **dict.fromkeys(("json", "to_json", "to_dict"), 'report("json")'),
    **dict.fromkeys(("name", "run_id", "run_name", "id"), "run"),
    **dict.fromkeys(("save", "export"), "write_files()"),
    **dict.fromkeys(("db", "path", "database"), "store"),
}


def _verdict_on(item: Comparison, text: str) -> VariantVerdict:
    from abreast.report.words.verdict_sentence import trusted

    verdict, interval = item.verdict, trusted(item.verdict)
    estimate = verdict.interval
    return VariantVerdict(
        word=verdict.word,
        effect=None if estimate is None else float(estimate.estimate),
        interval=None if interval is None else ConfidenceInterval(float(interval.low), float(interval.high)),
        level=None if interval is None else interval.level,
        p=None if estimate is None else float(verdict.p),
        wins=verdict.wins,
        losses=verdict.losses,
        ties=verdict.ties,
        cases=item.cases,
        variant=item.variant,
        baseline=item.baseline,
        metric=item.metric,
        population=None if estimate is None else verdict.population,
        reason=verdict.reason,
        text=text,
    )


def _plan_order(store: Store, run: str) -> Callable[[str, int, str], tuple[int, int, int]]:
    """Return a sort key, called with case id, repeat and variant."""
    run_id = store.run(run)["run_id"]
    cases = {case.id: case.position for case in store.queries.stored_cases(run_id)}
    variants = {variant.name: variant.index for variant in store.queries.variants(run_id)}
    return lambda case_id, repeat, variant: (cases[case_id], repeat, variants[variant])


def predictions(store: Store, run: str) -> list[dict[str, Any]]:
    """Return the rows of a run in plan order."""
    sort_key = _plan_order(store, run)
    rows = store.queries.predictions(run)
    return sorted(rows, key=lambda row: sort_key(row["case_id"], row["repeat"], row["variant"]))
