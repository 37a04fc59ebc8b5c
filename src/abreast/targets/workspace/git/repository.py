"""The git repository that trials begin with: which commit is meant, and a checkout that knows nothing later."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from abreast.targets.workspace.environment import is_dependency_file
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.directories import remove_tree
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.carried_state import State
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


@dataclass(frozen=True, slots=True)
class Size:
    """What a checkout is made of."""

    files: int
    bytes: int
    submodules: int


class Repository:
    """One repository, by folder or address. Nothing is asked of it before it is needed."""

    def __init__(self, written: str, base: Path) -> None:
        self.is_remote = is_address(written)
        self.address = written if self.is_remote else str(_absolute(base, written))
        self.shown = without_secret(written)
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._commits: dict[str, str] = {}

    def problem(self) -> tuple[str, str] | None:
        """What is wrong with it, and what to do."""
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
            if revision not in self._commits:
                found = self._resolve(revision)
                if found is None:
                    return None
                self._commits[revision] = found
            return self._commits[revision]

    def _resolve(self, revision: str) -> str | None:
        if not revision or revision.startswith("-") or not revision.isprintable():
            return None
        if self.is_remote and self._folder is None:
            if _WHOLE.fullmatch(revision):
                return revision
            if found := self._announced(revision):
                return found
        try:
            told = git_command.run_as_user(
                *("--git-dir", self._source(), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
            )
        except GitFailed:
            return None
        return told.decode().strip()

    def _announced(self, revision: str) -> str | None:
        """What the server says that a branch or tag is."""
        try:
            told = git_command.run_as_user(
                *("ls-remote", "--", self.address, revision, f"{revision}^{{}}"), patience_s=ASK_PATIENCE_S
            )
        except GitFailed:
            return None
        lines = [line.partition("\t") for line in told.decode("utf-8", "replace").splitlines()]
        known = {name: digest for digest, _, name in lines}
        names = [f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}", f"refs/heads/{revision}", revision]
        return next((known[name] for name in names if name in known), None)

    def _source(self) -> Path:
        """A folder to fetch from: the repository itself, or a clone of it that is made once. Needs the lock."""
        if self._folder is None:
            if not self.is_remote:
                self._folder = git_command.folder_of(Path(self.address))
            else:
                made = directories.new_folder("sources")
                try:
                    git_command.run_as_user("clone", "--quiet", "--bare", "--", self.address, made)
                except GitFailed:
                    remove_tree(made)
                    raise
                self._folder = made
        return self._folder

    def check_out(self, commit: str, to: Path, without: Sequence[str] = (), state: State | None = None) -> None:
        """A repository of its own in an empty folder: this commit, its ancestors and nothing else. If paths are left
        out, it has no past either, for they would be found there. With a `state`, that comes after it."""
        with self._lock:
            source = self._source()
        objects = git_command.run_as_user("--git-dir", source, "rev-parse", "--show-object-format").decode().strip()
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
        with self._lock:
            source = self._source()
        told = git_command.run_as_user("--git-dir", source, "ls-tree", "-r", "-z", "--full-tree", commit)
        return hashlib.blake2b(b"\0".join(_kept(told, without)), digest_size=16).hexdigest()

    def dependencies(self, commit: str) -> str:
        """A digest of the files of a commit that say what the project depends on."""
        with self._lock:
            source = self._source()
        listing = git_command.run_as_user("--git-dir", source, "ls-tree", "-r", "-z", "--full-tree", commit).split(
            b"\0"
        )
        kept = [line for line in listing if line and is_dependency_file(os.fsdecode(line.partition(b"\t")[2]))]
        return hashlib.blake2b(b"\0".join(kept), digest_size=16).hexdigest()

    def size(self, commit: str, without: Sequence[str] = ()) -> Size:
        """Of the files of a commit, those at some paths left out."""
        with self._lock:
            source = self._source()
        told = git_command.run_as_user("--git-dir", source, "ls-tree", "-r", "-l", "-z", "--full-tree", commit)
        files = total = links = 0
        for line in _kept(told, without):
            _, kind, _, size = line.split(b"\t", 1)[0].split()
            links += kind == b"commit"
            files += kind == b"blob"
            total += int(size) if size.isdigit() else 0
        return Size(files, total, links)

    def past(self) -> int:
        """Bytes of all objects of the repository: a checkout has at most these."""
        with self._lock:
            source = self._source()
        told = git_command.run_as_user("--git-dir", source, "count-objects", "-v").decode("ascii", "replace")
        sizes = re.findall(r"^size(?:-pack)?: (\d+)$", told, re.M)
        return 1024 * sum(map(int, sizes))

    def uses_lfs(self, commit: str) -> bool:
        with self._lock:
            source = self._source()
        try:
            told = git_command.run_as_user("--git-dir", source, "show", f"{commit}:.gitattributes")
        except GitFailed:
            return False
        return b"filter=lfs" in told

    def uncommitted(self) -> int:
        """Files that differ from the commit or were never added."""
        if self.is_remote:
            return 0
        try:
            told = git_command.run_as_user("-C", self.address, "status", "--porcelain", "-z", "--no-renames")
        except GitFailed:  # a bare one has none
            return 0
        return told.count(b"\0")

    def close(self) -> None:
        with self._lock:
            if self.is_remote and self._folder is not None:
                remove_tree(self._folder)
                directories.drop_empty(self._folder)
                self._folder = None


def _absolute(base: Path, written: str) -> Path:
    return (base / Path(written).expanduser()).absolute()


def _top(path: Path) -> Path:
    """The folder of the repository: of its files, or of a bare one itself."""
    told = git_command.run_as_user(
        "-C", path, "rev-parse", "--is-bare-repository", "--git-dir", patience_s=ASK_PATIENCE_S
    )
    bare, folder = os.fsdecode(told.removesuffix(b"\n")).split("\n", 1)
    if bare == "true":
        return path / folder
    told = git_command.run_as_user("-C", path, "rev-parse", "--show-toplevel", patience_s=ASK_PATIENCE_S)
    return Path(os.fsdecode(told.removesuffix(b"\n")))


def _kept(listing: bytes, without: Sequence[str]) -> list[bytes]:
    """The lines of `ls-tree -z` whose files are at none of these paths."""
    left_out = tuple(os.fsencode(name) for name in without)
    lines = [(line, line.split(b"\t", 1)[1]) for line in listing.split(b"\0") if line]
    return [line for line, name in lines if not any(name == one or name.startswith(one + b"/") for one in left_out)]


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
