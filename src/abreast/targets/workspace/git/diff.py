"""The diff of a trial's workspace, and its final state for another trial to start from.

A state is a commit plus the objects that it adds to the start. It is exact for everything the diff looks at: arbitrary
bytes, deletions, links and the executable bit. Nothing of `.git` is included: whatever the agent committed becomes one
commit of ours. Ignored files are left out.
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
from abreast.targets.workspace.git import git_command, scan
from abreast.targets.workspace.git.git_command import EnvVars, GitFailed
from abreast.targets.workspace.git.scan import IndexUpdate, StartRecord

Changes = Mapping[bytes, list[bytes]]
"""Changes by file name: modes and digests before and after, and the kind of change."""

MAX_STATE_BYTES = 64_000_000  # limit for the files changed in one trial, and for the objects that a chain adds
_DELETED_MODE = b"000000"
_RAW = ("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z")
_AGENT_IDENTITY = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "agent"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "agent@localhost"),
}


class NotCarried(NoWorkspace):
    """The state that a trial should start from is missing or inexact; the trial does not start from anything else."""

    kind = "not_carried"


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """A commit, and a pack of the objects that it adds to the commit the chain of trials started from.

    >>> WorkspaceState.of_text(WorkspaceState("c0ffee" * 6 + "c0ff", b"objects").as_text()).objects
    b'objects'
    """

    commit: str
    objects: bytes

    def as_text(self) -> str:
        return f"{self.commit}\n{base64.b64encode(self.objects).decode('ascii')}"

    @classmethod
    def of_text(cls, text: str) -> WorkspaceState:
        commit, _, objects = text.partition("\n")
        if not re.fullmatch(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", commit):
            raise NotCarried("the stored workspace state is invalid")
        try:
            return cls(commit, base64.b64decode(objects, validate=True))
        except binascii.Error:
            raise NotCarried("the stored workspace state is corrupt") from None


@dataclass(frozen=True, slots=True)
class PreviousState:
    """The state that a trial continues from and the case that left it; both None for the first trial of a chain."""

    case: str | None = None
    state: WorkspaceState | None = None


@dataclass(frozen=True, slots=True)
class StateOptions:
    """How to capture a state. `find_secret` returns the name of a key that the content must not contain."""

    base_commit: str
    message: str
    find_secret: Callable[[bytes], str | None]


def capture_state(
    start: StartRecord, update: IndexUpdate, environment: EnvVars, scratch: Path, options: StateOptions
) -> WorkspaceState:
    """Capture the state in the index of that environment. Raises NotCarried if it would not be exact."""
    raw = git_command.run(*_RAW, start.tree, environment=environment)
    parts = [part for part in raw.split(b"\0") if part]
    changes = {name: fields.split() for fields, name in zip(parts[::2], parts[1::2], strict=True)}
    if update.is_incomplete:
        raise NotCarried("some files could not be read, or there are too many new ones")
    for name, _, _ in update.placeholders:
        if name in changes:
            raise NotCarried(f"{os.fsdecode(name)!r} is too large")
    commit = start.commit
    if changes:
        _check_contents(changes, environment, options)
        index = {**environment, "GIT_INDEX_FILE": str(scratch / "state-index")}
        commit = _commit_changes(start, changes, index, options.message)
    if commit == options.base_commit:
        return WorkspaceState(commit, b"")
    objects = git_command.run(
        *("pack-objects", "--revs", "--thin", "--stdout", "--quiet", "--delta-base-offset"),
        environment=environment,
        stdin=f"{commit}\n^{options.base_commit}\n".encode(),
    )
    if len(objects) > MAX_STATE_BYTES:
        raise NotCarried(f"the changes since the first trial exceed {MAX_STATE_BYTES / 1e6:,.0f} MB")
    return WorkspaceState(commit, objects)


def _check_contents(changes: Changes, environment: EnvVars, options: StateOptions) -> None:
    """Refuse changes that are too large or contain a key, since others can read the store."""
    digests = b"".join(fields[3] + b"\n" for fields in changes.values() if fields[1] != _DELETED_MODE)
    sizes = git_command.run("cat-file", "--batch-check=%(objectsize)", environment=environment, stdin=digests).split()
    if sum(map(int, sizes)) > MAX_STATE_BYTES:
        raise NotCarried(f"the changed files exceed {MAX_STATE_BYTES / 1e6:,.0f} MB")
    contents = git_command.run("cat-file", "--batch", environment=environment, stdin=digests)
    key = options.find_secret(contents) or options.find_secret(b"\n".join(changes))
    if key is not None:
        raise NotCarried(f"it contains {key}, and keys are not stored")


def _commit_changes(start: StartRecord, changes: Changes, environment: EnvVars, message: str) -> str:
    """Commit on top of the start with the start's date, so that equal states have equal hashes."""
    git_command.run("read-tree", start.commit, environment=environment)
    deletions_first = sorted(changes.items(), key=lambda change: change[1][1] != _DELETED_MODE)
    lines = [fields[1] + b" " + fields[3] + b"\t" + name + b"\0" for name, fields in deletions_first]
    git_command.run(*scan.UPDATE_INDEX, environment=environment, stdin=b"".join(lines))
    tree = git_command.run("write-tree", environment=environment).decode().strip()
    seconds = git_command.run("show", "-s", "--format=%ct", start.commit, environment=environment)
    date = f"@{git_command.parse_commit_date(seconds)} +0000"
    commit = git_command.run(
        *("commit-tree", tree, "-p", start.commit, "-F", "-"),
        environment={**environment, **_AGENT_IDENTITY, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
        stdin=message.encode("utf-8", "replace"),
    )
    return commit.decode().strip()


_COMPARE = ("diff-index", "--cached", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_KINDS = {"A": "added", "D": "deleted", "R": "renamed"}  # any other letter of git's: modified
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(slots=True)
class DiffCounts:
    """The size of a change. Each file is of one kind; any may also be binary. `lines_modified` counts added lines that
    replace deleted ones; None if the diff was cut."""

    files_added: int = 0
    files_modified: int = 0
    files_deleted: int = 0
    files_renamed: int = 0  # edited or not
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
    """The change of a workspace since its start, or the `problem` that prevented measuring it.

    `git apply` accepts `text` unless it is cut or lists a large file by name only.
    """

    text: str = ""
    files: tuple[str, ...] = ()
    counts: DiffCounts = field(default_factory=DiffCounts)
    renames: tuple[tuple[str, str], ...] = ()  # old and new names
    problem: str = ""
    state: WorkspaceState | None = None  # if requested: the start of another trial
    not_carried: str = ""  # why there is no state


def measure_diff(
    start: StartRecord, folder: Path, since: int, max_bytes: int, options: StateOptions | None = None
) -> Diff:
    """Compare a folder with its start; capture its state if there are `options`. Removes pipes that would block git."""
    scratch = directories.new_folder("measures")
    try:
        index = scratch / "index"
        if start.index.exists():
            shutil.copyfile(start.index, index)
        (scratch / "objects").mkdir()
        if folder.is_symlink() or not folder.is_dir():  # the agent removed it
            folder = scratch / "nothing"
            folder.mkdir()
        environment = {
            **scan.git_environment(start.git_dir, index, folder),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quote_path(start.git_dir / "objects"),
        }
        scan.remove_pipes(folder)
        update = scan.find_changes(folder, environment, start.files, since)
        update.apply(environment, scratch)
        diff = _compare(start, environment, update, max_bytes)
        if options is None:
            return diff
        try:
            return replace(diff, state=capture_state(start, update, environment, scratch, options))
        except (NotCarried, GitFailed) as error:
            return replace(diff, not_carried=str(error))
    except (GitFailed, OSError) as error:
        return Diff(problem=f"no diff: {error}")
    finally:
        remove_tree(scratch)
        directories.remove_empty_parents(scratch)


def _compare(start: StartRecord, environment: EnvVars, update: IndexUpdate, max_bytes: int) -> Diff:
    by_name_only = {name for name, _, _ in update.placeholders} | scan.large_files(start.files)
    files, renames, counts, placeholder_lines = _count_changes(start, environment, by_name_only)
    if not files:
        return Diff()
    command = (*_COMPARE, "--patch", "--binary", "--full-index", start.tree)
    patch = git_command.first_bytes(max_bytes + 1, *command, environment=environment)
    is_cut = len(patch) > max_bytes
    text = _decode(patch[: patch.rfind(b"\n", 0, max_bytes) + 1] if is_cut else patch)
    counts.lines_modified = None if is_cut else sum(map(count_replaced_lines, _hunk_signs(text))) - placeholder_lines
    return Diff(text, files, counts, renames)


def _count_changes(
    start: StartRecord, environment: EnvVars, by_name_only: Collection[bytes]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], DiffCounts, int]:
    """Return the files, the renames, the counts, and how many replaced lines belong to placeholders: files listed by
    name only have no lines, like binary ones."""
    command = (*_COMPARE, "--raw", "--numstat", "-z", start.tree)
    parts = iter(git_command.run(*command, environment=environment).split(b"\0"))
    files, renames, counts, placeholder_lines = [], [], DiffCounts(), 0
    for part in parts:
        if part.startswith(b":"):  # modes, digests and the kind; then one name, or two for a rename
            kind = _KINDS.get(chr(part.rpartition(b" ")[2][0]), "modified")
            setattr(counts, f"files_{kind}", getattr(counts, f"files_{kind}") + 1)
            next(parts)
            if kind == "renamed":
                next(parts)
        elif part:
            added, deleted, name = part.split(b"\t", 2)
            if not name:  # a rename: the old and the new name follow
                old, name = next(parts), next(parts)
                renames.append((_decode(old), _decode(name)))
            files.append(_decode(name))
            if name in by_name_only or not added.isdigit():
                counts.files_binary += 1
                placeholder_lines += min(int(added), int(deleted)) if added.isdigit() else 0
            else:
                counts.lines_added += int(added)
                counts.lines_deleted += int(deleted)
    return tuple(files), tuple(renames), counts, placeholder_lines


def _hunk_signs(diff: str) -> Iterator[list[str]]:
    """Yield the leading characters of the lines of each hunk in a git diff."""
    old = new = 0
    signs: list[str] = []
    for line in diff.split("\n"):
        if old > 0 or new > 0:
            sign = line[:1]
            if sign != "\\":  # "No newline at end of file"
                signs.append(sign)
                old, new = old - (sign != "+"), new - (sign != "-")
        elif header := _HUNK.match(line):
            if signs:
                yield signs
            signs = []
            old, new = (1 if part is None else int(part) for part in header.groups())
    if signs:
        yield signs


def count_replaced_lines(signs: Iterable[str]) -> int:
    """Count the replaced lines of a hunk: in each run of changed lines, as many as were both deleted and added.

    >>> count_replaced_lines("--++++ - +")
    2
    """
    total = plus = minus = 0
    for sign in (*signs, " "):
        if sign in ("+", "-"):
            plus, minus = plus + (sign == "+"), minus + (sign == "-")
        else:
            total, plus, minus = total + min(plus, minus), 0, 0
    return total


def _decode(data: bytes) -> str:
    """Decode as text that every store accepts."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def _quote_path(path: Path) -> str:
    text = os.fspath(path)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
