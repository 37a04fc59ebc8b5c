"""What a person is asked before a run, at most once in the same state; the answers are stored with the run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from abreast.digest import compose
from abreast.preflight.code import changes
from abreast.preflight.context import Context
from abreast.preflight.design import WANTED, Review, review
from abreast.preflight.finding import listed
from abreast.spec.values import shown_path

Matter = Literal["code", "fields", "aggregations"]


@dataclass(frozen=True, slots=True)
class Question:
    """`state` is what it is about: the same question in the same state is asked once. If somebody answers `stops`,
    nothing is executed, and `steps` say what to do."""

    matter: Matter
    text: str
    state: str
    stops: Literal["yes", "no"]
    steps: tuple[str, ...] = ()


def questions(context: Context) -> list[Question]:
    """None before the first run, a debug run, or one that executes nothing."""
    if context.earlier is None or context.debug or not context.estimate.trials:
        return []
    answers = context.earlier.provenance.get("answers") or {}
    return [each for each in _all(context) if (answers.get(each.matter) or {}).get("state") != each.state]


def still_answered(context: Context) -> dict[str, dict[str, str]]:
    """The answers to the last run that hold for this one too."""
    answers = (context.earlier.provenance.get("answers") if context.earlier else None) or {}
    states = {each.matter: each.state for each in _all(context)} if answers else {}
    return {matter: told for matter, told in answers.items() if told.get("state") == states.get(matter)}


def _all(context: Context) -> Iterator[Question]:
    assert context.earlier is not None
    code = changes(context, context.earlier).code
    if code:
        state = compose("code", *sorted(context.surroundings.versions.values()))
        yield Question("code", "continue with code changes?", state, "no")
    found = review(context)
    if found.missing:
        text = f"add fields before this experiment (not kept: {listed(found.missing, 5)})?"
        yield Question("fields", text, compose("fields", *found.missing), "yes", tuple(_field_steps(context, found)))
    if found.unsummed:
        text = f"add aggregations (not in metrics: {listed(found.unsummed)})?"
        state = compose("aggregations", *sorted(found.unsummed))
        yield Question("aggregations", text, state, "yes", tuple(_metric_steps(context, found)))


def _field_steps(context: Context, found: Review) -> Iterator[str]:
    function, parts = next(iter(context.surroundings.code.items()))
    keys = ", ".join(f'"{key}": ...' for name in found.missing for key in WANTED[name])
    file = f" ({shown_path(parts.files[0])})" if len(parts.files) == 1 else ""
    yield f'let {function.rpartition(":")[2]}{file} return them too: {{"prediction": ..., {keys}}}'
    if not found.segments:
        yield 'give cases tags, such as "tags": {"category": "easy"}'
    store = shlex.quote(shown_path(context.store))
    yield "try it on a few cases: abreast run SPEC --debug 5"
    yield f'look at the rows: abreast sql {store} "select * from predictions order by started_at desc limit 5"'
    yield f"then: abreast delete --debug --yes --store {store}, and run again"


def _metric_steps(context: Context, found: Review) -> Iterator[str]:
    assert context.earlier is not None
    name = found.unsummed[0]
    query = f"select run, variant, avg({name}) from predictions group by run, variant"
    yield f'what there is already can be asked for: abreast sql {shlex.quote(shown_path(context.store))} "{query}"'
    yield f'to have it in metrics, from Python: result.log({{"avg_{name}": ...}}, variant="...")'
