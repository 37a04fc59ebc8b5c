"""What a trial changed, as text, and kept so that another trial can begin with it.

The state that is carried on is a commit and the objects that it adds to the start. Everything that the difference looks
at is carried exactly: contents of any bytes, deletions, links, the executable bit. Of `.git` nothing is: whatever the
agent committed is one commit of ours. What is ignored is left out.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.directories import NoWorkspace, remove_tree
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.git_command import GitFailed
from abreast.targets.workspace.git.scan import SETTINGS, Looked, Start, large, look_at, remove_pipes, surroundings

MOST = 64_000_000  # bytes of changed files in one trial, and of what a chain of them adds
_GONE = b"000000"
_RAW = ("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z")
_AGENT = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "agent"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "agent@localhost"),
}


class NotCarried(NoWorkspace):
    """What a trial should begin with is not known exactly. It does not begin with anything else."""

    kind = "not_carried"


@dataclass(frozen=True, slots=True)
class State:
    """A commit, and a pack of what it has beside the commit that the first of the trials began with.

    >>> State.of_text(State("c0ffee" * 6 + "c0ff", b"objects").as_text()).objects
    b'objects'
    """

    commit: str
    objects: bytes

    def as_text(self) -> str:
        return f"{self.commit}\n{base64.b64encode(self.objects).decode('ascii')}"

    @classmethod
    def of_text(cls, text: str) -> State:
        commit, _, objects = text.partition("\n")
        if not re.fullmatch(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", commit):
            raise NotCarried("what is stored is no state of a workspace")
        try:
            return cls(commit, base64.b64decode(objects, validate=True))
        except binascii.Error:
            raise NotCarried("what is stored of a workspace was changed since") from None


@dataclass(frozen=True, slots=True)
class Carried:
    """What a trial begins with: the state that another one left, and the case of that; nothing, if it is the first."""

    case: str | None = None
    state: State | None = None


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a state is kept: since which commit, under which words, and what must not be in it (the name of a key)."""

    since: str
    words: str
    secret_in: Callable[[bytes], str | None]


def state_of(start: Start, looked: Looked, environment: Mapping[str, str], scratch: Path, keeping: Keeping) -> State:
    """The state that the index of that environment says. Raises NotCarried if it would not be exact."""
    told = git_command.run(*_RAW, start.tree, settings=SETTINGS, environment=environment)
    parts = [part for part in told.split(b"\0") if part]
    changed = {name: what.split() for what, name in zip(parts[::2], parts[1::2], strict=True)}
    _refuse_inexact(looked, changed)
    commit = start.commit
    if changed:
        _refuse_contents(changed, environment, keeping)
        commit = _committed(start, changed, {**environment, "GIT_INDEX_FILE": str(scratch / "kept")}, keeping.words)
    if commit == keeping.since:
        return State(commit, b"")
    objects = git_command.run(
        *("pack-objects", "--revs", "--thin", "--stdout", "--quiet", "--delta-base-offset"),
        environment=environment,
        stdin=f"{commit}\n^{keeping.since}\n".encode(),
    )
    if len(objects) > MOST:
        raise NotCarried(f"what was changed since the first of them is more than {MOST / 1e6:,.0f} MB")
    return State(commit, objects)


def _refuse_inexact(looked: Looked, changed: Mapping[bytes, list[bytes]]) -> None:
    if looked.incomplete:
        raise NotCarried("some files could not be read, or there are too many new ones")
    for name, _, _ in looked.named:
        if name in changed:
            raise NotCarried(f"{os.fsdecode(name)!r} is too large")


def _refuse_contents(changed: Mapping[bytes, list[bytes]], environment: Mapping[str, str], keeping: Keeping) -> None:
    """Too much of it, or a key in it: what is stored can be read by others."""
    asked = b"".join(what[3] + b"\n" for what in changed.values() if what[1] != _GONE)
    sizes = git_command.run("cat-file", "--batch-check=%(objectsize)", environment=environment, stdin=asked).split()
    if sum(map(int, sizes)) > MOST:
        raise NotCarried(f"the changed files are more than {MOST / 1e6:,.0f} MB")
    contents = git_command.run("cat-file", "--batch", environment=environment, stdin=asked)
    key = keeping.secret_in(contents) or keeping.secret_in(b"\n".join(changed))
    if key is not None:
        raise NotCarried(f"{key} is written into it, and keys are not stored")


def _committed(start: Start, changed: Mapping[bytes, list[bytes]], environment: Mapping[str, str], words: str) -> str:
    """A commit after the one of the start, of its date, so that equal states have equal names."""
    git_command.run("read-tree", start.commit, environment=environment)
    gone = [name for name, what in changed.items() if what[1] == _GONE]
    nothing = b"0" * len(start.commit)
    lines = [b"0 " + nothing + b"\t" + name + b"\0" for name in gone]
    lines += [what[1] + b" " + what[3] + b"\t" + name + b"\0" for name, what in changed.items() if name not in gone]
    update = ("update-index", "--replace", "-z", "--index-info")
    git_command.run(*update, environment=environment, stdin=b"".join(lines))
    tree = git_command.run("write-tree", environment=environment).decode().strip()
    told = git_command.run("show", "-s", "--format=%ct", start.commit, environment=environment)
    date = f"@{git_command.seconds(told)} +0000"
    made = git_command.run(
        *("commit-tree", tree, "-p", start.commit, "-F", "-"),
        environment={**environment, **_AGENT, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
        stdin=words.encode("utf-8", "replace"),
    )
    return made.decode().strip()


_COMPARE = ("diff-index", "--cached", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_KINDS = {"A": "added", "D": "deleted", "R": "renamed"}  # any other letter of git's: modified
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(slots=True)
class Counts:
    """How much a change is. Each file is of one kind; binary ones are among them. `lines_modified` are the added lines
    that stand in the place of deleted ones; None if the diff is too long to be looked through."""

    files_added: int = 0
    files_modified: int = 0
    files_deleted: int = 0
    files_renamed: int = 0  # whether or not they were edited besides
    files_binary: int = 0
    lines_added: int = 0
    lines_deleted: int = 0
    lines_modified: int | None = 0

    @property
    def files_changed(self) -> int:
        return self.files_added + self.files_modified + self.files_deleted + self.files_renamed

    def columns(self) -> dict[str, int | None]:
        return {"files_changed": self.files_changed, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Diff:
    """The change of a workspace against its start, or the `problem` that kept it from being measured.

    `text` is a unified diff that `git apply` takes, unless it is cut or only names a large file.
    """

    text: str = ""
    files: tuple[str, ...] = ()
    counts: Counts = field(default_factory=Counts)
    renames: tuple[tuple[str, str], ...] = ()  # old and new names
    problem: str = ""
    state: State | None = None  # for another trial to begin with, if that was asked for
    not_carried: str = ""  # why there is none


def difference(start: Start, folder: Path, since: int, most: int, keeping: Keeping | None = None) -> Diff:
    """Compare a folder with its start, and keep its state with `keeping`. Pipes in it that would hold up git go."""
    scratch = directories.new_folder("measures")
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
        remove_pipes(folder)
        looked = look_at(folder, environment, start.files, since)
        looked.enter(environment, scratch)
        diff = _compared(start, environment, looked, most)
        if keeping is None:
            return diff
        try:
            return replace(diff, state=state_of(start, looked, environment, scratch, keeping))
        except (NotCarried, GitFailed) as error:
            return replace(diff, not_carried=str(error))
    except (GitFailed, OSError) as error:
        return Diff(problem=f"no diff: {error}")
    finally:
        remove_tree(scratch)
        directories.drop_empty(scratch)


def _compared(start: Start, environment: dict[str, str], looked: Looked, most: int) -> Diff:
    named = {name for name, _, _ in looked.named}
    files, renames, counts, stand_ins = _counted(start, environment, named | large(start.files))
    if not files:
        return Diff()
    text, is_cut = _text(start, environment, most)
    counts.lines_modified = None if is_cut else sum(map(replaced, _signs(text))) - stand_ins
    return Diff(text, files, counts, renames)


def _counted(
    start: Start, environment: dict[str, str], named: Collection[bytes]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], Counts, int]:
    """The files, which of them were renamed, how much they are, and how many lines stand in for files that are only
    named and in the place of others: those files have no lines, as binary ones."""
    words = (*_COMPARE, "--raw", "--numstat", "-z", start.tree)
    parts = iter(git_command.run(*words, settings=SETTINGS, environment=environment).split(b"\0"))
    files, renames, counts, stand_ins = [], [], Counts(), 0
    for part in parts:
        if part.startswith(b":"):  # modes, digests and the kind; one name follows, of a renamed file two
            kind = _KINDS.get(chr(part.rpartition(b" ")[2][0]), "modified")
            setattr(counts, f"files_{kind}", getattr(counts, f"files_{kind}") + 1)
            next(parts)
            if kind == "renamed":
                next(parts)
        elif part:
            plus, minus, name = part.split(b"\t", 2)
            if not name:  # renamed: the old name and the new one follow
                old, name = next(parts), next(parts)
                renames.append((_readable(old), _readable(name)))
            files.append(_readable(name))
            if name in named or not plus.isdigit():
                counts.files_binary += 1
                stand_ins += min(int(plus), int(minus)) if plus.isdigit() else 0
            else:
                counts.lines_added += int(plus)
                counts.lines_deleted += int(minus)
    return tuple(files), tuple(renames), counts, stand_ins


def _signs(diff: str) -> Iterator[list[str]]:
    """The signs of the lines of each hunk, of a diff as git writes it."""
    old = new = 0
    signs: list[str] = []
    for line in diff.split("\n"):
        if old > 0 or new > 0:
            sign = line[:1]
            if sign != "\\":  # that a file has no line feed at its end
                signs.append(sign)
                old, new = old - (sign != "+"), new - (sign != "-")
        elif found := _HUNK.match(line):
            if signs:
                yield signs
            signs = []
            old, new = (1 if part is None else int(part) for part in found.groups())
    if signs:
        yield signs


def replaced(signs: Iterable[str]) -> int:
    """How many lines of a hunk were put in the place of others: of each stretch without a line that stayed, as many as
    were both deleted and added.

    >>> replaced("--++++ - +")
    2
    """
    total = plus = minus = 0
    for sign in (*signs, " "):
        if sign in ("+", "-"):
            plus, minus = plus + (sign == "+"), minus + (sign == "-")
        else:
            total, plus, minus = total + min(plus, minus), 0, 0
    return total


def _text(start: Start, environment: dict[str, str], most: int) -> tuple[str, bool]:
    words = (*_COMPARE, "--patch", "--binary", "--full-index", start.tree)
    found = git_command.first_bytes(most + 1, *words, settings=SETTINGS, environment=environment)
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
