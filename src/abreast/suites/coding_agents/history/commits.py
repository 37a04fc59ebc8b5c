"""The history of a repository, read with git."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from abreast.errors import BadInput, suggestion
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.git_command import GitFailed

_FIELDS = ("%H", "%P", "%ae", "%ct", "%s", "%b")
_FORMAT = f"--format={'%x00'.join(_FIELDS)}"
_LOG = ("log", "-z", "--no-show-signature", "--no-mailmap", "--no-color", "--encoding=UTF-8", _FORMAT)
_FIRST_PAGE, _LARGEST_PAGE = 200, 5000
_MOST_OF_A_SERIES = 50
_MOST_BETWEEN = 500


@dataclass(frozen=True, slots=True)
class HistoryCommit:
    hash: str
    parents: tuple[str, ...]
    author: str
    committed: int  # seconds since 1970
    subject: str
    body: str


class GitHistory:
    def __init__(self, repo: Path, folder: Path) -> None:
        self.repo, self._folder = repo, folder

    @classmethod
    def open(cls, repo: Path) -> GitHistory:
        """Open the history of this folder, which must be a complete repository."""
        history = cls(repo, _folder_of(repo))
        if history.git("rev-parse", "--is-shallow-repository").strip() == b"true":
            raise BadInput(
                f"{repo}: shallow clone, its history is incomplete", f"run `git -C {repo} fetch --unshallow`"
            )
        if history.resolve("HEAD") is None and not history.git("for-each-ref", "--count=1").strip():
            raise BadInput(f"{repo}: no commits yet", "use a repository with merged pull requests")
        return history

    def git(self, *arguments: str) -> bytes:
        """Return the output of a git command, independent of the checkout and of settings that change output."""
        try:
            return git_command.run_as_user(
                *("--git-dir", self._folder, "--bare", "--literal-pathspecs", "-c", "core.quotePath=false"),
                *("-c", f"core.attributesFile={os.devnull}", "-c", "diff.suppressBlankEmpty=false"),
                *arguments,
            )
        except GitFailed as error:
            fix = f"run `git -C {self.repo} fsck` to check the repository; if it is damaged, clone it again"
            raise BadInput(f"{self.repo}: git {arguments[0]}: {error}", fix) from error

    def resolve(self, revision: str) -> str | None:
        """Return the hash of a revision; None if there is no such commit."""
        if not revision or revision.startswith("-") or not revision.isprintable():
            return None
        try:
            output = git_command.run_as_user(
                "-C", self.repo, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"
            )
        except GitFailed:
            return None
        return output.decode().strip()

    def tip(self, branch: str) -> str:
        commit = self.resolve(branch)
        if commit is None:
            output = self.git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
            names = output.decode("utf-8", "replace").split("\n")
            near = suggestion(branch, filter(None, names)) if len(names) < 30 else ""
            fix = f"run `git -C {self.repo} branch --all` to list them"
            raise BadInput(f'{self.repo}: no branch "{branch}"{near}', fix)
        return commit

    def name_of(self, branch: str) -> str:
        if branch != "HEAD":
            return branch.removeprefix("refs/heads/").removeprefix("refs/remotes/").removeprefix("origin/")
        try:
            output = git_command.run_as_user("-C", self.repo, "symbolic-ref", "--quiet", "--short", "HEAD")
        except GitFailed:  # no branch is checked out
            return ""
        return output.decode("utf-8", "replace").strip()

    def first_parents(self, tip: str) -> Iterator[HistoryCommit]:
        """Yield the commits of a branch, newest first, read a page at a time."""
        start, page = tip, _FIRST_PAGE
        while start:
            commits = self._log("--first-parent", f"--max-count={page}", start)
            yield from commits
            start, page = next(iter(commits[-1].parents), ""), min(page * 2, _LARGEST_PAGE)

    def read(self, commit: str) -> HistoryCommit:
        return self._log("--max-count=1", commit)[0]

    def between(self, base: str, head: str) -> list[HistoryCommit]:
        """Return up to `_MOST_OF_A_SERIES` commits after `base` up to `head`, oldest first, without merges."""
        return self._log("--reverse", "--topo-order", "--no-merges", f"{base}..{head}")[:_MOST_OF_A_SERIES]

    def all_between(self, base: str, head: str) -> list[HistoryCommit]:
        return self._log(f"--max-count={_MOST_BETWEEN}", f"{base}..{head}")

    def first_parent_hashes(self, tip: str) -> list[str]:
        return self.git("rev-list", "--first-parent", tip, "--").decode().split()

    def merge_base(self, commit: str, other: str) -> str | None:
        """Return the best common ancestor; None if the histories are unrelated."""
        try:
            output = git_command.run_as_user("--git-dir", self._folder, "merge-base", commit, other)
        except GitFailed:
            return None
        return output.decode().split("\n")[0]

    def _log(self, *arguments: str) -> list[HistoryCommit]:
        fields = self.git(*_LOG, *arguments, "--").decode("utf-8", "replace").split("\0")
        commits = []
        for at in range(0, len(fields) - 1, len(_FIELDS)):
            name, parents, author, committed, subject, body = fields[at : at + len(_FIELDS)]
            commits.append(
                HistoryCommit(
                    hash=name.strip(),
                    parents=tuple(parents.split()),
                    author=author,
                    committed=git_command.parse_commit_date(committed),
                    subject=subject,
                    body=body.strip("\n"),
                )
            )
        return commits


def _folder_of(repo: Path) -> Path:
    if not git_command.is_installed():
        raise BadInput("git is not installed", "install git")
    if not repo.is_dir():
        raise BadInput(f"{repo}: no such folder", "use the folder of a git repository")
    try:
        git_folder = git_command.common_directory(repo)
    except GitFailed as error:
        if "dubious ownership" in str(error):
            fix = f"if you trust it, run `git config --global --add safe.directory {repo.absolute()}`"
            raise BadInput(f"{repo}: git refuses to read it, because it belongs to another user", fix) from error
        raise BadInput(f"{repo}: not a git repository: {error}", "use the folder that contains .git") from error
    try:
        top = Path(os.fsdecode(git_command.run_as_user("-C", repo, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except GitFailed:  # a bare repository
        return git_folder
    if top.resolve() != repo.resolve():
        raise BadInput(f"{repo}: folder inside the repository {top}", f"use {top}")
    return git_folder
