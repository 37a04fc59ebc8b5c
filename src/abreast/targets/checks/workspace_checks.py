"""Checks: commands that run in the workspace of a trial after its agent has ended, such as tests, builds, linters."""

from __future__ import annotations

import asyncio
import glob
import platform
import shutil
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast.digest import digest
from abreast.model import TEST_FILES, Answer, Check
from abreast.targets.base import Problem, Sees
from abreast.targets.checks import check_runs, reference_tests
from abreast.targets.checks.check_runs import NO_CASE_TESTS, CaseTests, CheckContext, CheckRun, CheckTask, NoTests
from abreast.targets.checks.protected_files import Protected, find_protected, restore
from abreast.targets.checks.reference_tests import COUNTS, CheckFacts, ReferenceResult, judge, why_uninformative
from abreast.targets.checks.test_results import runs_pytest
from abreast.targets.processes.programs import content_digest, file_in_argument
from abreast.targets.workspace import NoWorkspace, Workspace

WORKSPACE_REMOVED = "the workspace was removed"
OWN_REVISION = 2
RESTORED_REVISION = 2
MAX_LISTED = 100  # test files named per trial
REFERENCE_REVISION = 1  # revision of the stored results without an agent

__all__ = ["CheckContext", "CheckFacts", "Checks", "why_uninformative"]


class Checks:
    """The checks of a run. Results without an agent are computed once for all trials."""

    def __init__(self, shared: dict[str, Any]) -> None:
        self._shared = shared
        self._checks: Sequence[Check] = shared.get("checks", ())
        self._base = Path(shared.get("base", ".")).absolute()
        self._protected: dict[Hashable, Protected] = shared.setdefault("checks-protected", {})
        self._references: dict[Hashable, asyncio.Future[ReferenceResult]] = shared.setdefault("checks-known", {})

    def __bool__(self) -> bool:
        return bool(self._checks)

    @property
    def own(self) -> Check | None:
        return next((check for check in self._checks if check.own), None)

    @property
    def sees(self) -> Sees:
        """The part of a case that the outcomes depend on."""
        if self.own is not None:
            return "truth"
        return "case" if any(check.names("case") for check in self._checks) else "input"

    @property
    def version(self) -> tuple[str, ...]:
        """The part of an answer's key that depends on the checks."""
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
        """Return the files that the command names by absolute path; with `{case}` in the path, those of all cases."""
        files: list[Path | None] = []
        for word in () if check.shell else check.command:
            path = word.replace("{folder}", str(self._base))
            before, placeholder, after = path.partition("{case}")
            if not placeholder:
                files.append(file_in_argument(path))
            elif before.startswith("/") and "{" not in after and "/" not in after:
                folder, _, prefix = before.rpartition("/")
                files += sorted(Path(folder).glob(f"{glob.escape(prefix)}*{glob.escape(after)}"))
        return [file for file in files if file is not None and file.is_file()]

    def problems(self) -> list[Problem]:
        """Missing programs and files. A program given by path may be in a workspace."""
        problems = []
        for check in self._checks:
            where = f'scorer "{check.name}"'
            for at, word in enumerate(() if check.shell else check.command):
                path = word.replace("{folder}", str(self._base))
                if at == 0 and "/" not in path and shutil.which(path) is None:
                    problems.append(Problem(f"{where}: program {path} not found", "install it, or fix `command`"))
                if word.startswith("{folder}/") and "{" not in path and not Path(path).exists():
                    problems.append(Problem(f"{where}: {path} does not exist", "create it, or fix `command`"))
        return problems

    async def add_results(self, answer: Answer, workspace: Workspace, trial: CheckContext) -> Answer:
        """Run all checks; add their results to the answer, and their output as artifacts."""
        results, artifacts = {}, dict(answer.artifacts)
        changed: set[str] | None = None
        for check in self._checks:
            results[check.name], artifacts[check.name], restored = await self._outcome(check, workspace, trial)
            changed = changed if restored is None else (changed or set()) | set(restored)
        own = {} if self.own is None else results[self.own.name]
        counts = {name: own[name] for name in COUNTS if name in own}
        data = {**answer.data, **counts, "checks": results, **_changed_tests(changed)}
        return replace(answer, data=data, artifacts={name: text for name, text in artifacts.items() if text})

    async def run_without_agent(self, trial: CheckContext) -> dict[str, CheckFacts]:
        """Return the results of each check on the start of a trial and on the human change, at no cost."""
        return {check.name: (await self._prepare(check, trial))[1].facts for check in self._checks}

    async def is_cached(self, trial: CheckContext) -> bool:
        for check in self._checks:
            if not await trial.workers.in_thread(self._is_stored, check, trial):
                return False
        return True

    def _is_stored(self, check: Check, trial: CheckContext) -> bool:
        own = check_runs.parse_case_tests(trial.case) if check.own else NO_CASE_TESTS
        try:
            key = "" if own.commit is None else self._key(self._task(check, own, trial), trial)
        except (NoTests, NoWorkspace):
            return False
        return bool(key) and reference_tests.load_reference(key) is not None

    def _task(self, check: Check, own: CaseTests, trial: CheckContext) -> CheckTask:
        path = trial.environment.get("PATH")
        return check_runs.prepare_task(check, trial.case, own, self._base, trial.workspaces, path)

    async def _outcome(
        self, check: Check, workspace: Workspace, trial: CheckContext
    ) -> tuple[CheckFacts, str, Sequence[str] | None]:
        """Run a check unless it is uninformative. Return its facts, its output, and the test files that the agent had
        changed (None if not examined)."""
        task, reference = await self._prepare(check, trial)
        if task is None or why_uninformative(reference.facts):
            return reference.facts, reference.output, None
        folder = workspace.path
        if folder.is_symlink() or not folder.is_dir():
            facts = judge(reference, CheckRun(message=WORKSPACE_REMOVED), {}) if reference.has_tests else {}
            return {**reference.facts, **facts, "passed": False, "told": WORKSPACE_REMOVED}, "", None
        changed: Sequence[str] | None = None
        try:
            if not task.own.tests:
                changed = await trial.workers.in_thread(self._restore, task, workspace, trial)
            await trial.workers.in_thread(check_runs.install_tests, task, folder, trial.workspaces)
        except NoWorkspace as error:
            return {**reference.facts, "problem": str(error)}, "", changed
        run, results, _ = await check_runs.run_all(task, folder, trial, check.timeout_s if reference.runs_rest else 0.0)
        if run.problem:
            return {**reference.facts, "problem": run.problem}, run.output, changed
        if reference.has_tests:
            return {**reference.facts, **judge(reference, run, results or {})}, run.output, changed
        seconds = {} if run.seconds is None else {"seconds": run.seconds}
        passed, message = run.passed, run.message
        if passed and reference.start:
            restored = self._find_protected(task, trial).files
            avoided = reference_tests.find_avoided(reference.start, results or {}, restored, task.reporter)
            if avoided:
                names = reference_tests.short_list(avoided)
                passed, message = False, f"{message}; tests of the start that did not run: {names}"
        return {**reference.facts, "passed": passed, "told": message, **seconds}, run.output, changed

    def _restore(self, task: CheckTask, workspace: Workspace, trial: CheckContext) -> list[str]:
        """Restore the files that decide a check; return those that the agent had changed. Raises NoWorkspace."""
        protected = self._find_protected(task, trial)
        with trial.workspaces.start_files(trial.case, trial.value, trial.state) as start:
            return restore(start, workspace.path, protected, workspace.since, trial.renames)

    def _find_protected(self, task: CheckTask, trial: CheckContext) -> Protected:
        """Return the files that decide a check, determined once for all trials with the same start. Raises
        NoWorkspace."""
        start_of_trial = (trial.case, trial.value, trial.state)
        key = (task.check, task.words, trial.workspaces.start_key(*start_of_trial))
        if key not in self._protected:
            with trial.workspaces.start_files(*start_of_trial) as start:
                self._protected[key] = find_protected(start, task)
        if task.check.tests and not self._protected[key].files:
            raise NoWorkspace(f"tests: no file at the start matches {', '.join(task.check.tests)}")
        return self._protected[key]

    async def _prepare(self, check: Check, trial: CheckContext) -> tuple[CheckTask | None, ReferenceResult]:
        """Return the task of a check (None if there is nothing to run) and its results without an agent."""
        own = check_runs.parse_case_tests(trial.case) if check.own else NO_CASE_TESTS
        try:
            task = await trial.workers.in_thread(self._task, check, own, trial)
            lists_tests = False
            if not own.tests:
                protected = await trial.workers.in_thread(self._find_protected, task, trial)
                reports_tests = check.fails_before or bool(task.reporter) or runs_pytest(protected.words)
                lists_tests = reports_tests and bool(protected.files)
            key = (task, trial.workspaces.start_key(trial.case, trial.value, trial.state))
            if key not in self._references:  # shared by all trials; goes on if this one is cancelled
                self._references[key] = asyncio.ensure_future(self._reference(task, trial, lists_tests))
            return task, await asyncio.shield(self._references[key])
        except NoTests as reason:
            return None, ReferenceResult({"untested": str(reason)})
        except NoWorkspace as error:
            return None, ReferenceResult({"problem": str(error)})

    async def _reference(self, task: CheckTask, trial: CheckContext, lists_tests: bool) -> ReferenceResult:
        """Return the results without an agent: a check must fail at the start and pass with the human change."""
        if task.own.commit is None or trial.state is not None:
            return await reference_tests.find_reference(task, trial, lists_tests)
        key = await trial.workers.in_thread(self._key, task, trial)
        reference: ReferenceResult | None = await trial.workers.in_thread(reference_tests.load_reference, key)
        if reference is None:
            reference = await reference_tests.find_reference(task, trial)
            facts = reference.facts
            is_informative = facts.get("human") == "passed" and not why_uninformative(facts)
            if is_informative or facts.get("before") == "passed":  # other results may be fixed meanwhile
                await trial.workers.in_thread(reference_tests.save_reference, key, reference)
        return reference

    def _key(self, task: CheckTask, trial: CheckContext) -> str:
        """Return the key of a stored result: the repository and its commits, the command, and the environment."""
        assert task.own.commit is not None
        program = shutil.which(task.words[0], path=trial.environment.get("PATH")) or task.words[0]
        machine = (platform.system(), platform.machine(), str(Path(program).resolve()))
        start = trial.workspaces.start_key(trial.case, trial.value, trial.state)
        commit = trial.workspaces.commit_key(task.own.commit)
        files = [content_digest(file, self._shared) for file in self._files(task.check)]
        parts = (*map(repr, (REFERENCE_REVISION, start, commit)), task.cache_text(), repr(machine), repr(trial.sandbox))
        return digest([*parts, *files])

    async def close(self, timeout_s: float) -> None:
        """Cancel runs that no trial waits for, while there are still threads to remove their files."""
        running = [future for future in self._references.values() if not future.done()]
        for future in running:
            future.cancel()
        if running:
            await asyncio.wait(running, timeout=timeout_s)


def _changed_tests(names: set[str] | None) -> CheckFacts:
    """Return the columns of test files that an agent changed; none if not examined."""
    if names is None:
        return {}
    files = [name.encode("utf-8", "replace").decode() for name in sorted(names)[:MAX_LISTED]]
    return {"tests_changed": len(names), **({TEST_FILES: files} if files else {})}
