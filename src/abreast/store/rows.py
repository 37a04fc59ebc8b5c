"""From the vocabulary to rows: one function per table, in the order of `schema.TABLES`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from abreast.model import Answer, Case, Failure, Outcome, Score, Trial
from abreast.store.schema import Column, type_of

Row = tuple[Any, ...]

ERROR_LIMIT = 4_000  # characters of an error message kept in the narrow row


def to_json(value: Any) -> str:
    """JSON for storage: what JSON cannot say is stored as its text."""
    return json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def case_row(digest: str, input_digest: str, case: Case) -> Row:
    return (
        digest,
        case.id,
        input_digest,
        to_json(case.input),
        to_json(case.expected),
        to_json(case.tags) if case.tags else "{}",
        case.group,
    )


@dataclasses.dataclass(slots=True)
class Timing:
    """When a trial waited and for what; the service time is the last attempt's alone."""

    first_started_at: float = 0.0
    queue_s: float = 0.0
    backoff_s: float = 0.0
    attempts: int = 0
    in_flight: int = 0


def trial_row(run_id: int, trial: Trial, variant: int, case_digest: str, outcome: Outcome, timing: Timing) -> Row:
    answer, failure = outcome.answer, outcome.failure
    usage = answer.usage if answer is not None else None
    return (
        run_id,
        trial.position,
        case_digest,
        variant,
        trial.repeat,
        trial.occurrence,
        outcome.status,
        failure.kind if failure else None,
        failure.blame if failure else None,
        failure.message[:ERROR_LIMIT] if failure else None,
        answer.model if answer else None,
        outcome.finished_at - timing.first_started_at,
        timing.queue_s,
        timing.backoff_s,
        outcome.service_s,
        timing.attempts,
        timing.in_flight,
        usage.input_tokens if usage else None,
        usage.output_tokens if usage else None,
        usage.cache_read_tokens if usage else None,
        usage.cache_write_tokens if usage else None,
        answer.cost_usd if answer else None,
        answer.cost_basis if answer else None,
        None,
        timing.first_started_at,
        outcome.finished_at,
    )


def payload_row(run_id: int, position: int, prompt: str, answer: Answer | None) -> Row:
    if answer is None:
        return (run_id, position, prompt, None, None, None, None)
    value = None if answer.value is None else to_json(answer.value)
    data = to_json(answer.data) if answer.data else None
    return (run_id, position, prompt, answer.text, value, data, answer.raw_response)


def attempt_row(run_id: int, position: int, attempt: int, outcome: Outcome, failure: Failure, waited_s: float) -> Row:
    message = failure.message[:ERROR_LIMIT]
    return (
        run_id,
        position,
        attempt,
        outcome.started_at,
        outcome.service_s,
        failure.kind,
        failure.blame,
        message,
        waited_s,
    )


def score_rows(run_id: int, position: int, version: str, scores: Iterable[Score]) -> list[Row]:
    return [(run_id, position, score.name, score.value, score.explanation, version) for score in scores]


def columns_of(kind: str, values: Mapping[str, Any]) -> list[Column]:
    return [Column(kind, str(key), type_of(value)) for key, value in values.items()]
