"""The output of an agent, read from files within limits of size.

Versions of programs print different things, so everything is optional and invalid JSON is skipped.
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

LONGEST_JSON = 16_000_000  # bytes to read of a line or a document
LONGEST_LOG = 2_000_000  # bytes of a log to search, half at each end of a longer one
LONGEST_MESSAGE = 500
EMPTY = "an empty answer"


@dataclass(slots=True)
class AgentOutput:
    """The output of an attempt; None for what the program does not report."""

    text: str | None = None
    value: Any = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    is_included: bool = False  # paid by a subscription
    model: str | None = None
    turns: int | None = None
    tools: Counter[str] | None = None
    api_retries: int | None = None
    retry_wait_s: float | None = None  # total wait for answered retries
    unanswered: TrialError | None = None  # the error of the request that was being retried when the output ended
    extra_columns: Mapping[str, Any] = field(default_factory=dict)  # such as those of MCP tools
    error: TrialError | None = None  # the error that the program reports
    missing_reason: str = EMPTY  # reason for a missing text
    raw: str | None = None  # the complete output, if the reader kept it

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
"""Reads the files with the standard output and the standard error of a program."""


def read_lines(path: Path, most: int = LONGEST_JSON) -> Iterator[bytes]:
    """Yield the lines of a file, without those that are empty or have `most` bytes or more."""
    try:
        with process.open_output(path) as file:
            is_rest = False
            while line := file.readline(most):
                ends = line.endswith(b"\n")
                if not is_rest and (ends or len(line) < most) and line.strip():
                    yield line
                is_rest = not ends
    except OSError:
        return


def json_objects(path: Path, most: int = LONGEST_JSON) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the lines of a file."""
    yield from (event for line in read_lines(path, most) if isinstance(event := parsed(line), dict))


def json_document(path: Path, most: int = LONGEST_JSON) -> Any:
    """Return the JSON document in a file, even after other output; None if there is none or it is too long."""
    try:
        with process.open_output(path) as file:
            content = file.read(most + 1)
    except OSError:
        return None
    if len(content) > most:
        return None
    starts = [match.start() for match in re.finditer(rb"^\s*[\[{]", content, re.M)][:20]  # after a warning
    return next((value for at in (0, *starts) if (value := parsed(content[at:])) is not None), None)


def sum_known(*counts: int | None) -> int | None:
    """Return the sum of the counts that are known; None if none is."""
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None


def uncached(total: int | None, cached: int | None) -> int | None:
    """Subtract cached input tokens, for programs that include them in the total."""
    return None if total is None else max(0, total - (cached or 0))


# -- errors ------------------------------------------------------------------------------------------------------------

_STATUS = re.compile(r"(?:status|code|http|error)\W{0,4}(?:code\W{0,3})?([45]\d\d)\b|\b([45]\d\d) [A-Z]", re.IGNORECASE)
_TOO_LONG = re.compile(r"context.?(length|window|overflow)|prompt is too long|token limit", re.IGNORECASE)
_PATTERNS = (  # for messages without a status: the implied status, and a pattern
    (429, r"rate.?limit|too many requests|usage limit|hit your limit|resource.?exhausted|quota"),
    (401, r"unauthori[sz]ed|not (logged|signed) in|log ?in\b|api.?key|authenticat|auth method"),
    (401, r"missing environment variable"),
    (503, r"high demand|overloaded|connection|disconnected|timed? ?out|network|error sending|fetch failed|unavailable"),
    (503, r"econn(refused|reset)|\benotfound\b|socket|internal server|server ?error|bad gateway"),
    (404, r"model\b.*(not exist|not found|not supported|unknown)"),
)


def error_from_message(text: str, login: str, status: int | None = None) -> TrialError:
    """Classify a message by the status or the words in it; `login` is the fix for missing keys.

    >>> type(error_from_message("last status: 429 Too Many Requests", "log in")).__name__
    'RateLimited'
    >>> type(error_from_message("stream disconnected before completion", "log in")).__name__
    'Transient'
    >>> type(error_from_message("it fell over", "log in")).__name__
    'Crashed'
    """
    text = one_line(text)
    if _TOO_LONG.search(text):
        return errors.TooLong(text)
    if status is None:
        status = status_in(text) or next((code for code, words in _PATTERNS if re.search(words, text, re.I)), None)
    if status is None or not 400 <= status < 600:
        return errors.Crashed(text)
    return http_error(status, text, text, {}, login)


def status_in(message: str) -> int | None:
    """Return the HTTP status in a message.

    >>> status_in("unexpected status 529 <unknown status code>"), status_in("error sending request")
    (529, None)
    """
    match = _STATUS.search(message)
    return int(match[1] or match[2]) if match else None


def one_line(text: str) -> str:
    """Join the lines of a message; from an error in JSON, extract the message.

    >>> one_line('{"error": {"message": "Too\\\\n long", "code": "too_long"}}')
    'Too long (too_long)'
    """
    error = mapping(mapping(parsed(text)).get("error"))
    if isinstance(error.get("message"), str):
        text = error["message"] + (f" ({error['code']})" if error.get("code") else "")
    return " ".join(text.split())[:LONGEST_MESSAGE] or "no message"


def last_line(path: Path) -> str:
    """Return the last line of a file that is not empty."""
    return process.tail(path).rpartition("\n")[2].strip()


def unanswered_error(retries: int, status: int | None = None, reason: str = "", login: str = "") -> TrialError:
    """Return the error of a program that was ended while it retried a request, by the last `status`.

    >>> error = unanswered_error(5, 529, "overloaded")
    >>> error.kind, error.blame, str(error)
    ('rate_limit', 'infrastructure', 'the provider did not answer: HTTP 529 (overloaded), 5 retries')
    >>> unanswered_error(1).kind, str(unanswered_error(1))
    ('network', 'the provider did not answer: no connection, 1 retry')
    """
    count = f"{retries:,} {'retry' if retries == 1 else 'retries'}"
    cause = "no connection" if status is None else f"HTTP {status}"
    message = f"the provider did not answer: {cause}{f' ({reason})' if reason else ''}, {count}"
    if status is None:
        return errors.Transient(message)
    return http_error(status, reason, message, {}, login)
