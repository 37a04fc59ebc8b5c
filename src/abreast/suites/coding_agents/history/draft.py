"""`abreast cases new coding-agents`: the tasks of pull requests, written into a file. Nothing paid is asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from abreast.errors import BadInput, Incomplete
from abreast.model import Failure, Outcome
from abreast.spec.values import shown_path
from abreast.suites.coding_agents.history.asking import Model
from abreast.suites.coding_agents.history.commits import History
from abreast.suites.coding_agents.history.discovery import LeftOut
from abreast.suites.coding_agents.history.pull_request_cases import Chosen, check, in_history
from abreast.suites.coding_agents.history.task_prompt import Shown, shown
from abreast.suites.coding_agents.history.taskfile import By, Entry, Kept

ASKED = 2  # how often at most for one task: once more after an answer that reveals the change

AT_ONCE = 4
_SAID_NO = ("refused", "too_long")  # it would say the same again
_ANSWERS = (*_SAID_NO, "no_answer")  # failures of the model itself, which has been paid for them
_CUT = ("max_tokens", "length", "max_output_tokens")


class Draft:
    """The pull requests that are chosen, and the file that gets their tasks: by their messages, or by a model."""

    def __init__(
        self,
        repo: Path,
        output: Path,
        *,
        last: int | None = None,
        branch: str = "HEAD",
        commits: Sequence[str] = (),
        model: str | None = None,
        may_replace: bool = False,
    ) -> None:
        self._history = History.open(repo)
        self.model = None if model is None else Model("--model", model)
        self.path = output
        self.chosen, self.left_out = in_history(self._history, last, branch, commits, mute=model is not None)
        check(self._history, self.chosen, self.left_out)
        self._file = Kept(output, [self._entry(one, "message", "") for one in self.chosen], may_replace)
        self.before = len(self._file.found())  # are written already
        self.warnings: list[str] = []
        self._failure: Failure | None = None

    def entries(self) -> list[Entry]:
        return self._file.found()

    def write(self, tell: Callable[[Entry], None]) -> None:
        """All that are not there yet; each that a model wrote is on disk before it is told."""
        there = {entry.commit for entry in self.entries()}
        left = [one for one in self.chosen if one.pull_request.head not in there]
        if self.model is None:
            self._file.add([self._entry(one, "message", one.task) for one in left])
            return
        if left:
            self.model.check()
            asyncio.run(self._ask(self.model, left, tell))
        if self._failure is not None:
            raise self._stopped(self._failure)
        if not self.entries():
            raise BadInput(
                f"{self.model.name} wrote no task, and no message says one", "name others: --last, --commits"
            )
        self._file.add([])  # and what may be replaced is gone

    def _stopped(self, failure: Failure) -> Incomplete:
        kept = f"{len(self.entries()):,} of {len(self.chosen):,} tasks are in {shown_path(self.path)}"
        told = " ".join(failure.message.split())
        fix = "; ".join(filter(None, (failure.fix, "the same command goes on with the others")))
        return Incomplete(f"{failure.kind}: {told}; {kept}", fix)

    def _entry(self, one: Chosen, by: By, task: str) -> Entry:
        found = one.pull_request
        name = None if self.model is None else self.model.name
        return Entry(
            found.head, task, id=one.id, base=found.base, title=found.title, style=found.style, by=by, model=name
        )

    async def _ask(self, model: Model, left: Sequence[Chosen], tell: Callable[[Entry], None]) -> None:
        places = asyncio.Semaphore(AT_ONCE)

        async def in_turn(one: Chosen) -> None:
            async with places:
                await self._write(model, one, tell)

        async with model:
            await asyncio.gather(*map(in_turn, left))

    async def _write(self, model: Model, one: Chosen, tell: Callable[[Entry], None]) -> None:
        words = await self._words(model, one)
        if words is None:
            return
        task, wrong = words
        if not task and not one.task:
            why = f"its message says no task, and {model.name} wrote none: {wrong}"
            self.left_out.append(LeftOut(one.pull_request.head, one.pull_request.title, why))
            return
        if not task:
            self.warnings.append(f"{one.id} keeps the words of its message; of what {model.name} wrote: {wrong}")
        entry = self._entry(one, "model" if task else "message", task or one.task)
        self._file.add([entry])
        tell(entry)

    async def _words(self, model: Model, one: Chosen) -> tuple[str, str] | None:
        """The task, or what was wrong with all that was said; None if nobody answered, then nobody else is asked."""
        seen: Shown | None = None
        prompt = wrong = ""
        for _ in range(ASKED):
            if self._failure is not None:
                return None
            seen = seen or shown(self._history, one)
            outcome = await model.ask(prompt or seen.prompt())
            if outcome.failure is not None and outcome.failure.kind not in _ANSWERS:
                self._failure = self._failure or outcome.failure
                return None
            said = "" if outcome.answer is None else outcome.answer.text
            task, wrong = _read(seen, outcome, said)
            if not wrong or (outcome.failure is not None and outcome.failure.kind in _SAID_NO):
                return task, wrong
            prompt = seen.prompt_again(said, wrong)
        return "", wrong


def _read(seen: Shown, outcome: Outcome, said: str) -> tuple[str, str]:
    if outcome.failure is not None:
        return "", " ".join(outcome.failure.message.split())
    if outcome.answer is not None and outcome.answer.data.get("finish_reason") in _CUT:
        return "", "it was so long that it was cut"
    return seen.read(said)
