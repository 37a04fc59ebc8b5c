"""Runs against each other: paired by case id and input, what cannot be paired is listed, never dropped in silence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from abreast.analyse.decision.verdicts import Decided, Decider, Rule, lopsided
from abreast.analyse.human_labels.calibration import uncalibrated
from abreast.analyse.paired import Pairs, Side, pair, side_of
from abreast.analyse.rows import Bools, Ints, Rows
from abreast.analyse.run import Comparison, largest, no_comparison, why_incomparable
from abreast.analyse.variants import VariantSummary, summarise
from abreast.errors import BadInput, suggestion
from abreast.stats import Population, population_of
from abreast.stats.intervals.population import ALL_CASES
from abreast.store import Store
from abreast.store.queries.runs import StoredVariant
from abreast.store.run_names import find_run, matching_runs

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
    aliases: frozenset[str] = frozenset()  # other names of the run: its label, and how the user named it

    @property
    def name(self) -> str:
        return f"{self.run}:{self.variant}"

    @property
    def names(self) -> set[str]:
        """Everything a requirement may call it."""
        return {self.variant, *(f"{run}:{self.variant}" for run in {self.run, *self.aliases})}


@dataclass(frozen=True, slots=True)
class Match:
    """Which cases two runs have in common."""

    only_first: tuple[str, ...]  # case ids
    only_second: tuple[str, ...]
    changed: tuple[str, ...]  # the same id with another input
    other_truth: tuple[str, ...]  # the same id and input with another expected answer
    unfinished: tuple[str, ...]  # in both, and not yet complete in one
    shared: int  # answers that both runs have in common because one reused them; they are set aside
    shared_cases: tuple[str, ...]  # the ids of their cases
    not_begun: tuple[int, int]  # cases that each run planned and has no row of: whose they are is not known


@dataclass(frozen=True, slots=True)
class AcrossRuns:
    """One contender of a later run against one of the first."""

    first: Contender
    second: Contender
    comparison: Comparison
    match: Match
    changes: tuple[str, ...]  # what else is different between the two

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
        """Whether both runs have the very same answers of this variant, reused."""
        return not self.is_compared and not self.comparison.planned and self.match.shared > 0


@dataclass(frozen=True, slots=True)
class _Named:
    rows: Rows
    variant: int
    written: str  # the run as the user named it: by its name, its label, `latest`, ...


@dataclass(frozen=True, slots=True)
class _Question:
    first: _Named
    second: _Named
    metric: str

    @property
    def sides(self) -> tuple[_Named, _Named]:
        return self.first, self.second


def compare(stores: Sequence[Store], names: Sequence[str], variant: str | None, margin: float) -> list[AcrossRuns]:
    """Compare each run with the first: the variants they have in common, or those that RUN:VARIANT names."""
    if len(names) < 2:
        raise BadInput("two runs are needed to compare", "abreast runs lists them")
    read: dict[str, Rows] = {}
    sides = [_named(stores, name, variant, read) for name in names]
    questions = [question for later in sides[1:] for question in _questions(sides[0], later)]
    return _answers(questions, margin)


FINISHED = ("complete", "stopped_early")


@dataclass(frozen=True, slots=True)
class Step:
    """One variant of one run, and what became of it since the run before that had it too."""

    run: dict[str, Any]
    variant: str
    score: float | None
    commit: str | None
    against_previous: AcrossRuns | None
    series: int = 1
    series_why: str = ""  # why that series began


def history(
    store: Store, experiment: str, every: bool = False, variant: str | None = None, margin: float = 0.0
) -> Iterator[Step]:
    """The labelled runs of an experiment, or every finished one, from first to last. Debug runs are no history."""
    last: dict[str, str] = {}  # the run that had a variant last
    for run in store.runs():
        is_chosen = run["label"] or (every and run["status"] in FINISHED)
        if run["experiment"] != experiment or run["debug"] or not is_chosen:
            continue
        rows = Rows(store, run["run"])
        provenance = json.loads(rows.meta["provenance"])
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
    """None for the first, and where the two have no score in common."""
    if before is None:
        return None
    try:
        (found,) = compare([store], [before, run], variant, margin)
    except BadInput:
        return None
    return found


def _named(stores: Sequence[Store], name: str, variant: str | None, read: dict[str, Rows]) -> list[_Named]:
    """The contenders that one word of the command line means."""
    written, chosen = _split(stores, name)
    store, run = find_run(stores, written)
    rows = read[run] = read.get(run) or Rows(store, run)
    wanted = variant if chosen is None else chosen
    if wanted is None:
        return [_Named(rows, index, written) for index in range(len(rows.variants))]
    if wanted not in rows.variants:
        hint = suggestion(wanted, rows.variants)
        raise BadInput(f"{rows.meta['run']}: no variant {wanted}{hint}", f"it has {', '.join(rows.variants)}")
    return [_Named(rows, rows.variants.index(wanted), written)]


def _split(stores: Sequence[Store], name: str) -> tuple[str, str | None]:
    """Run and variant of `RUN` or `RUN:VARIANT`; a label may contain colons too."""
    run, variant = name, None
    while ":" in run and not any(matching_runs(store, run) for store in stores):
        run, _, last = run.rpartition(":")
        variant = last if variant is None else f"{last}:{variant}"
    return run, variant


def _questions(first: list[_Named], later: list[_Named]) -> list[_Question]:
    before = {side.rows.variants[side.variant]: side for side in first}
    pairs = [(before[name], side) for side in later if (name := side.rows.variants[side.variant]) in before]
    if not pairs and len(first) == len(later) == 1:
        pairs = [(first[0], later[0])]
    one, other = first[0].rows, later[0].rows
    if not pairs:
        raise BadInput(
            f"{one.meta['run']} and {other.meta['run']} have no variant in common",
            f"name them: abreast compare {one.meta['run']}:{one.variants[0]} {other.meta['run']}:{other.variants[0]}",
        )
    if one.weight != other.weight:
        raise BadInput(
            f"{one.meta['run']} has weight: {one.weight}, {other.meta['run']} has weight: {other.weight}",
            "run one of them again with the weight of the other: answers are reused",
        )
    metric = one.primary
    if metric is None or (metric not in other.scores and other.primary != metric):
        what = f"has no score {metric}" if metric else "cannot be compared: the first run has no scorer"
        raise BadInput(
            f"{other.meta['run']} {what}", f"give both the same: abreast rescore {other.meta['run']} --scorer {metric}"
        )
    return [_Question(*sides, metric) for sides in pairs]


def _answers(questions: Sequence[_Question], margin: float) -> list[AcrossRuns]:
    """All verdicts, taken together in Holm's order; what cannot be compared does not count there."""
    matched = [_matched(question) for question in questions]
    paired = {
        (0, at): pair(both.first, both.second, np.arange(len(both.cases)), _groups(questions[at], both.cases))
        for at, both in enumerate(matched)
    }
    reasons = [why_incomparable(*((side.rows, side.variant) for side in question.sides)) for question in questions]
    silent = {(0, at): reason for at, reason in enumerate(reasons) if reason}
    compared = {key: pairs for key, pairs in paired.items() if len(pairs.cases) and key not in silent}
    planned = {key: _planned(questions[key[1]], len(pairs.cases) + pairs.dropped) for key, pairs in compared.items()}
    rule = Rule(margin, questions[0].first.rows.weight, population=_population(questions, matched))
    decider = Decider(planned, lambda key, cases: _groups(questions[key[1]], matched[key[1]].cases[cases]), rule, False)
    decisions = decider.decide(compared)
    answers = []
    for at, question in enumerate(questions):
        pairs, both = paired[0, at], matched[at]
        first, second = map(_contender, question.sides)
        facts, indexes = question.first.rows.cases, both.cases
        shared_repeats = int(both.shared[pairs.cases].sum())
        repeats = min(question.first.rows.repeats, question.second.rows.repeats)
        impossible = no_comparison(silent.get((0, at)) or _why_not_compared(question, both, pairs), len(both.cases))
        decided = decisions.get((0, at), Decided(impossible, (), None, None))
        comparison = Comparison(
            metric=question.metric,
            variant=second.name,
            baseline=first.name,
            verdict=decided.verdict,
            case_noun=question.first.rows.case_noun,
            margin=margin,
            weight=rule.weight,
            planned=len(both.cases),
            repeats=len(pairs.cases) * repeats - shared_repeats,
            comparisons=len(questions),
            is_grouped=_groups(question, both.cases) is not None,
            scores=decided.scores,
            bounds=decided.bounds,
            differences=largest(pairs, lambda case, of=facts, at=indexes: of[int(at[case])].id),
            censoring=lopsided(first.summary.errors, second.summary.errors),
            pairs=replace(
                pairs, cases=both.cases[pairs.cases], repeats_left_out=pairs.repeats_left_out - shared_repeats
            ),
            calibration=uncalibrated(question.first.rows, question.metric, "labels correct verdicts within one run"),
        )
        answers.append(AcrossRuns(first, second, comparison, both.match, _changes(question)))
    return answers


def _population(questions: Sequence[_Question], matched: Sequence[_Matched]) -> Population:
    """What the verdicts are about, by the cases and repeats that both runs have."""
    if any(side.rows.chained for question in questions for side in question.sides):
        return ALL_CASES
    smallest = min(range(len(matched)), key=lambda at: len(matched[at].cases))
    cases = matched[smallest].cases
    if not len(cases):
        return ALL_CASES
    groups = _groups(questions[smallest], cases)
    repeats = matched[smallest].first.score.shape[1]
    return population_of(len(cases), repeats, len(questions), len(set(groups)) if groups else None)


def _planned(question: _Question, cases: int) -> int:
    """Cases at which the final interval may be used: never those of a run that is not complete."""
    runs = (question.first.rows, question.second.rows)
    if all(rows.meta["status"] == "complete" for rows in runs):
        return cases
    return max(cases + 1, *(rows.planned_cases for rows in runs))


def _why_not_compared(question: _Question, both: _Matched, pairs: Pairs) -> str:
    first, second = ((side.rows.meta["run"], side.variant) for side in question.sides)
    if first == second:
        return "a run cannot be compared with itself"
    if len(both.cases):
        return f"no case {'has a score in' if pairs.unscored else 'was answered in'} both"
    count = both.match.shared
    if count:
        return f"{'the only answer is' if count == 1 else f'all {count:,} answers are'} shared by both runs (reused)"
    return "no case can be paired"


def _groups(question: _Question, cases: Ints) -> list[str] | None:
    """The group of each of these cases of the first run; of the second one, if the first knows no groups."""
    one, other = question.first.rows, question.second.rows
    if one.grouped or not other.grouped:
        return one.groups(cases)
    there, identity = other.identities(), {index: key for key, index in one.identities().items()}
    return other.groups(np.array([there[identity[case]] for case in cases.tolist()], dtype=np.int64))


def _contender(side: _Named) -> Contender:
    rows = side.rows
    return Contender(
        run=rows.meta["run"],
        variant=rows.variants[side.variant],
        simulated=bool(rows.meta["simulated"]),
        stopped_early=rows.meta["status"] == "stopped_early",
        summary=summarise(rows, side.variant),
        aliases=frozenset({side.written, rows.meta["label"] or side.written}),
    )


@dataclass(frozen=True, slots=True)
class _Matched:
    """Both sides with one numbering of the cases they have in common, without the cases they share entirely."""

    first: Side
    second: Side
    match: Match
    cases: Ints  # their indexes in the first run
    shared: Bools  # by case and repeat: which answers are set aside


def _matched(question: _Question) -> _Matched:
    one, other = question.first.rows, question.second.rows
    here, there = one.identities(), other.identities()
    common = sorted(here.keys() & there.keys(), key=lambda key: here[key])
    counted = [set(rows.counted.tolist()) for rows in (one, other)]
    finished = [key for key in common if here[key] in counted[0] and there[key] in counted[1]]
    truths = one.expected(), other.expected()
    ready = [key for key in finished if truths[0][here[key]] == truths[1][there[key]]]
    ids = {key[0] for key in here} & {key[0] for key in there}
    changed = sorted(ids - {key[0] for key in common})
    repeats = min(one.repeats, other.repeats)
    places = [np.array([index[key] for key in ready], dtype=np.int64) for index in (here, there)]
    sides = []
    for named, cases in zip(question.sides, places, strict=True):
        score = named.rows.scores.get(question.metric, named.rows.score)
        sides.append(side_of(named.rows, named.variant, score).taken(cases, repeats))
    shared = _shared(question, [(here[key], there[key]) for key in ready], repeats)
    sides = [replace(side, score=np.where(shared, np.nan, side.score), skipped=side.skipped | shared) for side in sides]
    kept = np.flatnonzero(~np.logical_and.reduce(shared, axis=1))  # a case with nothing but shared answers is left out
    match = Match(
        only_first=tuple(case_id for case_id, _ in sorted(here.keys() - there.keys()) if case_id not in ids),
        only_second=tuple(case_id for case_id, _ in sorted(there.keys() - here.keys()) if case_id not in ids),
        changed=tuple(changed),
        other_truth=tuple(key[0] for key in finished if truths[0][here[key]] != truths[1][there[key]]),
        unfinished=tuple(key[0] for key in common if here[key] not in counted[0] or there[key] not in counted[1]),
        shared=int(shared.sum()),
        shared_cases=tuple(key[0] for key, row in zip(ready, shared, strict=True) if row.any()),
        not_begun=(one.planned_cases - len(one.cases), other.planned_cases - len(other.cases)),
    )
    first, second = (side.taken(kept, repeats) for side in sides)
    return _Matched(first, second, match, places[0][kept], shared[kept])


def _shared(question: _Question, cases: list[tuple[int, int]], repeats: int) -> Bools:
    """Which answers are one and the same in both runs: made once, by the same contender, and reused. Of identical
    contenders of one run, and of cases that look the same, the occurrence says which."""
    found = np.zeros((len(cases), repeats), dtype=bool)
    one, other = question.first, question.second
    if _identity(one) != _identity(other):
        return found
    origins = [_origins(side) for side in (one, other)]
    for place, (here, there) in enumerate(cases):
        for repeat in range(repeats):
            origin = origins[0].get((here, repeat))
            found[place, repeat] = origin is not None and origin == origins[1].get((there, repeat))
    return found


def _origins(side: _Named) -> dict[tuple[int, int], tuple[str, int]]:
    """The run that made each answer and its occurrence there, by case and repeat."""
    rows = side.rows
    origins = rows.store.queries.trial_origins(rows.run_id, side.variant)
    return {(position // rows.per_case, repeat): (run, occurrence) for position, repeat, run, occurrence in origins}


def _variant(side: _Named) -> StoredVariant:
    return side.rows.store.queries.variants(side.rows.run_id)[side.variant]


def _identity(side: _Named) -> tuple[Any, ...]:
    """What two contenders must have in common to share answers. `cache clear` removes digests."""
    variant = _variant(side)
    return (variant.digest,) if variant.digest else (variant.target, variant.params)


def _changes(question: _Question) -> tuple[str, ...]:
    """What is not the same in both runs, besides the answers."""
    found = []
    before, after = map(_variant, question.sides)
    settings = [{"target": variant.target, **variant.params} for variant in (before, after)]
    for key in sorted(settings[0].keys() | settings[1].keys()):
        values = [setting.get(key) for setting in settings]
        if values[0] != values[1]:
            found.append(f"{key}: {values[0]} → {values[1]}")
    if before.digest != after.digest and not found:
        found.append("the code of the target")
    found += _changed("models", *map(_models, question.sides))
    found += _changed("scorer versions", *(_versions(side, question.metric) for side in question.sides))
    found += _changed("commit", *map(_commit, question.sides))
    return tuple(found)


def _changed(what: str, before: str, after: str) -> list[str]:
    return [f"{what}: {before} → {after}"] if before != after else []


def _commit(side: _Named) -> str:
    found = json.loads(side.rows.meta["provenance"])
    return str(found.get("commit"))[:12] + (" with uncommitted changes" if found.get("dirty") else "")


def _models(side: _Named) -> str:
    return ", ".join(side.rows.store.queries.models(side.rows.run_id).get(side.variant, ())) or "none told"


def _versions(side: _Named, metric: str) -> str:
    return ", ".join(side.rows.store.queries.scorer_versions(side.rows.run_id, metric))
