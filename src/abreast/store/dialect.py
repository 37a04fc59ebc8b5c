"""What the two engines spell differently, and names and texts inside of SQL."""

from __future__ import annotations

import json
from typing import Literal

Dialect = Literal["sqlite", "duckdb"]


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def json_value(dialect: Dialect, source: str, key: str | None, kind: str) -> str:
    """The value of a key of a JSON object, or with None the value itself; `kind` as in the table `columns`."""
    if dialect == "sqlite":
        path = "$" if key is None else "$." + json.dumps(key, ensure_ascii=False)
        return f"json_extract({source}, {literal(path)})"
    # A pointer, not a path: a path takes `*` for all keys, and no quotes.
    pointer = "$" if key is None else "/" + key.replace("~", "~0").replace("/", "~1")
    text = f"json_extract_string({source}, {literal(pointer)})"
    cast = {"integer": "BIGINT", "real": "DOUBLE", "boolean": "BOOLEAN"}.get(kind)
    return f"TRY_CAST({text} AS {cast})" if cast else text


def first_bytes(source: str) -> str:
    """The first so many (`?`) bytes of a text; SQLite's text functions would end at a NUL."""
    return f"SUBSTR(CAST({source} AS BLOB), 1, ?)"


def json_text(source: str) -> str:
    """The value of a JSON document as text; NULL if it is not valid JSON."""
    return f"json_extract(CASE WHEN json_valid({source}, 2) THEN {source} END, '$')"
