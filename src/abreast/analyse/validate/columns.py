"""Columns that are missing, constant or out of range."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from abreast.analyse.human_labels.labels import judge_of, label_column
from abreast.analyse.validate.evidence import (
    FEWEST,
    LISTED,
    MANY,
    Evidence,
    Level,
    ResultFinding,
    listed,
    of_cases,
    of_trials,
    of_variants,
)
from abreast.scorers.human import counted_label
from abreast.text import many

MOSTLY = 0.8
_RESCORE = "fix the scorer, then run `abreast rescore`"


def scores_that_say_nothing(evidence: Evidence) -> Iterator[ResultFinding]:
    """Find score columns without a value, with one value everywhere, or with values outside [0, 1]."""
    queries, run_id, primary = evidence.queries, evidence.run_id, evidence.primary
    ok = sum(arm["ok"] for arm in evidence.arms)
    has_own_failures = sum(arm["outcomes"] for arm in evidence.arms) > ok
    summaries = queries.score_summaries(run_id, counted_label(evidence.spec))
    if ok and primary is not None and primary not in (row[0] for row in summaries):
        summaries.append((primary, 0, None, None, 0, None))
    for name, count, low, high, outside, why in summaries:
        is_primary = name == primary
        reason = f" ({' '.join(why.split())[:200]})" if why else ""
        if ok and not count:
            message = f"score_{name} has no value in any trial{reason}"
            yield of_trials("scores", "serious", message, _RESCORE, ok)
        elif is_primary and count < ok:
            matches = queries.trials_without_score(run_id, name, LISTED)
            message = f"{many(matches.total, 'answer')} without score_{name}{reason}: their cases are not compared"
            level: Level = "serious" if matches.total > MANY * ok else "note"
            yield evidence.of_matches("scores", level, message, _RESCORE, matches)
        if outside:
            matches = queries.trials_scored_outside(run_id, name, LISTED)
            message = f"score_{name} is outside of 0 to 1 ({low:g} … {high:g}): means and intervals are wrong"
            fix = "scale it in the scorer, then run `abreast rescore`"
            yield evidence.of_matches("scores", "serious", message, fix, matches)
        elif _says_nothing(evidence, low, high, is_primary and has_own_failures):
            message = f"score_{name} is {low:g} for every answer of every variant, so it cannot show a difference"
            message += "; does the scorer understand the format of the answers?" if high == 0 else ""
            fix = "read a few answers with `abreast logs`; use harder cases or another scorer"
            yield of_trials("scores", "serious" if is_primary and high == 0 else "note", message, fix, count)


def judge_without_labels(evidence: Evidence) -> Iterator[ResultFinding]:
    primary = evidence.primary
    if primary is None or judge_of(evidence.spec, primary) is None or len(evidence.variants) < 2:
        return
    if not evidence.queries.labels(evidence.run_id, label_column(primary)):
        message = f"score_{primary} comes from a judge without human labels, which may favour one variant"
        fix = f"run `{evidence.command('label')} --sample 60`"
        yield of_trials("judge", "note", message, fix, evidence.trials)


def _says_nothing(evidence: Evidence, low: float | None, high: float | None, others_failed: bool) -> bool:
    """Whether a constant score is suspicious. A single variant may always be right; so may the others if one failed."""
    if low is None or low != high or evidence.cases < FEWEST:
        return False
    return low == 0 or (len(evidence.variants) > 1 and not others_failed)


def missing_values(evidence: Evidence) -> Iterator[ResultFinding]:
    """Tags and returned values that most cases have but not all; parameters that some variants leave to a default."""
    counts: Counter[str] = Counter()
    with_tags = Counter(tags for _, tags in _tags(evidence, "tags"))
    for tags, number in with_tags.items():
        counts.update(dict.fromkeys(json.loads(tags), number))
    for key, count in counts.items():
        if evidence.cases >= FEWEST and MOSTLY * evidence.cases <= count < evidence.cases:
            without = {tags for tags in with_tags if key not in json.loads(tags)}
            lacking = [case for _, tags, case in _tags(evidence, "tags", "id") if tags in without]
            message = f"{many(len(lacking), 'case')} lack the tag {key} that the others have, so no segment has them"
            yield of_cases("columns", "note", message, "add the tag", lacking)
    yield from _missing_returned(evidence)
    yield from _missing_params(evidence)


def _tags(evidence: Evidence, *columns: str) -> Iterator[tuple[Any, ...]]:
    return evidence.queries.cases(evidence.run_id, evidence.per_case, *columns)


def _missing_returned(evidence: Evidence) -> Iterator[ResultFinding]:
    if not any(column.kind == "data" for column in evidence.store.columns()):
        return
    counts = evidence.queries.returned_columns(evidence.run_id, len(evidence.variants))
    for (variant, key), count in sorted(counts.items()):
        ok = evidence.arms[variant]["ok"]
        if ok >= FEWEST and MOSTLY * ok <= count < ok:
            matches = evidence.queries.answers_without(evidence.run_id, variant, key, LISTED)
            answers = f"{many(matches.total, 'answer')} of {evidence.variants[variant].name}"
            message = f"{answers} lack {key}, which the others return"
            fix = "always return it; averages leave these answers out"
            yield evidence.of_matches("columns", "note", message, fix, matches)


def _missing_params(evidence: Evidence) -> Iterator[ResultFinding]:
    real = [variant for variant in evidence.variants if not variant.simulated]
    for key in sorted({key for variant in real for key in variant.params} - {"mcp"}):
        values = {json.dumps(variant.params[key], sort_keys=True) for variant in real if key in variant.params}
        lacking = [variant.name for variant in real if key not in variant.params]
        if lacking and len(values) > 1:
            message = f"{key} differs between variants and is missing for {listed(lacking)}: params_{key} is NULL there"
            yield of_variants("columns", "note", message, f"set {key} for every variant", lacking)


def costs(evidence: Evidence) -> Iterator[ResultFinding]:
    """Costs and tokens that are unknown for some answers, or known on different bases."""
    answered = [arm for arm in evidence.arms if arm["ok"]]
    for column, title in (("cost_usd", "cost"), ("input_tokens", "input tokens"), ("output_tokens", "output tokens")):
        partly = [arm for arm in answered if 0 < arm[column] < arm["ok"]]
        if partly:
            counts = listed(f"{arm['name']} {arm['ok'] - arm[column]:,} of {arm['ok']:,}" for arm in partly)
            message = f"{title} unknown for some answers, so sums are too low: {counts}"
            fix, names = f"let the target report {column} with every answer", [arm["name"] for arm in partly]
            yield of_variants("costs", "serious" if column == "cost_usd" else "note", message, fix, names)
        unknown = [arm["name"] for arm in answered if not arm[column]]
        if unknown and len(unknown) < len(answered):
            message = f"{title} unknown for {listed(unknown)} but known for the others: do not compare them"
            yield of_variants("costs", "note", message, f"let every target report {column}", unknown)
    bases = {arm["name"]: (arm["a_basis"], arm["another_basis"]) for arm in evidence.arms if arm["cost_usd"]}
    if len({basis for both in bases.values() for basis in both}) > 1:
        by_variant = listed(f"{name} {' and '.join(dict.fromkeys(both))}" for name, both in bases.items())
        message = f"costs have different bases: {by_variant}"
        yield of_variants("costs", "note", message, "compare only costs of one basis", bases)
