"""The file of accepted cases. Its content is kept, and its cases are not proposed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.suites.atomic_file import rewrite
from abreast.suites.code_search.finding import SUFFIX
from abreast.suites.code_search.mining.proposal import KnownCases

MINED = f"mined{SUFFIX}"
REJECTED = "// rejected: "
MOST_BYTES = 20_000_000  # size limit of neighbouring files; larger ones are not case files
_FIX = "use another file: --output FILE"


def known_cases(path: Path) -> KnownCases:
    """Return the cases and rejected ids in this file and its neighbours."""
    ids: list[Any] = []
    prompts: list[Any] = []
    near = {file for file in path.parent.glob(f"*{SUFFIX}") if file.is_file() and file.stat().st_size <= MOST_BYTES}
    for file in sorted(near | ({path} if path.is_file() else set())):
        try:
            content = file.read_bytes()
        except OSError as error:
            raise BadInput(f"{file}: cannot read: {error.strerror}", _FIX) from None
        for line in _lines(content):
            if line.startswith(REJECTED.strip()):
                ids.append(line.removeprefix(REJECTED.strip()).strip())
            case = _case(line)
            ids.append(case.get("id"))
            prompts.append(case.get("prompt", case.get("input")))
    strings = [frozenset(value for value in values if isinstance(value, str)) for values in (ids, prompts)]
    return KnownCases(*strings)


def _lines(content: bytes) -> list[str]:
    return [line.strip() for line in content.decode("utf-8-sig", "replace").split("\n")]


def _case(line: str) -> dict[str, Any]:
    """Parse the case on a line; empty for an invalid one, which a run reports."""
    try:
        case = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return case if isinstance(case, dict) else {}


def as_line(case: dict[str, Any]) -> str:
    return json.dumps(case, ensure_ascii=False)


def append(path: Path, lines: list[str]) -> None:
    """Append lines atomically, except cases with an id that the file already has."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: not a regular file", _FIX)

    def with_lines(before: bytes) -> bytes:
        existing = _lines(before)
        if any(existing) and not any(line.startswith("//") or _case(line) for line in existing):
            raise BadInput(f"{path}: not a case file; it was not changed", _FIX)
        ids = {_case(line).get("id") for line in existing}
        end = b"\n" if before and not before.endswith(b"\n") else b""
        added = [line for line in lines if _case(line).get("id", "") not in ids]
        return before + end + "".join(f"{line}\n" for line in added).encode()

    rewrite(path, with_lines)
