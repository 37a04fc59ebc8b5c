"""What users log into `metrics`: refused at the door if no column could hold it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput
from abreast.store.metrics import COLUMNS, NUMBERS, ROW_COLUMNS, RUN_COLUMNS
from abreast.store.rows import columns_of, to_json
from abreast.store.schema import LONGEST_NAME, Column
from abreast.text import storable

EXAMPLE = 'write such as result.log({"judge_agreement": 0.93})'


def validate_metrics(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as JSON can say them. What is not a number (NaN) becomes None: SQL has NULL for it."""
    if not isinstance(values, Mapping) or not values:
        raise BadInput(f"log: a mapping of names and values is needed, got {_excerpt(values)}", EXAMPLE)
    found: dict[str, Any] = {}
    for key, value in values.items():
        _check_name(key)
        found[storable(key)] = _validate_value(key, value)
    return found


def validate_segment(segment: str) -> str:
    if not isinstance(segment, str) or not segment.strip() or "\0" in segment:
        raise BadInput(f"log: the segment {_excerpt(segment)} is not a name", 'write such as segment="category=easy"')
    return storable(segment)


def columns_for(values: Mapping[str, Any]) -> list[Column]:
    """The columns these values want beside those that `metrics` always has."""
    return columns_of("metric", {key: value for key, value in values.items() if key not in COLUMNS})


def _check_name(key: Any) -> None:
    if not isinstance(key, str) or not key.strip() or "\0" in key:
        raise BadInput(f"log: {_excerpt(key)} is not a name for a column", EXAMPLE)
    if len(key) > LONGEST_NAME:
        raise BadInput(
            f'log: the name "{key[:40]}…" has {len(key):,} characters', f"write {LONGEST_NAME} characters at most"
        )
    if key.lower() in ROW_COLUMNS:
        raise BadInput(
            f'log: "{key}" says of what a row is, and is no value', "use variant= and segment=, or rename it"
        )
    if key not in COLUMNS and key.lower() in COLUMNS:
        raise BadInput(f'log: SQL does not tell "{key}" from "{key.lower()}"', f'write "{key.lower()}", or rename it')


def _validate_value(key: str, value: Any) -> Any:
    plain = value.tolist() if hasattr(value, "tolist") else value  # of numpy
    if isinstance(plain, float) and math.isinf(plain):
        raise BadInput(f"log: {key} is {plain}, which JSON cannot say", "write a number, or None")
    if isinstance(plain, float) and math.isnan(plain):
        return None
    plain = json.loads(to_json(plain), parse_constant=lambda _: None)
    if plain is None:
        return None
    if key in RUN_COLUMNS and not isinstance(plain, str):
        raise BadInput(f"log: {key} must be text, got {_excerpt(value)}", "put it in quotes, or rename it")
    if key == "failures" and not _counts(plain):
        raise BadInput(f"log: failures must be numbers by kind, got {_excerpt(value)}", 'write such as {"timeout": 2}')
    wanted = {"integer": int, "real": int | float}.get(NUMBERS.get(key, ""))
    if wanted is not None and (isinstance(plain, bool) or not isinstance(plain, wanted)):
        kind = "a whole number" if wanted is int else "a number"
        raise BadInput(f"log: {key} must be {kind}, got {_excerpt(value)}", "it is a column of metrics; or rename it")
    return plain


def _counts(plain: Any) -> bool:
    return isinstance(plain, dict) and all(type(number) is int for number in plain.values())


def _excerpt(value: Any) -> str:
    text = to_json(value)
    return text if len(text) <= 60 else text[:59] + "…"
