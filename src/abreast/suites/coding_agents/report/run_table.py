"""The trials of a run of this suite as columns, and the metrics derived from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from abreast.analyse.rows import Bools, Floats, by_case
from abreast.analyse.run import Analysis
from abreast.report.words.variant_figures import NOTHING, dollars, seconds
from abreast.stats import Interval
from abreast.suites.coding_agents.config import PULL_REQUEST
from abreast.suites.trial_table import TrialTable

TESTS, SIMILARITY, FORM, SUCCESS = "tests", "change_similarity", "format", "success"
SUCCESS_RATE, ERROR_RATE, NO_CHANGE_RATE = "success_rate", "error_rate", "no_change_rate"
RESPONSE_TIME = "response_time"
FINISHED = "finished"  # title of `success`: an agent that finished may still fail the tests
LINES = "lines_changed"
_TITLES = {
    TESTS: "tests passed",
    SIMILARITY: "like the human change",
    "change_files": "files as humans (F1)",
    FORM: "form of the answer",
    SUCCESS: FINISHED,
}
_DEFAULT_SCALE = (1.0, 5.0)  # the default scale of judges

Kind = Literal["share", "rating", "seconds", "count", "tokens", "dollars", "megabytes"]


def count(value: float) -> str:
    """Return a mean of counts, rounded by its size.

    >>> count(3.0), count(0.25), count(1234.5)
    ('3', '0.25', '1,234')
    """
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


_FORMATS: Mapping[Kind, Callable[[float], str]] = {
    "share": lambda value: f"{value * 100:.1f} %",
    "rating": lambda value: f"{value:.1f}",
    "seconds": seconds,
    "count": count,
    "tokens": lambda value: f"{value:,.0f}",
    "dollars": dollars,
    "megabytes": lambda value: f"{value:,.0f} MB",
}


class Metric(NamedTuple):
    """One figure of every run; nan where it is unknown or does not count.

    Shares and ratings lie in [0, 1]; ratings are displayed on `scale`. Amounts are known of completed runs only.
    """

    name: str
    title: str
    kind: Kind
    values: Floats
    scale: tuple[float, float] | None = None

    @property
    def is_share(self) -> bool:
        return self.kind in ("share", "rating")

    def on_scale(self, value: float) -> float:
        """Return the value on the scale that is displayed.

        >>> Metric("clarity", "clarity", "rating", np.array([]), (1.0, 10.0)).on_scale(0.5)
        5.5
        """
        return value if self.scale is None else self.scale[0] + value * (self.scale[1] - self.scale[0])

    def in_words(self, value: float | None, interval: Interval | None = None) -> str:
        """Return a value with its interval: `93.3 % (79 … 98)`, `7.4 (6.1 … 8.3)`, `410 ms (380 … 440)`."""
        if value is None:
            return NOTHING
        text = _FORMATS[self.kind](self.on_scale(value))
        if interval is None:
            return text
        ends = interval.low, interval.high
        low, high = (f"{end * 100:.0f} %" if self.kind == "share" else self.in_words(end) for end in ends)
        unit = text[text.rindex(" ") :] if " " in text else ""
        if low.endswith(unit) and high.endswith(unit):  # print it once
            low, high = low.removesuffix(unit), high.removesuffix(unit)
        return f"{text} ({low} … {high})"


class RunTable(TrialTable):
    """The runs of all agents, in plan order. An agent's failure scores 0; skipped runs do not count."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self.files_changed = self.number("files_changed")
        self.scores = {name: self.winnable(values) for name, values in self.rows.scores.items()}

    def amount(self, name: str) -> Floats:
        """Return a number that runs report; nan for those that did not complete."""
        return self.of_completed(self.number(name))

    def winnable(self, scores: Floats) -> Floats:
        """Return the scores without cases in which no completed run has a score: failures cost nothing there."""
        is_unscored = self.has_case(self.rows.ok) & ~self.has_case(self.rows.ok & ~np.isnan(scores))
        return np.where(is_unscored[self.rows.case], np.nan, scores)

    def of_completed(self, values: Floats) -> Floats:
        return np.where(self.rows.ok, values, np.nan)

    def of_cases(self, agent: int, values: Floats) -> Floats:
        return by_case(self.rows, self.of(agent), values)

    @cached_property
    def noun(self) -> str:
        return self.rows.case_noun

    @property
    def is_history(self) -> bool:
        return self.noun == PULL_REQUEST

    @cached_property
    def in_repository(self) -> bool:
        """Whether agents start with files, so that a run without changes achieved nothing."""
        return any(isinstance(params.get("workspace"), Mapping) for params in self.rows.params)

    @cached_property
    def common(self) -> Bools:
        """Cases that every agent with any completed run completed at least once; amounts are compared on these."""
        completed = [self.has_case(self.of(agent) & self.rows.ok) for agent in self.variants]
        return _intersect(completed, default=completed[0])

    def shared(self, values: Floats) -> Bools:
        """Return the common cases at which every agent with any value has one. Reused answers lack some values."""
        masks = [~np.isnan(self.of_cases(agent, values)) & self.common for agent in self.variants]
        return _intersect(masks, default=self.common)

    @cached_property
    def metrics(self) -> list[Metric]:
        """Metrics with any value: rates, scores with the primary one first, then amounts."""
        metrics = [*self._rates(), *self._scores(), *self._amounts()]
        return [metric for metric in metrics if not np.isnan(metric.values).all()]

    def metric(self, name: str) -> Metric | None:
        return next((metric for metric in self.metrics if metric.name == name), None)

    @cached_property
    def primary(self) -> Metric | None:
        name = self.rows.primary or ""
        return self.metric(SUCCESS_RATE if name == SUCCESS else name)

    @cached_property
    def passed(self) -> Floats:
        """1 for each run that passed the tests, else 0; without tests, whether it succeeded."""
        return self.scores.get(TESTS, self._success)

    @cached_property
    def _success(self) -> Floats:
        """1 for runs that completed and, in a repository, changed something; else 0."""
        if SUCCESS in self.scores:
            return self.scores[SUCCESS]
        scorers = self.rows.spec.get("scorers") or []
        is_unscored = SUCCESS in [next(iter(scorer)) if isinstance(scorer, dict) else scorer for scorer in scorers]
        return self._with_failures(self._has_changed if self.in_repository else np.nan if is_unscored else 1.0)

    @property
    def _has_changed(self) -> Floats:
        return np.where(np.isnan(self.files_changed), np.nan, (self.files_changed > 0).astype(float))

    def _with_failures(self, values: Floats | float) -> Floats:
        """Return the values of completed runs, and 0 for the agent's failures."""
        return np.where(self.rows.ok, values, np.where(self.rows.own_failure, 0.0, np.nan))

    def _rates(self) -> Iterator[Metric]:
        yield Metric(SUCCESS_RATE, FINISHED, "share", self._success)
        failed = np.where(self.rows.ok | self.rows.own_failure, self.rows.own_failure.astype(float), np.nan)
        yield Metric(ERROR_RATE, "error rate", "share", failed)
        yield Metric(NO_CHANGE_RATE, "no-change rate", "share", self._with_failures(1.0 - self._has_changed))

    def _scores(self) -> Iterator[Metric]:
        for name, values in self.scores.items():
            if name == SUCCESS:  # yielded as a rate
                continue
            scale = self.scales.get(name)
            is_judged = scale is not None or (name.startswith("judge_") and name.endswith("_passed"))
            title = _TITLES.get(name, name.removeprefix("judge_").replace("_", " ") if is_judged else name)
            title = "judge, mean" if name == "judge" and scale else title
            yield Metric(name, title, "rating" if scale else "share", values, scale)

    def _amounts(self) -> Iterator[Metric]:
        rows = self.rows
        yield Metric(RESPONSE_TIME, "response time", "seconds", self.of_completed(self.service_times))
        yield Metric("files_changed", "files changed", "count", self.of_completed(self.files_changed))
        added, deleted = self.amount("lines_added"), self.amount("lines_deleted")
        yield Metric("lines_added", "lines added", "count", added)
        yield Metric("lines_deleted", "lines deleted", "count", deleted)
        yield Metric(LINES, "lines added and deleted", "count", added + deleted)
        yield from self._flagged()
        yield Metric("tokens_in", "tokens in", "tokens", self.of_completed(self.prompt_tokens))
        yield Metric("tokens_out", "tokens out", "tokens", self.of_completed(rows.tokens["output"]))
        yield Metric("cost_usd", "cost", "dollars", self.of_completed(np.where(rows.reused, np.nan, rows.cost_usd)))
        yield Metric("turns", "turns", "count", self.amount("turns"))
        yield Metric("cpu_s", "CPU time", "seconds", self.amount("cpu_s"))
        yield Metric("peak_memory_mb", "peak memory", "megabytes", self.amount("peak_memory_mb"))

    def _flagged(self) -> Iterator[Metric]:
        """Yield the counts of changed files that agents should have left alone, if there are any."""
        for name, title in (("tests_changed", "test files changed"), ("outside_changes", "files changed outside")):
            values = self.amount(name)
            if np.nansum(values) > 0:
                yield Metric(name, title, "count", values)

    @cached_property
    def scales(self) -> dict[str, tuple[float, float]]:
        scales: dict[str, tuple[float, float]] = {}
        for scorer in self.rows.spec.get("scorers") or ():
            settings = scorer.get("judge") if isinstance(scorer, Mapping) else None
            if not isinstance(settings, Mapping) or settings.get("pairwise"):
                continue
            low, high = settings.get("scale") or _DEFAULT_SCALE
            name, rubric = str(settings.get("name") or "judge"), settings.get("rubric")
            dimensions = rubric if isinstance(rubric, Mapping) else ()
            scales |= dict.fromkeys([name, *(f"{name}_{each}" for each in dimensions)], (float(low), float(high)))
        return scales


def _intersect(masks: list[Bools], default: Bools) -> Bools:
    """Return the intersection of the masks that are not empty."""
    common: Bools = np.logical_and.reduce([mask for mask in masks if mask.any()] or [default])
    return common
