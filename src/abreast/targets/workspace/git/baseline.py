"""The start of a trial as git sees it: a record outside of every workspace, with which the end is compared."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from abreast.targets.workspace.files.scan import LARGE, Seen, forget, look_at
from abreast.targets.workspace.git import git_command

REGULAR = (b"100644", b"100755", b"120000")
# `info/attributes` overrides every .gitattributes file, so an agent cannot choose how its own change is read.
NO_ATTRIBUTES = "* !text !crlf !eol !ident !filter !working-tree-encoding !diff\n"


@dataclass(frozen=True, slots=True)
class Start:
    """A tree with its index, and how each of its files looks as long as nobody touched it."""

    record: Path
    tree: str
    files: Mapping[bytes, Seen]
    commit: str = ""  # of a checkout

    @property
    def index(self) -> Path:
        return self.record / "index"


def record_start(files: Path, record: Path, tracked: bool) -> Start:
    """Make the record of a prepared folder. With `tracked` it is a checkout: its commit says what belongs."""
    objects = git_command.run("-C", files, "rev-parse", "--show-object-format").decode().strip() if tracked else "sha1"
    git_command.run("init", "--quiet", "--bare", "--template=", f"--object-format={objects}", record)
    (record / "info").mkdir(exist_ok=True)
    (record / "info" / "attributes").write_text(NO_ATTRIBUTES)
    if tracked:
        alternates = record / "objects" / "info" / "alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_bytes(os.fsencode(files / ".git" / "objects") + b"\n")
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(files / ".git" / "shallow", record / "shallow")
    commit = git_command.run("-C", files, "rev-parse", "HEAD").decode().strip() if tracked else ""
    known = _tracked(commit, files, record) if tracked else {}
    environment = surroundings(record, record / "index", files)
    looked = look_at(files, environment, known, None, everything=not tracked)
    if tracked:
        looked.read += _converted(commit, known, environment)
    looked.enter(environment, record)
    tree = git_command.run("write-tree", environment=environment).decode().strip()
    seen = _seen(files, environment)
    rules = b"".join(_ignored(files, name) for name in seen if name.rpartition(b"/")[2] == b".gitignore")
    (record / "info" / "exclude").write_bytes(rules + (_excluded(files) if tracked else b""))
    return Start(record, tree, seen, commit)


def _excluded(files: Path) -> bytes:
    """The rules of a checkout itself: what was set up in it is no change of a trial."""
    with contextlib.suppress(OSError):
        return (files / ".git" / "info" / "exclude").read_bytes()
    return b""


def surroundings(record: Path, index: Path, files: Path) -> dict[str, str]:
    """The environment in which git compares a folder with a record."""
    return {"GIT_DIR": str(record), "GIT_WORK_TREE": str(files), "GIT_INDEX_FILE": str(index)}


def _tracked(commit: str, files: Path, record: Path) -> dict[bytes, Seen]:
    """Put the commit into the index, submodules excepted. Large files are looked at again, so they count as touched."""
    environment = surroundings(record, record / "index", files)
    git_command.run("read-tree", commit, environment=environment)
    listing = git_command.run("ls-files", "-s", "-z", environment=environment)
    entries = [line.split(b"\t", 1) for line in listing.split(b"\0") if line]
    forget([name for fields, name in entries if fields.split()[0] not in REGULAR], environment)
    return _seen(files, environment)


def _converted(commit: str, known: Mapping[bytes, Seen], environment: Mapping[str, str]) -> list[bytes]:
    """Files that a checkout wrote differently from their blobs, as `eol=crlf` asks for. A comparison reads bytes as
    they are, so the start must hold the bytes that the trial began with."""
    if not any(name.rpartition(b"/")[2] == b".gitattributes" for name in known):
        return []
    listing = git_command.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, environment=environment)
    entries = [entry.split(b"\t", 1) for entry in listing.split(b"\0") if entry]
    sizes = {name: fields.split()[3] for fields, name in entries}
    return [name for name, seen in known.items() if seen.size <= LARGE and sizes.get(name) != b"%d" % seen.size]


def _seen(files: Path, environment: Mapping[str, str]) -> dict[bytes, Seen]:
    names = filter(None, git_command.run("ls-files", "-z", environment=environment).split(b"\0"))
    folder, found = os.fsencode(files), {}
    for name in names:
        with contextlib.suppress(OSError):
            found[name] = Seen.of(os.lstat(folder + b"/" + name))
    return found


def _ignored(files: Path, name: bytes) -> bytes:
    """The rules of one file at the start as rules for the whole: they hold even if the agent changes that file."""
    path = os.fsencode(files) + b"/" + name
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return b""
    with open(path, "rb") as file:  # noqa: PTH123 - names of any bytes
        lines = file.read(1_000_000).splitlines()
    folder = name.rpartition(b"/")[0]
    return b"".join(rebased(folder, line) + b"\n" for line in lines if line.strip() and not line.startswith(b"#"))


def rebased(folder: bytes, rule: bytes) -> bytes:
    """A rule of a `.gitignore` in a folder, as one above it would say it.

    >>> rebased(b"a", b"*.o"), rebased(b"a", b"/build/"), rebased(b"a/b", b"!x/y"), rebased(b"", b"*.o")
    (b'/a/**/*.o', b'/a/build/', b'!/a/b/x/y', b'*.o')
    """
    if not folder:
        return rule
    escaped = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in folder)
    negated, body = (b"!", rule[1:]) if rule.startswith(b"!") else (b"", rule)
    anchored = b"/" in body.rstrip().rstrip(b"/")
    return negated + b"/" + escaped + b"/" + (body.lstrip(b"/") if anchored else b"**/" + body)
