"""The folder of a run's reports. A file in it is never overwritten: what changed since gets a name of its own."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

from abreast.store import Store

LEDGER = ".abreast.json"  # which files of the folder are reports, and what they held
_NEXT = f"{LEDGER}.next"


def home(store: Store, run: str) -> Path:
    """Where the reports of a run go: `runs/RUN` beside the store."""
    return store.path.parent / "runs" / run


def keep(folder: Path, name: str, content: bytes) -> Path:
    """Write a file and say where: `report.html`, or `report-2.html` if that holds something else already."""
    folder.mkdir(parents=True, exist_ok=True)
    first, number = folder / name, 1
    path = first
    while True:
        try:
            _write_new(path, content)
            return path
        except FileExistsError:
            if path.is_file() and path.read_bytes() == content:
                return path
            number += 1
            path = first.with_name(f"{first.stem}-{number}{first.suffix}")


def _write_new(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        try:
            file.write(content)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def remember(folder: Path, paths: list[Path]) -> None:
    """Note which files are reports, so that `remove` knows them from a user's own."""
    known = _known(folder)
    known |= {str(path.relative_to(folder)): _digest(path) for path in paths}
    (folder / _NEXT).write_text(json.dumps(known, indent=0), encoding="utf-8")
    (folder / _NEXT).replace(folder / LEDGER)  # at once, or who is killed meanwhile forgets all of them


def _known(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / LEDGER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def remove(store: Store, run: str) -> tuple[Path, list[str]] | None:
    """Remove the folder of a run's reports, and say which; if something else lies in it, leave it, and say what.

    None if there is no such folder.
    """
    folder = home(store, run)
    if Path(run).name != run or folder.is_symlink() or not folder.is_dir():
        return None
    known = _known(folder)
    ledgers = {folder / LEDGER, folder / _NEXT}
    inside = sorted(path for path in folder.rglob("*") if path not in ledgers)
    files = [path for path in inside if path.is_symlink() or not path.is_dir()]
    foreign = [str(path.relative_to(folder)) for path in files if not _is_ours(path, folder, known)]
    if not foreign:
        for path in (*files, *ledgers):
            path.unlink(missing_ok=True)
        for path in sorted(set(inside).difference(files), reverse=True):
            path.rmdir()
        folder.rmdir()
        with contextlib.suppress(OSError):  # other runs have reports
            folder.parent.rmdir()
    return folder, foreign


def _is_ours(path: Path, folder: Path, known: dict[str, str]) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    return known.get(str(path.relative_to(folder))) == _digest(path)
