"""What is kept, what is the same everywhere, and what one will wish to have kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abreast.preflight.context import Context
from abreast.preflight.earlier import Given
from abreast.preflight.finding import Finding, listed, many
from abreast.store.schema import CORE_COLUMNS

WORTH_SEGMENTS = 20  # cases
WANTED = {  # what a function may return beside its answer
    "raw_response": ("raw_response",),
    "tokens": ("input_tokens", "output_tokens"),
    "cost": ("cost_usd",),
    "confidence": ("confidence",),
}


@dataclass(frozen=True, slots=True)
class Review:
    """What is tracked, by kind; parameters with one value; what is missing; returned numbers that no row of `metrics`
    sums up; functions that give nothing but their answer."""

    params: tuple[str, ...]
    scores: tuple[str, ...]
    tags: tuple[str, ...]
    fields: tuple[str, ...]
    constant: tuple[str, ...]
    missing: tuple[str, ...]
    segments: bool  # whether cases have tags, or are too few to need any
    unsummed: tuple[str, ...]
    plain: tuple[str, ...]


def check(context: Context) -> Finding:
    """Never more than a note: what is worth keeping is for the user to say."""
    found = review(context)
    kept = [
        many(len(found.params), "parameter"),
        many(len(found.scores), "score"),
        many(len(found.tags), "tag"),
        *([many(len(found.fields), "returned field")] if found.fields else []),
    ]
    message = f"keeps {', '.join(kept)}"
    message += f"; the same in all variants: {listed(found.constant)}" if found.constant else ""
    missing = [*found.missing, *([] if found.segments else ["tags of cases (segments)"])]
    message += f"; not kept: {listed(missing, 5)}" if missing else ""
    message += f"; not in metrics: {listed(found.unsummed)}" if found.unsummed else ""
    to_think_of = found.constant or missing or found.unsummed
    details = tuple(_details(found, context.metrics))
    return Finding("design", "note" if to_think_of else "pass", message, "", details, aside=True)


def _details(found: Review, metrics: Sequence[str]) -> list[str]:
    columns = [f"params_{name}" for name in found.params] + [f"score_{name}" for name in found.scores]
    columns += [f"tag_{name}" for name in found.tags] + list(found.fields)
    told = [f"columns of predictions: {', '.join(columns)}", f"aggregations in metrics: {', '.join(metrics)}"]
    for name in found.plain:
        keys = ", ".join(key for keys in WANTED.values() for key in keys)
        told.append(f"{name} returns its answer only; a dict with prediction may also have {keys}")
    return told


def review(context: Context) -> Review:
    params = list(dict.fromkeys(name for each in context.params for name in each))
    several = len(context.params) > 1
    constant = [
        name
        for name in params
        if several and all(name in each and each[name] == context.params[0].get(name) for each in context.params)
    ]
    fields, missing, plain = dict[str, bool](), dict[str, None](), list[str]()
    for name in dict.fromkeys(target.name for target in context.targets if not target.simulated):
        written = context.surroundings.returns.get(name)
        given = context.earlier.given.get(name) if context.earlier else None
        returned = sorted((written or frozenset()) - {*CORE_COLUMNS, "prediction"})
        fields |= dict.fromkeys(returned, False) | (dict(given.fields) if given else {})
        if name not in context.surroundings.code or (given is None and written is None):
            continue  # no function of the user's, or nobody knows yet
        lacks = _lacks(given, written)
        if len(lacks) == len(WANTED) and not (given and given.model):
            plain.append(name.rpartition(":")[2])  # a plain function, for all one can see: nothing is missing
        else:
            missing |= dict.fromkeys(lacks)
    tags = sorted(context.plan.cases.tag_keys)
    summed = " ".join(context.metrics)
    return Review(
        tuple(params),
        tuple(context.scores),
        tuple(tags),
        tuple(fields),
        tuple(constant),
        tuple(missing),
        bool(tags) or len(context.plan.cases) < WORTH_SEGMENTS,
        tuple(name for name, number in fields.items() if number and name not in summed),
        tuple(plain),
    )


def _lacks(given: Given | None, written: frozenset[str] | None) -> list[str]:
    """What of the wanted neither came with the answers of before nor stands in the code of now."""
    came = {
        "raw_response": given is not None and given.raw_response,
        "tokens": given is not None and given.tokens,
        "cost": given is not None and given.cost,
        "confidence": given is not None and "confidence" in given.fields,
    }
    return [name for name, keys in WANTED.items() if not came[name] and not set(keys) & (written or frozenset())]
