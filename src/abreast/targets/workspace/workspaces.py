"""The workspaces of a variant: checked before a run, made for each trial, measured and removed after it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from abreast.digest import compose
from abreast.model import Case
from abreast.store.user_state import drivers
from abreast.targets.workspace.config import read_setting
from abreast.targets.workspace.environment import Environment, environment_key, set_up, variables
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.copies import Contents, contents, copy_contents
from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.diff import Diff, Keeping, State, difference
from abreast.targets.workspace.git.git_command import GitFailed
from abreast.targets.workspace.git.repository import Repository
from abreast.targets.workspace.template import TEMPLATES, TICK_S, Template

Fill = Callable[[Path], Environment | None]
MOST_TEXT = 2_000_000  # bytes of a diff


class Workspaces:
    """Where the trials of one variant work: prepared once, copied for each.

    `setting` is the variant's `workspace:`; paths in it count from `base`. All of it may be called from any thread.
    """

    def __init__(self, where: str, setting: Any, base: Path) -> None:
        self._where = where
        self._owner = object()
        self._setting = read_setting(where, setting, base)
        self._repository = Repository(self._setting.git, base) if self._setting.git is not None else None
        self._environment_keys: dict[str, str] = {}  # by commit
        self.has_commits = self._repository is not None
        self.are_empty = self._setting.copy is None and not self.has_commits  # at the start of a trial
        self.has_setup = bool(self._setting.setup)
        self.carries = self._setting.after is not None  # a trial may begin with what another one left

    @cached_property
    def version(self) -> str:
        """A digest of what trials start from, or of the setting where that is unknown and `problems` says why."""
        found, after, setup = self._version(), self._setting.after, self._setting.setup
        found = found if after is None else compose(found, "after", after)
        return compose(found, "setup", *setup) if setup else found

    def _version(self) -> str:
        setting = self._setting
        if setting.copy is not None:
            with contextlib.suppress(OSError):
                return compose("copy", contents(setting.copy, setting.without).digest())
            return compose("copy", "unknown", str(setting.copy))
        if self._repository is None:
            return compose("empty")
        if setting.template is not None:
            return compose("git", self._repository.shown, "template", setting.commit, *setting.without)
        with contextlib.suppress(GitFailed, NoWorkspace):
            if found := self._repository.commit(setting.commit):
                return self._identity(self._repository, found)
        return compose("git", "unknown", self._repository.shown, setting.commit, *setting.without)

    def _identity(self, repository: Repository, commit: str) -> str:
        """Of a whole checkout its commit; of one without some paths, and so without a past, the files that are left: to
        commit what is left out changes nothing for a trial."""
        without = self._setting.without
        return compose("git", "files", repository.files(commit, without)) if without else compose("git", commit)

    def problems(self) -> list[tuple[str, str]]:
        """What would keep trials from starting, each with what to do."""
        problems = [*self._problem_of_the_place(), *self._problem_of_the_source()]
        if not problems and self._repository is not None and self._setting.template is None:
            problems += self._unknown_commit(self._repository, self._setting.commit)
        return [(f"{self._where}: workspace: {message}", fix) for message, fix in problems]

    def _problem_of_the_place(self) -> list[tuple[str, str]]:
        root = drivers.root()
        fix = f"set ${drivers.ROOT_VARIABLE} to a folder elsewhere"
        if (above := directories.repository_above(root)) is not None:
            return [(f"{root} is inside of the repository {above}, which agents would find", fix)]
        copied = self._setting.copy
        if copied is not None and copied.resolve().is_relative_to(root.resolve()):
            return [(f"copy: {copied} is inside of {root}, where workspaces are made", fix)]
        return []

    def _problem_of_the_source(self) -> list[tuple[str, str]]:
        folder = self._setting.copy
        if folder is not None:
            if not folder.is_dir():
                what = "is a file, not a folder" if folder.exists() else "there is no such folder"
                return [(f"copy: {folder}: {what}", "write a folder that is there, from the folder of the spec")]
            try:
                listed = contents(folder, self._setting.without).entries
                real = [entry.name for entry in listed if entry.kind != "link"]
                unreadable = [name for name in real if not os.access(folder / name, os.R_OK)]
            except OSError as error:
                return [(f"copy: {error.filename}: {error.strerror}", "make it readable, or copy another folder")]
            if unreadable:
                return [(f"copy: {folder / unreadable[0]} cannot be read", "make it readable, or remove it")]
        elif self._repository is not None and (problem := self._repository.problem()) is not None:
            return [(f"git: {problem[0]}", problem[1])]
        return []

    def _unknown_commit(self, repository: Repository, revision: str) -> list[tuple[str, str]]:
        fix = "write a commit, a branch or a tag that git log in that repository shows"
        try:
            is_known = repository.commit(revision) is not None
            return [] if is_known else [(f'commit "{revision}": {repository.shown} has none such', fix)]
        except (GitFailed, NoWorkspace) as error:
            return [(str(error), fix)]

    def notes(self) -> list[str]:
        try:
            if self._setting.copy is not None:
                return _notes_of_folder(self._setting.copy, contents(self._setting.copy, self._setting.without))
            if self._repository is not None:
                return self._notes_of_repository(self._repository)
        except (OSError, GitFailed, NoWorkspace):  # that is a problem, not a note
            pass
        return [] if git_command.installed() else [_NO_GIT]

    def _notes_of_repository(self, repository: Repository) -> list[str]:
        notes = []
        if changed := repository.uncommitted():
            what = "change in" if changed == 1 else "changes in"
            seen = "is" if changed == 1 else "are"
            notes.append(f"{changed:,} uncommitted {what} {repository.shown} {seen} not seen by trials")
        commit = None if self._setting.template is not None else repository.commit(self._setting.commit)
        if commit is None:
            return notes
        size = repository.size(commit, self._setting.without)
        past = "without their history" if self._setting.without else "and their history"
        notes.append(f"each trial gets {_files(size.files)} ({_megabytes(size.bytes)}) {past}")
        if size.submodules:
            notes.append(f"{size.submodules:,} submodules of {repository.shown} stay empty folders")
        if repository.uses_lfs(commit):
            notes.append(f"files of {repository.shown} that Git LFS keeps stay pointers")
        return notes

    def weight(self, case: Case, value: Any) -> int:
        """Bytes of what a trial of this case begins with, its history included. Raises NoWorkspace."""
        repository, without = self._repository, self._setting.without
        with _as_no_workspace():
            if self._setting.copy is not None:
                return contents(self._setting.copy, without).size
            if repository is None:
                return 0
            commit = self._known(repository, self._setting.revision(case, value))
            return repository.size(commit, without).bytes + (0 if without else repository.past())

    def after(self, case: Case) -> str:
        """The case whose trial leaves what one of this case begins with; empty if it begins with the commit."""
        return self._setting.before(case)

    def make(self, case: Case, value: Any, state: State | None = None) -> Workspace:
        """A workspace for a trial; templates see `value`, and a `state` replaces the commit. Raises NoWorkspace."""
        with _as_no_workspace():
            return self._made(*self._beginning(case, value, state), self._since(case, value))

    def make_at(self, revision: str, case: Case, value: Any) -> Workspace:
        """A workspace at another commit of the repository, with the environment of this case. Raises NoWorkspace."""
        with _as_no_workspace():
            return self._made(*self._at(revision, None, self._setting.revision(case, value)))

    def set_up(self, case: Case, value: Any) -> str | None:
        """Make the environment of a case if needed and return its key; None without `setup:`. Raises NoWorkspace."""
        with _as_no_workspace():
            if self._repository is None or not self._setting.setup:
                return None
            commit = self._known(self._repository, self._setting.revision(case, value))
            key = self._environment_key(self._repository, commit)
            self._environment(self._repository, commit)
            return key

    def variables(self, folder: Path, given: Mapping[str, str]) -> dict[str, str]:
        """The environment variables of a program in a workspace: what a `setup:` installed comes first."""
        return variables(folder, given) if self._setting.setup else dict(given)

    @contextlib.contextmanager
    def files_at(self, revision: str) -> Iterator[Path]:
        """A folder with the files of another commit, to be read and never written. Raises NoWorkspace."""
        with _as_no_workspace(), self._files(*self._at(revision)) as files:
            yield files

    @contextlib.contextmanager
    def start_files(self, case: Case, value: Any, state: State | None = None) -> Iterator[Path]:
        """A folder with the files that a trial begins with, to be read and never written. Raises NoWorkspace."""
        with _as_no_workspace(), self._files(*self._beginning(case, value, state)) as files:
            yield files

    @contextlib.contextmanager
    def _files(self, key: Hashable, fill: Fill | None) -> Iterator[Path]:
        template = TEMPLATES.taken(key, self._owner, fill, tracked=self.has_commits)
        try:
            yield template.files()
        finally:
            TEMPLATES.give_back(template)

    def _made(self, key: Hashable, fill: Fill | None, since: str | None = None) -> Workspace:
        template = TEMPLATES.taken(key, self._owner, fill, tracked=self.has_commits)
        folder = None
        try:
            folder = TEMPLATES.spare(template)
            if folder is not None:
                folder = directories.rename_folder(folder)  # programs may remember what they did at a path
            else:
                folder = directories.new_folder("trials")
                template.copy_to(folder / "work")
            work = folder / "work"
            if template.environment is not None:
                template.environment.place(work)
                time.sleep(TICK_S)  # what the trial changes is dated after it
            return Workspace(work, template, _touch(work), since)
        except BaseException:
            TEMPLATES.give_back(template, folder)
            raise

    def beginning(self, case: Case, value: Any, state: State | None = None) -> Hashable:
        """What the trial begins with, by a name that equal beginnings share."""
        return self._beginning(case, value, state)[0]

    def name_of(self, revision: str) -> Hashable:
        """The same of another commit of the repository."""
        return self._at(revision)[0]

    def _since(self, case: Case, value: Any) -> str | None:
        """Of what is carried on: the commit that the first trial began with."""
        if not self.carries or self._repository is None:
            return None
        return self._repository.commit(self._setting.revision(case, value))

    def _beginning(self, case: Case, value: Any, state: State | None) -> tuple[Hashable, Fill | None]:
        """What the trial begins with: its name, and how to make it."""
        folder = self._setting.copy
        if folder is not None:
            return ("copy", str(folder), self.version), self._copy
        if self._repository is None:
            return "empty", None
        revision = self._setting.revision(case, value)
        return self._at(revision, state, revision)

    def _at(self, revision: str, state: State | None = None, set_up_at: str | None = None) -> tuple[Hashable, Fill]:
        """A commit, or a `state` after it, with the environment of the commit `set_up_at`: its name, how to make it."""
        repository = self._repository
        if repository is None:
            raise NoWorkspace(f'workspace: commit "{revision}": there is no repository')
        commit = self._known(repository, revision)
        without, last = self._setting.without, commit if state is None else state.commit
        key = ("git", repository.address, commit, without, last)
        if not self._setting.setup or set_up_at is None:
            return key, lambda to: repository.check_out(commit, to, without, state)
        start = self._known(repository, set_up_at)

        def fill(to: Path) -> Environment:
            environment = self._environment(repository, start)
            repository.check_out(commit, to, without, state)
            environment.add_to(to)
            return environment

        return (*key, self._environment_key(repository, start)), fill

    def _known(self, repository: Repository, revision: str) -> str:
        commit = repository.commit(revision)
        if commit is None:
            raise NoWorkspace(f'workspace: commit "{revision}": {repository.shown} has none such')
        return commit

    def _environment_key(self, repository: Repository, commit: str) -> str:
        if commit not in self._environment_keys:
            dependencies = repository.dependencies(commit)
            self._environment_keys[commit] = environment_key(self._setting.setup, dependencies)
        return self._environment_keys[commit]

    def _environment(self, repository: Repository, commit: str) -> Environment:
        key, words = self._environment_key(repository, commit), self._setting.setup
        return set_up(key, words, lambda to: repository.check_out(commit, to, self._setting.without))

    @property
    def origin(self) -> Path | None:
        """The folder on this machine that workspaces are made from, if there is one."""
        repository = self._repository
        if repository is not None:
            return None if repository.is_remote else Path(repository.address)
        return self._setting.copy

    def _copy(self, to: Path) -> None:
        assert self._setting.copy is not None
        copy_contents(contents(self._setting.copy, self._setting.without), to)
        if compose("copy", contents(to).digest()) != self.version:
            raise NoWorkspace(f"workspace: {self._setting.copy} changed since the run was planned; start it again")

    def close(self) -> None:
        """Remove what was prepared; workspaces that are still there keep what they need until they are removed."""
        TEMPLATES.leave(self._owner)
        if self._repository is not None:
            self._repository.close()


class Workspace:
    """The folder of one trial. `path` is where the agent works; the folder above has nothing else in it."""

    def __init__(self, path: Path, template: Template, since: int, start: str | None = None) -> None:
        self.path = path
        self._template = template
        self.since = since  # when it was handed out, in nanoseconds by the clock of the file system
        self._start = start  # a commit, where what is left is carried on
        self._removed = False
        self.is_unchanged = False  # at the last look
        self.renames: Sequence[tuple[str, str]] = ()  # old and new names, at the last look
        self._is_expected = False

    def may_change(self) -> None:
        """Say that something else is about to run there."""
        self.is_unchanged = False

    @property
    def environment(self) -> dict[str, str]:
        """What an agent's environment should have: git does not look for a repository above the workspace."""
        return {"GIT_CEILING_DIRECTORIES": str(self.path.parent)}

    def left(self, words: str, secret_in: Callable[[bytes], str | None]) -> Diff:
        """The change, and where trials carry on the state for the next one, in a commit with the message `words`."""
        return self.diff(keeping=None if self._start is None else Keeping(self._start, words, secret_in))

    def diff(self, most: int = MOST_TEXT, keeping: Keeping | None = None) -> Diff:
        """The change against the start, of so many bytes at most. Never raises; `problem` says why there is none."""
        diff = self._measure(most, keeping)
        self.renames = diff.renames
        return diff

    def _measure(self, most: int, keeping: Keeping | None) -> Diff:
        self.is_unchanged = keeping is None and self._template.is_unchanged(self.path, self.since)
        if self.is_unchanged:
            return Diff()
        if not git_command.installed():
            return Diff(problem="no diff: git is not installed")
        try:
            return difference(self._template.start(), self.path, self.since, most, keeping)
        except (GitFailed, NoWorkspace, OSError) as error:
            return Diff(problem=f"no diff: {error}")

    @property
    def commit(self) -> str:
        return self._template.start().commit

    def expect_reuse(self) -> None:
        """Say that `reuse` follows soon, so that the next trial waits for it instead of making a copy."""
        self._is_expected = True
        TEMPLATES.expect_spare(self._template)

    def reuse(self) -> None:
        """Undo what was changed and keep the folder for another trial, or remove it if that is not possible. No process
        must be left that could write there. Never raises."""
        self._removed = True
        is_as_new = self.is_unchanged or self._template.restore(self.path, self.since)
        TEMPLATES.keep_spare(self._template, self.path.parent, is_as_new, self._is_expected)

    def remove(self) -> None:
        """Remove the folder, whatever the agent left in it. Never raises."""
        if not self._removed:
            self._removed = True
            TEMPLATES.give_back(self._template, self.path.parent)


def _touch(folder: Path) -> int:
    """The time now, by the clock of the file system: what changes later was changed by the trial."""
    os.utime(folder)
    return folder.lstat().st_ctime_ns


@contextlib.contextmanager
def _as_no_workspace() -> Iterator[None]:
    try:
        yield
    except GitFailed as error:
        raise NoWorkspace(f"workspace: {error}") from error
    except OSError as error:
        raise NoWorkspace(f"workspace: {error.strerror or error}: {error.filename or drivers.root()}") from error


_NO_GIT = "git is not installed: what trials change is not shown"


def _notes_of_folder(folder: Path, found: Contents) -> list[str]:
    notes = [f"each trial gets {_files(found.files)} ({_megabytes(found.size)})"]
    if (folder / ".git").is_dir():
        notes.append(f"{folder}: trials get its .git too, with every branch; write git: instead of copy: to hide them")
    for names, what in (
        (found.special, "sockets, pipes or devices are left out"),
        (found.stores, "files of stores are left out, and their reports, so that no trial reads what another answered"),
        (found.pointers, ".git that only point to a repository elsewhere are left out"),
        (found.leading_out, "links lead out of the folder: what is written through them is written there"),
    ):
        if names:
            notes.append(f"{folder}: {len(names):,} {what} ({', '.join(map(ascii, names[:3]))})")
    return notes if git_command.installed() else [*notes, _NO_GIT]


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
