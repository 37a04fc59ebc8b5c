"""Do parameters and results have the names that they had in the last run?"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.preflight.context import Context
from abreast.preflight.earlier import Earlier
from abreast.preflight.finding import Finding, listed
from abreast.preflight.renames import Values, renames
from abreast.spec.values import shown_path
from abreast.store.schema import CORE_COLUMNS


@dataclass(frozen=True, slots=True)
class Drift:
    """Names of one kind, then and now."""

    kind: str  # params, score or data
    renamed: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    def column(self, name: str) -> str:
        return name if self.kind == "data" else f"{self.kind}_{name}"


@dataclass(slots=True)
class _Told:
    renamed: list[str] = field(default_factory=list)
    fixes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unsafe: bool = False  # something is missing that nobody may have meant


def check(context: Context) -> Finding:
    earlier = context.earlier
    if earlier is None:
        return Finding("schema", "note", "no earlier run to compare names with", aside=True)
    told = _Told()
    for drift in (*_drifts(context, earlier), *_returned(context, earlier)):
        told.renamed += [f"{drift.column(old)} is now {drift.column(new)}" for old, new in drift.renamed]
        told.fixes += [fix for pair in drift.renamed if (fix := _fix(context, drift, *pair))]
        told.missing += map(drift.column, drift.missing)
        told.new += map(drift.column, drift.new)
        told.unsafe = told.unsafe or (drift.kind != "params" and bool(drift.missing))
    told.missing, told.new = list(dict.fromkeys(told.missing)), list(dict.fromkeys(told.new))
    other = [f"no longer there: {listed(told.missing)}"] if told.missing else []
    other += [f"new: {listed(told.new)}"] if told.new else []
    details = (*(f"missing: {name}" for name in told.missing), *(f"new: {name}" for name in told.new))
    if told.renamed:
        message = f"{'; '.join(dict.fromkeys(told.renamed))}: rows of before keep the old name"
        return Finding("schema", "warn", message, " && ".join(dict.fromkeys(told.fixes)), details)
    if other:
        message = f"{'; '.join(other)} (compared with {earlier.run})"
        return Finding("schema", "note", message, "", details, aside=not told.unsafe)
    return Finding("schema", "pass", f"the names of {earlier.run}", aside=True)


def compared(
    kind: str,
    old: Iterable[str],
    new: Iterable[str],
    old_values: Values | None = None,
    new_values: Values | None = None,
) -> Drift:
    """What became of names, values helping to tell.

    >>> compared("params", ["lr", "seed"], ["learning_rate", "top_k"])
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


def _drifts(context: Context, earlier: Earlier) -> Iterable[Drift]:
    before = _values(variant.params for variant in earlier.variants)
    now = _values(context.params)
    yield compared("params", before, now, before, now)
    if earlier.scores:
        yield compared("score", earlier.scores, context.scores)


def _returned(context: Context, earlier: Earlier) -> Iterable[Drift]:
    """Keys of returned dicts: as they are written in the code, or else as they came in the last two runs."""
    then: Mapping[str, Any] = earlier.provenance.get("code") or {}
    for target in dict.fromkeys(target.name for target in context.targets):
        now, before = context.surroundings.returns.get(target), (then.get(target) or {}).get("returns")
        if now is not None and before is not None:
            yield compared("data", before, sorted(now))
        elif now is None and earlier.before is not None:
            last, previous = earlier.given.get(target), earlier.before.given.get(target)
            if last is not None and previous is not None:
                yield compared("data", previous.fields, last.fields)


def _values(params: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in params:
        for name, value in each.items():
            known = found.setdefault(str(name), [])
            if value not in known:
                known.append(value)
    return found


def _fix(context: Context, drift: Drift, old: str, new: str) -> str:
    """What makes them one column again."""
    if drift.kind == "score":
        return f"to keep the column, give the scorer the setting name: {old}"
    if drift.kind == "data" and {old, new} & {*CORE_COLUMNS, "prediction"}:
        return ""
    words = ["abreast", "rename", shown_path(context.store), drift.column(old), drift.column(new)]
    words += ["--experiment", context.experiment] if context.shared else []
    return " ".join(map(shlex.quote, words))
