"""What a trial changed, as text."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abreast.targets.workspace import git, place
from abreast.targets.workspace.git import GitFailed
from abreast.targets.workspace.looking import SETTINGS, Looked, look_at
from abreast.targets.workspace.removal import remove_tree
from abreast.targets.workspace.start import Start, surroundings
from abreast.targets.workspace.state import Keeping, NotCarried, State, state_of

_COMPARE = ("diff-index", "--cached", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color")


@dataclass(frozen=True, slots=True)
class Diff:
    """The change of a workspace against its start. `text` is a unified diff that `git apply` takes, but where it is
    `truncated`: then it ends early, or only names a file. Bytes that are no UTF-8 are replaced. If there is no diff,
    `problem` says why."""

    text: str = ""
    files: tuple[str, ...] = ()
    added: int = 0
    deleted: int = 0
    truncated: bool = False
    problem: str = ""
    state: State | None = None  # for another trial to begin with, if that was asked for
    not_carried: str = ""  # why there is none


def difference(start: Start, folder: Path, since: int, most: int, keeping: Keeping | None = None) -> Diff:
    """Compare a folder with its start. Nothing is written into the folder. With `keeping` its state is kept too."""
    scratch = place.new_folder("measures")
    try:
        index = scratch / "index"
        if start.index.exists():
            shutil.copyfile(start.index, index)
        (scratch / "objects").mkdir()
        if folder.is_symlink() or not folder.is_dir():  # the agent removed it: there is nothing
            folder = scratch / "nothing"
            folder.mkdir()
        environment = {
            **surroundings(start.record, index, folder),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(start.record / "objects"),
        }
        looked = look_at(folder, environment, start.files, since)
        looked.enter(environment, scratch)
        files, added, deleted = _counted(start, environment)
        text, cut = _text(start, environment, most) if files else ("", False)
        named = {_readable(name) for name, _, _ in looked.named}
        cut = cut or looked.incomplete or not named.isdisjoint(files)
        found = Diff(text, files, added, deleted, cut)
        return found if keeping is None else replace(found, **_kept(start, looked, environment, scratch, keeping))
    except (GitFailed, OSError) as error:
        return Diff(problem=f"no diff: {error}")
    finally:
        remove_tree(scratch)
        place.drop_empty(scratch)


def _kept(start: Start, looked: Looked, environment: dict[str, str], scratch: Path, keeping: Keeping) -> dict[str, Any]:
    try:
        return {"state": state_of(start, looked, environment, scratch, keeping)}
    except (NotCarried, GitFailed) as error:
        return {"not_carried": str(error)}


def _counted(start: Start, environment: dict[str, str]) -> tuple[tuple[str, ...], int, int]:
    told = git.run(*_COMPARE, "--numstat", "-z", start.tree, settings=SETTINGS, environment=environment)
    parts = iter(told.split(b"\0"))
    files, added, deleted = [], 0, 0
    for part in parts:
        if not part:
            continue
        plus, minus, name = part.split(b"\t", 2)
        if not name:  # renamed: the old name and the new one follow
            next(parts)
            name = next(parts)
        files.append(_readable(name))
        added += int(plus) if plus.isdigit() else 0
        deleted += int(minus) if minus.isdigit() else 0
    return tuple(files), added, deleted


def _text(start: Start, environment: dict[str, str], most: int) -> tuple[str, bool]:
    words = (*_COMPARE, "--patch", "--binary", "--full-index", start.tree)
    found = git.first_bytes(most + 1, *words, settings=SETTINGS, environment=environment)
    cut = len(found) > most
    if cut:
        found = found[: found.rfind(b"\n", 0, most) + 1]
    return _readable(found), cut


def _readable(words: bytes) -> str:
    """Text that every store takes."""
    return words.decode("utf-8", "replace").replace("\0", "\ufffd")


def _quoted(path: Path) -> str:
    """A path in a list that colons divide."""
    text = os.fspath(path)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
