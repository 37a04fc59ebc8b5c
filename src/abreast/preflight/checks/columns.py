"""Check that parameters and results keep their names, and that useful columns are stored."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.preflight.checks.renames import Values, renames
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed
from abreast.preflight.previous_run import PreviousRun, ReturnedData
from abreast.store.address import display_address
from abreast.store.schema import CORE_COLUMNS
from abreast.text import many

ENOUGH_CASES = 20  # cases needed for segments
OPTIONAL_FIELDS = {  # fields that a function can return with its answer
    "raw_response": ("raw_response",),
    "tokens": ("input_tokens", "output_tokens"),
    "cost": ("cost_usd",),
    "confidence": ("confidence",),
}


@dataclass(frozen=True, slots=True)
class NameChanges:
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
        return Finding("schema", "note", "no earlier run to compare with", is_check_only=True)
    changes = [*_param_changes(context, previous), *_field_changes(context, previous)]
    renamed = [f"{change.column(old)} is now {change.column(new)}" for change in changes for old, new in change.renamed]
    missing = list(dict.fromkeys(change.column(name) for change in changes for name in change.missing))
    new = list(dict.fromkeys(change.column(name) for change in changes for name in change.new))
    details = (*(f"missing: {name}" for name in missing), *(f"new: {name}" for name in new))
    if renamed:
        message = f"{'; '.join(dict.fromkeys(renamed))}: earlier rows keep the old name"
        return Finding("schema", "warn", message, _rename_fix(context, changes), details)
    if missing or new:
        other = [f"missing: {listed(missing)}"] if missing else []
        other += [f"new: {listed(new)}"] if new else []
        message = f"{'; '.join(other)} (compared with {previous.run})"
        lost_results = any(change.kind != "params" and change.missing for change in changes)
        return Finding("schema", "note", message, "", details, is_check_only=not lost_results)
    return Finding("schema", "pass", f"the same names as in {previous.run}", is_check_only=True)


def compare_names(
    kind: str,
    old: Iterable[str],
    new: Iterable[str],
    old_values: Values | None = None,
    new_values: Values | None = None,
) -> NameChanges:
    """Compare names; their values help to find renames.

    >>> compare_names("params", ["lr", "seed"], ["learning_rate", "top_k"])
    NameChanges(kind='params', renamed=(('lr', 'learning_rate'),), missing=('seed',), new=('top_k',))
    """
    before, after = list(dict.fromkeys(old)), list(dict.fromkeys(new))
    pairs = renames(before, after, old_values, new_values)
    return NameChanges(
        kind,
        tuple(pairs),
        tuple(name for name in before if name not in after and name not in dict(pairs)),
        tuple(name for name in after if name not in before and name not in dict(pairs).values()),
    )


def _param_changes(context: Context, previous: PreviousRun) -> Iterable[NameChanges]:
    before = _values(variant.params for variant in previous.variants)
    now = _values(context.columns.params)
    yield compare_names("params", before, now, before, now)
    if previous.scores:
        yield compare_names("score", previous.scores, context.columns.scores)


def _field_changes(context: Context, previous: PreviousRun) -> Iterable[NameChanges]:
    """Compare keys of returned dicts: as written in the code, or else as in the last two runs."""
    code: Mapping[str, Any] = previous.provenance.get("code") or {}
    for target in dict.fromkeys(target.name for target in context.targets):
        now, before = context.environment.returns.get(target), (code.get(target) or {}).get("returns")
        if now is not None and before is not None:
            yield compare_names("data", before, sorted(now))
        elif now is None and previous.before is not None:
            last, earlier = previous.returned.get(target), previous.before.returned.get(target)
            if last is not None and earlier is not None:
                yield compare_names("data", earlier.fields, last.fields)


def _values(params: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for mapping in params:
        for name, value in mapping.items():
            of_name = values.setdefault(str(name), [])
            if value not in of_name:
                of_name.append(value)
    return values


def _rename_fix(context: Context, changes: Iterable[NameChanges]) -> str:
    """Commands that merge the renamed columns, and settings that keep the name of a score."""
    commands, settings = dict[str, None](), list[str]()
    for change in changes:
        for old, new in change.renamed:
            if change.kind == "score":
                settings.append(f"set name: {old} on the scorer to keep the column")
            elif change.kind == "params" or not {old, new} & {*CORE_COLUMNS, "prediction"}:
                words = ["abreast", "rename", display_address(context.store), change.column(old), change.column(new)]
                words += ["--experiment", context.spec.name] if context.is_store_shared else []
                commands[" ".join(map(shlex.quote, words))] = None
    return "; ".join([f"run `{' && '.join(commands)}`"] * bool(commands) + settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Stored columns by kind, and what is missing."""

    params: Sequence[str]
    scores: Sequence[str]
    tags: Sequence[str]
    fields: Sequence[str]
    constant: Sequence[str]  # parameters with one value
    missing: Sequence[str]
    has_segments: bool  # cases have tags, or are too few for segments
    unsummed: Sequence[str]  # returned numbers that `metrics` does not aggregate
    plain: Sequence[str]  # functions that return only their answer


def check_design(context: Context) -> Finding:
    """List what is stored and what is missing; at most a note."""
    columns = review(context)
    kinds = {
        "parameter": columns.params,
        "score": columns.scores,
        "tag": columns.tags,
        "returned field": columns.fields,
    }
    counts = [many(len(names), kind) for kind, names in kinds.items() if names or kind != "returned field"]
    message = f"stores {', '.join(counts)}"
    message += f"; the same in all variants: {listed(columns.constant)}" if columns.constant else ""
    missing = [*columns.missing, *([] if columns.has_segments else ["tags of cases (segments)"])]
    message += f"; not kept: {listed(missing, 5)}" if missing else ""
    message += f"; not in metrics: {listed(columns.unsummed)}" if columns.unsummed else ""
    is_incomplete = columns.constant or missing or columns.unsummed
    details = tuple(_details(columns, context.columns.metrics))
    return Finding("design", "note" if is_incomplete else "pass", message, "", details, is_check_only=True)


def _details(columns: Review, metrics: Sequence[str]) -> Iterable[str]:
    names = [f"params_{name}" for name in columns.params] + [f"score_{name}" for name in columns.scores]
    names += [f"tag_{name}" for name in columns.tags] + list(columns.fields)
    yield f"columns of predictions: {', '.join(names)}"
    yield f"aggregations in metrics: {', '.join(metrics)}"
    for name in columns.plain:
        keys = ", ".join(key for keys in OPTIONAL_FIELDS.values() for key in keys)
        yield f"{name} returns only its answer; return a dict with prediction to add {keys}"


def review(context: Context) -> Review:
    """List what is stored, what is missing, and what is the same in all variants."""
    of_variants = context.columns.params
    params = list(dict.fromkeys(name for mapping in of_variants for name in mapping))
    is_comparison = len(of_variants) > 1
    fields, missing, plain = dict[str, bool](), dict[str, None](), list[str]()
    for name in dict.fromkeys(target.name for target in context.targets if not target.simulated):
        in_code = context.environment.returns.get(name)
        returned = context.previous.returned.get(name) if context.previous else None
        names = sorted((in_code or frozenset()) - {*CORE_COLUMNS, "prediction"})
        fields |= dict.fromkeys(names, False) | (dict(returned.fields) if returned else {})
        if name not in context.environment.code or (returned is None and in_code is None):
            continue  # not a user's function, or not run yet
        absent = _absent_fields(returned, in_code)
        if len(absent) == len(OPTIONAL_FIELDS) and not (returned and returned.model):
            plain.append(name.rpartition(":")[2])  # probably a plain function: nothing is missing
        else:
            missing |= dict.fromkeys(absent)
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
            if is_comparison
            and all(name in mapping and mapping[name] == of_variants[0].get(name) for mapping in of_variants)
        ],
        missing=list(missing),
        has_segments=bool(tags) or len(context.plan.cases) < ENOUGH_CASES,
        unsummed=[name for name, is_number in fields.items() if is_number and name not in summed],
        plain=plain,
    )


def _absent_fields(returned: ReturnedData | None, in_code: frozenset[str] | None) -> list[str]:
    """Wanted fields that are neither in earlier answers nor in the code."""
    is_present = {
        "raw_response": returned is not None and returned.raw_response,
        "tokens": returned is not None and returned.tokens,
        "cost": returned is not None and returned.cost,
        "confidence": returned is not None and "confidence" in returned.fields,
    }
    return [
        name
        for name, keys in OPTIONAL_FIELDS.items()
        if not is_present[name] and not set(keys) & (in_code or frozenset())
    ]
