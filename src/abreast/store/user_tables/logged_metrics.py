"""Validation of the values that users log into `metrics`."""

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

EXAMPLE = 'write, for example, result.log({"judge_agreement": 0.93})'


def validate_metrics(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values to what JSON can express; NaN becomes None."""
    if not isinstance(values, Mapping) or not values:
        raise BadInput(f"log: expected a mapping of names and values, got {_excerpt(values)}", EXAMPLE)
    checked: dict[str, Any] = {}
    for key, value in values.items():
        _check_name(key)
        checked[storable(key)] = _validate_value(key, value)
    return checked


def validate_segment(segment: str) -> str:
    if not isinstance(segment, str) or not segment.strip() or "\0" in segment:
        raise BadInput(f"log: invalid segment {_excerpt(segment)}", 'use a name such as segment="category=easy"')
    return storable(segment)


def columns_for(values: Mapping[str, Any]) -> list[Column]:
    """Return the columns for these values that `metrics` does not always have."""
    return columns_of("metric", {key: value for key, value in values.items() if key not in COLUMNS})


def _check_name(key: Any) -> None:
    if not isinstance(key, str) or not key.strip() or "\0" in key:
        raise BadInput(f"log: invalid column name {_excerpt(key)}", EXAMPLE)
    if len(key) > LONGEST_NAME:
        raise BadInput(f'log: the name "{key[:40]}…" has {len(key):,} characters', f"use at most {LONGEST_NAME}")
    if key.lower() in ROW_COLUMNS:
        raise BadInput(
            f'log: "{key}" identifies a row, so it cannot be a value', "use variant=, segment= or another name"
        )
    if key not in COLUMNS and key.lower() in COLUMNS:
        raise BadInput(f'log: in SQL "{key}" is the same as "{key.lower()}"', f'use "{key.lower()}", or rename it')


def _validate_value(key: str, value: Any) -> Any:
    plain = value.tolist() if hasattr(value, "tolist") else value  # numpy
    if isinstance(plain, float) and math.isinf(plain):
        raise BadInput(f"log: {key} is {plain}, which JSON cannot express", "use a number or None")
    if isinstance(plain, float) and math.isnan(plain):
        return None
    plain = json.loads(to_json(plain), parse_constant=lambda _: None)
    if plain is None:
        return None
    if key in RUN_COLUMNS and not isinstance(plain, str):
        raise BadInput(f"log: {key} must be text, got {_excerpt(value)}", "put it in quotes, or rename it")
    if key == "failures" and not _counts(plain):
        raise BadInput(
            f"log: failures must be counts by kind, got {_excerpt(value)}", 'write {"timeout": 2}, for example'
        )
    expected = {"integer": int, "real": int | float}.get(NUMBERS.get(key, ""))
    if expected is not None and (isinstance(plain, bool) or not isinstance(plain, expected)):
        kind = "an integer" if expected is int else "a number"
        raise BadInput(f"log: {key} must be {kind}, got {_excerpt(value)}", f"use {kind}, or rename it")
    return plain


def _counts(plain: Any) -> bool:
    return isinstance(plain, dict) and all(type(number) is int for number in plain.values())


def _excerpt(value: Any) -> str:
    text = to_json(value)
    return text if len(text) <= 60 else text[:59] + "…"
