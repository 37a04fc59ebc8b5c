"""The git repository that trials start from: resolves revisions, and checks out a commit without anything later."""

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
from abreast.targets.workspace.git.diff import WorkspaceState
from abreast.targets.workspace.git.git_command import GitFailed, is_address, strip_credentials

_COMMIT_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
REMOTE_TIMEOUT_S = 30.0
CHECKOUT_CONFIG = """\
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


class CommitSize(NamedTuple):
    files: int
    bytes: int
    submodules: int


class Repository:
    """A repository, by folder or URL. The constructor does not access it."""

    def __init__(self, address: str, base: Path) -> None:
        self.is_remote = is_address(address)
        self.address = address if self.is_remote else str((base / Path(address).expanduser()).absolute())
        self.display_name = strip_credentials(address)
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._commits: dict[str, str] = {}

    def problem(self) -> tuple[str, str] | None:
        if not git_command.is_installed():
            return "git is not installed", "install git, or use workspace: {copy: FOLDER}"
        if self.is_remote:
            head = ("ls-remote", "--quiet", "--", self.address, "HEAD")
            try:
                git_command.run_as_user(*head, timeout_s=REMOTE_TIMEOUT_S)
            except GitFailed as error:
                return f"cannot reach {self.display_name}: {strip_credentials(str(error))}", (
                    f"make sure that `git ls-remote {self.display_name}` works on this machine"
                )
            return None
        path = Path(self.address)
        if not path.is_dir():
            return f"{self.display_name}: no such folder", "use the folder of a git repository, or its URL"
        try:
            top = _top_level(path)
        except GitFailed as error:
            return f"{self.display_name} is not a git repository: {error}", (
                "use the folder that contains .git, or `copy:` instead of `git:`"
            )
        if top.resolve() != path.resolve():
            return f"{self.display_name} is a folder inside the repository {top}", f"use git: {top}"
        return None

    def commit(self, revision: str) -> str | None:
        """Resolve a revision to the hash of its commit; None if there is none."""
        with self._lock:
            if revision not in self._commits and (commit := self._resolve(revision)) is not None:
                self._commits[revision] = commit
            return self._commits.get(revision)

    def _resolve(self, revision: str) -> str | None:
        if not revision or revision.startswith("-") or not revision.isprintable():
            return None
        if self.is_remote and self._folder is None:
            if _COMMIT_ID.fullmatch(revision):
                return revision
            if commit := self._resolve_remotely(revision):
                return commit
        command = ("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        with contextlib.suppress(GitFailed):
            return git_command.run_as_user("--git-dir", self._source(), *command).decode().strip()
        return None

    def _resolve_remotely(self, revision: str) -> str | None:
        command = ("ls-remote", "--", self.address, revision, f"{revision}^{{}}")
        try:
            listing = git_command.run_as_user(*command, timeout_s=REMOTE_TIMEOUT_S).decode("utf-8", "replace")
        except GitFailed:
            return None
        commits = {name: digest for digest, _, name in (line.partition("\t") for line in listing.splitlines())}
        names = [f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}", f"refs/heads/{revision}", revision]
        return next((commits[name] for name in names if name in commits), None)

    def _source(self) -> Path:
        """Return the folder to fetch from: the repository itself, or a clone made once. Needs the lock."""
        if self._folder is None and not self.is_remote:
            self._folder = git_command.common_directory(Path(self.address))
        elif self._folder is None:
            clone = directories.new_folder("sources")
            try:
                git_command.run_as_user("clone", "--quiet", "--bare", "--", self.address, clone)
            except GitFailed:
                remove_tree(clone)
                raise
            self._folder = clone
        return self._folder

    def _git(self, *arguments: str) -> bytes:
        with self._lock:
            source = self._source()
        return git_command.run_as_user("--git-dir", source, *arguments)

    def _list(self, commit: str, *options: str) -> list[bytes]:
        return self._git("ls-tree", "-r", *options, "-z", "--full-tree", commit).split(b"\0")[:-1]

    def check_out(
        self, commit: str, to: Path, without: Sequence[str] = (), state: WorkspaceState | None = None
    ) -> None:
        """Create a repository in an empty folder with this commit and its ancestors only, and a `state` on top.
        `without` excludes paths, and with them the history, which contains them."""
        with self._lock:
            source = self._source()
        algorithm = self._git("rev-parse", "--show-object-format").decode().strip()
        git_command.run("init", "--quiet", "--template=", "--initial-branch=main", f"--object-format={algorithm}", to)
        try:
            self._fetch(str(source), commit, to)
        except GitFailed:
            if not self.is_remote:
                raise
            self._fetch(self.address, commit, to)  # some servers serve commits that no branch contains
        with (to / ".git" / "config").open("a", encoding="utf-8") as config:
            config.write(CHECKOUT_CONFIG)
        if state is not None and state.commit != commit:
            git_command.run("-C", to, "index-pack", "--fix-thin", "--stdin", stdin=state.objects)
            git_command.run("-C", to, "update-ref", "refs/heads/main", state.commit)
        git_command.run("-C", to, "read-tree", "--reset", "-u", "HEAD")
        _set_file_dates(to, commit)
        if without:
            _remove_paths(to, without)
        git_command.run("-C", to, "update-index", "-q", "--refresh")
        for name in ("logs", "FETCH_HEAD", "ORIG_HEAD", "branches"):
            remove_tree(to / ".git" / name)

    def _fetch(self, source: str, commit: str, to: Path) -> None:
        git_command.run_as_user(
            *("-C", to, "-c", "fetch.unpackLimit=1", "-c", "core.logAllRefUpdates=false", "-c", "protocol.version=2"),
            *("-c", "fetch.writeCommitGraph=false", "-c", "fetch.recurseSubmodules=false"),
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow", "--update-head-ok"),
            *("--no-auto-maintenance", "--", source, f"{commit}:refs/heads/main"),
        )

    def files_digest(self, commit: str, without: Sequence[str]) -> str:
        return _digest(_without_paths(self._list(commit), without))

    def dependencies_digest(self, commit: str) -> str:
        return _digest(line for line in self._list(commit) if is_dependency_file(os.fsdecode(line.partition(b"\t")[2])))

    def size(self, commit: str, without: Sequence[str] = ()) -> CommitSize:
        files = total = submodules = 0
        for line in _without_paths(self._list(commit, "-l"), without):
            _, kind, _, size = line.split(b"\t", 1)[0].split()
            submodules += kind == b"commit"
            files += kind == b"blob"
            total += int(size) if size.isdigit() else 0
        return CommitSize(files, total, submodules)

    def history_size(self) -> int:
        """Return the size of all objects in bytes, an upper bound for a checkout."""
        sizes = re.findall(rb"^size(?:-pack)?: (\d+)$", self._git("count-objects", "-v"), re.M)
        return 1024 * sum(map(int, sizes))

    def uses_lfs(self, commit: str) -> bool:
        with contextlib.suppress(GitFailed):
            return b"filter=lfs" in self._git("show", f"{commit}:.gitattributes")
        return False

    def count_uncommitted(self) -> int:
        with contextlib.suppress(GitFailed):  # a bare repository has no files
            command = ("status", "--porcelain", "-z", "--no-renames")
            return 0 if self.is_remote else git_command.run_as_user("-C", self.address, *command).count(b"\0")
        return 0

    def close(self) -> None:
        with self._lock:
            if self.is_remote and self._folder is not None:
                remove_tree(self._folder)
                directories.remove_empty_parents(self._folder)
                self._folder = None


def _top_level(path: Path) -> Path:
    def rev_parse(*arguments: str) -> str:
        output = git_command.run_as_user("-C", path, "rev-parse", *arguments, timeout_s=REMOTE_TIMEOUT_S)
        return os.fsdecode(output.removesuffix(b"\n"))

    bare, folder = rev_parse("--is-bare-repository", "--git-dir").split("\n", 1)
    return path / folder if bare == "true" else Path(rev_parse("--show-toplevel"))


def _without_paths(lines: Sequence[bytes], without: Sequence[str]) -> list[bytes]:
    excluded = tuple(os.fsencode(name) + b"/" for name in without)
    return [line for line in lines if not (line.partition(b"\t")[2] + b"/").startswith(excluded)]


def _digest(lines: Iterable[bytes]) -> str:
    return hashlib.blake2b(b"\0".join(lines), digest_size=16).hexdigest()


def _remove_paths(folder: Path, names: Sequence[str]) -> None:
    """Replace the commit of a checkout with one that has neither these paths nor a history."""
    paths = [f":(literal){name}" for name in names]
    git_command.run("-C", folder, "rm", "-r", "-f", "--quiet", "--ignore-unmatch", "--", *paths)
    date = f"@{_commit_date(folder, 'HEAD')} +0000"
    tree = git_command.run("-C", folder, "write-tree").decode().strip()
    identity = {f"GIT_{role}_{key}": "abreast" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    start = git_command.run("-C", folder, "commit-tree", tree, "-m", "start", environment={**identity, **dates})
    git_command.run("-C", folder, "update-ref", "refs/heads/main", start.decode().strip())
    remove_tree(folder / ".git" / "logs")
    git_command.run("-C", folder, "repack", "-a", "-d", "--quiet")  # drops the objects of the removed paths
    git_command.run("-C", folder, "prune", "--expire=now")


def _commit_date(folder: Path, commit: str) -> int:
    return git_command.parse_commit_date(git_command.run("-C", folder, "log", "-1", "--format=%ct", commit))


def _set_file_dates(folder: Path, commit: str) -> None:
    """Give every file its own second before the commit, so that git can tell any two apart without reading them."""
    latest = min(max(_commit_date(folder, commit), 10**9), int(time.time()) - 10)
    names = git_command.run("-C", folder, "ls-files", "-z").split(b"\0")
    for number, name in enumerate(filter(None, names)):
        path = os.path.join(os.fsencode(folder), name)  # noqa: PTH118 - names of any bytes
        os.utime(path, (latest - number, latest - number), follow_symlinks=False)
