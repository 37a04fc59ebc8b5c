"""Questions before a run, and whether its results continue the series of the previous run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from abreast.digest import compose
from abreast.filenames import relative_path
from abreast.preflight.checks.cases import case_changes
from abreast.preflight.checks.code import variant_changes
from abreast.preflight.checks.columns import OPTIONAL_FIELDS, Review, review
from abreast.preflight.context import Context
from abreast.preflight.finding import listed
from abreast.store.address import display_address

Matter = Literal["code", "fields", "aggregations"]


@dataclass(frozen=True, slots=True)
class PreflightQuestion:
    """A question that is asked once per `state`. The answer `stops` ends the run; `steps` say what to do then."""

    matter: Matter
    text: str
    state: str
    stops: Literal["yes", "no"]
    steps: tuple[str, ...] = ()


def questions(context: Context) -> list[PreflightQuestion]:
    """Questions to ask; none before a first run, a debug run, or if nothing is executed."""
    if context.previous is None or context.settings.is_debug or not context.estimate.trials:
        return []
    answers = context.previous.provenance.get("answers") or {}
    return [
        question
        for question in _all_questions(context)
        if (answers.get(question.matter) or {}).get("state") != question.state
    ]


def still_answered(context: Context) -> dict[str, dict[str, str]]:
    answers = (context.previous.provenance.get("answers") if context.previous else None) or {}
    states = {question.matter: question.state for question in _all_questions(context)} if answers else {}
    return {matter: answer for matter, answer in answers.items() if answer.get("state") == states.get(matter)}


def _all_questions(context: Context) -> Iterator[PreflightQuestion]:
    assert context.previous is not None
    if variant_changes(context, context.previous).code:
        state = compose("code", *sorted(context.environment.versions.values()))
        yield PreflightQuestion("code", "continue with code changes?", state, "no")
    columns = review(context)
    if columns.missing:
        text = f"add fields before this experiment (not kept: {listed(columns.missing, 5)})?"
        steps = tuple(_field_steps(context, columns))
        yield PreflightQuestion("fields", text, compose("fields", *columns.missing), "yes", steps)
    if columns.unsummed:
        text = f"add aggregations (not in metrics: {listed(columns.unsummed)})?"
        state = compose("aggregations", *sorted(columns.unsummed))
        yield PreflightQuestion("aggregations", text, state, "yes", tuple(_metric_steps(context, columns)))


def _field_steps(context: Context, columns: Review) -> Iterator[str]:
    function, parts = next(iter(context.environment.code.items()))
    keys = ", ".join(f'"{key}": ...' for name in columns.missing for key in OPTIONAL_FIELDS[name])
    file = f" ({relative_path(parts.files[0])})" if len(parts.files) == 1 else ""
    yield f'also return them from {function.rpartition(":")[2]}{file}: {{"prediction": ..., {keys}}}'
    if not columns.has_segments:
        yield 'add tags to the cases, such as "tags": {"category": "easy"}'
    store = shlex.quote(display_address(context.store))
    yield "try it on a few cases: abreast run SPEC --debug 5"
    yield f'look at the rows: abreast sql {store} "select * from predictions order by started_at desc limit 5"'
    yield f"then: abreast delete --debug --yes --store {store}, and run again"


def _metric_steps(context: Context, columns: Review) -> Iterator[str]:
    name = columns.unsummed[0]
    query = f"select run, variant, avg({name}) from predictions group by run, variant"
    yield f'query the stored rows: abreast sql {shlex.quote(display_address(context.store))} "{query}"'
    yield f'add it to metrics, from Python: result.log({{"avg_{name}": ...}}, variant="...")'


@dataclass(frozen=True, slots=True)
class Series:
    """Runs whose results can be compared: number of the series, and why it began.

    `since` is the last run of the previous series, if a new one begins now.
    """

    number: int = 1
    why: str = ""
    since: str | None = None


def series(context: Context) -> Series:
    """Begin a new series if code, cases or scorers changed; changed parameters make a new variant instead."""
    previous = context.previous
    if previous is None:
        return Series()
    number = int(previous.provenance.get("series") or 1)
    code, cases = variant_changes(context, previous).code, case_changes(context, previous)
    versions = context.columns.scores.items()
    scorers = [name for name, version in versions if previous.scores.get(name, version) != version]
    why = [f"{change} changed" for change in code[:1]]
    why += [f"cases: {cases.sentence()}"] if cases else []
    why += [f"the scorer of {listed([f'score_{name}' for name in scorers])} changed"] if scorers else []
    if not why:
        return Series(number, str(previous.provenance.get("series_why") or ""))
    return Series(number + 1, "; ".join(why), previous.run)
