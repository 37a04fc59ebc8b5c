"""Columns that are missing, constant or out of range."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from abreast.analyse.human_labels.labels import judge_of, label_column
from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.finding import (
    FEWEST,
    MANY,
    SHOWN,
    Finding,
    Level,
    listed,
    of_cases,
    of_trials,
    of_variants,
)
from abreast.text import many

MOSTLY = 0.8


def scores_that_say_nothing(evidence: Evidence) -> Iterator[Finding]:
    """Score columns without a value, the same everywhere, or outside of [0, 1]."""
    primary = evidence.run["primary_score"]
    ok = sum(arm["ok"] for arm in evidence.arms)
    own_failures = sum(arm["outcomes"] for arm in evidence.arms) > ok
    queries = evidence.store.queries
    found = queries.score_summaries(evidence.run_id)
    if ok and primary is not None and primary not in (row[0] for row in found):
        found.append((primary, 0, None, None, 0, None))
    for name, known, low, high, outside, why in found:
        main = name == primary
        if ok and not known:
            yield _missing_scores(name, ok, why)
        elif main and known < ok:
            yield _some_scores_missing(evidence, name, why)
        if outside:
            count, ids = evidence.named(queries.trials_scored_outside(evidence.run_id, name, SHOWN))
            message = f"score_{name} lies outside of 0 to 1 ({low:g} … {high:g}): means and intervals are wrong"
            yield of_trials("scores", "serious", message, "scale it in the scorer, then: abreast rescore", count, ids)
        elif _says_nothing(evidence, low, high, main and own_failures):
            yield of_trials(
                "scores",
                "serious" if main and high == 0 else "note",
                f"score_{name} is {low:g} for every answer of every variant: it tells nothing apart"
                + ("; does the scorer read the answers as they are written?" if high == 0 else ""),
                "look at a few with abreast logs; take harder cases or another scorer",
                known,
            )


def judge_without_labels(evidence: Evidence) -> Iterator[Finding]:
    primary = evidence.run["primary_score"]
    if primary is None or judge_of(evidence.spec, primary) is None or len(evidence.variants) < 2:
        return
    if not evidence.store.queries.labels(evidence.run_id, label_column(primary)):
        message = f"score_{primary} comes from a judge that no human labels calibrate: it may favour one variant"
        fix = f"abreast label {evidence.run['run']} --sample 60"
        yield of_trials("judge", "note", message, fix, evidence.trials)


def _says_nothing(evidence: Evidence, low: float | None, high: float | None, others_failed: bool) -> bool:
    """A contender that is alone may be right always; so may those be of whom another failed."""
    if low is None or low != high or evidence.cases < FEWEST:
        return False
    return low == 0 or (len(evidence.variants) > 1 and not others_failed)


def _missing_scores(name: str, ok: int, why: str | None) -> Finding:
    told = f" ({' '.join(why.split())[:200]})" if why else ""
    message = f"score_{name} has no value in any trial{told}"
    return of_trials("scores", "serious", message, "mend the scorer, then: abreast rescore", ok)


def _some_scores_missing(evidence: Evidence, name: str, why: str | None) -> Finding:
    count, ids = evidence.named(evidence.store.queries.trials_without_score(evidence.run_id, name, SHOWN))
    level: Level = "serious" if count > MANY * sum(arm["ok"] for arm in evidence.arms) else "note"
    told = f" ({' '.join(why.split())[:200]})" if why else ""
    message = f"{many(count, 'answer')} without score_{name}{told}: their cases are not compared"
    return of_trials("scores", level, message, "mend the scorer, then: abreast rescore", count, ids)


def missing_values(evidence: Evidence) -> Iterator[Finding]:
    """Tags and returned values that most have and some lack; parameters that one variant alone leaves to a default."""
    counts: Counter[str] = Counter()
    with_tags = Counter(tags for _, tags in _tags(evidence, "tags"))
    for tags, number in with_tags.items():
        counts.update(dict.fromkeys(json.loads(tags), number))
    for key, count in counts.items():
        if evidence.cases >= FEWEST and MOSTLY * evidence.cases <= count < evidence.cases:
            without = {tags for tags in with_tags if key not in json.loads(tags)}
            lacking = [case for _, tags, case in _tags(evidence, "tags", "id") if tags in without]
            message = f"{many(len(lacking), 'case')} lack the tag {key} that the others have: no segment holds them"
            yield of_cases("columns", "note", message, "add the tag", lacking)
    yield from _missing_returned(evidence)
    yield from _missing_params(evidence)


def _tags(evidence: Evidence, *columns: str) -> Iterator[tuple[Any, ...]]:
    return evidence.store.queries.cases(evidence.run_id, evidence.per_case, *columns)


def _missing_returned(evidence: Evidence) -> Iterator[Finding]:
    if not any(column.kind == "data" for column in evidence.store.columns()):
        return
    counts = evidence.store.queries.returned_columns(evidence.run_id, len(evidence.variants))
    for (variant, key), count in sorted(counts.items()):
        ok = evidence.arms[variant]["ok"]
        if ok >= FEWEST and MOSTLY * ok <= count < ok:
            matches = evidence.store.queries.answers_without(evidence.run_id, variant, key, SHOWN)
            number, ids = evidence.named(matches)
            message = (
                f"{many(number, 'answer')} of {evidence.variants[variant].name} lack {key}, which the others return"
            )
            yield of_trials("columns", "note", message, "return it always; averages leave these out", number, ids)


def _missing_params(evidence: Evidence) -> Iterator[Finding]:
    real = [variant for variant in evidence.variants if not variant.simulated]
    for key in sorted({key for variant in real for key in variant.params} - {"mcp"}):  # left out, it is no server
        given = [variant for variant in real if key in variant.params]
        lacking = [variant.name for variant in real if key not in variant.params]
        if lacking and len({json.dumps(variant.params[key], sort_keys=True) for variant in given}) > 1:
            message = (
                f"{key} differs between variants and is not given for {listed(lacking)}: params_{key} is NULL there"
            )
            yield of_variants("columns", "note", message, f"write {key} out for every variant", lacking)


def costs(evidence: Evidence) -> Iterator[Finding]:
    """Costs and tokens that are known of some and not of others, or in different ways."""
    for column, what in (("cost_usd", "cost"), ("input_tokens", "input tokens"), ("output_tokens", "output tokens")):
        answered = [arm for arm in evidence.arms if arm["ok"]]
        partly = [arm for arm in answered if 0 < arm[column] < arm["ok"]]
        if partly:
            told = listed(f"{arm['name']} {arm['ok'] - arm[column]:,} of {arm['ok']:,}" for arm in partly)
            yield of_variants(
                "costs",
                "serious" if column == "cost_usd" else "note",
                f"the {what} of some answers is not known, so sums are too low: {told}",
                f"let the target report {column} with every answer",
                (arm["name"] for arm in partly),
            )
        unknown = [arm["name"] for arm in answered if not arm[column]]
        if unknown and len(unknown) < len(answered):
            yield of_variants(
                "costs",
                "note",
                f"the {what} of {listed(unknown)} is not known, that of the others is: do not compare them",
                f"let every target report {column}",
                unknown,
            )
    yield from _bases(evidence)


def _bases(evidence: Evidence) -> Iterator[Finding]:
    known = [arm for arm in evidence.arms if arm["cost_usd"]]
    if len({basis for arm in known for basis in (arm["a_basis"], arm["another_basis"])}) > 1:
        told = listed(
            f"{arm['name']} {' and '.join(dict.fromkeys((arm['a_basis'], arm['another_basis'])))}" for arm in known
        )
        yield of_variants(
            "costs",
            "note",
            f"costs are known in different ways: {told}",
            "compare costs of one basis",
            (arm["name"] for arm in known),
        )
