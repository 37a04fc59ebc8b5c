"""`abreast cases new coding-agents`: the tasks of pull requests, written into a file. Nothing paid is asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from abreast.errors import BadInput, Incomplete
from abreast.filenames import relative_path
from abreast.model import Failure
from abreast.suites.coding_agents.history.asking import Model
from abreast.suites.coding_agents.history.commits import History
from abreast.suites.coding_agents.history.discovery import LeftOut, PullRequest
from abreast.suites.coding_agents.history.pull_request_cases import check, in_history
from abreast.suites.coding_agents.history.task_prompt import shown
from abreast.suites.coding_agents.history.taskfile import By, Entry, Kept

ASKED = 2  # how often at most for one task: once more after an answer that reveals the change

AT_ONCE = 4
_SAID_NO = ("refused", "too_long")  # it would say the same again
_ANSWERS = (*_SAID_NO, "no_answer")  # failures of the model itself, which has been paid for them
_CUT = ("max_tokens", "length", "max_output_tokens")


class Draft:
    """Pull requests, and the file that gets their tasks: from their messages, or written by a model."""

    def __init__(
        self,
        history: History,
        path: Path,
        chosen: list[PullRequest],
        left_out: list[LeftOut],
        *,
        model: Model | None,
        may_replace: bool,
    ) -> None:
        self.path, self.chosen, self.left_out, self.model = path, chosen, left_out, model
        self.warnings: list[str] = []
        self._history = history
        self._file = Kept(path, [self._entry(found, "message", "") for found in chosen], may_replace)
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
    ) -> Draft:
        """Choose the pull requests of a repository."""
        history = History.open(repo)
        writer = None if model is None else Model("--model", model)
        chosen, left_out = in_history(history, last, branch, commits, mute=model is not None)
        check(history, chosen, left_out)
        return cls(history, output, chosen, left_out, model=writer, may_replace=may_replace)

    def entries(self) -> list[Entry]:
        """The tasks that are in the file. Tasks that would be lost are refused, unless they may be replaced."""
        return self._file.found()

    def write(self, tell: Callable[[Entry], None]) -> None:
        """Write the missing tasks; each that a model wrote is on disk before `tell` is called with it."""
        there = {entry.commit for entry in self.entries()}
        missing = [found for found in self.chosen if found.head not in there]
        if self.model is None:
            self._file.add([self._entry(found, "message", found.task) for found in missing])
            return
        if missing:
            self.model.check()
            asyncio.run(self._ask(self.model, missing, tell))
        if self._failure is not None:
            raise self._stopped(self._failure)
        if not self.entries():
            raise BadInput(
                f"{self.model.name} wrote no task, and no message says one", "name others: --last, --commits"
            )
        self._file.add([])  # and what may be replaced is gone

    def _stopped(self, failure: Failure) -> Incomplete:
        kept = f"{len(self.entries()):,} of {len(self.chosen):,} tasks are in {relative_path(self.path)}"
        told = " ".join(failure.message.split())
        fix = "; ".join(filter(None, (failure.fix, "the same command goes on with the others")))
        return Incomplete(f"{failure.kind}: {told}; {kept}", fix)

    def _entry(self, found: PullRequest, by: By, task: str) -> Entry:
        model = None if self.model is None else self.model.name
        return Entry(
            found.head, task, id=found.id, base=found.base, title=found.title, style=found.style, by=by, model=model
        )

    async def _ask(self, model: Model, missing: Sequence[PullRequest], tell: Callable[[Entry], None]) -> None:
        free = asyncio.Semaphore(AT_ONCE)

        async def in_turn(found: PullRequest) -> None:
            async with free:
                await self._write(model, found, tell)

        async with model:
            await asyncio.gather(*map(in_turn, missing))

    async def _write(self, model: Model, found: PullRequest, tell: Callable[[Entry], None]) -> None:
        answer = await self._answer(model, found)
        if answer is None:
            return
        task, problem = answer
        if not task and not found.task:
            why = f"its message says no task, and {model.name} wrote none: {problem}"
            self.left_out.append(LeftOut(found.head, found.title, why))
            return
        if not task:
            self.warnings.append(f"{found.id} keeps the words of its message; of what {model.name} wrote: {problem}")
        entry = self._entry(found, "model" if task else "message", task or found.task)
        self._file.add([entry])
        tell(entry)

    async def _answer(self, model: Model, found: PullRequest) -> tuple[str, str] | None:
        """The task, or what was wrong with all answers; None if the model failed, which ends the draft."""
        prompt = problem = ""
        for _ in range(ASKED):
            if self._failure is not None:
                return None
            request = shown(self._history, found)
            outcome = await model.ask(prompt or request.prompt())
            failure = outcome.failure
            if failure is not None and failure.kind not in _ANSWERS:
                self._failure = self._failure or failure
                return None
            text = "" if outcome.answer is None else outcome.answer.text
            task = ""
            if failure is not None:
                problem = " ".join(failure.message.split())
            elif outcome.answer is not None and outcome.answer.data.get("finish_reason") in _CUT:
                problem = "it was so long that it was cut"
            else:
                task, problem = request.read(text)
            if not problem or (failure is not None and failure.kind in _SAID_NO):
                return task, problem
            prompt = request.prompt_again(text, problem)
        return "", problem
