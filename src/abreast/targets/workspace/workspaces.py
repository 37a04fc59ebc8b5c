"""The workspaces of a variant: checked before a run, created for each trial, measured and removed after it."""

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
from abreast.targets.workspace.config import parse_workspace
from abreast.targets.workspace.environment import Environment, environment_key, environment_variables, set_up
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.copies import FolderContents, copy_contents, list_contents
from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.diff import Diff, StateOptions, WorkspaceState, measure_diff
from abreast.targets.workspace.git.git_command import GitFailed
from abreast.targets.workspace.git.repository import Repository
from abreast.targets.workspace.template import TEMPLATES, TICK_S, WorkspaceTemplate
from abreast.text import many

Fill = Callable[[Path], Environment | None]
MAX_DIFF_BYTES = 2_000_000  # bytes of a diff


@contextlib.contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except GitFailed as error:
        raise NoWorkspace(f"workspace: {error}") from error
    except OSError as error:
        raise NoWorkspace(f"workspace: {error.strerror or error}: {error.filename or drivers.root()}") from error


class Workspaces:
    """The workspaces of one variant: prepared once, copied for each trial. Thread-safe.

    `setting` is the variant's `workspace:`; paths in it are relative to `base`.
    """

    def __init__(self, where: str, setting: Any, base: Path) -> None:
        self._where = where
        self._owner = object()
        self._config = parse_workspace(where, setting, base)
        self._repository = Repository(self._config.git, base) if self._config.git is not None else None
        self._environment_keys: dict[str, str] = {}  # environment keys by commit
        self.has_commits = self._repository is not None
        self.are_empty = self._config.copy is None and not self.has_commits  # at the start of a trial
        self.has_setup = bool(self._config.setup)
        self.is_chained = self._config.after is not None  # a trial may continue what another one left

    @cached_property
    def version(self) -> str:
        """A digest of the start of trials; of the setting if the start is unknown, which `problems` explains."""
        version, after, setup = self._start_version(), self._config.after, self._config.setup
        version = version if after is None else compose(version, "after", after)
        return compose(version, "setup", *setup) if setup else version

    def _start_version(self) -> str:
        config, repository = self._config, self._repository
        if config.copy is not None:
            with contextlib.suppress(OSError):
                return compose("copy", list_contents(config.copy, config.without).digest())
            return compose("copy", "unknown", str(config.copy))
        if repository is None:
            return compose("empty")
        if config.template is not None:
            return compose("git", repository.display_name, "template", config.commit, *config.without)
        with contextlib.suppress(GitFailed, NoWorkspace):
            if commit := repository.commit(config.commit):
                if config.without:  # such a checkout has no history: only the remaining files matter
                    return compose("git", "files", repository.files_digest(commit, config.without))
                return compose("git", commit)
        return compose("git", "unknown", repository.display_name, config.commit, *config.without)

    def problems(self) -> list[tuple[str, str]]:
        problems = [*self._root_problems(), *self._source_problems()]
        if not problems and self._repository is not None and self._config.template is None:
            problems += self._commit_problems(self._repository, self._config.commit)
        return [(f"{self._where}: workspace: {message}", fix) for message, fix in problems]

    def _root_problems(self) -> list[tuple[str, str]]:
        root = drivers.root()
        fix = f"set ${drivers.ROOT_VARIABLE} to a folder elsewhere"
        if (repository := directories.repository_above(root)) is not None:
            return [(f"{root} is inside the repository {repository}, which agents would find", fix)]
        source = self._config.copy
        if source is not None and source.resolve().is_relative_to(root.resolve()):
            return [(f"copy: {source} is inside {root}, where workspaces are created", fix)]
        return []

    def _source_problems(self) -> list[tuple[str, str]]:
        folder = self._config.copy
        if folder is not None:
            if not folder.is_dir():
                reason = "is a file, not a folder" if folder.exists() else "no such folder"
                return [(f"copy: {folder}: {reason}", "use an existing folder, relative to the folder of the spec")]
            try:
                entries = list_contents(folder, self._config.without).entries
                names = [entry.name for entry in entries if entry.kind != "link"]
                unreadable = [name for name in names if not os.access(folder / name, os.R_OK)]
            except OSError as error:
                return [(f"copy: {error.filename}: {error.strerror}", "make it readable, or copy another folder")]
            if unreadable:
                return [(f"copy: {folder / unreadable[0]} cannot be read", "make it readable, or remove it")]
        elif self._repository is not None and (problem := self._repository.problem()) is not None:
            return [(f"git: {problem[0]}", problem[1])]
        return []

    def _commit_problems(self, repository: Repository, revision: str) -> list[tuple[str, str]]:
        fix = "use a commit, a branch or a tag that `git log` shows in that repository"
        try:
            if repository.commit(revision) is not None:
                return []
            return [(f'commit "{revision}": no such commit in {repository.display_name}', fix)]
        except (GitFailed, NoWorkspace) as error:
            return [(str(error), fix)]

    def notes(self) -> list[str]:
        config = self._config
        try:
            if config.copy is not None:
                return _folder_notes(config.copy, list_contents(config.copy, config.without))
            if self._repository is not None:
                return self._repository_notes(self._repository)
        except (OSError, GitFailed, NoWorkspace):  # reported as a problem
            pass
        return [] if git_command.is_installed() else [_NO_GIT]

    def _repository_notes(self, repository: Repository) -> list[str]:
        notes, name = [], repository.display_name
        if count := repository.count_uncommitted():
            notes.append(f"trials do not see {many(count, 'uncommitted change')} in {name}")
        commit = None if self._config.template is not None else repository.commit(self._config.commit)
        if commit is None:
            return notes
        size = repository.size(commit, self._config.without)
        history = "without their history" if self._config.without else "and their history"
        notes.append(f"each trial gets {many(size.files, 'file')} ({size.bytes / 1e6:,.1f} MB) {history}")
        if size.submodules:
            notes.append(f"{size.submodules:,} submodules of {name} stay empty folders")
        if repository.uses_lfs(commit):
            notes.append(f"Git LFS files of {name} stay pointers")
        return notes

    @_convert_errors()
    def start_size(self, case: Case, value: Any) -> int:
        """Return the size of a trial's start in bytes, including history. Raises NoWorkspace."""
        repository, without = self._repository, self._config.without
        if self._config.copy is not None:
            return list_contents(self._config.copy, without).size
        if repository is None:
            return 0
        commit = self._commit(repository, self._config.revision(case, value))
        return repository.size(commit, without).bytes + (0 if without else repository.history_size())

    def previous_case(self, case: Case) -> str:
        """Return the id of the case whose final state this one starts from; empty if it starts from the commit."""
        return self._config.previous_case(case)

    @_convert_errors()
    def make(self, case: Case, value: Any, state: WorkspaceState | None = None) -> Workspace:
        """Create a workspace for a trial; templates see `value`; a `state` replaces the commit. Raises NoWorkspace."""
        base_commit = None
        if self.is_chained and self._repository is not None:
            base_commit = self._repository.commit(self._config.revision(case, value))
        return self._create(*self._start(case, value, state), base_commit)

    @_convert_errors()
    def make_at(self, revision: str, case: Case, value: Any) -> Workspace:
        """Create a workspace at another commit, with the environment of this case. Raises NoWorkspace."""
        return self._create(*self._start_at(revision, None, self._config.revision(case, value)))

    @_convert_errors()
    def set_up(self, case: Case, value: Any) -> str | None:
        """Create the environment of a case if needed; return its key, None without `setup:`. Raises NoWorkspace."""
        if self._repository is None or not self._config.setup:
            return None
        commit = self._commit(self._repository, self._config.revision(case, value))
        self._environment(self._repository, commit)
        return self._environment_key(self._repository, commit)

    def variables(self, folder: Path, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of a program in a workspace: programs installed by `setup:` come first."""
        return environment_variables(folder, base) if self._config.setup else dict(base)

    @contextlib.contextmanager
    def files_at(self, revision: str) -> Iterator[Path]:
        """A read-only folder with the files of another commit. Raises NoWorkspace."""
        with _convert_errors(), self._files(*self._start_at(revision)) as files:
            yield files

    @contextlib.contextmanager
    def start_files(self, case: Case, value: Any, state: WorkspaceState | None = None) -> Iterator[Path]:
        """A read-only folder with the files that a trial starts from. Raises NoWorkspace."""
        with _convert_errors(), self._files(*self._start(case, value, state)) as files:
            yield files

    @contextlib.contextmanager
    def _files(self, key: Hashable, fill: Fill | None) -> Iterator[Path]:
        template = TEMPLATES.acquire(key, self._owner, fill, is_checkout=self.has_commits)
        try:
            yield template.files()
        finally:
            TEMPLATES.release(template)

    def _create(self, key: Hashable, fill: Fill | None, base_commit: str | None = None) -> Workspace:
        template = TEMPLATES.acquire(key, self._owner, fill, is_checkout=self.has_commits)
        folder = None
        try:
            folder = TEMPLATES.take_spare(template)
            if folder is not None:
                folder = directories.rename_folder(folder)  # programs may remember what they did at a path
            else:
                folder = directories.new_folder("trials")
                template.copy_to(folder / "work")
            work = folder / "work"
            if template.environment is not None:
                template.environment.relocate(work)
                time.sleep(TICK_S)  # changes by the trial get a later date
            os.utime(work)
            since = work.lstat().st_ctime_ns  # by the clock of the file system; the trial makes all later changes
            return Workspace(work, template, since, base_commit)
        except BaseException:
            TEMPLATES.release(template, folder)
            raise

    def start_key(self, case: Case, value: Any, state: WorkspaceState | None = None) -> Hashable:
        return self._start(case, value, state)[0]

    def commit_key(self, revision: str) -> Hashable:
        return self._start_at(revision)[0]

    def _start(self, case: Case, value: Any, state: WorkspaceState | None) -> tuple[Hashable, Fill | None]:
        """Return the key of a trial's start, and a function that fills a folder with it (None if it is empty)."""
        folder = self._config.copy
        if folder is not None:
            return ("copy", str(folder), self.version), self._copy
        if self._repository is None:
            return "empty", None
        revision = self._config.revision(case, value)
        return self._start_at(revision, state, revision)

    def _start_at(
        self, revision: str, state: WorkspaceState | None = None, setup_revision: str | None = None
    ) -> tuple[Hashable, Fill]:
        """Return a commit, or a `state` on top of it, with the environment of the commit `setup_revision`."""
        repository = self._repository
        if repository is None:
            raise NoWorkspace(f'workspace: commit "{revision}": the workspace has no repository')
        commit = self._commit(repository, revision)
        without, head = self._config.without, commit if state is None else state.commit
        key = ("git", repository.address, commit, without, head)
        if not self._config.setup or setup_revision is None:
            return key, lambda to: repository.check_out(commit, to, without, state)
        setup_commit = self._commit(repository, setup_revision)

        def fill(to: Path) -> Environment:
            environment = self._environment(repository, setup_commit)
            repository.check_out(commit, to, without, state)
            environment.add_to(to)
            return environment

        return (*key, self._environment_key(repository, setup_commit)), fill

    def _commit(self, repository: Repository, revision: str) -> str:
        commit = repository.commit(revision)
        if commit is None:
            raise NoWorkspace(f'workspace: commit "{revision}": no such commit in {repository.display_name}')
        return commit

    def _environment_key(self, repository: Repository, commit: str) -> str:
        if commit not in self._environment_keys:
            dependencies = repository.dependencies_digest(commit)
            self._environment_keys[commit] = environment_key(self._config.setup, dependencies)
        return self._environment_keys[commit]

    def _environment(self, repository: Repository, commit: str) -> Environment:
        key, command = self._environment_key(repository, commit), self._config.setup
        return set_up(key, command, lambda to: repository.check_out(commit, to, self._config.without))

    @property
    def origin(self) -> Path | None:
        if self._repository is not None:
            return None if self._repository.is_remote else Path(self._repository.address)
        return self._config.copy

    def _copy(self, to: Path) -> None:
        assert self._config.copy is not None
        copy_contents(list_contents(self._config.copy, self._config.without), to)
        if compose("copy", list_contents(to).digest()) != self.version:
            raise NoWorkspace(f"workspace: {self._config.copy} changed since the run was planned; start it again")

    def close(self) -> None:
        """Remove the prepared folders once the remaining workspaces are removed."""
        TEMPLATES.drop_owner(self._owner)
        if self._repository is not None:
            self._repository.close()


class Workspace:
    """The folder of one trial. The agent works in `path`; its parent contains nothing else."""

    def __init__(self, path: Path, template: WorkspaceTemplate, since: int, base_commit: str | None = None) -> None:
        self.path = path
        self._template = template
        self.since = since  # start of its use, in nanoseconds by the clock of the file system
        self._base_commit = base_commit  # where the chain of trials starts, if the final state is captured
        self._removed = False
        self.is_unchanged = False  # at the last diff
        self.renames: Sequence[tuple[str, str]] = ()  # old and new names, at the last diff
        self._is_expected = False

    def mark_changed(self) -> None:
        self.is_unchanged = False

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for an agent: git does not look for a repository above the workspace."""
        return {"GIT_CEILING_DIRECTORIES": str(self.path.parent)}

    def final_diff(self, message: str, find_secret: Callable[[bytes], str | None]) -> Diff:
        """Return the change, and in a chain of trials the final state, as a commit with this message."""
        base = self._base_commit
        return self.diff(options=None if base is None else StateOptions(base, message, find_secret))

    def diff(self, max_bytes: int = MAX_DIFF_BYTES, options: StateOptions | None = None) -> Diff:
        """Return the change since the start. Never raises; `problem` is the reason if there is none."""
        diff = self._measure(max_bytes, options)
        self.renames = diff.renames
        return diff

    def _measure(self, max_bytes: int, options: StateOptions | None) -> Diff:
        self.is_unchanged = options is None and self._template.is_unchanged(self.path, self.since)
        if self.is_unchanged:
            return Diff()
        if not git_command.is_installed():
            return Diff(problem="no diff: git is not installed")
        try:
            return measure_diff(self._template.start(), self.path, self.since, max_bytes, options)
        except (GitFailed, NoWorkspace, OSError) as error:
            return Diff(problem=f"no diff: {error}")

    @property
    def commit(self) -> str:
        return self._template.start().commit

    def expect_reuse(self) -> None:
        """Announce `reuse`, so that the next trial waits for it instead of making a copy."""
        self._is_expected = True
        TEMPLATES.expect_spare(self._template)

    def reuse(self) -> None:
        """Undo all changes and keep the folder for another trial, or remove it if that is impossible. Never raises. All
        processes that could write there must have ended."""
        self._removed = True
        is_as_new = self.is_unchanged or self._template.restore(self.path, self.since)
        TEMPLATES.keep_spare(self._template, self.path.parent, is_as_new, self._is_expected)

    def remove(self) -> None:
        """Remove the folder, whatever the agent left in it. Never raises."""
        if not self._removed:
            self._removed = True
            TEMPLATES.release(self._template, self.path.parent)


_NO_GIT = "git is not installed: changes made by trials are not shown"


def _folder_notes(folder: Path, contents: FolderContents) -> list[str]:
    notes = [f"each trial gets {many(contents.files, 'file')} ({contents.size / 1e6:,.1f} MB)"]
    if (folder / ".git").is_dir():
        notes.append(f"{folder}: trials get its .git too, with every branch; use git: instead of copy: to hide them")
    for names, note in (
        (contents.special, "sockets, pipes or devices are left out"),
        (contents.stores, "stores and their reports are left out, so that no trial reads another's answers"),
        (contents.git_pointers, ".git files that point to a repository elsewhere are left out"),
        (contents.outside_links, "links lead out of the folder: writes through them change their targets"),
    ):
        if names:
            notes.append(f"{folder}: {len(names):,} {note} ({', '.join(map(ascii, names[:3]))})")
    return notes if git_command.is_installed() else [*notes, _NO_GIT]
