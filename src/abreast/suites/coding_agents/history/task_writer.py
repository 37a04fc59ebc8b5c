"""Write the tasks of pull requests to a file. Nothing that was paid for is requested twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from abreast.errors import BadInput, Incomplete
from abreast.filenames import relative_path
from abreast.model import Failure
from abreast.suites.coding_agents.history.commits import GitHistory
from abreast.suites.coding_agents.history.discovery import Exclusion, PullRequest
from abreast.suites.coding_agents.history.pull_request_cases import check, in_history
from abreast.suites.coding_agents.history.task_file import By, TaskEntry, TaskFile
from abreast.suites.coding_agents.history.task_model import TaskModel
from abreast.suites.coding_agents.history.task_prompt import task_request

ATTEMPTS = 2  # requests for one task: another one after an unusable answer
PARALLEL = 4
_FINAL = ("refused", "too_long")  # a retry would end the same way
_ANSWERS = (*_FINAL, "no_answer")  # failures of the model itself, which were paid for
_CUT_OFF = ("max_tokens", "length", "max_output_tokens")


class TaskWriter:
    """Writes the tasks of pull requests to a file: from their messages, or by a model."""

    def __init__(
        self,
        history: GitHistory,
        path: Path,
        chosen: list[PullRequest],
        exclusions: list[Exclusion],
        *,
        model: TaskModel | None,
        may_replace: bool,
    ) -> None:
        self.path, self.chosen, self.exclusions, self.model = path, chosen, exclusions, model
        self.warnings: list[str] = []
        self._history = history
        self._file = TaskFile(path, [self._entry(pr, "message", "") for pr in chosen], may_replace)
        self._failure: Failure | None = None

    @classmethod
    def open(
        cls,
        repo: Path,
        output: Path,
        *,
        last: int | None = None,
        branch: str = "HEAD",
        commits: Sequence[str] = (),
        model: str | None = None,
        may_replace: bool = False,
    ) -> TaskWriter:
        """Choose the pull requests of a repository."""
        history = GitHistory.open(repo)
        task_model = None if model is None else TaskModel("--model", model)
        chosen, exclusions = in_history(history, last, branch, commits, keep_without_task=model is not None)
        check(history, chosen, exclusions)
        return cls(history, output, chosen, exclusions, model=task_model, may_replace=may_replace)

    def entries(self) -> list[TaskEntry]:
        """Return the tasks in the file; raises if others would be lost, unless they may be replaced."""
        return self._file.entries()

    def write(self, on_written: Callable[[TaskEntry], None]) -> None:
        """Write the missing tasks; a task by a model is on disk before `on_written` is called."""
        written_commits = {entry.commit for entry in self.entries()}
        missing = [pr for pr in self.chosen if pr.head not in written_commits]
        if self.model is None:
            self._file.add([self._entry(pr, "message", pr.task) for pr in missing])
            return
        if missing:
            self.model.check()
            asyncio.run(self._ask(self.model, missing, on_written))
        if self._failure is not None:
            raise self._incomplete(self._failure)
        if not self.entries():
            message = f"{self.model.name} wrote no task, and no message has one"
            raise BadInput(message, "use other pull requests: `--last`, `--commits`")
        self._file.add([])  # drops the lines that are replaced

    def _incomplete(self, failure: Failure) -> Incomplete:
        progress = f"{len(self.entries()):,} of {len(self.chosen):,} tasks written to {relative_path(self.path)}"
        fix = "; ".join(filter(None, (failure.fix, "run the same command to continue")))
        return Incomplete(f"{failure.kind}: {' '.join(failure.message.split())}; {progress}", fix)

    def _entry(self, pr: PullRequest, by: By, task: str) -> TaskEntry:
        model = None if self.model is None else self.model.name
        return TaskEntry(pr.head, task, id=pr.id, base=pr.base, title=pr.title, style=pr.style, by=by, model=model)

    async def _ask(
        self, model: TaskModel, missing: Sequence[PullRequest], on_written: Callable[[TaskEntry], None]
    ) -> None:
        slots = asyncio.Semaphore(PARALLEL)

        async def write(pull_request: PullRequest) -> None:
            async with slots:
                await self._write(model, pull_request, on_written)

        async with model:
            await asyncio.gather(*map(write, missing))

    async def _write(self, model: TaskModel, pr: PullRequest, on_written: Callable[[TaskEntry], None]) -> None:
        answer = await self._answer(model, pr)
        if answer is None:
            return
        task, problem = answer
        if not task and not pr.task:
            reason = f"its message has no task, and {model.name} wrote none: {problem}"
            self.exclusions.append(Exclusion(pr.head, pr.title, reason))
            return
        if not task:
            self.warnings.append(f"{pr.id}: using its message; the task by {model.name} was rejected: {problem}")
        entry = self._entry(pr, "model" if task else "message", task or pr.task)
        self._file.add([entry])
        on_written(entry)

    async def _answer(self, model: TaskModel, pr: PullRequest) -> tuple[str, str] | None:
        """Return the task, or an empty text and the problem with the last answer; None if requests fail."""
        prompt = problem = ""
        for _ in range(ATTEMPTS):
            if self._failure is not None:
                return None
            request = task_request(self._history, pr)
            outcome = await model.ask(prompt or request.prompt())
            failure = outcome.failure
            if failure is not None and failure.kind not in _ANSWERS:
                self._failure = self._failure or failure
                return None
            text = "" if outcome.answer is None else outcome.answer.text
            task = ""
            if failure is not None:
                problem = " ".join(failure.message.split())
            elif outcome.answer is not None and outcome.answer.data.get("finish_reason") in _CUT_OFF:
                problem = "it was cut off at the maximum length"
            else:
                task, problem = request.read(text)
            if not problem or (failure is not None and failure.kind in _FINAL):
                return task, problem
            prompt = request.retry_prompt(text, problem)
        return "", problem
