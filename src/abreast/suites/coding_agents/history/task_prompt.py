"""A task in the words of a model that sees the change: what it is asked for, and whether its answer says how."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from abreast.scorers.base import clipped
from abreast.scorers.judge import quoted
from abreast.suites.coding_agents.history.change import excerpt, files_between
from abreast.suites.coding_agents.history.commits import History
from abreast.suites.coding_agents.history.discovery import PullRequest
from abreast.suites.coding_agents.history.pull_request_cases import tests_in
from abreast.suites.coding_agents.history.task_text import SHORTEST, cleaned, has_code

SHORTEST_QUOTE = 20  # so many characters of an added line, without white space, are no chance

LONGEST_MESSAGE = 20_000  # characters of a message that are shown

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONE_TEXT = re.compile(r"""[a-zA-Z]{0,2}(["'])(?:(?!\1).)*\1[,;)\]]*""")

_ASK = """\
You write tasks for programmers. Below is a pull request of a repository: its title, its message, and what people \
changed. Write the task that a user or a maintainer would have given before it. Whoever gets it sees the repository as \
it was before, and your words; nothing else.

- Say what shall be different afterwards: behaviour, limits, texts, what happens at the edges.
- Tests that people wrote for it will decide. Give every name that they call or look for and that was not there \
before, exactly: functions, classes, arguments, commands, files, messages. Without them nobody can pass.
- Never say how: no code, no fenced block, no diff, no line of the change, no list of files to edit, no hashes, no \
numbers of pull requests.
- The first line is a title. Then plain sentences, as few as are needed. No introduction, and no word about these rules.

{data}"""

_AGAIN = """\
{asked}
You have answered before, and the answer cannot be used: {wrong}. Write the task anew, without that. The answer was:

{data}"""


@dataclass(frozen=True, slots=True)
class Shown:
    pull_request: PullRequest
    tests: str
    change: str

    def prompt(self) -> str:
        found = self.pull_request
        message = clipped(found.body, LONGEST_MESSAGE)[0]
        parts = [("title", found.title), ("message", message or "(there is none)")]
        parts += [("change of tests", self.tests)] if self.tests else []
        return _ASK.format(data=quoted([*parts, ("change", self.change or "(only tests were changed)")]))

    def prompt_again(self, said: str, wrong: str) -> str:
        data = quoted([("answer", said or "(nothing)")])
        return _AGAIN.format(asked=self.prompt(), wrong=wrong, data=data)

    def read(self, said: str) -> tuple[str, str]:
        said = _CONTROL.sub("", said.replace("\r\n", "\n")).strip()
        if code := has_code(said):
            return "", f"it has a block of code or a diff in it ({code[:60]})"
        if line := self._revealed(said):
            return "", f"it has a line of the change in it ({line[:200]})"
        title, _, body = said.partition("\n")
        task = cleaned(title, body, self.pull_request.number)
        if len(task) < SHORTEST:
            return "", f"it says no task: {len(task)} characters are left of it"
        return task, ""

    def _revealed(self, said: str) -> str:
        """The first line of the change that a text has, other than what the message says or stood there before."""
        text, found = _bare(said), self.pull_request
        known = _bare(f"{found.title}\n{found.body}")
        for block in _added(self.tests + self.change):
            singles = [line for line in block if not _LONE_TEXT.fullmatch(line.strip())]
            for line in [*singles, *(f"{one}\n{other}" for one, other in pairwise(singles))]:
                bare = _bare(line).rstrip(",;")
                if len(bare) >= SHORTEST_QUOTE and bare in text and bare not in known:
                    return " ".join(line.split())
        return ""


def shown(history: History, found: PullRequest) -> Shown:
    files = files_between(history, found.base, found.head)
    tests = [file for file in files if tests_in([file], [])]
    others = [file for file in files if file not in tests]
    parts = (excerpt(history, found.base, found.head, some) for some in (tests, others))
    return Shown(found, *parts)


def _bare(text: str) -> str:
    """The signs of a text, however they are laid out: without white space and what cannot be seen."""
    seen = (char for char in re.sub(r"[\s`]+", "", text) if char.isascii() or unicodedata.category(char) != "Cf")
    return "".join(seen).casefold()


def _added(diff: str) -> Iterator[list[str]]:
    """The lines that people added, those in a row together; without those that only moved."""
    removed = {line[1:].strip() for line in diff.split("\n") if re.match(r"-(?!-- )", line)}
    block, in_hunk = list[str](), False
    for line in [*diff.split("\n"), ""]:
        in_hunk = line.startswith("@@ ") or (in_hunk and not line.startswith("diff --git "))
        if in_hunk and line.startswith("+"):
            block += [line[1:]] if line[1:].strip() not in removed else []
        elif block:
            yield block
            block = []
