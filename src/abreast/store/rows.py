"""Rows made from the objects of `model.py`: one function per table, in the order of `schema.TABLES`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from abreast.model import Answer, Case, Failure, Outcome, Score, Trial
from abreast.redaction import redact
from abreast.sizes import LARGEST_ANSWER_SIZE, excerpt, text_size
from abreast.store.schema import Column, type_of
from abreast.text import storable

Row = tuple[Any, ...]

ERROR_LIMIT = 4_000  # characters of an error message kept in the narrow row
DEEPEST = 50  # levels kept of a value that is not valid JSON


def to_json(value: Any) -> str:
    """Return JSON for storage, without secrets. Values that JSON cannot express are stored as text."""
    try:
        text = _dump(value)
    except Exception:  # noqa: BLE001 - user values: odd keys, cycles, methods that raise
        text = _dump(_make_encodable(value, DEEPEST))
    return redact(storable(text))


def _dump(value: Any) -> str:
    return _ENCODER.encode(value)


def _optional_text(text: str | None) -> str | None:
    return None if text is None else storable(text)


def _int64(number: int | None) -> int | None:
    return number if number is None or -(2**63) <= number < 2**63 else None


def _or_null(number: float) -> float | None:
    return number if number == number else None


def _to_encodable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_to_encodable, separators=(",", ":"))


def _make_encodable(value: Any, depth: int) -> Any:
    """Return the value with the parts that JSON cannot express replaced by their text."""
    if depth and isinstance(value, Mapping):
        return {safe_text(key): _make_encodable(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_make_encodable(item, depth - 1) for item in value]
    if value is None or isinstance(value, bool | float) or type(value) is str:
        return value
    if isinstance(value, int) and value.bit_length() < 1_000:
        return value
    return safe_text(value)


def safe_text(value: Any) -> str:
    """`str(value)`, or a placeholder if that raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a user's __str__, or an integer with too many digits
        return f"<{type(value).__name__}>"


def _stored_json(value: Any) -> str:
    """Return JSON that fits into a row; if it is larger, its head and tail as a JSON string."""
    text = to_json(value)
    return text if text_size(text) <= LARGEST_ANSWER_SIZE else to_json(excerpt(text))


def case_row(digest: str, input_digest: str, case: Case) -> Row:
    return (
        digest,
        storable(case.id),
        input_digest,
        _stored_json(case.input),
        _stored_json(case.expected),
        to_json(case.tags) if case.tags else "{}",
        None if case.group is None else redact(storable(case.group)),
    )


@dataclasses.dataclass(slots=True)
class Timing:
    first_started_at: float = 0.0
    queue_s: float = 0.0
    backoff_s: float = 0.0
    attempts: int = 0
    in_flight: int = 0


def trial_row(
    run_id: int, trial: Trial, variant: int, block: int, case_digest: str, outcome: Outcome, timing: Timing
) -> Row:
    """`block` is the index of its block in the order of starts, -1 if unknown; unknown times are nan."""
    answer, failure = outcome.answer, outcome.failure
    usage = answer.usage if answer is not None else None
    latency_s = outcome.finished_at - timing.first_started_at
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
        storable(failure.message[:ERROR_LIMIT]) if failure else None,
        _optional_text(answer.model) if answer else None,
        _or_null(latency_s if latency_s == latency_s else outcome.service_s),
        _or_null(timing.queue_s),
        _or_null(timing.backoff_s),
        _or_null(outcome.service_s),
        timing.attempts,
        timing.in_flight,
        _int64(usage.input_tokens) if usage else None,
        _int64(usage.output_tokens) if usage else None,
        _int64(usage.cache_read_tokens) if usage else None,
        _int64(usage.cache_write_tokens) if usage else None,
        answer.cost_usd if answer else None,
        answer.cost_basis if answer else None,
        None,
        _or_null(timing.first_started_at),
        _or_null(outcome.finished_at),
        _detail(failure),
        block,
        _int64(usage.reasoning_tokens) if usage else None,
    )


def _detail(failure: Failure | None) -> str | None:
    """Return where a failure happened, and how to fix it."""
    if failure is None or not (failure.detail or failure.fix):
        return None
    return storable("\n".join(filter(None, [failure.detail, f"fix: {failure.fix}" if failure.fix else ""])))


def payload_row(run_id: int, position: int, prompt: str, answer: Answer | None) -> Row:
    if answer is None:
        return (run_id, position, storable(prompt), None, None, None, None)
    value = None if answer.value is None else to_json(answer.value)
    data = to_json(answer.data) if answer.data else None
    return (run_id, position, storable(prompt), storable(answer.text), value, data, _optional_text(answer.raw_response))


def artifact_rows(run_id: int, position: int, answer: Answer) -> list[Row]:
    return [(run_id, position, storable(name), storable(text)) for name, text in answer.artifacts.items()]


def attempt_row(run_id: int, position: int, attempt: int, outcome: Outcome, failure: Failure, waited_s: float) -> Row:
    message = storable(failure.message[:ERROR_LIMIT])
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
        _billed_cost(outcome.answer),
    )


def _billed_cost(answer: Answer | None) -> float | None:
    """Return the billed cost, without what a subscription includes."""
    return None if answer is None or answer.cost_basis == "included" else answer.cost_usd


class Paid(NamedTuple):
    """Cost and tokens of calls; None is unknown."""

    cost_usd: float | None = None
    cost_basis: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    def and_then(self, later: Paid) -> Paid:
        return Paid(
            _sum(self.cost_usd, later.cost_usd),
            self.cost_basis if later.cost_usd is None and self.cost_basis else later.cost_basis,
            _sum(self.input_tokens, later.input_tokens),
            _sum(self.output_tokens, later.output_tokens),
        )

    @property
    def is_known(self) -> bool:
        return any(value is not None for value in (self.cost_usd, self.input_tokens, self.output_tokens))


def _sum(first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else first + second


def cost_of(answer: Answer | None) -> Paid:
    """Return cost and tokens of one call, as far as known."""
    if answer is None:
        return Paid()
    return Paid(answer.cost_usd, answer.cost_basis, answer.usage.input_tokens, answer.usage.output_tokens)


def judgement_row(
    run_id: int, position: int, scorer: str, item: str, key: str, prompt: str, status: str, outcome: Outcome, paid: Paid
) -> Row:
    """`status` says whether the reply was usable; `paid` covers all attempts."""
    answer, failure = outcome.answer, outcome.failure
    return (
        run_id,
        position,
        scorer,
        item,
        key,
        status,
        failure.kind if failure else None,
        storable(failure.message[:ERROR_LIMIT]) if failure else None,
        storable(prompt if text_size(prompt) <= LARGEST_ANSWER_SIZE else excerpt(prompt)),
        storable(answer.text) if answer else None,
        _optional_text(answer.model) if answer else None,
        _int64(paid.input_tokens),
        _int64(paid.output_tokens),
        paid.cost_usd,
        paid.cost_basis,
        outcome.started_at,
        outcome.service_s,
        None,
    )


def score_rows(run_id: int, position: int, version: str, scores: Iterable[Score]) -> list[Row]:
    return [
        (run_id, position, score.name, score.value, storable(excerpt(redact(score.explanation))), version)
        for score in scores
    ]


def columns_of(kind: str, values: Mapping[str, Any]) -> list[Column]:
    return [Column(kind, redact(storable(str(key))), type_of(value)) for key, value in values.items()]
