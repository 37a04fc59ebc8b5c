"""The start of a trial as git sees it, recorded outside of every workspace, and the files that differ from it."""

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

from abreast.targets.workspace.git import git_command

LARGE = 16_000_000  # bytes; what is larger is named, not shown
MOST_BYTES = 256_000_000  # read for one comparison
MOST_FILES = 50_000  # new ones
RULES_S = 30.0  # for git to apply the rules of .gitignore files
DIGESTED = 1_000_000_000  # of larger ones size and date have to do
SETTINGS = {"core.looseCompression": "0", "core.bigFileThreshold": str(2 * LARGE)}


@dataclass(frozen=True, slots=True)
class Seen:
    """How a file looks from outside."""

    kind: int
    executable: bool
    size: int
    date: int

    @classmethod
    def of(cls, found: os.stat_result) -> Seen:
        return cls(stat.S_IFMT(found.st_mode), bool(found.st_mode & 0o100), found.st_size, found.st_mtime_ns)


@dataclass(slots=True)
class Looked:
    """What to enter into an index: files to read, files only named, and files that are gone."""

    read: list[bytes] = field(default_factory=list)
    named: list[tuple[bytes, bytes, str]] = field(default_factory=list)  # path, mode, what is said of it
    gone: list[bytes] = field(default_factory=list)
    incomplete: bool = False
    _bytes: int = 0

    def add(self, name: bytes, path: bytes, found: os.stat_result, new: bool) -> None:
        """A file that is there: read if it is of a size to be shown and can be."""
        regular = stat.S_ISREG(found.st_mode)
        if not regular and name.rpartition(b"/")[2].lower() == b".gitmodules":
            return  # git takes no link of this name
        if regular and not os.access(path, os.R_OK):
            self.incomplete = True
            if new:
                self._name(name, found, f"{found.st_size:,} bytes that may not be read")
        elif regular and (found.st_size > LARGE or (new and self._bytes + found.st_size > MOST_BYTES)):
            self._name(name, found, f"{found.st_size:,} bytes, {_content(path, found)}")
        else:
            self._bytes += found.st_size if new else 0
            self.read.append(name)

    def _name(self, name: bytes, found: os.stat_result, said: str) -> None:
        mode = b"100755" if found.st_mode & 0o100 else b"100644"
        self.named.append((name, mode, f"(not shown: {said})"))

    def enter(self, environment: Mapping[str, str], near: Path) -> None:
        """Bring the index of that environment up to what was seen."""
        forget(self.gone, environment)
        if self.named:
            digests = self._placeholders(environment, near)
            lines = [
                mode + b" " + digest + b"\t" + name + b"\0"
                for (name, mode, _), digest in zip(self.named, digests, strict=True)
            ]
            words = ("update-index", "--replace", "-z", "--index-info")
            git_command.run(*words, environment=environment, stdin=b"".join(lines))
        if self.read:
            git_command.run(
                *("update-index", "--add", "--remove", "--replace", "-z", "--stdin"),
                settings=SETTINGS,
                environment=environment,
                stdin=b"\0".join(self.read) + b"\0",
            )

    def _placeholders(self, environment: Mapping[str, str], near: Path) -> list[bytes]:
        with tempfile.TemporaryDirectory(dir=near) as folder:
            paths = [Path(folder) / str(number) for number in range(len(self.named))]
            for path, (_, _, said) in zip(paths, self.named, strict=True):
                path.write_text(said + "\n", encoding="utf-8")
            words = ("hash-object", "-w", "--no-filters", "--stdin-paths")
            lines = "".join(f"{path}\n" for path in paths)
            return git_command.run(*words, environment=environment, stdin=lines.encode()).split()


def large(known: Mapping[bytes, Seen]) -> set[bytes]:
    """Those that were only named at the start."""
    return {name for name, seen in known.items() if seen.kind == stat.S_IFREG and seen.size > LARGE}


def forget(names: Iterable[bytes], environment: Mapping[str, str]) -> None:
    """Take names out of the index of that environment."""
    told = b"".join(name + b"\0" for name in names)
    if told:
        git_command.run("update-index", "--force-remove", "-z", "--stdin", environment=environment, stdin=told)


_RULES = (b".gitignore", b".gitattributes")


def remove_pipes(folder: Path) -> None:
    """Remove pipes that git would read rules from, and so wait for ever. They are part of no change."""
    for above, _, names in os.walk(os.fsencode(folder)):
        for name in _RULES:
            if name in names:
                path = above + b"/" + name
                with contextlib.suppress(OSError):
                    if stat.S_IFMT(os.lstat(path).st_mode) not in (stat.S_IFREG, stat.S_IFLNK):
                        Path(os.fsdecode(path)).unlink()


def look_at(
    folder: Path,
    environment: Mapping[str, str],
    known: Mapping[bytes, Seen],
    since: int | None,
    everything: bool = True,
) -> Looked:
    """Compare a folder with the files that are known of it. What was changed after the moment `since`, by the file
    system's clock, counts as touched whatever date it shows; `everything` looks for new files too."""
    looked, top = Looked(), os.fsencode(folder)
    folders: dict[bytes, bool] = {b"": True}
    for name, seen in known.items():
        path = top + b"/" + name
        try:
            found = os.lstat(path) if _is_folder(top, name.rpartition(b"/")[0], folders) else None
        except (FileNotFoundError, NotADirectoryError):
            found = None
        except OSError:
            looked.incomplete = True
            continue
        if found is None or stat.S_IFMT(found.st_mode) not in (stat.S_IFREG, stat.S_IFLNK):
            looked.gone.append(name)
        elif since is None:
            if found.st_size > LARGE:
                looked.add(name, path, found, new=False)
        elif Seen.of(found) != seen or found.st_ctime_ns >= since:
            looked.add(name, path, found, new=False)
    if everything:
        _look_for_new(looked, top, environment)
    return looked


def _is_folder(top: bytes, name: bytes, folders: dict[bytes, bool]) -> bool:
    """Whether it is a folder and no link to one, all the way down."""
    if name not in folders:
        is_above = _is_folder(top, name.rpartition(b"/")[0], folders)
        folders[name] = is_above and stat.S_ISDIR(os.lstat(top + b"/" + name).st_mode)
    return folders[name]


def _look_for_new(looked: Looked, top: bytes, environment: Mapping[str, str]) -> None:
    others = [name for name in _list_untracked(environment).split(b"\0") if name]
    names = [name for name in others if not name.endswith(b"/")]
    for nested in (name for name in others if name.endswith(b"/")):
        names += _not_ignored(list(itertools.islice(_inside(top, nested[:-1]), MOST_FILES)), environment)
    if len(names) > MOST_FILES:
        looked.incomplete = True
    for name in sorted(names)[:MOST_FILES]:
        if b".git" in name.lower().split(b"/"):
            continue
        try:
            found = os.lstat(top + b"/" + name)
        except OSError:
            looked.incomplete = True
            continue
        looked.add(name, top + b"/" + name, found, new=True)


def _list_untracked(environment: Mapping[str, str]) -> bytes:
    """Untracked files that are not ignored. Rules that an agent wrote may take git for ever: then the start's count."""
    words = ("ls-files", "-z", "--others")
    try:
        return git_command.run(*words, "--exclude-standard", environment=environment, patience_s=RULES_S)
    except git_command.GitTooSlow:
        return git_command.run(*words, f"--exclude-from={environment['GIT_DIR']}/info/exclude", environment=environment)


def _inside(top: bytes, folder: bytes) -> Iterator[bytes]:
    """Files below a folder that git takes for a repository of its own."""
    for above, folders, files in os.walk(top + b"/" + folder):
        links = [name for name in folders if os.path.islink(above + b"/" + name)]  # noqa: PTH114 - names of any bytes
        folders[:] = [name for name in folders if name.lower() != b".git"]
        for name in (*files, *links):
            if stat.S_IFMT(os.lstat(above + b"/" + name).st_mode) in (stat.S_IFREG, stat.S_IFLNK):
                yield above[len(top) + 1 :] + b"/" + name


def _not_ignored(names: list[bytes], environment: Mapping[str, str]) -> Iterable[bytes]:
    if not names:
        return []
    told = b"".join(name + b"\0" for name in names)
    words = ("check-ignore", "-z", "--stdin", "--no-index")
    try:
        ignored = git_command.run(*words, environment=environment, stdin=told, allowed=(0, 1), patience_s=RULES_S)
    except git_command.GitTooSlow:
        return sorted(names)
    return sorted(set(names) - set(ignored.split(b"\0")))


def _content(path: bytes, found: os.stat_result) -> str:
    """What tells the content of a large file from another."""
    if found.st_size <= DIGESTED:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - names of any bytes
                return f"blake2b {hashlib.file_digest(file, 'blake2b').hexdigest()[:24]}"
        except OSError:
            pass
    return f"dated {found.st_mtime_ns}"


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
    own_rules = files / ".git" / "info" / "exclude"  # what was set up in a checkout is no change of a trial
    (record / "info" / "exclude").write_bytes(
        rules + (own_rules.read_bytes() if own_rules.is_file() and tracked else b"")
    )
    return Start(record, tree, seen, commit)


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
