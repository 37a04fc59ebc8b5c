"""Commands that are run in the workspace of a trial when its agent has ended: tests, builds, linters."""

from __future__ import annotations

import asyncio
import glob
import platform
import shutil
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast.digest import digest
from abreast.model import TEST_FILES, Answer, Check
from abreast.targets.base import Problem, Sees
from abreast.targets.checks.check_runs import (
    NONE,
    CheckRun,
    Own,
    Task,
    Trialled,
    Untested,
    prepared,
    put_there,
    run_all,
    tests_of,
)
from abreast.targets.checks.protected_files import Protected, find_protected, restore
from abreast.targets.checks.reference_tests import (
    COUNTS,
    Reference,
    Told,
    find_avoided,
    find_reference,
    judge,
    listed,
    load,
    save,
    says_nothing,
)
from abreast.targets.checks.test_results import runs_pytest
from abreast.targets.processes.programs import content_digest, named_file
from abreast.targets.workspace import NoWorkspace, Workspace

GONE = "the folder where it worked is gone"
OWN_REVISION = 2
RESTORED_REVISION = 2
LISTED = 100  # test files of a trial that are named
REFERENCE_REVISION = 1  # of what is kept of tests without an agent

__all__ = ["Checks", "Told", "Trialled", "says_nothing"]


class Checks:
    """The checks of a run. What one says of a start, or of what people did, is found out once for all trials."""

    def __init__(self, shared: dict[str, Any]) -> None:
        self._shared = shared
        self._checks: Sequence[Check] = shared.get("checks", ())
        self._base = Path(shared.get("base", ".")).absolute()
        self._protected: dict[Hashable, Protected] = shared.setdefault("checks-protected", {})
        self._known: dict[Hashable, asyncio.Future[Reference]] = shared.setdefault("checks-known", {})

    def __bool__(self) -> bool:
        return bool(self._checks)

    @property
    def own(self) -> Check | None:
        """One for which cases bring their tests."""
        return next((check for check in self._checks if check.own), None)

    @property
    def sees(self) -> Sees:
        """What of a case their outcome depends on."""
        if self.own is not None:
            return "truth"
        return "case" if any(check.names("case") for check in self._checks) else "input"

    @property
    def version(self) -> tuple[str, ...]:
        """What an answer depends on, for its key; nothing if there are none."""
        return tuple(digest(self._identity(check)) for check in self._checks)

    def _identity(self, check: Check) -> list[Any]:
        files = [content_digest(file, self._shared) for file in self._files(check)]
        return [
            *(check.name, check.command, check.shell, check.timeout_s, check.fails_before),
            *(["own", OWN_REVISION] if check.own else ["restored", RESTORED_REVISION]),
            *([] if check.tests is None else ["tests", check.tests]),
            *([files] if files else []),
        ]

    def _files(self, check: Check) -> list[Path]:
        """Those that the words name by their whole path; with `{case}` in it those of all cases."""
        files: list[Path | None] = []
        for word in () if check.shell else check.command:
            path = word.replace("{folder}", str(self._base))
            before, placeholder, behind = path.partition("{case}")
            if not placeholder:
                files.append(named_file(path))
            elif before.startswith("/") and "{" not in behind and "/" not in behind:
                folder, _, start = before.rpartition("/")
                files += sorted(Path(folder).glob(f"{glob.escape(start)}*{glob.escape(behind)}"))
        return [file for file in files if file is not None and file.is_file()]

    def problems(self) -> list[Problem]:
        """Programs and files that are nowhere; a program named by its path may be in a workspace."""
        problems = []
        for check in self._checks:
            where = f'scorer "{check.name}"'
            for at, word in enumerate(() if check.shell else check.command):
                path = word.replace("{folder}", str(self._base))
                if at == 0 and "/" not in path and shutil.which(path) is None:
                    problems.append(Problem(f"{where}: the program {path} is not found", "install it, or mend command"))
                if word.startswith("{folder}/") and "{" not in path and not Path(path).exists():
                    problems.append(Problem(f"{where}: there is no {path}", "write it, or mend command"))
        return problems

    async def added_to(self, answer: Answer, workspace: Workspace, trial: Trialled) -> Answer:
        """The answer with how each of them went; what they print is kept as an artifact."""
        results, artifacts = {}, dict(answer.artifacts)
        changed: set[str] | None = None
        for check in self._checks:
            results[check.name], artifacts[check.name], restored = await self._outcome(check, workspace, trial)
            changed = changed if restored is None else (changed or set()) | set(restored)
        own = {} if self.own is None else results[self.own.name]
        counts = {name: own[name] for name in COUNTS if name in own}
        data = {**answer.data, **counts, "checks": results, **_changed_tests(changed)}
        return replace(answer, data=data, artifacts={name: text for name, text in artifacts.items() if text})

    async def without_agent(self, trial: Trialled) -> dict[str, Told]:
        """What each says of what trials begin with and of what people did; nobody is paid to find that out."""
        return {check.name: (await self._begun(check, trial))[1].facts for check in self._checks}

    async def is_known(self, trial: Trialled) -> bool:
        """Whether all that `without_agent` finds out is kept already."""
        for check in self._checks:
            if not await trial.workers.in_thread(self._is_kept, check, trial):
                return False
        return True

    def _is_kept(self, check: Check, trial: Trialled) -> bool:
        own = tests_of(trial.case) if check.own else NONE
        try:
            return own.commit is not None and load(self._key(self._prepared(check, own, trial), trial)) is not None
        except (Untested, NoWorkspace):
            return False

    def _prepared(self, check: Check, own: Own, trial: Trialled) -> Task:
        return prepared(check, trial.case, own, self._base, trial.workspaces, trial.environment.get("PATH"))

    async def _outcome(
        self, check: Check, workspace: Workspace, trial: Trialled
    ) -> tuple[Told, str, Sequence[str] | None]:
        """How a check went, what it printed, and the test files that the agent had changed (None if nobody looked). It
        is not run where it says nothing of an agent."""
        task, reference = await self._begun(check, trial)
        if task is None or says_nothing(reference.facts):
            return reference.facts, reference.output, None
        folder = workspace.path
        if folder.is_symlink() or not folder.is_dir():
            told = judge(reference, CheckRun(message=GONE), {}) if reference.has_tests else {}
            return {**reference.facts, **told, "passed": False, "told": GONE}, "", None
        changed: Sequence[str] | None = None
        try:
            if not task.own.tests:
                changed = await trial.workers.in_thread(self._restore, task, workspace, trial)
            await trial.workers.in_thread(put_there, task, folder, trial.workspaces)
        except NoWorkspace as error:
            return {**reference.facts, "problem": str(error)}, "", changed
        run, results, _ = await run_all(task, folder, trial, check.timeout_s if reference.runs_rest else 0.0)
        if run.problem:
            return {**reference.facts, "problem": run.problem}, run.output, changed
        if reference.has_tests:
            return {**reference.facts, **judge(reference, run, results or {})}, run.output, changed
        seconds = {} if run.seconds is None else {"seconds": run.seconds}
        passed, message = run.passed, run.message
        if passed and reference.start:
            restored = self._find_protected(task, trial).files
            avoided = find_avoided(reference.start, results or {}, restored, task.reporter)
            if avoided:
                passed, message = False, f"{message}; tests of the start that did not run: {listed(avoided)}"
        return {**reference.facts, "passed": passed, "told": message, **seconds}, run.output, changed

    def _restore(self, task: Task, workspace: Workspace, trial: Trialled) -> list[str]:
        """Restore the files that decide a check; return those that the agent had changed. Raises NoWorkspace."""
        protected = self._find_protected(task, trial)
        with trial.workspaces.start_files(trial.case, trial.value, trial.state) as start:
            return restore(start, workspace.path, protected, workspace.since, trial.renames)

    def _find_protected(self, task: Task, trial: Trialled) -> Protected:
        """The files that decide a check, found once for all trials that begin alike. Raises NoWorkspace."""
        begins = (trial.case, trial.value, trial.state)
        key = (task.check, task.words, trial.workspaces.start_key(*begins))
        if key not in self._protected:
            with trial.workspaces.start_files(*begins) as start:
                self._protected[key] = find_protected(start, task)
        if task.check.tests and not self._protected[key].files:
            raise NoWorkspace(f"tests: no file at the start matches {', '.join(task.check.tests)}")
        return self._protected[key]

    async def _begun(self, check: Check, trial: Trialled) -> tuple[Task | None, Reference]:
        """What is to be run, if there is something, and what is known of it without an agent."""
        own = tests_of(trial.case) if check.own else NONE
        try:
            task = await trial.workers.in_thread(self._prepared, check, own, trial)
            lists_tests = False
            if not own.tests:
                protected = await trial.workers.in_thread(self._find_protected, task, trial)
                reports_tests = check.fails_before or bool(task.reporter) or runs_pytest(protected.words)
                lists_tests = reports_tests and bool(protected.files)
            begins = trial.workspaces.start_key(trial.case, trial.value, trial.state)
            return task, await self._once((task, begins), lambda: self._reference(task, trial, lists_tests))
        except Untested as reason:
            return None, Reference({"untested": str(reason)})
        except NoWorkspace as error:
            return None, Reference({"problem": str(error)})

    async def _reference(self, task: Task, trial: Trialled, lists_tests: bool) -> Reference:
        """What it says without an agent: it must fail on what trials begin with, and pass in what people did."""
        if task.own.commit is None or trial.state is not None:
            return await find_reference(task, trial, lists_tests)
        key = await trial.workers.in_thread(self._key, task, trial)
        known: Reference | None = await trial.workers.in_thread(load, key)
        if known is None:
            known = await find_reference(task, trial)
            speaks = known.facts.get("human") == "passed" and not says_nothing(known.facts)
            if speaks or known.facts.get("before") == "passed":  # others may be fixed meanwhile
                await trial.workers.in_thread(save, key, known)
        return known

    def _key(self, task: Task, trial: Trialled) -> str:
        """Of a reference: the repository and its commits, the command, and the environment. References are kept across
        versions by what `repr` says of a task: its fields and classes must not be renamed."""
        assert task.own.commit is not None
        program = shutil.which(task.words[0], path=trial.environment.get("PATH")) or task.words[0]
        machine = (platform.system(), platform.machine(), str(Path(program).resolve()))
        begins = trial.workspaces.start_key(trial.case, trial.value, trial.state)
        parts = (REFERENCE_REVISION, begins, trial.workspaces.commit_key(task.own.commit), task, machine, trial.sandbox)
        files = [content_digest(file, self._shared) for file in self._files(task.check)]
        return digest([*map(repr, parts), *files])

    async def _once(self, key: Hashable, run: Callable[[], Awaitable[Reference]]) -> Reference:
        """Whoever comes first runs it; it goes on if that trial is ended."""
        if key not in self._known:
            self._known[key] = asyncio.ensure_future(run())
        return await asyncio.shield(self._known[key])

    async def close(self, patience_s: float) -> None:
        """End what nobody waits for any more, while there are threads that remove what it made."""
        running = [one for one in self._known.values() if not one.done()]
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running, timeout=patience_s)


def _changed_tests(names: set[str] | None) -> Told:
    """The columns of test files that an agent changed; nothing if nobody looked."""
    if names is None:
        return {}
    listed = [name.encode("utf-8", "replace").decode() for name in sorted(names)[:LISTED]]
    return {"tests_changed": len(names), **({TEST_FILES: listed} if names else {})}
