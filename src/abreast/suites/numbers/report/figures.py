"""The figures of a run, derived from its stored rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from abreast.analyse.rows import Bools, Floats, by_case, mean_of_known, median_of_known
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
from abreast.suites.trial_table import TrialTable

CORRECT, CLOSENESS, GROUNDED = "numbers_correct", "numbers_closeness", "numbers_grounded"
UNREAD = "(none read)"  # the answer has no class, or several
ERRORS = ((0.01, "≤ 1 %"), (0.05, "≤ 5 %"), (0.2, "≤ 20 %"), (1.0, "< 100 %"), (np.inf, "≥ 100 %"))


class Share(NamedTuple):
    """A mean score with its interval (None without trials), the number of trials, and their sum."""

    mean: Interval | None
    trials: int
    total: float = 0.0


class Confusion(NamedTuple):
    """How often each class was answered: `counts[right][answered]`."""

    query: str
    variant: str
    classes: tuple[str, ...]  # right answers
    answers: tuple[str, ...]  # given answers: the classes, and UNREAD
    counts: tuple[tuple[int, ...], ...]


class Answerable(NamedTuple):
    """Which cases a variant can answer from its prompt, and its accuracy where the baseline can, too."""

    name: str
    answerable: int
    not_answerable: int
    unknown: int
    share: float | None  # share of answerable cases
    accuracy: Share  # on all cases
    both: int  # cases that the baseline can answer, too
    accuracy_both: Share
    baseline_both: Share
    difference_both: Interval | None

    @property
    def cases(self) -> int:
        return self.answerable + self.not_answerable + self.unknown


class Degradation(NamedTuple):
    """A variant's accuracy under a perturbation, and the change from the same cases without it."""

    perturbation: str
    variant: str
    accuracy: Share
    change: Interval | None


@dataclass(frozen=True, slots=True)
class VariantFigures:
    """The figures of one variant; None if unknown."""

    name: str
    accuracy: Share
    by_task: dict[str, Share]
    by_size: dict[int, Share]
    by_difficulty: dict[str, Share]
    skipped: int
    median_error: float | None  # relative error of numbers; 1 means 100 % or more
    errors: tuple[int, ...]  # answers in each class of ERRORS
    hallucinated: Share  # share of the answered numbers
    tokens_in: float | None  # per call, including cached ones
    tokens_in_by_task: dict[str, float]
    tokens_out: float | None
    compression: Interval | None  # baseline input tokens per input token of the variant
    right_per_1000_tokens: float | None  # right answers per 1,000 tokens in and out
    context_utilisation: float | None  # right answers per token relative to the baseline, on the same cases
    cost_usd: float | None  # per call
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
    answerable_by: dict[str, dict[str, bool | None]] = field(default_factory=dict)  # keys: case, variant


def figures_of(analysis: Analysis) -> Figures:
    table = NumbersTable(analysis)
    tasks = tuple(task for task in TASKS if task in set(table.task.tolist()))
    sizes = tuple(sorted(set(table.size.tolist())))
    levels = tuple(level for level in LEVELS if level in set(table.difficulty.tolist()))
    answerability = _answerable_by(analysis)
    return Figures(
        variants=tuple(_variant_figures(table, index, tasks, sizes, levels) for index in table.variants),
        confusions=tuple(_confusions(analysis)),
        robustness=tuple(_robustness(table)),
        baseline=table.baseline,
        tasks=tasks,
        sizes=sizes,
        difficulties=levels,
        answerable=tuple(_answerable(table, index, answerability) for index in table.variants),
        answerable_by={
            table.rows.cases[case].id: {table.names[variant]: by_variant[variant] for variant in sorted(by_variant)}
            for case, by_variant in sorted(answerability.items())
        },
    )


class NumbersTable(TrialTable):
    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        rows, self.case, self.ok = self.rows, self.rows.case, self.rows.ok
        nothing = np.full(len(rows.case), np.nan)
        answered = np.array([(self.ok & self.of(variant)).any() for variant in self.variants], dtype=bool)
        correct = rows.scores.get(CORRECT, rows.score)
        self.correct: Floats = np.where(answered[rows.variant], correct, np.nan)
        self.closeness: Floats = rows.scores.get(CLOSENESS, nothing)
        self.grounded: Floats = rows.scores.get(GROUNDED, nothing)
        tags = [rows.cases[case].tags for case in rows.case.tolist()]
        self.task = np.array([tag.get("task", "") for tag in tags], dtype=object)
        self.difficulty = np.array([tag.get("difficulty", "") for tag in tags], dtype=object)
        sizes = [tag.get("size", "0") for tag in tags]
        self.size = np.array([int(size) if size.isdecimal() else 0 for size in sizes], dtype=np.int64)
        self.perturbation = np.array([tag.get("perturbation", "none") for tag in tags], dtype=object)
        self.group = [rows.cases[case].group or rows.cases[case].id for case in rows.case.tolist()]
        tokens = [rows.tokens[name] for name in ("input", "cache_read", "cache_write")]
        is_unknown = np.all(np.isnan(tokens), axis=0)
        self.tokens_in: Floats = np.where(self.ok & ~is_unknown, np.nansum(tokens, axis=0), np.nan)
        self.tokens_out: Floats = np.where(self.ok, rows.tokens["output"], np.nan)
        self.baseline_index = self.names.index(self.baseline)

    def case_means(self, variant: int, values: Floats) -> Floats:
        return by_case(self.rows, self.of(variant), values)


def _variant_figures(
    table: NumbersTable, index: int, tasks: Sequence[str], sizes: Sequence[int], levels: Sequence[str]
) -> VariantFigures:
    mask = table.of(index)
    error = 1.0 - table.closeness[mask & table.ok & ~np.isnan(table.closeness)]
    tokens = table.tokens_in + table.tokens_out
    has_tokens = mask & ~np.isnan(tokens)
    right, total = float(np.nansum(table.correct[has_tokens])), float(tokens[has_tokens].sum())
    tokens_by_task = {task: mean_of_known(table.tokens_in[mask & (table.task == task)]) for task in tasks}
    return VariantFigures(
        name=table.names[index],
        accuracy=_share(table, mask, table.correct),
        by_task={task: _share(table, mask & (table.task == task), table.correct) for task in tasks},
        by_size={size: _share(table, mask & (table.size == size), table.correct) for size in sizes},
        by_difficulty={level: _share(table, mask & (table.difficulty == level), table.correct) for level in levels},
        skipped=int(table.rows.skipped[mask].sum()),
        median_error=float(np.median(error)) if len(error) else None,
        errors=_error_classes(error),
        hallucinated=_share(table, mask & table.ok, 1.0 - table.grounded),
        tokens_in=mean_of_known(table.tokens_in[mask]),
        tokens_in_by_task={task: mean for task, mean in tokens_by_task.items() if mean is not None},
        tokens_out=mean_of_known(table.tokens_out[mask]),
        compression=_compression(table, index),
        right_per_1000_tokens=1000 * right / total if total else None,
        context_utilisation=_utilisation(table, index, tokens),
        cost_usd=mean_of_known(table.rows.cost_usd[mask]),
        latency_s=median_of_known(table.rows.service_s[mask & table.ok]),
    )


def _share(table: NumbersTable, mask: Bools, values: Floats) -> Share:
    present_values = values[mask & ~np.isnan(values)]
    return Share(mean_score(table.rows, mask, values), len(present_values), float(present_values.sum()))


def _error_classes(error: Floats) -> tuple[int, ...]:
    """Count the errors in each class of ERRORS."""
    counts, lower = [], -np.inf
    for bound, _ in ERRORS:
        in_class = (error > lower) & (error < bound if bound in (1.0, np.inf) else error <= bound + 1e-9)
        counts.append(int(in_class.sum()))
        lower = bound - 1e-12 if bound == 1.0 else bound + 1e-9
    return tuple(counts)


def _compression(table: NumbersTable, index: int) -> Interval | None:
    """Compute baseline tokens per token of the variant: the ratio of sums over the cases that have both."""
    if table.names[index] == table.baseline:
        return None
    own, base = table.case_means(index, table.tokens_in), table.case_means(table.baseline_index, table.tokens_in)
    both = np.flatnonzero((own > 0) & (base > 0))
    groups = table.rows.groups(both)
    if len(both if groups is None else set(groups)) < 2:
        return None
    own, base = own[both], base[both]
    ratio = float(base.sum() / own.sum())
    error = paired_t((base - ratio * own) / own.mean(), groups=groups)  # the delta method
    return Interval(ratio, max(0.0, ratio + error.low), ratio + error.high)


def _utilisation(table: NumbersTable, index: int, tokens: Floats) -> float | None:
    """Compute right answers per token relative to the baseline, over the cases whose tokens are known for both."""
    if table.names[index] == table.baseline:
        return None
    both, is_known = (index, table.baseline_index), ~np.isnan(table.correct) & ~np.isnan(tokens)
    case_tokens = [table.case_means(variant, np.where(is_known, tokens, np.nan)) for variant in both]
    right = [table.case_means(variant, np.where(is_known, table.correct, np.nan)) for variant in both]
    shared = ~np.isnan(case_tokens[0]) & ~np.isnan(case_tokens[1])
    own, base = (float(_ratio(right[at][shared].sum(), case_tokens[at][shared].sum())) for at in (0, 1))
    return own / base if base else None


def _ratio(part: float, total: float) -> float:
    return part / total if total else 0.0


def _confusions(analysis: Analysis) -> list[Confusion]:
    rows = analysis.rows
    queries = {rows.cases[case].id: _query(text) for case, text in rows.case_column("input").items()}
    counters: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for row in predictions(rows.store, analysis.run["run"]):
        query = QUERIES.get(queries[row["case_id"]])
        if row["status"] == "ok" and query is not None and query.kind == "class":
            answer = read_answer(query, Answer(row["answer"] or "")).value
            pair = _text(row["expected"]), UNREAD if answer is None else str(answer)
            counters.setdefault((query.name, row["variant"]), Counter())[pair] += 1
    return [
        _confusion(name, variant, counts)
        for name in QUERIES
        for variant in rows.variants
        if (counts := counters.get((name, variant)))
    ]


def _query(text: str) -> str:
    """Return the query of a case; empty if its input is not of this suite."""
    case_input = json.loads(text)
    return str(case_input.get("query", "")) if isinstance(case_input, dict) else ""


def _confusion(name: str, variant: str, counts: Counter[tuple[str, str]]) -> Confusion:
    classes = tuple(QUERIES[name].choices)
    answers = (*classes, UNREAD)
    matrix = tuple(tuple(counts[right, answer] for answer in answers) for right in classes)
    return Confusion(name, variant, classes, answers, matrix)


def _text(expected: Any) -> str:
    """Return a stored expected value, which is JSON or plain text."""
    try:
        return str(json.loads(expected))
    except (TypeError, ValueError):
        return str(expected)


Answerability = dict[int, dict[int, bool | None]]  # keys: case, variant


def _answerable_by(analysis: Analysis) -> Answerability:
    """Check whether each stored prompt has the answer; skipped trials have no prompt."""
    rows = analysis.rows
    answerability: Answerability = {}
    expected = rows.case_column("expected")
    cases = {
        case: Case(rows.cases[case].id, json.loads(text), json.loads(expected[case]))
        for case, text in rows.case_column("input").items()
        if _query(text) in QUERIES
    }
    variants = dict(zip(rows.position.tolist(), rows.variant.tolist(), strict=True))
    for position, prompt in rows.store.queries.prompts(rows.run_id):
        case, variant = position // rows.per_case, variants.get(position)
        if case in cases and variant is not None and variant not in answerability.setdefault(case, {}):
            answerability[case][variant] = is_answerable(cases[case], prompt or "")
    return answerability


def _answerable(table: NumbersTable, index: int, answerability: Answerability) -> Answerable:
    baseline = table.baseline_index
    own_cases = [by_variant[index] for by_variant in answerability.values() if index in by_variant]
    both = [case for case, by_variant in answerability.items() if by_variant.get(index) and by_variant.get(baseline)]
    shared = np.isin(table.case, both)
    correct = np.where(shared, table.correct, np.nan)
    change = table.case_means(index, correct) - table.case_means(baseline, correct)
    paired = np.flatnonzero(~np.isnan(change))
    groups = table.rows.groups(paired)
    is_enough = index != baseline and len(paired if groups is None else set(groups)) >= 2
    return Answerable(
        name=table.names[index],
        answerable=own_cases.count(True),
        not_answerable=own_cases.count(False),
        unknown=own_cases.count(None),
        share=own_cases.count(True) / len(own_cases) if own_cases else None,
        accuracy=_share(table, table.of(index), table.correct),
        both=len(both),
        accuracy_both=_share(table, table.of(index) & shared, table.correct),
        baseline_both=_share(table, table.of(baseline) & shared, table.correct),
        difference_both=final_interval(change[paired], level=0.95, groups=groups) if is_enough else None,
    )


def _robustness(table: NumbersTable) -> list[Degradation]:
    degradations: list[Degradation] = []
    if set(table.perturbation.tolist()) <= {"none"}:
        return degradations
    for index in table.variants:
        clean = _by_group(table, index, "none")
        for kind in ("none", *PERTURBATIONS):
            mask = table.of(index) & (table.perturbation == kind)
            own = _by_group(table, index, kind)
            both = [group for group in own if group in clean]
            differences = [own[group] - clean[group] for group in both]
            change = final_interval(differences, level=0.95) if kind != "none" and len(both) >= 2 else None
            degradations.append(Degradation(kind, table.names[index], _share(table, mask, table.correct), change))
    return degradations


def _by_group(table: NumbersTable, index: int, kind: str) -> dict[str, float]:
    """Return the mean of each group of cases under a perturbation."""
    scores: dict[str, list[float]] = {}
    for at in np.flatnonzero(table.of(index) & (table.perturbation == kind) & ~np.isnan(table.correct)).tolist():
        scores.setdefault(table.group[at], []).append(float(table.correct[at]))
    return {group: sum(own) / len(own) for group, own in scores.items()}


def percent(value: float) -> str:
    """
    >>> percent(0.9333), percent(1.0)
    ('93.3 %', '100.0 %')
    """
    return f"{value * 100:.1f} %"


def with_ends(score: Interval | None) -> str:
    """Format a score as `93.3 % (78.7 … 98.2)`."""
    return NOTHING if score is None else f"{percent(score.estimate)} ({score.low * 100:.1f} … {score.high * 100:.1f})"


def with_count(share: Share) -> str:
    """Format a share as `93.3 % (30)`: the mean and the number of trials."""
    return NOTHING if share.mean is None else f"{percent(share.mean.estimate)} ({share.trials:,})"


def plain(value: float | None, digits: int = 0) -> str:
    """Return a number, or a dash if it is unknown.

    >>> plain(1234.5), plain(0.456, 2), plain(None)
    ('1,234', '0.46', '–')
    """
    return NOTHING if value is None else f"{value:,.{digits}f}"
