"""The file that accepted cases go to: what is in it is kept, and what it says is not proposed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.suites.atomic_file import rewrite
from abreast.suites.code_search.finding import SUFFIX
from abreast.suites.code_search.mining.proposal import Known

MINED = f"mined{SUFFIX}"
REJECTED = "// rejected: "
MOST_BYTES = 20_000_000  # of a neighbouring file; a larger one holds other things than cases
_FIX = "name another file: --output FILE"


def known_cases(path: Path) -> Known:
    """The cases of this file and of its neighbours, and the ids that were rejected in them."""
    ids: list[Any] = []
    prompts: list[Any] = []
    near = {file for file in path.parent.glob(f"*{SUFFIX}") if file.is_file() and file.stat().st_size <= MOST_BYTES}
    for file in sorted(near | ({path} if path.is_file() else set())):
        try:
            content = file.read_bytes()
        except OSError as error:
            raise BadInput(f"{file}: cannot be read: {error.strerror}", _FIX) from None
        for line in _lines(content):
            if line.startswith(REJECTED.strip()):
                ids.append(line.removeprefix(REJECTED.strip()).strip())
            case = _case(line)
            ids.append(case.get("id"))
            prompts.append(case.get("prompt", case.get("input")))
    strings = [frozenset(value for value in values if isinstance(value, str)) for values in (ids, prompts)]
    return Known(*strings)


def _lines(content: bytes) -> list[str]:
    return [line.strip() for line in content.decode("utf-8-sig", "replace").split("\n")]


def _case(line: str) -> dict[str, Any]:
    """The case on a line, or nothing: a run reports what is wrong with it."""
    try:
        case = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return case if isinstance(case, dict) else {}


def as_line(case: dict[str, Any]) -> str:
    return json.dumps(case, ensure_ascii=False)


def append(path: Path, lines: list[str]) -> None:
    """Add lines at the end, all at once, without cases whose id the file already has."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: is no file that cases can be kept in", _FIX)

    def with_lines(before: bytes) -> bytes:
        there = _lines(before)
        if any(there) and not any(line.startswith("//") or _case(line) for line in there):
            raise BadInput(f"{path}: has no case in it, so it is kept as it is", _FIX)
        ids = {_case(line).get("id") for line in there}
        end = b"\n" if before and not before.endswith(b"\n") else b""
        added = [line for line in lines if _case(line).get("id", "") not in ids]
        return before + end + "".join(f"{line}\n" for line in added).encode()

    rewrite(path, with_lines)
