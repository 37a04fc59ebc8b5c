"""Validation of answers, which may come from a user's code: they can be stored and scored, and are not too large."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import fields, replace

from abreast.errors import Crashed, TooBig
from abreast.model import STATE, Answer, Usage
from abreast.redaction import redact
from abreast.sizes import EXCERPT, excerpt, megabytes, text_size, value_size

LONGEST_MODEL = 200  # characters of the name of a model
_MOST_DOLLARS = 1e15  # sums of costs must not overflow
_TOKENS = operator.attrgetter(*(field.name for field in fields(Usage)))
_PLAIN_COUNTS = frozenset((int, type(None)))


def validated(answer: object) -> Answer:
    """Return the answer with plain numbers. Raises Crashed if it cannot be stored and scored."""
    if not isinstance(answer, Answer):
        raise Crashed(f"the target returned {type(answer).__name__}, not an Answer")
    usage, cost, data = answer.usage, answer.cost_usd, answer.data
    is_mapping = type(data) is dict or isinstance(data, Mapping)
    if type(answer.text) is not str or not is_mapping or not isinstance(usage, Usage):
        raise Crashed("the answer's text must be text, its data a mapping and its usage a Usage")
    for text in (answer.raw_response or "", answer.model or "", *answer.artifacts, *answer.artifacts.values()):
        if not isinstance(text, str):
            raise Crashed("the answer's raw_response, model and artifacts must be text")
    tokens = _TOKENS(usage)
    if not isinstance(answer.waited_s, int | float) or not 0 <= answer.waited_s < math.inf:
        raise Crashed(f"the answer's waited_s must be seconds of at least 0, got {answer.waited_s!r}"[:500])
    if _PLAIN_COUNTS.issuperset(map(type, tokens)) and (cost is None or type(cost) is float):
        if cost is not None:
            _dollars(cost)
        return answer
    return replace(answer, usage=Usage(*map(_count, tokens)), cost_usd=None if cost is None else _dollars(cost))


def within_size(answer: Answer, most: int) -> Answer:
    """Return the answer, with an oversized raw response and artifacts shortened. Raises TooBig if it is oversized."""
    short = shortened(answer, most)
    if short.text is answer.text and short.data is answer.data:
        return short
    size = max(text_size(answer.text), value_size((answer.value, answer.data)))
    raise TooBig.of(f"the answer has {megabytes(size)}", most, short)


def shortened(answer: Answer, most: int) -> Answer:
    """Return the answer with oversized texts cut to their head and tail, and without oversized values."""
    raw, artifacts, model = answer.raw_response, answer.artifacts, answer.model
    length = len(answer.text) + len(raw or "") + sum(map(len, artifacts.values()))
    has_value = answer.value is not None or bool(answer.data)
    is_value_small = not has_value or value_size((answer.value, answer.data)) <= most
    if is_value_small and 4 * length <= most and len(model or "") <= LONGEST_MODEL:  # a character has up to 4 bytes
        return answer
    return replace(
        answer,
        text=cut(answer.text, most),
        value=answer.value if is_value_small else None,
        data=answer.data if is_value_small else {},
        raw_response=None if raw is None else cut(raw, most),
        # the workspace state that another trial continues from is read by a program and has its own limit
        artifacts={name: text if name == STATE else cut(text, most) for name, text in artifacts.items()},
        model=None if model is None else model[:LONGEST_MODEL],
    )


def storable_part(answer: object, most: int) -> Answer | None:
    """Return the answer of a failed attempt, if it can be stored."""
    try:
        return None if answer is None else shortened(validated(answer), most)
    except Crashed:
        return None


def cut(text: str, most: int) -> str:
    if text_size(text) <= most:
        return text
    return excerpt(redact(text), min(most // 5, EXCERPT))  # characters of 4 bytes each, and the note


def _count(value: object) -> int | None:
    try:
        return None if value is None else int(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        raise Crashed(f"the answer's tokens must be integers, got {value!r}"[:500]) from None


def _dollars(value: object) -> float:
    try:
        amount = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        amount = math.nan
    if not 0 <= amount < _MOST_DOLLARS:
        raise Crashed(f"the answer's cost_usd must be dollars of at least 0, got {value!r}"[:500])
    return amount
