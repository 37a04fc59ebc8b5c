"""The file that accepted cases go to: what is in it is kept, and what it says is not proposed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.suites.atomic_file import alone, replace
from abreast.suites.code_search.finding import SUFFIX
from abreast.suites.code_search.mining.proposal import Known

MINED = f"mined{SUFFIX}"
REJECTED = "// rejected: "
MOST_BYTES = 20_000_000  # of a file beside it; a larger one holds other things than cases


def known(path: Path) -> Known:
    """The cases of this file and of those beside it, and what was rejected in them."""
    ids: set[str] = set()
    prompts: set[str] = set()
    beside = {one for one in path.parent.glob(f"*{SUFFIX}") if one.is_file() and one.stat().st_size <= MOST_BYTES}
    for file in sorted(beside | ({path} if path.is_file() else set())):
        for line in _content(file).decode("utf-8-sig", "replace").split("\n"):
            if line.strip().startswith(REJECTED.strip()):
                ids.add(line.strip().removeprefix(REJECTED.strip()).strip())
            case = _case(line)
            ids.update(value for value in [case.get("id")] if isinstance(value, str))
            prompts.update(value for value in [case.get("prompt", case.get("input"))] if isinstance(value, str))
    return Known(frozenset(ids), frozenset(prompts))


def _case(line: str) -> dict[str, Any]:
    """The case on a line; nothing if there is none: who runs the file is told what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def as_line(case: dict[str, Any]) -> str:
    return json.dumps(case, ensure_ascii=False)


def append(path: Path, lines: list[str]) -> None:
    """Add lines at the end, all at once; cases whose id is there already are left out."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise BadInput(f"{path}: is no file that cases can be kept in", "name another file: --output FILE")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with alone(target.parent):
            before = _content(target) if target.exists() else b""
            _check(path, before)
            there = {_case(line).get("id") for line in before.decode("utf-8-sig", "replace").split("\n")}
            if before and not before.endswith(b"\n"):
                before += b"\n"
            added = [line for line in lines if _case(line).get("id", "") not in there]
            replace(target, before + "".join(f"{line}\n" for line in added).encode())
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}", "name another file: --output FILE") from None


def _check(path: Path, content: bytes) -> None:
    """Refuse a file that is there and has neither a case nor a comment."""
    lines = [line.strip() for line in content.decode("utf-8-sig", "replace").split("\n")]
    if any(lines) and not any(line.startswith("//") or _case(line) for line in lines):
        raise BadInput(f"{path}: has no case in it, so it is kept as it is", "name another file: --output FILE")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "name another file: --output FILE") from None
