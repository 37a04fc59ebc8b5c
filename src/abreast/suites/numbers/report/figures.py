"""The figures of a run, from its stored rows and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from abreast.analyse.rows import Bools, Floats, mean_of_known, median_of_known
from abreast.analyse.run import Analysis
from abreast.analyse.variants import mean_score
from abreast.experiment.result import predictions
from abreast.model import Answer, Case
from abreast.report.words.variant_figures import NOTHING
from abreast.stats import Interval, final_interval, paired_t
from abreast.suites.numbers.answerable import is_answerable
from abreast.suites.numbers.answers.reply import read_answer
from abreast.suites.numbers.dataset.queries import LEVELS, QUERIES
from abreast.suites.numbers.dataset.series import PERTURBATIONS
from abreast.suites.numbers.dataset.tasks import TASKS

CORRECT, CLOSENESS, GROUNDED = "numbers_correct", "numbers_closeness", "numbers_grounded"
Key = TypeVar("Key", int, str)
UNREAD = "(none read)"  # an answer that names no class, or several
ERRORS = ((0.01, "≤ 1 %"), (0.05, "≤ 5 %"), (0.2, "≤ 20 %"), (1.0, "< 100 %"), (np.inf, "≥ 100 %"))


class Share(NamedTuple):
    """A mean score with its interval, over so many trials, and what they add up to; None if there are none."""

    of: Interval | None
    trials: int
    total: float = 0.0


class Confusion(NamedTuple):
    """How often each class was answered where each was right: `counts[right][answered]`."""

    query: str
    variant: str
    classes: tuple[str, ...]  # what can be right
    answers: tuple[str, ...]  # what was answered: the same, and what could not be read
    counts: tuple[tuple[int, ...], ...]


class Answerable(NamedTuple):
    """Cases that a variant can answer by its prompt alone, and its accuracy on those that the baseline can too."""

    variant: str
    yes: int
    no: int
    unknown: int
    both: int  # cases
    accuracy: Share  # on those
    of_baseline: Share
    difference: Interval | None


class Degradation(NamedTuple):
    """What a perturbation does to a variant: its accuracy there, and the change from the same cases without it."""

    perturbation: str
    variant: str
    accuracy: Share
    change: Interval | None


@dataclass(frozen=True, slots=True)
class VariantFigures:
    """One condition in figures. What is not known is None, never 0."""

    name: str
    accuracy: Share
    by_task: dict[str, Share]
    by_size: dict[int, Share]
    by_difficulty: dict[str, Share]
    skipped: int
    median_error: float | None  # relative, of numbers; 1 is 100 % or more
    errors: tuple[int, ...]  # trials in each class of ERRORS
    hallucinated: Share  # of the numbers that were answered
    tokens_in: float | None  # of a call, the cache's included
    tokens_in_by_task: dict[str, float]
    tokens_out: float | None
    compression: Interval | None  # baseline input tokens per input token of the variant
    right_per_1000_tokens: float | None  # right answers for 1,000 tokens in and out
    context_utilisation: float | None  # right answers for a token against the baseline's, on the same cases
    cost_usd: float | None  # of a call
    latency_s: float | None  # median


@dataclass(frozen=True, slots=True)
class Figures:
    variants: tuple[VariantFigures, ...]
    confusions: tuple[Confusion, ...] = ()
    robustness: tuple[Degradation, ...] = ()
    baseline: str = ""
    tasks: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    difficulties: tuple[str, ...] = ()
    answerable: tuple[Answerable, ...] = ()
    answerable_by: dict[str, dict[str, bool | None]] = field(default_factory=dict)  # by case and variant


def figures(analysis: Analysis) -> Figures:
    table = _Table(analysis)
    tasks = tuple(task for task in TASKS if task in set(table.task.tolist()))
    sizes = tuple(sorted(set(table.size.tolist())))
    levels = tuple(level for level in LEVELS if level in set(table.difficulty.tolist()))
    order = range(len(table.names))
    known = _answerable_by(analysis)
    return Figures(
        variants=tuple(_of_variant(table, index, tasks, sizes, levels) for index in order),
        confusions=tuple(_confusions(analysis)),
        robustness=tuple(_robustness(table, order)),
        baseline=table.baseline,
        tasks=tasks,
        sizes=sizes,
        difficulties=levels,
        answerable=tuple(_answerable(table, index, known) for index in order),
        answerable_by={
            table.rows.cases[case].id: {table.names[variant]: of_case[variant] for variant in sorted(of_case)}
            for case, of_case in sorted(known.items())
        },
    )


class _Table:
    def __init__(self, analysis: Analysis) -> None:
        rows = analysis.rows
        self.rows, self.names = rows, rows.variants
        self.baseline: str = analysis.run["baseline"]
        self.variant, self.case, self.ok = rows.variant, rows.case, rows.ok
        nothing = np.full(len(rows.case), np.nan)
        answered = np.array([(self.ok & (self.variant == index)).any() for index in range(len(self.names))], dtype=bool)
        correct = rows.scores.get(CORRECT, rows.score)
        self.correct: Floats = np.where(answered[self.variant], correct, np.nan)  # who never answered is not known
        self.closeness: Floats = rows.scores.get(CLOSENESS, nothing)
        self.grounded: Floats = rows.scores.get(GROUNDED, nothing)
        tags = [rows.cases[case].tags for case in rows.case.tolist()]
        self.task = np.array([tag.get("task", "") for tag in tags], dtype=object)
        self.difficulty = np.array([tag.get("difficulty", "") for tag in tags], dtype=object)
        sizes = [tag.get("size", "0") for tag in tags]
        self.size = np.array([int(size) if size.isdecimal() else 0 for size in sizes], dtype=np.int64)
        self.perturbation = np.array([tag.get("perturbation", "none") for tag in tags], dtype=object)
        self.group = [rows.cases[case].group or rows.cases[case].id for case in rows.case.tolist()]
        known = [rows.tokens[name] for name in ("input", "cache_read", "cache_write")]
        missing = np.all(np.isnan(known), axis=0)
        self.tokens_in: Floats = np.where(self.ok & ~missing, np.nansum(known, axis=0), np.nan)
        self.tokens_out: Floats = np.where(self.ok, rows.tokens["output"], np.nan)

    def of(self, variant: int) -> Bools:
        found: Bools = self.variant == variant
        return found


def _of_variant(
    table: _Table, index: int, tasks: Sequence[str], sizes: Sequence[int], levels: Sequence[str]
) -> VariantFigures:
    mine = table.of(index)
    error = 1.0 - table.closeness[mine & table.ok & ~np.isnan(table.closeness)]
    tokens = table.tokens_in + table.tokens_out
    known = mine & ~np.isnan(tokens)
    right, total = float(np.nansum(table.correct[known])), float(tokens[known].sum())
    tokens_by_task = {task: mean_of_known(table.tokens_in[mine & (table.task == task)]) for task in tasks}
    return VariantFigures(
        name=table.names[index],
        accuracy=_share(table, mine, table.correct),
        by_task={task: _share(table, mine & (table.task == task), table.correct) for task in tasks},
        by_size={size: _share(table, mine & (table.size == size), table.correct) for size in sizes},
        by_difficulty={level: _share(table, mine & (table.difficulty == level), table.correct) for level in levels},
        skipped=int(table.rows.skipped[mine].sum()),
        median_error=float(np.median(error)) if len(error) else None,
        errors=_in_classes(error),
        hallucinated=_share(table, mine & table.ok, 1.0 - table.grounded),
        tokens_in=mean_of_known(table.tokens_in[mine]),
        tokens_in_by_task={task: mean for task, mean in tokens_by_task.items() if mean is not None},
        tokens_out=mean_of_known(table.tokens_out[mine]),
        compression=_compression(table, index),
        right_per_1000_tokens=1000 * right / total if total else None,
        context_utilisation=_utilisation(table, index, tokens),
        cost_usd=mean_of_known(table.rows.cost_usd[mine]),
        latency_s=median_of_known(table.rows.service_s[mine & table.ok]),
    )


def _share(table: _Table, mine: Bools, values: Floats) -> Share:
    known = values[mine & ~np.isnan(values)]
    return Share(mean_score(table.rows, mine, values), len(known), float(known.sum()))


def _in_classes(error: Floats) -> tuple[int, ...]:
    counts, before = [], -np.inf
    for bound, _ in ERRORS:
        inside = (error > before) & (error < bound if bound in (1.0, np.inf) else error <= bound + 1e-9)
        counts.append(int(inside.sum()))
        before = bound - 1e-12 if bound == 1.0 else bound + 1e-9
    return tuple(counts)


def _compression(table: _Table, index: int) -> Interval | None:
    """Tokens of the baseline for one of its own: the ratio of the sums over cases that have both, with its interval."""
    if table.names[index] == table.baseline:
        return None
    own = _by_case(table, index, table.tokens_in)
    base = _by_case(table, table.names.index(table.baseline), table.tokens_in)
    both = sorted(case for case in own if case in base and own[case] > 0 and base[case] > 0)
    groups = table.rows.groups(np.array(both, dtype=np.int64))
    if len(both if groups is None else set(groups)) < 2:
        return None
    here, there = np.array([own[case] for case in both]), np.array([base[case] for case in both])
    ratio = float(there.sum() / here.sum())
    around = paired_t((there - ratio * here) / here.mean(), groups=groups)  # the delta method
    return Interval(ratio, max(0.0, ratio + around.low), ratio + around.high)


def _utilisation(table: _Table, index: int, tokens: Floats) -> float | None:
    """Right answers for a token against the baseline's, over the cases whose tokens are known for both."""
    if table.names[index] == table.baseline:
        return None
    known = np.where(np.isnan(table.correct), np.nan, tokens)
    own, base = (_by_case(table, each, known) for each in (index, table.names.index(table.baseline)))
    shared = set(own) & set(base)
    rates = []
    for each, used in ((index, own), (table.names.index(table.baseline), base)):
        right = _by_case(table, each, np.where(np.isnan(known), np.nan, table.correct))
        total = sum(used[case] for case in shared)
        rates.append(sum(right[case] for case in shared) / total if total else 0.0)
    return rates[0] / rates[1] if rates[1] else None


def _by_case(table: _Table, index: int, values: Floats) -> dict[int, float]:
    mine = table.of(index) & ~np.isnan(values)
    return _means(table.case[mine].tolist(), values[mine])


def _means(keys: Sequence[Key], values: Floats) -> dict[Key, float]:
    found: dict[Key, list[float]] = {}
    for key, value in zip(keys, values.tolist(), strict=True):
        found.setdefault(key, []).append(value)
    return {key: sum(each) / len(each) for key, each in found.items()}


def _confusions(analysis: Analysis) -> list[Confusion]:
    rows = analysis.rows
    asked = {rows.cases[case].id: _asked(text) for case, text in rows.case_column("input").items()}
    counted: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for row in predictions(rows.store, analysis.run["run"]):
        query = QUERIES.get(asked[row["case_id"]])
        if row["status"] == "ok" and query is not None and query.kind == "class":
            answered = read_answer(query, Answer(row["answer"] or "")).value
            pair = _text(row["expected"]), UNREAD if answered is None else str(answered)
            counted.setdefault((query.name, row["variant"]), Counter())[pair] += 1
    return [
        _confusion(name, variant, counts)
        for name in QUERIES
        for variant in rows.variants
        if (counts := counted.get((name, variant)))
    ]


def _asked(text: str) -> str:
    """The query of a case; empty if its input is none of this suite's."""
    found = json.loads(text)
    return str(found.get("query", "")) if isinstance(found, dict) else ""


def _confusion(name: str, variant: str, counts: Counter[tuple[str, str]]) -> Confusion:
    classes = tuple(QUERIES[name].choices)
    answers = (*classes, UNREAD)
    matrix = tuple(tuple(counts[right, said] for said in answers) for right in classes)
    return Confusion(name, variant, classes, answers, matrix)


def _text(expected: Any) -> str:
    """The stored expected value, which is JSON where it is not plain text."""
    try:
        return str(json.loads(expected))
    except (TypeError, ValueError):
        return str(expected)


Known = dict[int, dict[int, bool | None]]  # by case and variant


def _answerable_by(analysis: Analysis) -> Known:
    """What each prompt can answer, by the prompts that are stored. A trial that was skipped has none."""
    rows = analysis.rows
    known: Known = {}
    expected = rows.case_column("expected")
    asked = {
        case: Case(rows.cases[case].id, json.loads(text), json.loads(expected[case]))
        for case, text in rows.case_column("input").items()
        if _asked(text) in QUERIES
    }
    variants = dict(zip(rows.position.tolist(), rows.variant.tolist(), strict=True))
    for position, prompt in rows.store.queries.prompts(rows.run_id):
        case, variant = position // rows.per_case, variants.get(position)
        if case in asked and variant is not None and variant not in known.setdefault(case, {}):
            known[case][variant] = is_answerable(asked[case], prompt or "")
    return known


def _answerable(table: _Table, index: int, known: Known) -> Answerable:
    baseline = table.names.index(table.baseline)
    mine = [of_case[index] for of_case in known.values() if index in of_case]
    both = [case for case, of_case in known.items() if of_case.get(index) and of_case.get(baseline)]
    shared = np.isin(table.case, both)
    own, base = (_by_case(table, each, np.where(shared, table.correct, np.nan)) for each in (index, baseline))
    paired = sorted(set(own) & set(base))
    groups = table.rows.groups(np.array(paired, dtype=np.int64))
    enough = index != baseline and len(paired if groups is None else set(groups)) >= 2
    differences = [own[case] - base[case] for case in paired]
    return Answerable(
        variant=table.names[index],
        yes=mine.count(True),
        no=mine.count(False),
        unknown=mine.count(None),
        both=len(both),
        accuracy=_share(table, table.of(index) & shared, table.correct),
        of_baseline=_share(table, table.of(baseline) & shared, table.correct),
        difference=final_interval(differences, level=0.95, groups=groups) if enough else None,
    )


def _robustness(table: _Table, order: Sequence[int]) -> list[Degradation]:
    found: list[Degradation] = []
    if set(table.perturbation.tolist()) <= {"none"}:
        return found
    for index in order:
        clean = _by_group(table, index, "none")
        for kind in ("none", *PERTURBATIONS):
            mine = table.of(index) & (table.perturbation == kind)
            own = _by_group(table, index, kind)
            both = [group for group in own if group in clean]
            differences = [own[group] - clean[group] for group in both]
            change = final_interval(differences, level=0.95) if kind != "none" and len(both) >= 2 else None
            found.append(Degradation(kind, table.names[index], _share(table, mine, table.correct), change))
    return found


def _by_group(table: _Table, index: int, kind: str) -> dict[str, float]:
    mine = np.flatnonzero(table.of(index) & (table.perturbation == kind) & ~np.isnan(table.correct))
    return _means([table.group[at] for at in mine.tolist()], table.correct[mine])


# -- in words ---------------------------------------------------------------------------------------------------------


def percent(value: float) -> str:
    """
    >>> percent(0.9333), percent(1.0)
    ('93.3 %', '100.0 %')
    """
    return f"{value * 100:.1f} %"


def with_ends(score: Interval | None) -> str:
    """`93.3 % (78.7 … 98.2)`."""
    return NOTHING if score is None else f"{percent(score.estimate)} ({score.low * 100:.1f} … {score.high * 100:.1f})"


def with_count(share: Share) -> str:
    """`93.3 % (30)`: the share, and of how many trials."""
    return NOTHING if share.of is None else f"{percent(share.of.estimate)} ({share.trials:,})"


def plain(value: float | None, digits: int = 0) -> str:
    """A number, or that it is not known.

    >>> plain(1234.5), plain(0.456, 2), plain(None)
    ('1,234', '0.46', '–')
    """
    return NOTHING if value is None else f"{value:,.{digits}f}"
