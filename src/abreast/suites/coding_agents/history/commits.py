"""The history of a repository, as git tells it."""

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
_MOST_OF_A_BRANCH = 50
_MOST_OF_A_LINE = 500


@dataclass(frozen=True, slots=True)
class Commit:
    hash: str
    parents: tuple[str, ...]
    author: str
    committed: int  # seconds since 1970
    subject: str
    body: str


class History:
    def __init__(self, repo: Path, folder: Path) -> None:
        self.repo, self._folder = repo, folder

    @classmethod
    def open(cls, repo: Path) -> History:
        """The history of this folder; refused if it is none, or not all there."""
        history = cls(repo, _folder_of(repo))
        if history.ask("rev-parse", "--is-shallow-repository").strip() == b"true":
            raise BadInput(
                f"{repo}: is a shallow clone, its history ends early",
                f"fetch the rest: git -C {repo} fetch --unshallow",
            )
        if history.resolve("HEAD") is None and not history.ask("for-each-ref", "--count=1").strip():
            raise BadInput(f"{repo}: has no commits yet", "name a repository with merged pull requests")
        return history

    def ask(self, *words: str) -> bytes:
        """What git says of the objects of the repository, whatever is checked out and however it is set up there."""
        try:
            return git_command.run_as_user(
                *("--git-dir", self._folder, "--bare", "--literal-pathspecs", "-c", "core.quotePath=false"),
                *("-c", f"core.attributesFile={os.devnull}", "-c", "diff.suppressBlankEmpty=false"),
                *words,
            )
        except GitFailed as error:
            fix = f"see that git -C {self.repo} fsck finds all commits; if not, clone it anew"
            raise BadInput(f"{self.repo}: git {words[0]}: {error}", fix) from error

    def resolve(self, revision: str) -> str | None:
        """The hash of the commit that is meant; None if there is none."""
        if not revision or revision.startswith("-") or not revision.isprintable():
            return None
        try:
            told = git_command.run_as_user(
                "-C", self.repo, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"
            )
        except GitFailed:
            return None
        return told.decode().strip()

    def tip(self, branch: str) -> str:
        found = self.resolve(branch)
        if found is None:
            told = self.ask("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
            known = told.decode("utf-8", "replace").split("\n")
            near = suggestion(branch, filter(None, known)) if len(known) < 30 else ""
            raise BadInput(f'{self.repo}: no branch "{branch}"{near}', f"git -C {self.repo} branch --all lists them")
        return found

    def name_of(self, branch: str) -> str:
        if branch != "HEAD":
            return branch.removeprefix("refs/heads/").removeprefix("refs/remotes/").removeprefix("origin/")
        try:
            told = git_command.run_as_user("-C", self.repo, "symbolic-ref", "--quiet", "--short", "HEAD")
        except GitFailed:  # no branch is checked out
            return ""
        return told.decode("utf-8", "replace").strip()

    def first_parents(self, tip: str) -> Iterator[Commit]:
        """The commits of a branch, newest first, read a page at a time."""
        start, page = tip, _FIRST_PAGE
        while start:
            found = self._log("--first-parent", f"--max-count={page}", start)
            yield from found
            start, page = next(iter(found[-1].parents), ""), min(page * 2, _LARGEST_PAGE)

    def read(self, commit: str) -> Commit:
        return self._log("--max-count=1", commit)[0]

    def between(self, base: str, head: str) -> list[Commit]:
        """What leads from one commit to another, oldest first and without merges; of many, the first ones."""
        return self._log("--reverse", "--topo-order", "--no-merges", f"{base}..{head}")[:_MOST_OF_A_BRANCH]

    def all_between(self, base: str, head: str) -> list[Commit]:
        return self._log(f"--max-count={_MOST_OF_A_LINE}", f"{base}..{head}")

    def first_parent_hashes(self, tip: str) -> list[str]:
        return self.ask("rev-list", "--first-parent", tip, "--").decode().split()

    def common_start(self, one: str, other: str) -> str | None:
        """Where two histories part; None if they have nothing in common."""
        try:
            told = git_command.run_as_user("--git-dir", self._folder, "merge-base", one, other)
        except GitFailed:
            return None
        return told.decode().split("\n")[0]

    def _log(self, *words: str) -> list[Commit]:
        told = self.ask(*_LOG, *words, "--").decode("utf-8", "replace").split("\0")
        commits = []
        for at in range(0, len(told) - 1, len(_FIELDS)):
            name, parents, author, committed, subject, body = told[at : at + len(_FIELDS)]
            commits.append(
                Commit(
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
        raise BadInput(f"{repo}: there is no such folder", "write the folder of a git repository; clone a remote one")
    try:
        found = git_command.common_directory(repo)
    except GitFailed as error:
        if "dubious ownership" in str(error):
            fix = f"if you trust it: git config --global --add safe.directory {repo.absolute()}"
            raise BadInput(f"{repo}: belongs to another user, so git does not read it", fix) from error
        raise BadInput(f"{repo}: is not a git repository: {error}", "write the folder that has .git") from error
    try:
        top = Path(os.fsdecode(git_command.run_as_user("-C", repo, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    except GitFailed:  # a bare one has no files
        return found
    if top.resolve() != repo.resolve():
        raise BadInput(f"{repo}: is a folder inside of the repository {top}", f"write {top}")
    return found
