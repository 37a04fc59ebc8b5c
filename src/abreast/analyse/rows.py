"""The rows of a run as columns. Every figure is derived from these, and from nothing else."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from abreast.errors import location
from abreast.scorers.human import counted_label
from abreast.stats import Population, Weight, population_of
from abreast.stats.intervals.population import ALL_CASES, THESE_CASES
from abreast.stats.numerics.arrays import median
from abreast.store import Store
from abreast.store.queries.trials import TOKENS
from abreast.store.runs.provenance import Extension, ImportRecord, LockCheck

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_UNGROUPED = "\0"  # begins the label of a case without a group


class FirstError(NamedTuple):
    """The first error of a variant or run; `where` is the place in the user's own code, if known."""

    kind: str
    message: str
    where: str


class CaseFacts(NamedTuple):
    id: str
    group: str | None
    tags: Mapping[str, str]  # one object for all cases that have the same


class CasesByIndex(Mapping[int, CaseFacts]):
    """The cases that have a row, by their index in the plan. Stored as columns to save memory."""

    def __init__(self, cases: Iterable[tuple[int, str, str | None, str]]) -> None:
        """`cases` are index, id, group and tags as JSON, ordered by index."""
        self._indexes = array("q")
        self._ids: list[str] = []
        self._groups: list[str | None] = []
        self._tags: list[Mapping[str, str]] = []
        groups: dict[str | None, str | None] = {}
        tags_of: dict[str, Mapping[str, str]] = {}
        for index, case_id, group, tags in cases:
            if tags not in tags_of:
                tags_of[tags] = json.loads(tags)
            self._indexes.append(index)
            self._ids.append(case_id)
            self._groups.append(groups.setdefault(group, group))
            self._tags.append(tags_of[tags])

    def __getitem__(self, case: int) -> CaseFacts:
        at = bisect_left(self._indexes, case)
        if at == len(self._indexes) or self._indexes[at] != case:
            raise KeyError(case)
        return CaseFacts(self._ids[at], self._groups[at], self._tags[at])

    def __iter__(self) -> Iterator[int]:
        return iter(self._indexes)

    def __len__(self) -> int:
        return len(self._ids)


class Rows:
    """A run, column by column, in plan order. Cases are identified by their index in the plan."""

    def __init__(self, store: Store, run: str) -> None:
        self.meta = store.run(run)
        self.store = store
        self.run_id = int(self.meta["run_id"])
        self.spec: dict[str, Any] = json.loads(self.meta["spec"])
        self.provenance: dict[str, Any] = json.loads(self.meta["provenance"])
        contenders = store.queries.variants(self.run_id)
        self.variants = [variant.name for variant in contenders]
        self.targets = [variant.target for variant in contenders]
        self.params = [variant.params for variant in contenders]
        self.repeats = int(self.spec.get("repeats", 1))
        self.planned = int(self.meta["planned_trials"])
        self.primary: str | None = self.meta["primary_score"]
        column = store.queries.trial_columns(self.run_id)
        self.position: Ints = column["position"]
        self.variant: Ints = column["variant"]
        self.repeat: Ints = column["repeat"]
        self.status, self.kind, self.blame = column["status"], column["error_kind"], column["error_blame"]
        self.service_s: Floats = column["service_s"]
        self.queue_s: Floats = column["queue_s"]
        self.backoff_s: Floats = column["backoff_s"]
        self.cost_usd: Floats = column["cost_usd"]
        self.reused: Bools = column["reused"]
        self.included: Bools = column["included"]  # whether a subscription pays for it
        self.in_vain_usd = store.spent_on_retries(self.run_id, len(self.variants))
        self.tokens: dict[str, Floats] = {name: column[f"{name}_tokens"] for name in TOKENS}
        self.case: Ints = self.position // self.per_case
        self.ok: Bools = self.status == "ok"
        self.error: Bools = self.status == "error"
        self.own_failure: Bools = self.error & (self.blame == "variant")
        self.skipped: Bools = self.status == "skipped"
        self.present: Bools = self.status != "cancelled"
        self.awaits_score: Bools = np.zeros(len(self.position), dtype=np.bool_)  # in an active run
        self.scores = self._scores() if self.primary else {}
        nothing = np.full(len(self.position), np.nan)
        self.score: Floats = self.scores.get(self.primary or "", self.usable(nothing))
        self._block: Ints = column["block"]

    @property
    def per_case(self) -> int:
        return max(1, len(self.variants) * self.repeats)

    @property
    def planned_cases(self) -> int:
        return self.planned // self.per_case

    @property
    def weight(self) -> Weight:
        """Whether every case or every group of cases weighs the same."""
        return "group" if self.spec.get("weight") == "group" else "case"

    @property
    def case_noun(self) -> str:
        return str(self.spec.get("case_noun") or "case")

    @cached_property
    def population(self) -> Population:
        """The cases that the verdict is about. Computed from the plan for older runs, which did not store it."""
        if "population" in self.provenance:
            return THESE_CASES if self.provenance["population"] == THESE_CASES else ALL_CASES
        if self.chained or len(self.variants) < 2 or not self.planned_cases:
            return ALL_CASES
        groups = len(set(self.groups(np.array(list(self.cases))) or ())) if self.grouped else None
        return population_of(self.planned_cases, self.repeats, len(self.variants) - 1, groups)

    def first_error(self, variant: int | None = None) -> FirstError:
        """The error of the first failed trial of one variant, or of the run."""
        kind, message, detail = self.store.queries.first_error(self.run_id, variant)
        return FirstError(str(kind), " ".join(str(message).split()), location(str(detail or "")))

    def why_unscored(self) -> tuple[str, str] | None:
        """The most frequent reason why answers have no primary score, and an example case."""
        example = self.store.queries.missing_score(self.run_id, self.primary)
        return None if example is None else (" ".join((example[0] or "no reason given").split()), example[1])

    def _scores(self) -> dict[str, Floats]:
        """The score of each trial by the name of the score, the primary one first."""
        columns = self.store.queries.score_columns(self.run_id, counted_label(self.spec))
        position, name, value = columns.values()
        index = np.searchsorted(self.position, position)
        present = np.flatnonzero(index < len(self.position))
        present = present[self.position[index[present]] == position[present]]  # a running run adds rows meanwhile
        index, name, value = index[present], name[present], value[present]
        if self.meta["status"] == "running":
            self.awaits_score = self.ok & ~np.isin(self.position, self.position[index[name == self.primary]])
        scores = {}
        for score in sorted(set(name.tolist()), key=lambda score: (score != self.primary, score)):
            values, has_name = np.full(len(self.position), np.nan), name == score
            values[index[has_name]] = value[has_name]
            scores[str(score)] = self.usable(values)
        return scores

    def usable(self, value: Floats) -> Floats:
        """The scorer's value, 0 for the variant's own failures, nan for everything that cannot be judged.

        A value outside [0, 1] is a scorer bug and counts as missing, as in `UntilDecided`.
        """
        within = np.where((value >= 0) & (value <= 1), value, np.nan)
        return np.where(self.ok, within, np.where(self.own_failure, 0.0, np.nan))

    @cached_property
    def turn(self) -> Ints:
        """The rank of each case in the order of starts, by case index; −1 if unknown."""
        turns = np.full(self.planned_cases, -1, dtype=np.int64)
        turns[self.case] = np.where(self._block >= 0, self._block // self.repeats, -1)
        return turns

    @cached_property
    def stopped_after(self) -> int | None:
        """Number of cases after which the run was stopped early; cases begun by then were finished."""
        if self.meta["status"] != "stopped_early":
            return None
        events = self.store.queries.events(self.run_id, "decided")
        return int(events[-1].detail["cases"]) if events else len(self.counted)

    @cached_property
    def complete(self) -> Bools:
        """The cases whose trials all have a row; while the run is executed, also the scores of their answers."""
        is_done = self.present & ~self.awaits_score
        return np.asarray(np.bincount(self.case[is_done], minlength=self.planned_cases) == self.per_case)

    @cached_property
    def counted(self) -> Ints:
        """The cases that a verdict may use: the completed prefix of the order in which cases were started.

        Slow failures finish late, so using whatever has finished would flatter the variant that has them. A group of
        cases counts once it is complete.
        """
        complete = np.flatnonzero(self.complete)
        turns = self.turn[complete]
        if (turns < 0).any():  # rows of an older abreast
            return self._group_by_group(complete)
        order = np.argsort(turns)
        gaps = np.flatnonzero(turns[order] != np.arange(len(order)))
        return self._without_open_group(complete[order[: gaps[0]] if len(gaps) else order])

    def _without_open_group(self, prefix: Ints) -> Ints:
        """Cut off the last group unless it is known to be complete."""
        groups = self.groups(prefix) if len(prefix) < self.planned_cases else None
        if not groups:
            return prefix
        following = [case for case in np.flatnonzero(self.turn == len(prefix)).tolist() if case in self.cases]
        if (following and self.cases[following[0]].group != groups[-1]) or groups[-1].startswith(_UNGROUPED):
            return prefix
        return prefix[: groups.index(groups[-1])]

    def _group_by_group(self, cases: Ints) -> Ints:
        """These cases with the cases of a group next to each other, as in every plan."""
        groups, numbers = self.groups(cases), dict[str, int]()
        if groups is None:
            return cases
        order = np.argsort([numbers.setdefault(group, len(numbers)) for group in groups], kind="stable")
        return np.asarray(cases[order])

    @cached_property
    def cases(self) -> CasesByIndex:
        return CasesByIndex(self._of_cases("id", "case_group", "tags"))

    def case_column(self, name: str) -> dict[int, Any]:
        """A column by case index, such as `input` and `expected` (as JSON) or `input_size` (characters of JSON)."""
        return dict(self._of_cases(name))

    def identities(self) -> dict[tuple[str, str], int]:
        """The index of each case that has a row, by its id and the digest of its input."""
        return {(case_id, digest): index for index, case_id, digest in self._of_cases("id", "input_digest")}

    def _of_cases(self, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Index and these columns of the cases that have a row, in plan order."""
        has_row = np.zeros(int(self.case.max(initial=-1)) + 1, dtype=np.bool_)
        has_row[self.case] = True
        for row in self.store.queries.cases(self.run_id, self.per_case, *columns):
            if row[0] < len(has_row) and has_row[row[0]]:  # a running run adds rows meanwhile
                yield row

    @cached_property
    def judges(self) -> list[dict[str, Any]]:
        """Calls and costs of judges in this run. They are not part of any variant's cost."""
        return self.store.queries.judge_totals(self.run_id)

    def groups(self, cases: Ints) -> list[str] | None:
        """The group of each of these cases, or a label of its own if it has none; None if no case has a group."""
        if not self.grouped:
            return None
        return [self.cases[case].group or f"{_UNGROUPED}{case}" for case in cases.tolist()]

    @cached_property
    def grouped(self) -> bool:
        is_used = self.store.queries.has_grouped_cases()  # fast, and false for most stores
        return is_used and any(case.group is not None for case in self.cases.values())

    @cached_property
    def largest_group(self) -> int:
        """Number of cases in the largest group of the plan; 1 without groups.

        For older runs, which did not store it, of the cases that have rows.
        """
        if "largest_group" in self.provenance:
            return int(self.provenance["largest_group"] or 1)
        sizes = Counter(case.group for case in self.cases.values() if case.group is not None)
        return max(sizes.values(), default=1)

    @cached_property
    def extension(self) -> Extension | None:
        return Extension.read(self.provenance)

    @cached_property
    def lock(self) -> LockCheck | None:
        """Whether the run followed the locked plan; None if no plan was locked."""
        return LockCheck.read(self.provenance)

    @cached_property
    def imported(self) -> ImportRecord | None:
        """The log that the run was imported from; None for a run of our own."""
        return ImportRecord.read(self.provenance)

    @property
    def final_spent(self) -> bool:
        """Whether an earlier run used the final interval, so that only the confidence sequence decides."""
        return self.extension is not None and self.extension.final_spent

    @cached_property
    def mcp_trials(self) -> list[tuple[int, str, Mapping[str, Any]]]:
        """Variant, case and returned values of the trials that report calls of MCP tools."""
        return [
            (int(self.variant[at]), self.cases[int(self.case[at])].id, data)
            for at, data in self.answer_data("mcp_calls")
            if "mcp_calls" in data
        ]

    def answer_data(self, *names: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield row index and `data` of answers; with `names`, only of answers that have one of these keys.

        Rows stored after the analysis began are left out."""
        if names and not self.store.queries.has_columns(*names):
            return
        for position, data in self.store.queries.answer_data(self.run_id, names):
            if (at := self.index_of(position)) is not None:
                yield at, data

    def index_of(self, position: int) -> int | None:
        """The index of the row at a position of the plan; None if there is no such row."""
        at = bisect_left(self._positions, position)
        return at if at < len(self._positions) and self._positions[at] == position else None

    @cached_property
    def _positions(self) -> array[int]:
        """`position` as an array that is much faster than numpy for single look-ups."""
        return array("q", self.position.tobytes())

    @cached_property
    def chained(self) -> bool:
        """Whether trials started from the workspace that an earlier one left (`workspace: {after: ...}`)."""
        workspaces = (params.get("workspace") for params in self.params)
        return any(isinstance(workspace, Mapping) and workspace.get("after") is not None for workspace in workspaces)

    @cached_property
    def tagged(self) -> bool:
        return self.store.queries.has_tagged_cases() and any(case.tags for case in self.cases.values())


def by_case(rows: Rows, trials: Bools, values: Floats) -> Floats:
    """The mean of each planned case over these trials; nan for a case without values."""
    usable = np.flatnonzero(trials & ~np.isnan(values))
    cases, size = rows.case[usable], rows.planned_cases
    count = np.bincount(cases, minlength=size)
    sums = np.bincount(cases, weights=values[usable], minlength=size)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)


def mean_of_known(values: Floats) -> float | None:
    """The mean of the values that are not nan; None if all are."""
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else None


def median_of_known(values: Floats) -> float | None:
    """The median of the values that are not nan; None if all are."""
    numbers = values[~np.isnan(values)]
    return median(numbers) if len(numbers) else None
