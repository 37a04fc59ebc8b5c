"""What in a folder belongs into a comparison: touched files, new ones, gone ones; nested repositories are opened."""

from __future__ import annotations

import contextlib
import hashlib
import os
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
        names += _not_ignored(list(_inside(top, nested[:-1], MOST_FILES)), environment)
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


def _inside(top: bytes, folder: bytes, most: int) -> Iterator[bytes]:
    """Files below a folder that git takes for a repository of its own."""
    waiting = [folder]
    while waiting and most > 0:
        here = waiting.pop()
        try:
            with os.scandir(top + b"/" + here) as entries:
                listed = list(entries)
        except OSError:
            continue
        for entry in listed:
            name = here + b"/" + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name.lower() != b".git":
                    waiting.append(name)
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                most -= 1
                yield name


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
