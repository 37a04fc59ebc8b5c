"""The git repository that trials begin with: which commit is meant, and a checkout that knows nothing later."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from abreast.targets.workspace.environment import is_dependency_file
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.directories import remove_tree
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.diff import State
from abreast.targets.workspace.git.git_command import GitFailed, is_address, without_secret

_WHOLE = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
ASK_PATIENCE_S = 30.0
CONFIG = """\
[user]
	name = agent
	email = agent@localhost
[core]
	checkStat = minimal
	trustctime = false
[commit]
	gpgSign = false
[tag]
	gpgSign = false
[gc]
	auto = 0
[maintenance]
	auto = false
"""


class Size(NamedTuple):
    files: int
    bytes: int
    submodules: int


class Repository:
    """One repository, by folder or address. Nothing is asked of it before it is needed."""

    def __init__(self, written: str, base: Path) -> None:
        self.is_remote = is_address(written)
        self.address = written if self.is_remote else str((base / Path(written).expanduser()).absolute())
        self.shown = without_secret(written)
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._commits: dict[str, str] = {}

    def problem(self) -> tuple[str, str] | None:
        if not git_command.installed():
            return "git is not installed", "install git, or use workspace: {copy: FOLDER}"
        if self.is_remote:
            try:
                git_command.run_as_user("ls-remote", "--quiet", "--", self.address, "HEAD", patience_s=ASK_PATIENCE_S)
            except GitFailed as error:
                return f"{self.shown} cannot be reached: {without_secret(str(error))}", "see that git fetches it here"
            return None
        path = Path(self.address)
        if not path.is_dir():
            return f"{self.shown}: there is no such folder", "write the folder of a git repository, or its URL"
        try:
            top = _top(path)
        except GitFailed as error:
            return f"{self.shown} is not a git repository: {error}", "write the folder that has .git, or copy: instead"
        if top.resolve() != path.resolve():
            return f"{self.shown} is a folder inside of the repository {top}", f"write git: {top}"
        return None

    def commit(self, revision: str) -> str | None:
        """The hash of the commit that a revision means now; None if there is none."""
        with self._lock:
            if revision not in self._commits and (commit := self._resolve(revision)) is not None:
                self._commits[revision] = commit
            return self._commits.get(revision)

    def _resolve(self, revision: str) -> str | None:
        if not revision or revision.startswith("-") or not revision.isprintable():
            return None
        if self.is_remote and self._folder is None:
            if _WHOLE.fullmatch(revision):
                return revision
            if found := self._announced(revision):
                return found
        words = ("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        with contextlib.suppress(GitFailed):
            return git_command.run_as_user("--git-dir", self._source(), *words).decode().strip()
        return None

    def _announced(self, revision: str) -> str | None:
        """What the server says that a branch or tag is."""
        words = ("ls-remote", "--", self.address, revision, f"{revision}^{{}}")
        try:
            listing = git_command.run_as_user(*words, patience_s=ASK_PATIENCE_S).decode("utf-8", "replace")
        except GitFailed:
            return None
        known = {name: digest for digest, _, name in (line.partition("\t") for line in listing.splitlines())}
        names = [f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}", f"refs/heads/{revision}", revision]
        return next((known[name] for name in names if name in known), None)

    def _source(self) -> Path:
        """A folder to fetch from: the repository itself, or a clone of it that is made once. Needs the lock."""
        if self._folder is None and not self.is_remote:
            self._folder = git_command.folder_of(Path(self.address))
        elif self._folder is None:
            clone = directories.new_folder("sources")
            try:
                git_command.run_as_user("clone", "--quiet", "--bare", "--", self.address, clone)
            except GitFailed:
                remove_tree(clone)
                raise
            self._folder = clone
        return self._folder

    def _git(self, *words: str) -> bytes:
        """What git writes about the source."""
        with self._lock:
            source = self._source()
        return git_command.run_as_user("--git-dir", source, *words)

    def _list(self, commit: str, *options: str) -> list[bytes]:
        """The files of a commit, a line of `ls-tree` for each."""
        return self._git("ls-tree", "-r", *options, "-z", "--full-tree", commit).split(b"\0")[:-1]

    def check_out(self, commit: str, to: Path, without: Sequence[str] = (), state: State | None = None) -> None:
        """Make a repository in an empty folder: this commit, its ancestors and nothing else, and a `state` after it.
        If paths are left out, it has no past either, for they would be found there."""
        with self._lock:
            source = self._source()
        objects = self._git("rev-parse", "--show-object-format").decode().strip()
        git_command.run("init", "--quiet", "--template=", "--initial-branch=main", f"--object-format={objects}", to)
        try:
            self._fetch(str(source), commit, to)
        except GitFailed:
            if not self.is_remote:
                raise
            self._fetch(self.address, commit, to)  # some servers hand out what no branch leads to
        with (to / ".git" / "config").open("a", encoding="utf-8") as config:
            config.write(CONFIG)
        if state is not None and state.commit != commit:
            git_command.run("-C", to, "index-pack", "--fix-thin", "--stdin", stdin=state.objects)
            git_command.run("-C", to, "update-ref", "refs/heads/main", state.commit)
        git_command.run("-C", to, "read-tree", "--reset", "-u", "HEAD")
        _date(to, commit)
        if without:
            _leave_out(to, without)
        git_command.run("-C", to, "update-index", "-q", "--refresh")
        for left in ("logs", "FETCH_HEAD", "ORIG_HEAD", "branches"):
            remove_tree(to / ".git" / left)

    def _fetch(self, source: str, commit: str, to: Path) -> None:
        git_command.run_as_user(
            *("-C", to, "-c", "fetch.unpackLimit=1", "-c", "core.logAllRefUpdates=false", "-c", "protocol.version=2"),
            *("-c", "fetch.writeCommitGraph=false", "-c", "fetch.recurseSubmodules=false"),
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow", "--update-head-ok"),
            *("--no-auto-maintenance", "--", source, f"{commit}:refs/heads/main"),
        )

    def files(self, commit: str, without: Sequence[str]) -> str:
        """A digest of the files of a commit, those at some paths left out."""
        return _digest(_kept(self._list(commit), without))

    def dependencies(self, commit: str) -> str:
        """A digest of the files of a commit that say what the project depends on."""
        return _digest(line for line in self._list(commit) if is_dependency_file(os.fsdecode(line.partition(b"\t")[2])))

    def size(self, commit: str, without: Sequence[str] = ()) -> Size:
        files = total = links = 0
        for line in _kept(self._list(commit, "-l"), without):
            _, kind, _, size = line.split(b"\t", 1)[0].split()
            links += kind == b"commit"
            files += kind == b"blob"
            total += int(size) if size.isdigit() else 0
        return Size(files, total, links)

    def past(self) -> int:
        """Bytes of all objects of the repository: a checkout has at most these."""
        sizes = re.findall(rb"^size(?:-pack)?: (\d+)$", self._git("count-objects", "-v"), re.M)
        return 1024 * sum(map(int, sizes))

    def uses_lfs(self, commit: str) -> bool:
        with contextlib.suppress(GitFailed):
            return b"filter=lfs" in self._git("show", f"{commit}:.gitattributes")
        return False

    def uncommitted(self) -> int:
        """Files that differ from the commit or were never added."""
        with contextlib.suppress(GitFailed):  # a bare one has no files
            words = ("status", "--porcelain", "-z", "--no-renames")
            return 0 if self.is_remote else git_command.run_as_user("-C", self.address, *words).count(b"\0")
        return 0

    def close(self) -> None:
        with self._lock:
            if self.is_remote and self._folder is not None:
                remove_tree(self._folder)
                directories.drop_empty(self._folder)
                self._folder = None


def _top(path: Path) -> Path:
    """The folder of the repository: of its files, or of a bare one itself."""

    def ask(*words: str) -> str:
        printed = git_command.run_as_user("-C", path, "rev-parse", *words, patience_s=ASK_PATIENCE_S)
        return os.fsdecode(printed.removesuffix(b"\n"))

    bare, folder = ask("--is-bare-repository", "--git-dir").split("\n", 1)
    return path / folder if bare == "true" else Path(ask("--show-toplevel"))


def _kept(lines: Sequence[bytes], without: Sequence[str]) -> list[bytes]:
    """The lines of `ls-tree` whose files are at none of these paths."""
    left_out = tuple(os.fsencode(name) + b"/" for name in without)
    return [line for line in lines if not (line.partition(b"\t")[2] + b"/").startswith(left_out)]


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.blake2b(b"\0".join(lines), digest_size=16).hexdigest()


def _leave_out(folder: Path, names: Sequence[str]) -> None:
    """Remove files from a checkout as if its commit had never had them, nor a past."""
    paths = [f":(literal){name}" for name in names]
    git_command.run("-C", folder, "rm", "-r", "-f", "--quiet", "--ignore-unmatch", "--", *paths)
    date = f"@{git_command.seconds(git_command.run('-C', folder, 'log', '-1', '--format=%ct'))} +0000"
    tree = git_command.run("-C", folder, "write-tree").decode().strip()
    someone = {f"GIT_{who}_{what}": "abreast" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    start = git_command.run("-C", folder, "commit-tree", tree, "-m", "start", environment={**someone, **dates})
    git_command.run("-C", folder, "update-ref", "refs/heads/main", start.decode().strip())
    remove_tree(folder / ".git" / "logs")
    git_command.run("-C", folder, "repack", "-a", "-d", "--quiet")  # what is left out is no object any more
    git_command.run("-C", folder, "prune", "--expire=now")


def _date(folder: Path, commit: str) -> None:
    """Every file gets a second of its own before the commit, so that git tells any two apart without reading them."""
    told = git_command.seconds(git_command.run("-C", folder, "log", "-1", "--format=%ct", commit))
    latest = min(max(told, 10**9), int(time.time()) - 10)
    names = git_command.run("-C", folder, "ls-files", "-z").split(b"\0")
    for number, name in enumerate(filter(None, names)):
        date = latest - number
        path = os.path.join(os.fsencode(folder), name)  # noqa: PTH118 - names of any bytes
        os.utime(path, (date, date), follow_symlinks=False)
