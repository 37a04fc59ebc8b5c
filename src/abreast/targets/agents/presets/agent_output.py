"""The output of an agent, read from the files that hold it: line by line, and never more than fits.

Programs differ by version in what they print, so everything is optional and what is no JSON is skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast import errors
from abreast.errors import TrialError
from abreast.model import Usage
from abreast.targets.api.http_target import http_error
from abreast.targets.processes import process
from abreast.targets.untrusted_json import mapping, parsed

LONGEST_JSON = 16_000_000  # bytes of a line or a document that are looked at; all of it is in the file
LONGEST_LOG = 2_000_000  # bytes of a log in which the answer is searched: of a longer one its beginning and its end
LONGEST_MESSAGE = 500
EMPTY = "an empty answer"


@dataclass(slots=True)
class AgentOutput:
    """What is known of one attempt; None where the program does not say."""

    text: str | None = None
    value: Any = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    is_included: bool = False  # a subscription pays
    model: str | None = None
    turns: int | None = None
    tools: Counter[str] | None = None
    api_retries: int | None = None
    retry_wait_s: float | None = None  # that it waited for retries which were answered
    unanswered: TrialError | None = None  # the request that it was repeating when its output ended
    extra_columns: Mapping[str, Any] = field(default_factory=dict)  # columns, such as those of MCP tools
    error: TrialError | None = None  # an error that the program itself tells of
    missing_reason: str = EMPTY  # why there is no text, if there is none
    raw: str | None = None  # all that was printed, if the reader has it

    def columns(self) -> dict[str, Any]:
        return {
            "turns": self.turns,
            "tool_calls": None if self.tools is None else self.tools.total(),
            "tools": dict(self.tools) if self.tools else None,
            **self.extra_columns,
            "api_retries": self.api_retries,
            "retry_wait_s": round(self.retry_wait_s, 3) if self.retry_wait_s else None,
        }


Reader = Callable[[Path, Path], AgentOutput]
"""What a program said, by the files of its output and of its errors."""


def read_lines(path: Path, most: int = LONGEST_JSON) -> Iterator[bytes]:
    """The lines of a file that are not empty, without those of `most` bytes or more."""
    try:
        with process.printed(path) as file:
            is_rest = False
            while line := file.readline(most):
                ends = line.endswith(b"\n")
                if not is_rest and (ends or len(line) < most) and line.strip():
                    yield line
                is_rest = not ends
    except OSError:
        return


def json_objects(path: Path, most: int = LONGEST_JSON) -> Iterator[dict[str, Any]]:
    """The JSON objects among the lines of a file."""
    yield from (event for line in read_lines(path, most) if isinstance(event := parsed(line), dict))


def json_document(path: Path, most: int = LONGEST_JSON) -> Any:
    """The JSON document in a file, whatever stands before it; None if there is none, or it is too long."""
    try:
        with process.printed(path) as file:
            content = file.read(most + 1)
    except OSError:
        return None
    if len(content) > most:
        return None
    starts = [match.start() for match in re.finditer(rb"^\s*[\[{]", content, re.M)][:20]  # after a warning
    return next((value for at in (0, *starts) if (value := parsed(content[at:])) is not None), None)


def sum_known(*counts: int | None) -> int | None:
    """The sum of those that are known; None if none is."""
    known = [number for number in counts if number is not None]
    return sum(known) if known else None


def uncached(given: int | None, cached: int | None) -> int | None:
    """Input without what was read from a cache, where the program counts both together."""
    return None if given is None else max(0, given - (cached or 0))


# -- errors ------------------------------------------------------------------------------------------------------------

_STATUS = re.compile(r"(?:status|code|http|error)\W{0,4}(?:code\W{0,3})?([45]\d\d)\b|\b([45]\d\d) [A-Z]", re.IGNORECASE)
_TOO_LONG = re.compile(r"context.?(length|window|overflow)|prompt is too long|token limit", re.IGNORECASE)
_WORDS = (  # what a message says without a status, by the status it would have
    (429, r"rate.?limit|too many requests|usage limit|hit your limit|resource.?exhausted|quota"),
    (401, r"unauthori[sz]ed|not (logged|signed) in|log ?in\b|api.?key|authenticat|auth method"),
    (401, r"missing environment variable"),
    (503, r"high demand|overloaded|connection|disconnected|timed? ?out|network|error sending|fetch failed|unavailable"),
    (503, r"econn(refused|reset)|enotfound|socket|internal server|server ?error|bad gateway"),
    (404, r"model\b.*(not exist|not found|not supported|unknown)"),
)


def error_from_message(told: str, login: str, status: int | None = None) -> TrialError:
    """The error behind a message, by the status in it or by its words; `login` says how to get a key.

    >>> type(trouble("last status: 429 Too Many Requests", "log in")).__name__
    'RateLimited'
    >>> type(trouble("stream disconnected before completion", "log in")).__name__
    'Transient'
    >>> type(trouble("it fell over", "log in")).__name__
    'Crashed'
    """
    told = one_line(told)
    if _TOO_LONG.search(told):
        return errors.TooLong(told)
    if status is None:
        status = status_in(told) or next((code for code, words in _WORDS if re.search(words, told, re.I)), None)
    if status is None or not 400 <= status < 600:
        return errors.Crashed(told)
    return http_error(status, told, told, {}, login)


def status_in(message: str) -> int | None:
    """The HTTP status that a message names.

    >>> status_in("unexpected status 529 <unknown status code>"), status_in("error sending request")
    (529, None)
    """
    found = _STATUS.search(message)
    return int(found[1] or found[2]) if found else None


def one_line(told: str) -> str:
    """A message on one line; the provider's own words if it is an error as JSON.

    >>> shown('{"error": {"message": "Too\\\\n long", "code": "too_long"}}')
    'Too long (too_long)'
    """
    inside = mapping(mapping(parsed(told)).get("error"))
    if isinstance(inside.get("message"), str):
        told = inside["message"] + (f" ({inside['code']})" if inside.get("code") else "")
    return " ".join(told.split())[:LONGEST_MESSAGE] or "without a word"


def last_line(path: Path) -> str:
    """The last line of a file that says something."""
    return process.tail(path).rpartition("\n")[2].strip()


def unanswered_error(retries: int, status: int | None = None, reason: str = "", login: str = "") -> TrialError:
    """The error of a program that was ended while it repeated a request, by the `status` it reported last.

    >>> error = unanswered(5, 529, "overloaded")
    >>> error.kind, error.blame, str(error)
    ('rate_limit', 'infrastructure', 'the provider did not answer: HTTP 529 (overloaded), 5 retries')
    >>> unanswered(1).kind, str(unanswered(1))
    ('network', 'the provider did not answer: no connection, 1 retry')
    """
    count = f"{retries:,} {'retry' if retries == 1 else 'retries'}"
    cause = "no connection" if status is None else f"HTTP {status}"
    message = f"the provider did not answer: {cause}{f' ({reason})' if reason else ''}, {count}"
    if status is None:
        return errors.Transient(message)
    return http_error(status, reason, message, {}, login)
