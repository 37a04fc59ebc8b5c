"""The folder of a run's reports. Files in it are never overwritten: new content gets a new name."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import BadInput
from abreast.filenames import is_file_name, relative_path, safe_file_name
from abreast.store.address import is_url
from abreast.store.report_ledger import LEDGER, OWNER, RUNS, STORE_FOLDER, exported_files, read_ledger, report_folders
from abreast.text import many

if TYPE_CHECKING:
    from abreast.store import Store

_NEXT = f"{LEDGER}.next"


def home(store: Store, run: str) -> Path:
    """The folder of a run's reports: `runs/RUN` next to the store, with RUN made safe as a file name.

    If a run of another store has that folder, its name gets a digest: databases share the working folder.
    """
    folder = store.folder / RUNS / safe_file_name(run)
    address = store.address if is_url(store.address) else Path(store.address).name
    own = folder.with_name(f"{folder.name}-{_digest_of(address.encode())[:8]}")
    return own if own.exists() or not _is_owner(store, folder) else folder


def _is_owner(store: Store, folder: Path) -> bool:
    """Whether a folder has no reports, or those of this store."""
    return not (folder / LEDGER).exists() or read_ledger(folder).get(OWNER) == _owner(store).get(OWNER)


def _owner(store: Store) -> dict[str, str]:
    """The entry in ledgers that names the store. Files are not named: they may move with their ledger."""
    return {OWNER: store.address} if is_url(store.address) else {}


def keep(folder: Path, name: str, content: Iterable[bytes]) -> Path:
    """Write a file and return its path: `report.html`, or `report-2.html` if the first has other content.

    `content` is read more than once if the file exists.
    """
    _check_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    for path in _numbered(folder / name):
        try:
            _write_new(path, content)
            break
        except FileExistsError:
            if path.is_file() and _has_content(path, content):
                break
    return path


def _numbered(first: Path) -> Iterator[Path]:
    """Yield `report.html`, `report-2.html`, `report-3.html` and so on."""
    yield first
    for number in itertools.count(2):
        yield first.with_name(f"{first.stem}-{number}{first.suffix}")


def _check_name(name: str) -> None:
    """Refuse a file name that leads out of its folder."""
    if not is_file_name(name):
        raise BadInput(f"{name[:60]!r} is not a valid file name", "use letters, digits, spaces and _ . -")


def _write_new(path: Path, content: Iterable[bytes]) -> None:
    with path.open("xb") as file:
        try:
            file.writelines(content)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _has_content(path: Path, content: Iterable[bytes]) -> bool:
    with path.open("rb") as file:
        return all(file.read(len(piece)) == piece for piece in content) and not file.read(1)


def publish(store: Store, run: str, name: str, content: bytes) -> Path:
    """Write a file next to the store, atomically, and return its path.

    It replaces a file that a run published. If the existing file is the user's own or was edited, the new name gets a
    number.
    """
    _check_name(name)
    top, home_of_run = store.folder, home(store, run)
    candidates = _numbered(top / name)
    path = next(
        path for path in candidates if not path.is_symlink() and (not path.exists() or _was_published(store, path))
    )
    if path.exists() and path.read_bytes() == content:
        _note(store, home_of_run, {STORE_FOLDER + path.name: _digest_of(content)})
        return path
    temporary = top / f".{name}.{secrets.token_hex(4)}.tmp"
    try:
        _write_new(temporary, [content])
        # Recorded before the file exists, so that it is never taken for the user's own.
        _note(store, home_of_run, {STORE_FOLDER + path.name: _digest_of(content)})
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def _was_published(store: Store, path: Path) -> bool:
    """Whether a run of this store wrote the file, which has not changed since."""
    if not path.is_file():
        return False
    digest = _digest(path)
    return any(
        _is_owner(store, folder) and read_ledger(folder).get(STORE_FOLDER + path.name) == digest
        for folder in report_folders(store.folder)
    )


def remember(store: Store, folder: Path, paths: list[Path]) -> None:
    """Record which files are reports, so that `remove` can tell them from the user's."""
    _note(store, folder, {str(path.relative_to(folder)): _digest(path) for path in paths})


def _note(store: Store, folder: Path, digests: dict[str, str]) -> None:
    ledger = read_ledger(folder) | _owner(store) | digests
    (folder / _NEXT).write_text(json.dumps(ledger, indent=0), encoding="utf-8")
    (folder / _NEXT).replace(folder / LEDGER)  # atomic, so that a kill does not lose the ledger


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def delete_runs(store: Store, runs: Sequence[str]) -> list[str]:
    """Delete runs with their reports; return what was done, line by line. Refuses active runs."""
    removed = store.delete(runs)
    store.close()
    lines = [f"deleted {', '.join(runs)}: {many(removed, 'trial')}"]
    for run in runs:
        path, foreign = remove(store, run) or (None, [])
        if foreign and path:
            reason = "was not written by abreast, or changed since"
            lines.append(f"kept {relative_path(path)}: {', '.join(foreign)} {reason}")
        elif path:
            lines.append(f"removed {relative_path(path)} with its report")
    return lines


def remove(store: Store, run: str) -> tuple[Path, list[str]] | None:
    """Remove the folder of a run's reports, and its unchanged result files next to the store.

    A folder with foreign files (the user's own, or edited) is kept. Returns the folder and the foreign files; None if
    there is no such folder.
    """
    folder = home(store, run)
    if folder.is_symlink() or not folder.is_dir():
        return None
    ledger = read_ledger(folder)
    ledgers = {folder / LEDGER, folder / _NEXT}
    paths = sorted(path for path in folder.rglob("*") if path not in ledgers)
    files = [path for path in paths if path.is_symlink() or not path.is_dir()]
    foreign = [str(path.relative_to(folder)) for path in files if not _is_ours(path, folder, ledger)]
    if not foreign:
        published = [(store.folder / name, digest) for name, digest in exported_files(ledger)]
        files += [path for path, digest in published if path.is_file() and _digest(path) == digest]
        for path in (*files, *ledgers):
            path.unlink(missing_ok=True)
        for path in sorted(set(paths).difference(files), reverse=True):
            path.rmdir()
        folder.rmdir()
        with contextlib.suppress(OSError):  # not empty: other runs have reports
            folder.parent.rmdir()
    return folder, foreign


def _is_ours(path: Path, folder: Path, ledger: dict[str, str]) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    return ledger.get(str(path.relative_to(folder))) == _digest(path)
