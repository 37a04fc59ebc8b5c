"""The cases of a run as a grid: what each variant scored, cost and took, kept up to date in memory."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.analyse.rows import Bools, Floats, Ints
from abreast.scorers.human import counted_label
from abreast.stats.numerics.arrays import ROUNDING
from abreast.store import Store
from abreast.store.queries.changes import Revision

OK, OWN_FAILURE, INFRASTRUCTURE, SKIPPED, CANCELLED, MISSING = range(6)  # outcomes of a trial
_STATUS = {"ok": OK, "skipped": SKIPPED, "cancelled": CANCELLED}
TIE, NO_WINNER = -1, -2
_SEARCHES_KEPT = 4
_NUMBER = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class CaseFigures:
    """Figures by case index, for one score; nan where unknown."""

    scores: Floats  # mean over repeats; a column for each variant
    difference: Floats  # between two variants, or the best and the worst of several
    winner: Ints  # index of a variant, TIE or NO_WINNER
    cost_usd: Floats
    service_s: Floats  # mean of new answers


@dataclass(slots=True)
class TextSearch:
    """The trials whose prompt or answer contains a text, among the rows read so far."""

    matches: Bools
    last_row: int = 0


class CaseGrid:
    """All trials of a run, by position. Methods are called by one thread at a time, which holds `lock`."""

    def __init__(self, store: Store, run: Mapping[str, Any]) -> None:
        self.lock = threading.Lock()
        self.run = run
        self.run_id = int(run["run_id"])
        self.variants = [variant.name for variant in store.queries.variants(self.run_id)]
        spec = json.loads(run["spec"])
        self.repeats = int(spec.get("repeats", 1))
        self._label = counted_label(spec)
        self.primary: str | None = run["primary_score"]
        self.baseline = self.variants.index(run["baseline"]) if run["baseline"] in self.variants else 0
        self.per_case = max(1, len(self.variants) * self.repeats)
        self.case_count = int(run["planned_trials"]) // self.per_case
        self.ids: list[str] = [""] * self.case_count
        self._tag_sets: list[Mapping[str, str]] = [{}]  # distinct
        self._tag_set = np.zeros(self.case_count, dtype=np.int32)  # index in `_tag_sets`, by case
        self.has_row = np.zeros(self.case_count, dtype=np.bool_)
        self.error_kinds: list[str] = []
        self._outcome = np.full(self.case_count * self.per_case, MISSING, dtype=np.int8)
        self._kind = np.full(len(self._outcome), -1, dtype=np.int16)
        self._service_s, self._cost = (np.full(len(self._outcome), np.nan) for _ in range(2))
        self._values: dict[str, Floats] = {}
        self._revision = Revision()
        self._figures: dict[str | None, CaseFigures] = {}
        self._searches: dict[str, TextSearch] = {}
        self._tag_set_of: dict[str, int] = {}  # by JSON
        self._id_ranks: Ints | None = None

    @property
    def score_names(self) -> list[str]:
        """Names of the scores that trials have, the primary one first."""
        return sorted(self._values, key=lambda name: (name != self.primary, name))

    @property
    def treatment(self) -> int | None:
        """The variant that is compared with the baseline; None unless there are two."""
        return 1 - self.baseline if len(self.variants) == 2 else None

    # -- reading -------------------------------------------------------------------------------------------------------

    def is_part_of(self, store: Store) -> bool:
        """Whether the store includes everything that has been read."""
        return store.queries.revision(self.run_id).reaches(self._revision)

    def update(self, store: Store) -> None:
        """Read the rows stored since the last update."""
        revision, previous = store.queries.revision(self.run_id), self._revision
        if revision.trials > previous.trials:
            for index, case_id, tags in store.queries.grid_cases(self.run_id, self.per_case, previous.trials):
                if index < self.case_count:
                    if tags not in self._tag_set_of:
                        self._tag_set_of[tags] = len(self._tag_sets)
                        self._tag_sets.append(json.loads(tags))
                    self.ids[index], self._tag_set[index] = case_id, self._tag_set_of[tags]
            self._read_trials(store, previous.trials)
            self._id_ranks = None
        if revision.scores > previous.scores:
            self._read_scores(store, previous.scores)
        if revision[:2] != previous[:2]:
            self._figures.clear()
        self._revision = revision

    def _read_trials(self, store: Store, after: int) -> None:
        rows = store.queries.grid_trials(self.run_id, after)
        is_planned = rows["position"] < len(self._outcome)
        rows = {name: column[is_planned] for name, column in rows.items()}
        position, status, is_own = rows["position"], rows["status"], rows["error_blame"] == "variant"
        outcome = np.where(is_own, OWN_FAILURE, INFRASTRUCTURE)
        for name, number in _STATUS.items():
            outcome[status == name] = number
        kinds = np.full(len(position), -1)
        is_error = status == "error"
        for kind in sorted(set(rows["error_kind"][is_error].tolist()), key=str):
            if str(kind) not in self.error_kinds:
                self.error_kinds.append(str(kind))
            kinds[is_error & (rows["error_kind"] == kind)] = self.error_kinds.index(str(kind))
        self._outcome[position], self._kind[position] = outcome, kinds
        self._service_s[position] = np.where(rows["is_new"] & (status == "ok"), rows["service_s"], np.nan)
        self._cost[position] = np.where(rows["is_billed"], rows["cost_usd"], np.nan)
        index = position // self.per_case
        self.has_row[[case for case in np.unique(index) if self.ids[case]]] = True

    def _read_scores(self, store: Store, after: int) -> None:
        position, names, values = store.queries.grid_scores(self.run_id, after, self._label).values()
        for name in set(names.tolist()):
            is_named = (names == name) & (position < len(self._outcome))
            column = self._values.setdefault(name, np.full(len(self._outcome), np.nan))
            column[position[is_named]] = values[is_named]

    # -- figures -------------------------------------------------------------------------------------------------------

    def figures(self, score: str | None) -> CaseFigures:
        if score not in self._figures:
            self._figures[score] = self._compute(score)
        return self._figures[score]

    def _compute(self, score: str | None) -> CaseFigures:
        values = self._values.get(score or "", np.full(len(self._outcome), np.nan))
        values = np.where((self._outcome == OK) & (values >= 0) & (values <= 1), values, np.nan)
        if score is not None:
            values[self._outcome == OWN_FAILURE] = 0.0
        scores = _mean(self._by_case(values), 1)
        has_score = ~np.isnan(scores)
        best = np.max(scores, axis=1, initial=-np.inf, where=has_score)
        worst = np.min(scores, axis=1, initial=np.inf, where=has_score)
        if self.treatment is not None:
            difference = scores[:, self.treatment] - scores[:, self.baseline]
        else:
            difference = np.where(has_score.sum(axis=1) > 1, best - worst, np.nan)
        difference[np.abs(difference) < ROUNDING] = 0.0
        is_best = scores >= best[:, None] - ROUNDING
        winner = np.where(is_best.sum(axis=1) == 1, is_best.argmax(axis=1), TIE)
        winner[~has_score.all(axis=1) | (len(self.variants) < 2)] = NO_WINNER
        cost = self._by_case(self._cost).reshape(self.case_count, -1)
        is_unknown = np.isnan(cost).all(axis=1)
        total = np.where(is_unknown, np.nan, np.nansum(cost, axis=1))
        return CaseFigures(scores, difference, winner, total, _mean(self._by_case(self._service_s), (1, 2)))

    def _by_case(self, values: Any) -> Any:
        """Reshape to the axes case, repeat, variant."""
        return values.reshape(self.case_count, self.repeats, len(self.variants))

    def has_outcome(self, *outcomes: int) -> Bools:
        """Select the cases with a trial that has one of these outcomes."""
        return np.asarray(np.isin(self._by_case(self._outcome), outcomes).any(axis=(1, 2)))

    def has_error(self, kind: str) -> Bools:
        number = self.error_kinds.index(kind) if kind in self.error_kinds else -2
        return np.asarray((self._by_case(self._kind) == number).any(axis=(1, 2)))

    def has_tag(self, key: str, value: str) -> Bools:
        is_matching = np.array([tags.get(key) == value for tags in self._tag_sets])
        return np.asarray(is_matching[self._tag_set])

    def tags_of(self, case: int) -> Mapping[str, str]:
        return self._tag_sets[int(self._tag_set[case])]

    def trials_of(self, case: int, variant: int) -> range:
        """Positions of a variant's trials, by repeat."""
        return range(case * self.per_case + variant, (case + 1) * self.per_case, len(self.variants))

    def outcomes_of(self, case: int, variant: int) -> Counter[tuple[int, str]]:
        """Number of trials by outcome and kind of error."""
        positions = self.trials_of(case, variant)
        return Counter(
            (int(self._outcome[position]), self.error_kinds[self._kind[position]] if self._kind[position] >= 0 else "")
            for position in positions
        )

    def known_tags(self) -> dict[str, list[str]]:
        """The values of each tag."""
        values: dict[str, set[str]] = {}
        for tags in self._tag_sets:
            for key, value in tags.items():
                values.setdefault(key, set()).add(str(value))
        return {key: sorted(values[key], key=natural_order) for key in sorted(values)}

    # -- searching and sorting -----------------------------------------------------------------------------------------

    def mentions(self, store: Store, text: str) -> Bools:
        """Select the cases whose id, or a prompt or answer of whose trials, contains a text."""
        search = self._searches.pop(text, None) or TextSearch(np.zeros(len(self._outcome), dtype=np.bool_))
        self._searches[text] = search  # now the most recently used
        if len(self._searches) > _SEARCHES_KEPT:
            del self._searches[next(iter(self._searches))]
        for row, position, matches in store.queries.text_matches(self.run_id, text, search.last_row):
            search.last_row = max(search.last_row, row)
            if position < len(search.matches):
                search.matches[position] = matches
        lowered = text.lower()
        in_id = np.fromiter((lowered in case_id.lower() for case_id in self.ids), np.bool_, self.case_count)
        return np.asarray(in_id | self._by_case(search.matches).any(axis=(1, 2)))

    def id_ranks(self) -> Ints:
        """Ranks of the cases by id."""
        if self._id_ranks is None:
            self._id_ranks = _ranks(self.ids)
        return self._id_ranks

    def tag_ranks(self) -> Ints:
        """Ranks of the cases by tags."""
        return np.asarray(_ranks([tag_text(tags) for tags in self._tag_sets])[self._tag_set])


def _ranks(texts: Sequence[str]) -> Ints:
    places = {text: place for place, text in enumerate(sorted(set(texts), key=natural_order))}
    return np.fromiter((places[text] for text in texts), np.int64, len(texts))


def _mean(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    is_number = ~np.isnan(values)
    count = is_number.sum(axis=axis)
    total = np.where(is_number, values, 0.0).sum(axis=axis)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def tag_text(tags: Mapping[str, str]) -> str:
    """
    >>> tag_text({"level": "easy", "kind": "sum"})
    'kind=sum, level=easy'
    """
    return ", ".join(f"{key}={tags[key]}" for key in sorted(tags))


def natural_order(text: str) -> list[Any]:
    """Return a sort key that compares numbers in texts as numbers.

    >>> sorted(["c10", "c9", "b", "c09x"], key=natural_order)
    ['b', 'c9', 'c09x', 'c10']
    """
    parts: list[Any] = _NUMBER.split(text)
    parts[1::2] = [(len(digits.lstrip("0")), digits.lstrip("0")) for digits in parts[1::2]]
    return parts
