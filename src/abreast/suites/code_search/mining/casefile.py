"""The file that accepted cases go to: what is in it is kept, and what it says is not proposed again."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.suites.code_search.finding import PLACES, SUFFIX
from abreast.suites.code_search.mining.proposal import Known

DEFAULT = f"{PLACES[0]}/mined{SUFFIX}"
REJECTED = "// rejected: "
MOST_BYTES = 20_000_000  # of a file beside it; a larger one holds other things than cases


def known(path: Path) -> Known:
    """The cases of this file and of those beside it, and what was rejected in them."""
    ids: set[str] = set()
    prompts: set[str] = set()
    beside = {one for one in path.parent.glob(f"*{SUFFIX}") if one.is_file() and one.stat().st_size <= MOST_BYTES}
    for file in sorted(beside | ({path} if path.is_file() else set())):
        for line in _content(file).decode("utf-8", "replace").split("\n"):
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
    """Add lines at the end: the file is there as it was, or with all of them, whenever somebody looks."""
    target = path.resolve()
    before = _content(target) if target.exists() else b""
    if before and not before.endswith(b"\n"):
        before += b"\n"
    content = before + "".join(f"{line}\n" for line in lines).encode()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, content)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}", "name another file: --output FILE") from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}", "name another file: --output FILE") from None


def _replace(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_mask())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
