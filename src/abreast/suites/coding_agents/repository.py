"""Where the repository is: a folder, or an address that is cloned once."""

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

STAGE = "stage"  # where a repository by address is cloned to, if nothing else is said

HEAD = "HEAD"  # what is checked out

__all__ = ["HEAD", "STAGE", "commit_of", "folder", "has", "is_address", "is_repository", "local"]


def folder(written: str, base: Path) -> Path:
    found = (base / Path(written).expanduser()).absolute()
    if not found.is_dir():
        what = "is a file, not a folder" if found.exists() else "there is no such folder"
        raise BadInput(
            f"repository {strip_credentials(written)}: {what}", "name the folder of a repository, or its address"
        )
    return found.resolve()


def is_repository(path: Path) -> bool:
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def commit_of(repo: Path, branch: str) -> str:
    """The commit at which a branch is now, here or where it was fetched from."""
    found = Repository(str(repo), repo)
    for name in (branch, f"origin/{branch}"):
        commit = found.commit(name)
        if commit is not None:
            return commit
    if not git_command.is_installed():
        raise BadInput("git is not installed", "install git")
    problem = found.problem()
    if problem is not None:
        raise BadInput(f"repository {repo}: {problem[0]}", problem[1])
    if branch == HEAD:
        raise BadInput(f"repository {repo}: there is no commit in it yet", "commit what agents shall work on")
    raise BadInput(f'{repo}: no branch "{branch}"', f"git -C {shlex.quote(str(repo))} branch --all lists them")


def has(repo: Path, commit: str, path: str) -> bool:
    try:
        git_command.run_as_user("-C", repo, "cat-file", "-e", f"{commit}:{path}")
    except GitFailed:
        return False
    return True


def local(written: str, base: Path, stage: str) -> Path:
    """A repository with its history on this machine: the folder, or an up-to-date clone of the address in `stage`."""
    if not is_address(written):
        found = folder(written, base)
        if not is_repository(found):
            raise BadInput(f"repository {written}: is no git repository of its own", "pull requests need its history")
        return found
    shown = strip_credentials(written)
    name = re.sub(r"[^\w.-]", "_", shown.rstrip("/").removesuffix(".git").rpartition("/")[2]) or "repository"
    place = (base / Path(stage).expanduser()).absolute() / f"{name}-{digest(shown)[:8]}.git"
    is_new = not place.is_dir()
    try:
        if is_new:
            place.parent.mkdir(parents=True, exist_ok=True)
            git_command.run_as_user("clone", "--quiet", "--bare", "--", written, place)
            git_command.run_as_user("--git-dir", place, "config", "remote.origin.url", shown)  # a password is not kept
        else:
            git_command.run_as_user(
                "--git-dir", place, "fetch", "--quiet", "--prune", "--", written, "+refs/heads/*:refs/heads/*"
            )
    except GitFailed as error:
        if is_new:
            remove_tree(place)
        said = strip_credentials(str(error))
        raise BadInput(f"repository {shown}: cannot be fetched: {said}", "see that git clones it here") from None
    except OSError as error:
        raise BadInput(f"stage_dir {stage}: {error.strerror or error}", "name a folder that can be written") from None
    return place
