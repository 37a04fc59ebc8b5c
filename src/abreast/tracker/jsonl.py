"""Rows as JSON lines, in addition to the store: for log viewers and `tail -f`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from abreast.errors import BadInput, StoreError
from abreast.store.rows import to_json
from abreast.store.user_tables.cells import TypedCell

STDOUT = "-"
LEVEL = "TRACKING"  # a level that log viewers can filter by


def is_folder(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir()


def append(path: str, table: str, rows: Iterable[Mapping[str, TypedCell]]) -> None:
    """Append a line per row in one write, because several processes may share a file."""
    text = "".join(f"{to_json(_entry(table, row))}\n" for row in rows)
    if path == STDOUT:
        from abreast.output import emit  # late: few trackers print

        emit(text)
        return
    day = next((str(row["timestamp"].value)[:10] for row in rows), "")
    file = Path(path, f"{day}.jsonl") if is_folder(path) else Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab", buffering=0) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise StoreError(
            f"{file}: cannot be written ({error.strerror})", "check `jsonl=`; the rows are in the store"
        ) from error


def _entry(table: str, row: Mapping[str, TypedCell]) -> dict[str, Any]:
    """Return a row without its empty columns."""
    entry = {key: cell.to_python() for key, cell in row.items() if cell.value is not None}
    moment = str(entry.pop("timestamp", "")).replace(" ", "T")
    return {"timestamp": f"{moment}Z", "level": LEVEL, "table": table, **entry}


def read(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the rows of a file, or of all files in a folder. Skips an incomplete last line."""
    files = sorted(Path(path).glob("*.jsonl")) if Path(path).is_dir() else [Path(path)]
    entries: list[dict[str, Any]] = []
    for file in files:
        if not file.is_file():
            raise BadInput(f"{file}: no such file", "use the path of `Tracker(jsonl=...)`")
        *lines, _ = file.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise BadInput(f"{file}:{number}: not JSON ({error})", "remove the line") from error
            if not isinstance(entry, dict):
                raise BadInput(f"{file}:{number}: not an object", "remove the line")
            entries.append(entry)
    return entries
