"""A run of the suite as columns: what each run of each agent came to, from stored rows and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from abreast.analyse.rows import Bools, Floats, by_case
from abreast.analyse.run import Analysis
from abreast.suites.coding_agents.config import PULL_REQUEST
from abreast.suites.trial_table import TrialTable

TESTS, SIMILARITY, FORM, SUCCESS = "tests", "change_similarity", "format", "success"
SUCCESS_RATE, ERROR_RATE, NO_CHANGE_RATE = "success_rate", "error_rate", "no_change_rate"
RESPONSE_TIME = "response_time"
FINISHED = "finished"  # what people read for `success`: an agent that finished may still fail the tests
LINES = "lines_changed"
_TITLES = {
    TESTS: "tests passed",
    SIMILARITY: "like the human change",
    "change_files": "files as humans (F1)",
    FORM: "form of the answer",
    SUCCESS: FINISHED,
}
_JUDGED_ON = (1.0, 5.0)  # the scale of a judge that is not told another

Kind = Literal["share", "rating", "seconds", "count", "tokens", "dollars", "megabytes"]


class Metric(NamedTuple):
    """One figure of every run; nan where it is not known, or does not count. Shares and ratings lie in [0, 1], and a
    rating is shown on its scale. Amounts are of runs that ended well."""

    name: str
    title: str
    kind: Kind
    values: Floats
    scale: tuple[float, float] | None = None

    @property
    def is_share(self) -> bool:
        return self.kind in ("share", "rating")

    def on_scale(self, value: float) -> float:
        """As it is shown.

        >>> Metric("clarity", "clarity", "rating", np.array([]), (1.0, 10.0)).on_scale(0.5)
        5.5
        """
        return value if self.scale is None else self.scale[0] + value * (self.scale[1] - self.scale[0])


class Work(TrialTable):
    """The runs of all agents, in plan order. A failure of the agent counts 0 in scores; skipped runs do not count."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self.files_changed = self.number("files_changed")
        self.scores = {name: self.winnable(values) for name, values in self.rows.scores.items()}

    def amount(self, name: str) -> Floats:
        """A number that runs report, of those that ended well."""
        return self._well(self.number(name))

    def winnable(self, scores: Floats) -> Floats:
        """Scores without cases at which runs ended well and none has a score: a failure loses nothing there."""
        is_unscored = self.has_case(self.rows.ok) & ~self.has_case(self.rows.ok & ~np.isnan(scores))
        return np.where(is_unscored[self.rows.case], np.nan, scores)

    def _well(self, values: Floats) -> Floats:
        return np.where(self.rows.ok, values, np.nan)

    def of_cases(self, agent: int, values: Floats) -> Floats:
        return by_case(self.rows, self.of(agent), values)

    # -- what is asked ---------------------------------------------------------------------------------------------

    @cached_property
    def noun(self) -> str:
        return self.rows.case_noun

    @property
    def is_history(self) -> bool:
        return self.noun == PULL_REQUEST

    @cached_property
    def in_repository(self) -> bool:
        """Whether agents begin with files, so that leaving them as they are is no work."""
        return any(isinstance(params.get("workspace"), Mapping) for params in self.rows.params)

    @cached_property
    def common(self) -> Bools:
        """The cases at which all agents ended well at least once that ever did: what amounts are compared on."""
        well = [self.has_case(self.of(agent) & self.rows.ok) for agent in self.variants]
        found: Bools = np.logical_and.reduce([each for each in well if each.any()] or [well[0]])
        return found

    def shared(self, values: Floats) -> Bools:
        """The common cases at which each agent has such a value that has any: of reused answers not all is known."""
        known = [~np.isnan(self.of_cases(one, values)) & self.common for one in self.variants]
        found: Bools = np.logical_and.reduce([each for each in known if each.any()] or [self.common])
        return found

    # -- what it came to -------------------------------------------------------------------------------------------

    @cached_property
    def metrics(self) -> list[Metric]:
        """All that any run has a figure of: rates, scores with the primary one first, then amounts."""
        found = [*self._rates(), *self._scores(), *self._amounts()]
        return [metric for metric in found if not np.isnan(metric.values).all()]

    def metric(self, name: str) -> Metric | None:
        return next((metric for metric in self.metrics if metric.name == name), None)

    @cached_property
    def primary(self) -> Metric | None:
        name = self.rows.primary or ""
        return self.metric(SUCCESS_RATE if name == SUCCESS else name)

    @cached_property
    def passed(self) -> Floats:
        """1 for each run that passed the tests, 0 for one that did not; without tests, by success."""
        return self.scores.get(TESTS, self._success)

    @cached_property
    def _success(self) -> Floats:
        """Ended well and, in a repository, changed something."""
        if SUCCESS in self.scores:
            return self.scores[SUCCESS]
        named = [next(iter(one)) if isinstance(one, dict) else one for one in self.rows.spec.get("scorers") or []]
        asked = SUCCESS in named  # and no answer is scored yet
        return self._or_failed(self._has_changed if self.in_repository else np.nan if asked else 1.0)

    @property
    def _has_changed(self) -> Floats:
        return np.where(np.isnan(self.files_changed), np.nan, (self.files_changed > 0).astype(float))

    def _or_failed(self, values: Floats | float) -> Floats:
        """The values of runs that ended well, and 0 for failures of the agent."""
        return np.where(self.rows.ok, values, np.where(self.rows.own_failure, 0.0, np.nan))

    def _rates(self) -> Iterator[Metric]:
        yield Metric(SUCCESS_RATE, FINISHED, "share", self._success)
        failed = np.where(self.rows.ok | self.rows.own_failure, self.rows.own_failure.astype(float), np.nan)
        yield Metric(ERROR_RATE, "error rate", "share", failed)
        yield Metric(NO_CHANGE_RATE, "no-change rate", "share", self._or_failed(1.0 - self._has_changed))

    def _scores(self) -> Iterator[Metric]:
        for name, values in self.scores.items():
            if name == SUCCESS:  # it is the rate of runs that finished
                continue
            scale = self.scales.get(name)
            is_judged = scale is not None or (name.startswith("judge_") and name.endswith("_passed"))
            title = _TITLES.get(name, name.removeprefix("judge_").replace("_", " ") if is_judged else name)
            title = "judge, mean" if name == "judge" and scale else title
            yield Metric(name, title, "rating" if scale else "share", values, scale)

    def _amounts(self) -> Iterator[Metric]:
        rows = self.rows
        yield Metric(RESPONSE_TIME, "response time", "seconds", self._well(self.service_times))
        yield Metric("files_changed", "files changed", "count", self._well(self.files_changed))
        added, deleted = self.amount("lines_added"), self.amount("lines_deleted")
        yield Metric("lines_added", "lines added", "count", added)
        yield Metric("lines_deleted", "lines deleted", "count", deleted)
        yield Metric(LINES, "lines added and deleted", "count", added + deleted)
        yield from self._flagged()
        yield Metric("tokens_in", "tokens in", "tokens", self._well(self.prompt_tokens))
        yield Metric("tokens_out", "tokens out", "tokens", self._well(rows.tokens["output"]))
        yield Metric("cost_usd", "cost", "dollars", self._well(np.where(rows.reused, np.nan, rows.cost_usd)))
        yield Metric("turns", "turns", "count", self.amount("turns"))
        yield Metric("cpu_s", "CPU time", "seconds", self.amount("cpu_s"))
        yield Metric("peak_memory_mb", "peak memory", "megabytes", self.amount("peak_memory_mb"))

    def _flagged(self) -> Iterator[Metric]:
        """Files that agents should not have changed, if any agent did."""
        for name, title in (("tests_changed", "test files changed"), ("outside_changes", "files changed outside")):
            values = self.amount(name)
            if np.nansum(values) > 0:
                yield Metric(name, title, "count", values)

    @cached_property
    def scales(self) -> dict[str, tuple[float, float]]:
        found: dict[str, tuple[float, float]] = {}
        for scorer in self.rows.spec.get("scorers") or ():
            settings = scorer.get("judge") if isinstance(scorer, Mapping) else None
            if not isinstance(settings, Mapping) or settings.get("pairwise"):
                continue
            low, high = settings.get("scale") or _JUDGED_ON
            name, rubric = str(settings.get("name") or "judge"), settings.get("rubric")
            columns = [name, *(f"{name}_{one}" for one in rubric)] if isinstance(rubric, Mapping) else [name]
            found |= dict.fromkeys(columns, (float(low), float(high)))
        return found
