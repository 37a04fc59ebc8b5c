"""Do parameters and results keep their names, and is everything kept that one will want to have?"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.filenames import relative_path
from abreast.preflight.checks.renames import Values, renames
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed
from abreast.preflight.previous_run import Given, PreviousRun
from abreast.store.schema import CORE_COLUMNS
from abreast.text import many

ENOUGH_CASES = 20  # for segments
WANTED = {  # what a function may return beside its answer
    "raw_response": ("raw_response",),
    "tokens": ("input_tokens", "output_tokens"),
    "cost": ("cost_usd",),
    "confidence": ("confidence",),
}


@dataclass(frozen=True, slots=True)
class Drift:
    kind: str  # params, score or data
    renamed: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    def column(self, name: str) -> str:
        return name if self.kind == "data" else f"{self.kind}_{name}"


def check_schema(context: Context) -> Finding:
    """Compare the names of parameters, scores and returned fields with those of the previous run."""
    previous = context.previous
    if previous is None:
        return Finding("schema", "note", "no earlier run to compare names with", aside=True)
    drifts = [*_drifts(context, previous), *_returned(context, previous)]
    renamed = [f"{drift.column(old)} is now {drift.column(new)}" for drift in drifts for old, new in drift.renamed]
    missing = list(dict.fromkeys(drift.column(name) for drift in drifts for name in drift.missing))
    new = list(dict.fromkeys(drift.column(name) for drift in drifts for name in drift.new))
    details = (*(f"missing: {name}" for name in missing), *(f"new: {name}" for name in new))
    if renamed:
        fixes = [fix for drift in drifts for pair in drift.renamed if (fix := _fix(context, drift, *pair))]
        message = f"{'; '.join(dict.fromkeys(renamed))}: rows of before keep the old name"
        return Finding("schema", "warn", message, " && ".join(dict.fromkeys(fixes)), details)
    if missing or new:
        other = [f"no longer there: {listed(missing)}"] if missing else []
        other += [f"new: {listed(new)}"] if new else []
        message = f"{'; '.join(other)} (compared with {previous.run})"
        lost_results = any(drift.kind != "params" and drift.missing for drift in drifts)
        return Finding("schema", "note", message, "", details, aside=not lost_results)
    return Finding("schema", "pass", f"the names of {previous.run}", aside=True)


def compare_names(
    kind: str,
    old: Iterable[str],
    new: Iterable[str],
    old_values: Values | None = None,
    new_values: Values | None = None,
) -> Drift:
    """Compare names; their values help to find renames.

    >>> compare_names("params", ["lr", "seed"], ["learning_rate", "top_k"])
    Drift(kind='params', renamed=(('lr', 'learning_rate'),), missing=('seed',), new=('top_k',))
    """
    before, after = list(dict.fromkeys(old)), list(dict.fromkeys(new))
    pairs = renames(before, after, old_values, new_values)
    gone, come = {one for one, _ in pairs}, {other for _, other in pairs}
    return Drift(
        kind,
        tuple(pairs),
        tuple(name for name in before if name not in after and name not in gone),
        tuple(name for name in after if name not in before and name not in come),
    )


def _drifts(context: Context, previous: PreviousRun) -> Iterable[Drift]:
    before = _values(variant.params for variant in previous.variants)
    now = _values(context.columns.params)
    yield compare_names("params", before, now, before, now)
    if previous.scores:
        yield compare_names("score", previous.scores, context.columns.scores)


def _returned(context: Context, previous: PreviousRun) -> Iterable[Drift]:
    """Keys of returned dicts: as written in the code, or else as they came in the last two runs."""
    code: Mapping[str, Any] = previous.provenance.get("code") or {}
    for target in dict.fromkeys(target.name for target in context.targets):
        now, before = context.environment.returns.get(target), (code.get(target) or {}).get("returns")
        if now is not None and before is not None:
            yield compare_names("data", before, sorted(now))
        elif now is None and previous.before is not None:
            last, earlier = previous.given.get(target), previous.before.given.get(target)
            if last is not None and earlier is not None:
                yield compare_names("data", earlier.fields, last.fields)


def _values(params: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for mapping in params:
        for name, value in mapping.items():
            known = values.setdefault(str(name), [])
            if value not in known:
                known.append(value)
    return values


def _fix(context: Context, drift: Drift, old: str, new: str) -> str:
    """The command that makes them one column again."""
    if drift.kind == "score":
        return f"to keep the column, give the scorer the setting name: {old}"
    if drift.kind == "data" and {old, new} & {*CORE_COLUMNS, "prediction"}:
        return ""
    words = ["abreast", "rename", relative_path(context.store), drift.column(old), drift.column(new)]
    words += ["--experiment", context.spec.name] if context.is_store_shared else []
    return " ".join(map(shlex.quote, words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What is stored, by kind, and what is missing."""

    params: Sequence[str]
    scores: Sequence[str]
    tags: Sequence[str]
    fields: Sequence[str]
    constant: Sequence[str]  # parameters with one value
    missing: Sequence[str]
    has_segments: bool  # cases have tags, or are too few to need any
    unsummed: Sequence[str]  # returned numbers that no column of `metrics` sums up
    plain: Sequence[str]  # functions that return nothing but their answer


def check_design(context: Context) -> Finding:
    """Say what is stored and what is missing; never more than a note."""
    found = review(context)
    kinds = {"parameter": found.params, "score": found.scores, "tag": found.tags, "returned field": found.fields}
    kept = [many(len(names), kind) for kind, names in kinds.items() if names or kind != "returned field"]
    message = f"keeps {', '.join(kept)}"
    message += f"; the same in all variants: {listed(found.constant)}" if found.constant else ""
    missing = [*found.missing, *([] if found.has_segments else ["tags of cases (segments)"])]
    message += f"; not kept: {listed(missing, 5)}" if missing else ""
    message += f"; not in metrics: {listed(found.unsummed)}" if found.unsummed else ""
    is_incomplete = found.constant or missing or found.unsummed
    details = tuple(_details(found, context.columns.metrics))
    return Finding("design", "note" if is_incomplete else "pass", message, "", details, aside=True)


def _details(found: Review, metrics: Sequence[str]) -> Iterable[str]:
    columns = [f"params_{name}" for name in found.params] + [f"score_{name}" for name in found.scores]
    columns += [f"tag_{name}" for name in found.tags] + list(found.fields)
    yield f"columns of predictions: {', '.join(columns)}"
    yield f"aggregations in metrics: {', '.join(metrics)}"
    for name in found.plain:
        keys = ", ".join(key for keys in WANTED.values() for key in keys)
        yield f"{name} returns its answer only; a dict with prediction may also have {keys}"


def review(context: Context) -> Review:
    """List what is stored, and what is missing or the same everywhere."""
    of_variants = context.columns.params
    params = list(dict.fromkeys(name for mapping in of_variants for name in mapping))
    several = len(of_variants) > 1
    fields, missing, plain = dict[str, bool](), dict[str, None](), list[str]()
    for name in dict.fromkeys(target.name for target in context.targets if not target.simulated):
        written = context.environment.returns.get(name)
        given = context.previous.given.get(name) if context.previous else None
        returned = sorted((written or frozenset()) - {*CORE_COLUMNS, "prediction"})
        fields |= dict.fromkeys(returned, False) | (dict(given.fields) if given else {})
        if name not in context.environment.code or (given is None and written is None):
            continue  # not a function of the user's, or nothing is known yet
        lacks = _lacks(given, written)
        if len(lacks) == len(WANTED) and not (given and given.model):
            plain.append(name.rpartition(":")[2])  # probably a plain function: nothing is missing
        else:
            missing |= dict.fromkeys(lacks)
    tags = sorted(context.plan.cases.tag_keys)
    summed = " ".join(context.columns.metrics)
    return Review(
        params=params,
        scores=list(context.columns.scores),
        tags=tags,
        fields=list(fields),
        constant=[
            name
            for name in params
            if several and all(name in mapping and mapping[name] == of_variants[0].get(name) for mapping in of_variants)
        ],
        missing=list(missing),
        has_segments=bool(tags) or len(context.plan.cases) < ENOUGH_CASES,
        unsummed=[name for name, is_number in fields.items() if is_number and name not in summed],
        plain=plain,
    )


def _lacks(given: Given | None, written: frozenset[str] | None) -> list[str]:
    """What neither came with earlier answers nor is written in the code."""
    came = {
        "raw_response": given is not None and given.raw_response,
        "tokens": given is not None and given.tokens,
        "cost": given is not None and given.cost,
        "confidence": given is not None and "confidence" in given.fields,
    }
    return [name for name, keys in WANTED.items() if not came[name] and not set(keys) & (written or frozenset())]
