"""The prompt for a model that sees a change and writes its task, and the check that the task does not reveal it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from abreast.scorers.base import clipped
from abreast.scorers.judge import quoted
from abreast.suites.coding_agents.history.change import excerpt, files_between
from abreast.suites.coding_agents.history.commits import GitHistory
from abreast.suites.coding_agents.history.discovery import PullRequest
from abreast.suites.coding_agents.history.pull_request_cases import tests_in
from abreast.suites.coding_agents.history.task_text import SHORTEST, cleaned, has_code

SHORTEST_QUOTE = 20  # a match of this many characters of an added line, without white space, is no coincidence
LONGEST_MESSAGE = 20_000  # characters of a commit message in the prompt

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

_RETRY = """\
{prompt}
You have answered before, and the answer cannot be used: {problem}. Write the task anew, without that. The answer was:

{data}"""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    pull_request: PullRequest
    tests: str
    change: str

    def prompt(self) -> str:
        message = clipped(self.pull_request.body, LONGEST_MESSAGE)[0]
        parts = [("title", self.pull_request.title), ("message", message or "(there is none)")]
        parts += [("change of tests", self.tests)] if self.tests else []
        return _ASK.format(data=quoted([*parts, ("change", self.change or "(only tests were changed)")]))

    def retry_prompt(self, answer: str, problem: str) -> str:
        data = quoted([("answer", answer or "(nothing)")])
        return _RETRY.format(prompt=self.prompt(), problem=problem, data=data)

    def read(self, answer: str) -> tuple[str, str]:
        """Return the task in an answer, or an empty text and the problem with the answer."""
        answer = _CONTROL.sub("", answer.replace("\r\n", "\n")).strip()
        if code := has_code(answer):
            return "", f"it contains a code block or a diff ({code[:60]})"
        if line := self._find_revealed_line(answer):
            return "", f"it contains a line of the change ({line[:200]})"
        title, _, body = answer.partition("\n")
        task = cleaned(title, body, self.pull_request.number)
        if len(task) < SHORTEST:
            return "", f"it has no task: only {len(task)} characters are left"
        return task, ""

    def _find_revealed_line(self, answer: str) -> str:
        """Return the first added line of the change that the text quotes, unless it is also in the message."""
        text = _normalize(answer)
        message = _normalize(f"{self.pull_request.title}\n{self.pull_request.body}")
        for block in _find_added_blocks(self.tests + self.change):
            singles = [line for line in block if not _LONE_TEXT.fullmatch(line.strip())]
            for line in [*singles, *map("\n".join, pairwise(singles))]:
                quote = _normalize(line).rstrip(",;")
                if len(quote) >= SHORTEST_QUOTE and quote in text and quote not in message:
                    return " ".join(line.split())
        return ""


def task_request(history: GitHistory, pull_request: PullRequest) -> TaskRequest:
    files = files_between(history, pull_request.base, pull_request.head)
    tests = [file for file in files if tests_in([file], [])]
    others = [file for file in files if file not in tests]
    excerpts = (excerpt(history, pull_request.base, pull_request.head, part) for part in (tests, others))
    return TaskRequest(pull_request, *excerpts)


def _normalize(text: str) -> str:
    """Return the text in lower case without white space, backticks and invisible characters."""
    characters = re.sub(r"[\s`]+", "", text)
    return "".join(char for char in characters if char.isascii() or unicodedata.category(char) != "Cf").casefold()


def _find_added_blocks(diff: str) -> Iterator[list[str]]:
    """Blocks of added lines, without those that only moved."""
    removed = {line[1:].strip() for line in diff.split("\n") if re.match(r"-(?!-- )", line)}
    block, in_hunk = list[str](), False
    for line in [*diff.split("\n"), ""]:
        in_hunk = line.startswith("@@ ") or (in_hunk and not line.startswith("diff --git "))
        if in_hunk and line.startswith("+"):
            block += [line[1:]] if line[1:].strip() not in removed else []
        elif block:
            yield block
            block = []
