"""The repository: a folder, or a URL that is cloned once."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from abreast.digest import digest
from abreast.errors import BadInput
from abreast.targets.workspace.files.directories import remove_tree
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.git_command import GitFailed, is_address, strip_credentials
from abreast.targets.workspace.git.repository import Repository

STAGE = "stage"  # the default folder for clones of URLs
HEAD = "HEAD"

__all__ = ["HEAD", "STAGE", "commit_of", "folder", "has", "is_address", "is_repository", "local"]


def folder(name: str, base: Path) -> Path:
    path = (base / Path(name).expanduser()).absolute()
    if not path.is_dir():
        problem = "not a folder" if path.exists() else "no such folder"
        raise BadInput(f"repository {strip_credentials(name)}: {problem}", "use the folder or URL of a repository")
    return path.resolve()


def is_repository(path: Path) -> bool:
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def commit_of(repo: Path, branch: str) -> str:
    """Return the current commit of a branch, local or remote."""
    repository = Repository(str(repo), repo)
    for name in (branch, f"origin/{branch}"):
        commit = repository.commit(name)
        if commit is not None:
            return commit
    if not git_command.is_installed():
        raise BadInput("git is not installed", "install git")
    problem = repository.problem()
    if problem is not None:
        raise BadInput(f"repository {repo}: {problem[0]}", problem[1])
    if branch == HEAD:
        raise BadInput(f"repository {repo}: no commits yet", "commit the files that agents should work on")
    raise BadInput(f'{repo}: no branch "{branch}"', f"run `git -C {shlex.quote(str(repo))} branch --all` to list them")


def has(repo: Path, commit: str, path: str) -> bool:
    try:
        git_command.run_as_user("-C", repo, "cat-file", "-e", f"{commit}:{path}")
    except GitFailed:
        return False
    return True


def local(address: str, base: Path, stage: str) -> Path:
    """Return a local repository with its history: the folder, or an up-to-date clone of the URL in `stage`."""
    if not is_address(address):
        path = folder(address, base)
        if not is_repository(path):
            raise BadInput(f"repository {address}: not a git repository", "use one: pull requests need its history")
        return path
    public = strip_credentials(address)
    name = re.sub(r"[^\w.-]", "_", public.rstrip("/").removesuffix(".git").rpartition("/")[2]) or "repository"
    clone = (base / Path(stage).expanduser()).absolute() / f"{name}-{digest(public)[:8]}.git"
    is_new = not clone.is_dir()
    try:
        if is_new:
            clone.parent.mkdir(parents=True, exist_ok=True)
            git_command.run_as_user("clone", "--quiet", "--bare", "--", address, clone)
            git_command.run_as_user("--git-dir", clone, "config", "remote.origin.url", public)  # without the password
        else:
            heads = "+refs/heads/*:refs/heads/*"
            git_command.run_as_user("--git-dir", clone, "fetch", "--quiet", "--prune", "--", address, heads)
    except GitFailed as error:
        if is_new:
            remove_tree(clone)
        message = f"repository {public}: cannot be fetched: {strip_credentials(str(error))}"
        raise BadInput(message, f"check that `git clone {public}` works") from None
    except OSError as error:
        raise BadInput(f"stage_dir {stage}: {error.strerror or error}", "use a writable folder") from None
    return clone
