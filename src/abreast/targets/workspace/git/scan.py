"""Record the start of a trial in a git directory outside the workspace, and find the files that differ from it."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.git_command import EnvVars

LARGE = 16_000_000  # bytes; larger files are listed by name only
MAX_NEW_BYTES = 256_000_000  # size of the new files that one comparison reads
MAX_NEW_FILES = 50_000
IGNORE_RULES_TIMEOUT_S = 30.0  # time for git to apply the rules of .gitignore files
MAX_DIGESTED = 1_000_000_000  # bytes; larger files are compared by size and date
UPDATE_INDEX = ("update-index", "--replace", "-z", "--index-info")


@dataclass(frozen=True, slots=True)
class FileState:
    kind: int
    executable: bool
    size: int
    date: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        return cls(stat.S_IFMT(status.st_mode), bool(status.st_mode & 0o100), status.st_size, status.st_mtime_ns)


@dataclass(slots=True)
class IndexUpdate:
    """Changes to make to an index: files to read, placeholders for large or unreadable ones, and deleted files."""

    paths: list[bytes] = field(default_factory=list)
    placeholders: list[tuple[bytes, bytes, str]] = field(default_factory=list)  # path, mode, content
    deleted: list[bytes] = field(default_factory=list)
    is_incomplete: bool = False
    _bytes: int = 0

    def add(self, name: bytes, path: bytes, status: os.stat_result, is_new: bool) -> None:
        """Add an existing file: its content, or a placeholder if it is too large or unreadable."""
        is_regular = stat.S_ISREG(status.st_mode)
        if not is_regular and name.rpartition(b"/")[2].lower() == b".gitmodules":
            return  # git accepts no link of this name
        if is_regular and not os.access(path, os.R_OK):
            self.is_incomplete = True
            if is_new:
                self._add_placeholder(name, status, f"{status.st_size:,} bytes that may not be read")
        elif is_regular and (status.st_size > LARGE or (is_new and self._bytes + status.st_size > MAX_NEW_BYTES)):
            self._add_placeholder(name, status, f"{status.st_size:,} bytes, {_content_label(path, status)}")
        else:
            self._bytes += status.st_size if is_new else 0
            self.paths.append(name)

    def _add_placeholder(self, name: bytes, status: os.stat_result, content: str) -> None:
        mode = b"100755" if status.st_mode & 0o100 else b"100644"
        self.placeholders.append((name, mode, f"(not shown: {content})"))

    def apply(self, environment: EnvVars, scratch: Path) -> None:
        remove_from_index(self.deleted, environment)
        if self.placeholders:
            digests = self._store_placeholders(environment, scratch)
            lines = [
                mode + b" " + digest + b"\t" + name + b"\0"
                for (name, mode, _), digest in zip(self.placeholders, digests, strict=True)
            ]
            git_command.run(*UPDATE_INDEX, environment=environment, stdin=b"".join(lines))
        if self.paths:
            command = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
            git_command.run(*command, environment=environment, stdin=b"\0".join(self.paths) + b"\0")

    def _store_placeholders(self, environment: EnvVars, scratch: Path) -> list[bytes]:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            paths = [Path(folder) / str(number) for number in range(len(self.placeholders))]
            for path, (_, _, content) in zip(paths, self.placeholders, strict=True):
                path.write_text(content + "\n", encoding="utf-8")
            command = ("hash-object", "-w", "--no-filters", "--stdin-paths")
            lines = "".join(f"{path}\n" for path in paths)
            return git_command.run(*command, environment=environment, stdin=lines.encode()).split()


def large_files(files: Mapping[bytes, FileState]) -> set[bytes]:
    return {name for name, state in files.items() if state.kind == stat.S_IFREG and state.size > LARGE}


def remove_from_index(names: Iterable[bytes], environment: EnvVars) -> None:
    lines = b"".join(name + b"\0" for name in names)
    if lines:
        git_command.run("update-index", "--force-remove", "-z", "--stdin", environment=environment, stdin=lines)


_RULE_FILES = (b".gitignore", b".gitattributes")


def remove_pipes(folder: Path) -> None:
    """Remove pipes named like rule files: git would read them and wait forever. They never belong to a change."""
    for parent, _, names in os.walk(os.fsencode(folder)):
        for name in _RULE_FILES:
            if name in names:
                path = parent + b"/" + name
                with contextlib.suppress(OSError):
                    if stat.S_IFMT(os.lstat(path).st_mode) not in (stat.S_IFREG, stat.S_IFLNK):
                        Path(os.fsdecode(path)).unlink()


def find_changes(
    folder: Path,
    environment: EnvVars,
    files: Mapping[bytes, FileState],
    since: int | None,
    find_new: bool = True,
) -> IndexUpdate:
    """Compare a folder with its recorded files. Files changed after `since`, by the file system's clock, count as
    changed whatever their date; with None only large files are added. `find_new` looks for new files too."""
    update, top = IndexUpdate(), os.fsencode(folder)
    folders: dict[bytes, bool] = {b"": True}
    for name, state in files.items():
        path = top + b"/" + name
        try:
            status = os.lstat(path) if _is_folder(top, name.rpartition(b"/")[0], folders) else None
        except (FileNotFoundError, NotADirectoryError):
            status = None
        except OSError:
            update.is_incomplete = True
            continue
        if status is None or stat.S_IFMT(status.st_mode) not in (stat.S_IFREG, stat.S_IFLNK):
            update.deleted.append(name)
        elif since is None:
            if status.st_size > LARGE:
                update.add(name, path, status, is_new=False)
        elif FileState.of(status) != state or status.st_ctime_ns >= since:
            update.add(name, path, status, is_new=False)
    if find_new:
        _add_untracked(update, top, environment)
    return update


def _is_folder(top: bytes, name: bytes, folders: dict[bytes, bool]) -> bool:
    """Whether a path is a folder and no part of it is a link."""
    if name not in folders:
        is_parent_folder = _is_folder(top, name.rpartition(b"/")[0], folders)
        folders[name] = is_parent_folder and stat.S_ISDIR(os.lstat(top + b"/" + name).st_mode)
    return folders[name]


def _add_untracked(update: IndexUpdate, top: bytes, environment: EnvVars) -> None:
    untracked = [name for name in _list_untracked(environment).split(b"\0") if name]
    names = [name for name in untracked if not name.endswith(b"/")]
    for nested in (name for name in untracked if name.endswith(b"/")):
        names += _not_ignored(list(itertools.islice(_nested_files(top, nested[:-1]), MAX_NEW_FILES)), environment)
    if len(names) > MAX_NEW_FILES:
        update.is_incomplete = True
    for name in sorted(names)[:MAX_NEW_FILES]:
        if b".git" in name.lower().split(b"/"):
            continue
        try:
            status = os.lstat(top + b"/" + name)
        except OSError:
            update.is_incomplete = True
            continue
        update.add(name, top + b"/" + name, status, is_new=True)


def _list_untracked(environment: EnvVars) -> bytes:
    """List untracked files that are not ignored. An agent may write rules that git never finishes; then the rules of
    the start apply."""
    command = ("ls-files", "-z", "--others")
    start_rules = f"--exclude-from={environment['GIT_DIR']}/info/exclude"
    try:
        timeout_s = IGNORE_RULES_TIMEOUT_S
        return git_command.run(*command, "--exclude-standard", environment=environment, timeout_s=timeout_s)
    except git_command.GitTooSlow:
        return git_command.run(*command, start_rules, environment=environment)


def _nested_files(top: bytes, folder: bytes) -> Iterator[bytes]:
    """List the files of a folder that git takes for a separate repository."""
    for parent, folders, files in os.walk(top + b"/" + folder):
        links = [name for name in folders if os.path.islink(parent + b"/" + name)]  # noqa: PTH114 - names of any bytes
        folders[:] = [name for name in folders if name.lower() != b".git"]
        for name in (*files, *links):
            if stat.S_IFMT(os.lstat(parent + b"/" + name).st_mode) in (stat.S_IFREG, stat.S_IFLNK):
                yield parent[len(top) + 1 :] + b"/" + name


def _not_ignored(names: list[bytes], environment: EnvVars) -> Iterable[bytes]:
    if not names:
        return []
    lines = b"".join(name + b"\0" for name in names)
    command = ("check-ignore", "-z", "--stdin", "--no-index")
    options: dict[str, Any] = {"stdin": lines, "allowed": (0, 1), "timeout_s": IGNORE_RULES_TIMEOUT_S}
    try:
        ignored = git_command.run(*command, environment=environment, **options)
    except git_command.GitTooSlow:
        return sorted(names)
    return sorted(set(names) - set(ignored.split(b"\0")))


def _content_label(path: bytes, status: os.stat_result) -> str:
    """Return a label that changes with the content of a large file."""
    if status.st_size <= MAX_DIGESTED:
        with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - names of any bytes
            return f"blake2b {hashlib.file_digest(file, 'blake2b').hexdigest()[:24]}"
    return f"dated {status.st_mtime_ns}"


TRACKED_MODES = (b"100644", b"100755", b"120000")
# `info/attributes` overrides every .gitattributes file, so an agent cannot choose how its own change is read.
NO_ATTRIBUTES = "* !text !crlf !eol !ident !filter !working-tree-encoding !diff\n"


@dataclass(frozen=True, slots=True)
class StartRecord:
    """The start of a trial: its tree and index in a separate git directory, and the state of its untouched files."""

    git_dir: Path
    tree: str
    files: Mapping[bytes, FileState]
    commit: str = ""  # empty unless it is a checkout

    @property
    def index(self) -> Path:
        return self.git_dir / "index"


def record_start(files: Path, git_dir: Path, is_checkout: bool) -> StartRecord:
    """Record a prepared folder in a new git directory. In a checkout, the commit determines the recorded files."""
    algorithm = "sha1"
    if is_checkout:
        algorithm = git_command.run("-C", files, "rev-parse", "--show-object-format").decode().strip()
    git_command.run("init", "--quiet", "--bare", "--template=", f"--object-format={algorithm}", git_dir)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_text(NO_ATTRIBUTES)
    environment = git_environment(git_dir, git_dir / "index", files)
    commit, committed = "", {}
    if is_checkout:
        alternates = git_dir / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_bytes(os.fsencode(files / ".git" / "objects") + b"\n")
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(files / ".git" / "shallow", git_dir / "shallow")
        commit = git_command.run("-C", files, "rev-parse", "HEAD").decode().strip()
        committed = _read_commit(commit, files, environment)
    update = find_changes(files, environment, committed, None, find_new=not is_checkout)
    if is_checkout:
        update.paths += _converted_files(commit, committed, environment)
    update.apply(environment, git_dir)
    tree = git_command.run("write-tree", environment=environment).decode().strip()
    states = _file_states(files, environment)
    rules = b"".join(_ignore_rules(files, name) for name in states if name.rpartition(b"/")[2] == b".gitignore")
    own_rules = files / ".git" / "info" / "exclude"  # excludes what `setup:` installed in the checkout
    if is_checkout and own_rules.is_file():
        rules += own_rules.read_bytes()
    (git_dir / "info" / "exclude").write_bytes(rules)
    return StartRecord(git_dir, tree, states, commit)


def git_environment(git_dir: Path, index: Path, files: Path) -> dict[str, str]:
    return {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(files), "GIT_INDEX_FILE": str(index)}


def _read_commit(commit: str, files: Path, environment: EnvVars) -> dict[bytes, FileState]:
    """Read a commit without its submodules into the index; return the state of its files."""
    git_command.run("read-tree", commit, environment=environment)
    listing = git_command.run("ls-files", "-s", "-z", environment=environment)
    entries = [line.split(b"\t", 1) for line in listing.split(b"\0") if line]
    submodules = [name for fields, name in entries if fields.split()[0] not in TRACKED_MODES]
    remove_from_index(submodules, environment)
    return _file_states(files, environment)


def _converted_files(commit: str, files: Mapping[bytes, FileState], environment: EnvVars) -> list[bytes]:
    """Return files that a checkout writes differently from their blobs, for example with `eol=crlf`. Bytes are compared
    as they are, so the record must have the bytes that the trial started with."""
    if not any(name.rpartition(b"/")[2] == b".gitattributes" for name in files):
        return []
    listing = git_command.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, environment=environment)
    entries = [entry.split(b"\t", 1) for entry in listing.split(b"\0") if entry]
    sizes = {name: fields.split()[3] for fields, name in entries}
    return [name for name, state in files.items() if state.size <= LARGE and sizes.get(name) != b"%d" % state.size]


def _file_states(files: Path, environment: EnvVars) -> dict[bytes, FileState]:
    folder, states = os.fsencode(files), {}
    for name in filter(None, git_command.run("ls-files", "-z", environment=environment).split(b"\0")):
        with contextlib.suppress(OSError):
            states[name] = FileState.of(os.lstat(folder + b"/" + name))
    return states


def _ignore_rules(files: Path, name: bytes) -> bytes:
    """Return the rules of a .gitignore file, rebased to the root: they hold even if the agent changes that file."""
    path = os.fsencode(files) + b"/" + name
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return b""
    with open(path, "rb") as file:  # noqa: PTH123 - names of any bytes
        lines = file.read(1_000_000).splitlines()
    folder = name.rpartition(b"/")[0]
    return b"".join(rebase_rule(folder, line) + b"\n" for line in lines if line.strip() and not line.startswith(b"#"))


def rebase_rule(folder: bytes, rule: bytes) -> bytes:
    """Rewrite a rule of a folder's `.gitignore` for the one at the root.

    >>> rebase_rule(b"a", b"*.o"), rebase_rule(b"a", b"/build/"), rebase_rule(b"a/b", b"!x/y"), rebase_rule(b"", b"*.o")
    (b'/a/**/*.o', b'/a/build/', b'!/a/b/x/y', b'*.o')
    """
    if not folder:
        return rule
    escaped = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in folder)
    negated, body = (b"!", rule[1:]) if rule.startswith(b"!") else (b"", rule)
    anchored = b"/" in body.rstrip().rstrip(b"/")
    return negated + b"/" + escaped + b"/" + (body.lstrip(b"/") if anchored else b"**/" + body)
