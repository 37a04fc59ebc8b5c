"""Comparison of runs, paired by case id and input. Cases that cannot be paired are listed, never dropped silently."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from abreast.analyse.decision.verdicts import Decided, Decider, DecisionRule, lopsided
from abreast.analyse.human_labels.calibration import uncalibrated
from abreast.analyse.paired import Pairs, TrialGrid, pair, trial_grid
from abreast.analyse.rows import Bools, Ints, Rows
from abreast.analyse.run import Comparison, largest, no_comparison, why_incomparable
from abreast.analyse.variants import VariantSummary, summarise
from abreast.digest import digest
from abreast.errors import BadInput, suggestion
from abreast.stats import Population, population_of
from abreast.stats.intervals.population import ALL_CASES
from abreast.store import Store
from abreast.store.queries.runs import StoredVariant
from abreast.store.run_names import find_run, matching_runs
from abreast.targets.untrusted_json import parsed

REGRESSION = {
    "worse": "regression",
    "better": "improvement",
    "equivalent": "no regression",
    "not worse": "no regression",
    "inconclusive": "not known",
    "no comparison": "no comparison",
}


@dataclass(frozen=True, slots=True)
class Contender:
    """One variant of one run."""

    run: str
    variant: str
    simulated: bool
    stopped_early: bool
    summary: VariantSummary = field(repr=False)
    import_notes: tuple[str, ...] = ()  # notes on the import, if the run was imported
    label: str | None = None  # label of the run
    aliases: frozenset[str] = frozenset()  # other names of the run: its label, and as the user wrote it

    @property
    def name(self) -> str:
        return f"{self.run}:{self.variant}"

    @property
    def names(self) -> set[str]:
        """All names that a requirement may use."""
        return {self.variant, *(f"{run}:{self.variant}" for run in {self.run, *self.aliases})}


@dataclass(frozen=True, slots=True)
class Match:
    """The cases that two runs have in common, and those they do not."""

    only_first: tuple[str, ...]  # case ids
    only_second: tuple[str, ...]
    changed: tuple[str, ...]  # same id, different input
    without_input: tuple[str, ...]  # same id, input known in one run only
    other_truth: tuple[str, ...]  # same id and input, different expected answer
    unfinished: tuple[str, ...]  # in both, but incomplete in one
    shared: int  # answers that one run reused from the other; they are not compared
    shared_cases: tuple[str, ...]  # the ids of their cases
    not_begun: tuple[int, int]  # number of cases that each run planned but has no row of


@dataclass(frozen=True, slots=True)
class AcrossRuns:
    """One contender of a later run against one of the first run."""

    first: Contender
    second: Contender
    comparison: Comparison
    match: Match
    changes: tuple[str, ...]  # other differences between the two

    @property
    def simulated(self) -> bool:
        return self.first.simulated or self.second.simulated

    @property
    def word(self) -> str:
        return REGRESSION[self.comparison.verdict.word]

    @property
    def is_compared(self) -> bool:
        return self.comparison.verdict.word != "no comparison"

    @property
    def is_unchanged(self) -> bool:
        """Whether the later run reused all answers of this variant."""
        return not self.is_compared and not self.comparison.planned and self.match.shared > 0


@dataclass(frozen=True, slots=True)
class _RunVariant:
    rows: Rows
    variant: int
    written: str  # the run as the user wrote it: its name, its label, `latest`, ...


@dataclass(frozen=True, slots=True)
class _ContenderPair:
    first: _RunVariant
    second: _RunVariant
    metric: str

    @property
    def sides(self) -> tuple[_RunVariant, _RunVariant]:
        return self.first, self.second


def compare(stores: Sequence[Store], names: Sequence[str], variant: str | None, margin: float) -> list[AcrossRuns]:
    """Compare each run with the first: the variants they have in common, or those named as RUN:VARIANT."""
    if len(names) < 2:
        raise BadInput("compare needs two runs", "run `abreast runs` to list them")
    rows_by_run: dict[str, Rows] = {}
    sides = [_contenders(stores, name, variant, rows_by_run) for name in names]
    questions = [question for later in sides[1:] for question in _questions(sides[0], later)]
    return _answers(questions, margin)


FINISHED = ("complete", "stopped_early")


@dataclass(frozen=True, slots=True)
class Step:
    """One variant of one run, against the previous run that has the variant."""

    run: dict[str, Any]
    variant: str
    score: float | None
    commit: str | None
    against_previous: AcrossRuns | None
    series: int = 1
    series_why: str = ""  # why the series began


def history(
    store: Store, experiment: str, every: bool = False, variant: str | None = None, margin: float = 0.0
) -> Iterator[Step]:
    """The labelled runs of an experiment, or every finished one, oldest first. Debug runs are left out."""
    last: dict[str, str] = {}  # the latest run of each variant
    for run in store.runs():
        is_chosen = run["label"] or (every and run["status"] in FINISHED)
        if run["experiment"] != experiment or run["debug"] or not is_chosen:
            continue
        rows = Rows(store, run["run"])
        provenance = rows.provenance
        commit = str(provenance["commit"])[:12] if provenance.get("commit") else None
        for index, name in enumerate(rows.variants):
            if variant not in (None, name):
                continue
            score = summarise(rows, index).score
            yield Step(
                run=rows.meta,
                variant=name,
                score=score.estimate if score else None,
                commit=commit,
                against_previous=_compared(store, last.get(name), run["run"], name, margin),
                series=int(provenance.get("series") or 1),
                series_why=str(provenance.get("series_why") or ""),
            )
            last[name] = run["run"]


def _compared(store: Store, before: str | None, run: str, variant: str, margin: float) -> AcrossRuns | None:
    """Compare two runs; None for the first run, and where the two have no score in common."""
    if before is None:
        return None
    try:
        return compare([store], [before, run], variant, margin)[0]
    except BadInput:
        return None


def _contenders(
    stores: Sequence[Store], name: str, variant: str | None, rows_by_run: dict[str, Rows]
) -> list[_RunVariant]:
    written, in_argument = _split(stores, name)
    store, run = find_run(stores, written)
    rows = rows_by_run[run] = rows_by_run.get(run) or Rows(store, run)
    variant = variant if in_argument is None else in_argument
    if variant is None:
        return [_RunVariant(rows, index, written) for index in range(len(rows.variants))]
    if variant not in rows.variants:
        hint = suggestion(variant, rows.variants)
        raise BadInput(f"{rows.meta['run']}: no variant {variant}{hint}", f"use one of {', '.join(rows.variants)}")
    return [_RunVariant(rows, rows.variants.index(variant), written)]


def _split(stores: Sequence[Store], name: str) -> tuple[str, str | None]:
    """Split `RUN` or `RUN:VARIANT`; a label may contain colons too."""
    run, variant = name, None
    while ":" in run and not any(matching_runs(store, run) for store in stores):
        run, _, last = run.rpartition(":")
        variant = last if variant is None else f"{last}:{variant}"
    return run, variant


def _questions(first: list[_RunVariant], later: list[_RunVariant]) -> list[_ContenderPair]:
    by_name = {side.rows.variants[side.variant]: side for side in first}
    pairs = [(by_name[name], side) for side in later if (name := side.rows.variants[side.variant]) in by_name]
    if not pairs and len(first) == len(later) == 1:
        pairs = [(first[0], later[0])]
    baseline, other = first[0].rows, later[0].rows
    run, later_run = baseline.meta["run"], other.meta["run"]
    if not pairs:
        command = f"abreast compare {run}:{baseline.variants[0]} {later_run}:{other.variants[0]}"
        raise BadInput(f"{run} and {later_run} have no variant in common", f"name the variants: `{command}`")
    if baseline.weight != other.weight:
        raise BadInput(
            f"{run} has weight: {baseline.weight}, {later_run} has weight: {other.weight}",
            "run one of them again with the weight of the other; its answers are reused",
        )
    metric = baseline.primary
    if metric is None:
        raise BadInput(f"{run} has no scorer", _how_to_rescore(baseline, "NAME"))
    is_foreign = baseline.imported is not None or other.imported is not None  # scores of other tools have other names
    if metric not in other.scores and other.primary != metric and not (is_foreign and other.primary):
        raise BadInput(f"{later_run} has no score {metric}", _how_to_rescore(other, metric))
    return [_ContenderPair(*sides, metric) for sides in pairs]


def _how_to_rescore(rows: Rows, scorer: str) -> str:
    run = rows.meta["run"]
    if rows.imported is None or rows.imported.file != str(Path(run).resolve()):
        return f"run `abreast rescore {run} --scorer {scorer}`"
    return f"run `abreast import {run}`, which prints the name of a run, then `abreast rescore RUN --scorer {scorer}`"


def _answers(questions: Sequence[_ContenderPair], margin: float) -> list[AcrossRuns]:
    """All verdicts, decided together in Holm's order; pairs that cannot be compared are excluded from it."""
    matched = [_matched(question) for question in questions]
    paired = {
        (0, at): pair(both.first, both.second, np.arange(len(both.cases)), _groups(questions[at], both.cases))
        for at, both in enumerate(matched)
    }
    reasons = [why_incomparable(*((side.rows, side.variant) for side in question.sides)) for question in questions]
    compared = {key: pairs for key, pairs in paired.items() if len(pairs.cases) and not reasons[key[1]]}
    planned = {key: _planned(questions[key[1]], len(pairs.cases) + pairs.dropped) for key, pairs in compared.items()}
    rule = DecisionRule(margin, questions[0].first.rows.weight, population=_population(questions, matched))
    decider = Decider(planned, lambda key, cases: _groups(questions[key[1]], matched[key[1]].cases[cases]), rule, False)
    decisions = decider.decide(compared)
    answers = []
    for at, question in enumerate(questions):
        pairs, both = paired[0, at], matched[at]
        first, second = map(_contender, question.sides)
        rows, cases = question.first.rows, both.cases
        shared_repeats = int(both.shared[pairs.cases].sum())
        repeats = min(rows.repeats, question.second.rows.repeats)
        impossible = no_comparison(reasons[at] or _why_not_compared(question, both, pairs), len(cases))
        decided = decisions.get((0, at), Decided(impossible, (), None, None))
        comparison = Comparison(
            metric=question.metric,
            variant=second.name,
            baseline=first.name,
            verdict=decided.verdict,
            case_noun=rows.case_noun,
            margin=margin,
            weight=rule.weight,
            planned=len(cases),
            repeats=len(pairs.cases) * repeats - shared_repeats,
            comparisons=len(questions),
            is_grouped=_groups(question, cases) is not None,
            scores=decided.scores,
            bounds=decided.bounds,
            changed=largest(pairs, [rows.cases[case].id for case in cases.tolist()].__getitem__),
            censoring=lopsided(first.summary.errors, second.summary.errors),
            pairs=replace(pairs, cases=cases[pairs.cases], repeats_left_out=pairs.repeats_left_out - shared_repeats),
            calibration=uncalibrated(rows, question.metric, "labels correct verdicts within one run only"),
        )
        answers.append(AcrossRuns(first, second, comparison, both.match, _changes(question)))
    return answers


def _population(questions: Sequence[_ContenderPair], matched: Sequence[_Matched]) -> Population:
    """The population of the verdicts, from the cases and repeats that both runs have."""
    if any(side.rows.chained for question in questions for side in question.sides):
        return ALL_CASES
    smallest = min(range(len(matched)), key=lambda at: len(matched[at].cases))
    cases = matched[smallest].cases
    if not len(cases):
        return ALL_CASES
    groups = _groups(questions[smallest], cases)
    repeats = matched[smallest].first.score.shape[1]
    return population_of(len(cases), repeats, len(questions), len(set(groups)) if groups else None)


def _planned(question: _ContenderPair, cases: int) -> int:
    """Number of cases at which the final interval may be used; an incomplete run never reaches it."""
    runs = (question.first.rows, question.second.rows)
    if all(rows.meta["status"] == "complete" for rows in runs):
        return cases
    return max(cases + 1, *(rows.planned_cases for rows in runs))


def _why_not_compared(question: _ContenderPair, both: _Matched, pairs: Pairs) -> str:
    first, second = ((side.rows.meta["run"], side.variant) for side in question.sides)
    if first == second:
        return "a run cannot be compared with itself"
    if len(both.cases):
        return f"no case {'has a score in' if pairs.unscored else 'was answered in'} both"
    count = both.match.shared
    if count:
        return f"{'the only answer is' if count == 1 else f'all {count:,} answers are'} shared by both runs (reused)"
    return "no case can be paired"


def _groups(question: _ContenderPair, cases: Ints) -> list[str] | None:
    """The groups of these cases of the first run; those of the second run, if the first has none."""
    first, second = question.first.rows, question.second.rows
    if first.grouped or not second.grouped:
        return first.groups(cases)
    in_second, identity = second.identities(), {index: key for key, index in first.identities().items()}
    return second.groups(np.array([in_second[identity[case]] for case in cases.tolist()], dtype=np.int64))


def _contender(side: _RunVariant) -> Contender:
    rows = side.rows
    return Contender(
        run=rows.meta["run"],
        variant=rows.variants[side.variant],
        simulated=bool(rows.meta["simulated"]),
        stopped_early=rows.meta["status"] == "stopped_early",
        summary=summarise(rows, side.variant),
        import_notes=rows.imported.notes if rows.imported else (),
        label=rows.meta["label"],
        aliases=frozenset({side.written, rows.meta["label"] or side.written}),
    )


@dataclass(frozen=True, slots=True)
class _Matched:
    """Both sides on the cases that they have in common, without cases whose answers are all shared."""

    first: TrialGrid
    second: TrialGrid
    match: Match
    cases: Ints  # their indexes in the first run
    shared: Bools  # by case and repeat: answers that are not compared


def _matched(question: _ContenderPair) -> _Matched:
    runs = [side.rows for side in question.sides]
    first, second = (rows.identities() for rows in runs)  # case indexes by id and input
    common = sorted(first.keys() & second.keys(), key=lambda key: first[key])
    counted = [set(rows.counted.tolist()) for rows in runs]
    finished = [key for key in common if first[key] in counted[0] and second[key] in counted[1]]
    expected = [rows.case_column("expected") for rows in runs]
    is_foreign = any(rows.imported for rows in runs)
    comparable = [
        key for key in finished if _is_same_truth(expected[0][first[key]], expected[1][second[key]], is_foreign)
    ]
    ids = {key[0] for key in first} & {key[0] for key in second}
    changed = ids - {key[0] for key in common}
    nothing = digest(None)
    half_known = {case_id for case_id in changed if ((case_id, nothing) in first) != ((case_id, nothing) in second)}
    repeats = min(rows.repeats for rows in runs)
    cases = [np.array([indexes[key] for key in comparable], dtype=np.int64) for indexes in (first, second)]
    shared = _shared(question, [(first[key], second[key]) for key in comparable], repeats)
    compared = np.flatnonzero(~np.logical_and.reduce(shared, axis=1))
    grids = []
    for side, indexes in zip(question.sides, cases, strict=True):
        score = side.rows.scores.get(question.metric, side.rows.score)
        grid = trial_grid(side.rows, side.variant, score).select(indexes, repeats)
        grid = replace(grid, score=np.where(shared, np.nan, grid.score), skipped=grid.skipped | shared)
        grids.append(grid.select(compared, repeats))
    match = Match(
        only_first=tuple(case_id for case_id, _ in sorted(first.keys() - second.keys()) if case_id not in ids),
        only_second=tuple(case_id for case_id, _ in sorted(second.keys() - first.keys()) if case_id not in ids),
        changed=tuple(sorted(changed - half_known)),
        without_input=tuple(sorted(half_known)),
        other_truth=tuple(key[0] for key in sorted(set(finished) - set(comparable), key=lambda key: first[key])),
        unfinished=tuple(key[0] for key in common if first[key] not in counted[0] or second[key] not in counted[1]),
        shared=int(shared.sum()),
        shared_cases=tuple(key[0] for key, row in zip(comparable, shared, strict=True) if row.any()),
        not_begun=(runs[0].planned_cases - len(runs[0].cases), runs[1].planned_cases - len(runs[1].cases)),
    )
    return _Matched(grids[0], grids[1], match, cases[0][compared], shared[compared])


def _is_same_truth(first: str, second: str, is_foreign: bool) -> bool:
    """Whether expected answers, as JSON, are the same. Other tools log texts, or nothing.

    >>> _is_same_truth("4", '"4"', is_foreign=True), _is_same_truth("4", '"4"', is_foreign=False)
    (True, False)
    """
    if first == second or not is_foreign:
        return first == second
    return "null" in (first, second) or _plain(json.loads(first)) == _plain(json.loads(second))


def _plain(expected: Any) -> Any:
    """The value that a text stands for, such as 4 for "4"."""
    value = parsed(expected) if isinstance(expected, str) else expected
    return expected if value is None else value


def _shared(question: _ContenderPair, cases: list[tuple[int, int]], repeats: int) -> Bools:
    """Mark the answers, by case and repeat, that one of the two runs reused from the other."""
    shared = np.zeros((len(cases), repeats), dtype=bool)
    if _identity(question.first) != _identity(question.second):
        return shared
    first, second = map(_origins, question.sides)
    for row, (case, other_case) in enumerate(cases):
        for repeat in range(repeats):
            origin = first.get((case, repeat))
            shared[row, repeat] = origin is not None and origin == second.get((other_case, repeat))
    return shared


def _origins(side: _RunVariant) -> dict[tuple[int, int], tuple[str, int]]:
    """The run that produced each answer, and its occurrence there, by case and repeat."""
    rows = side.rows
    origins = rows.store.queries.trial_origins(rows.run_id, side.variant)
    return {(position // rows.per_case, repeat): (run, occurrence) for position, repeat, run, occurrence in origins}


def _variant(side: _RunVariant) -> StoredVariant:
    return side.rows.store.queries.variants(side.rows.run_id)[side.variant]


def _identity(side: _RunVariant) -> tuple[Any, ...]:
    """Return a key that is equal for contenders that can share answers. `cache clear` removes digests."""
    variant = _variant(side)
    return (variant.digest,) if variant.digest else (variant.target, variant.params)


def _changes(question: _ContenderPair) -> tuple[str, ...]:
    """Describe the differences between the runs, apart from the answers."""
    changes = []
    before, after = map(_variant, question.sides)
    settings = [{"target": variant.target, **variant.params} for variant in (before, after)]
    for key in sorted(settings[0].keys() | settings[1].keys()):
        values = [setting.get(key) for setting in settings]
        if values[0] != values[1]:
            changes.append(f"{key}: {values[0]} → {values[1]}")
    if before.digest != after.digest and not changes:
        changes.append("the code of the target")
    later = question.second.rows
    if question.metric not in later.scores and later.primary != question.metric:
        changes.append(f"score: {question.metric} → {later.primary}")
    facts = [_facts(side, question.metric) for side in question.sides]
    changes += [f"{name}: {old} → {facts[1][name]}" for name, old in facts[0].items() if old != facts[1][name]]
    return tuple(changes)


def _facts(side: _RunVariant, metric: str) -> dict[str, str]:
    rows, provenance = side.rows, side.rows.provenance
    dirty = " with uncommitted changes" if provenance.get("dirty") else ""
    return {
        "models": ", ".join(rows.store.queries.models(rows.run_id).get(side.variant, ())) or "none reported",
        "scorer versions": ", ".join(rows.store.queries.scorer_versions(rows.run_id, metric)),
        "commit": str(provenance.get("commit"))[:12] + dirty,
    }
