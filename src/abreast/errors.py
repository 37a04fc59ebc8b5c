"""The errors of the package, in two families.

An `AbreastError` ends a command: its message says what is wrong and where, its fix what to do. A `TrialError` is raised
by a target during a trial; its class decides whether it is retried and who is to blame.

>>> raise_for = RateLimited("slow down", retry_after=2.0)
>>> raise_for.kind, raise_for.blame, raise_for.retry_after
('rate_limit', 'infrastructure', 2.0)
"""

from __future__ import annotations

import errno
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from abreast import rate_headers
from abreast.model import Answer, Blame, Failure, RateLimits
from abreast.sizes import LARGEST_ANSWER_SIZE, megabytes

LONGEST_RETRY_AFTER_S = 3600.0
LONGEST_DETAIL = 4_000  # characters of the calls that led to a crash
MOST_CALLS = 16  # a deeper stack is cut in the middle
MOST_CALLS_IN_MESSAGE = 3
MOST_NAMES = 20  # names listed if none is similar


class AbreastError(Exception):
    """An error that users can cause and fix. Printed without a traceback; the process ends with `exit_code`."""

    exit_code = 2

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        if fix:
            self.add_note(fix)  # shown in tracebacks


class BadInput(AbreastError):
    """A spec, case file or argument that cannot be used."""


class PluginError(BadInput):
    """A plugin does not implement its interface."""


class StoreError(AbreastError):
    """The store cannot be read or written."""


class Incomplete(AbreastError):
    """The run stopped before the end of its plan; finished trials are stored, and `resume` continues it."""

    exit_code = 3


class PreflightRefused(AbreastError):
    """A preflight check failed; nothing was executed."""

    exit_code = 4


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """` (did you mean "variants"?)`, or empty if no name is similar."""
    import difflib  # late: only for messages

    matches = difflib.get_close_matches(word, sorted(names), n=1, cutoff=0.6)
    return f' (did you mean "{matches[0]}"?)' if matches else ""


def suggestion(word: str, names: Iterable[str]) -> str:
    """` (did you mean "variants"?)`, or a list of the names if none is similar."""
    names = sorted(names)
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    listed = f" (known: {', '.join(names[:MOST_NAMES])}{more})" if names else ""
    return did_you_mean(word, names) or listed


class TrialError(Exception):
    """Raised by a target if an attempt gives no answer.

    The `headers` of the response say when to retry, `fix` what the user can do, and `answer` is the partial answer with
    its usage and cost.
    """

    kind = "crash"
    blame: Blame = "variant"

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float | str | None = None,
        headers: Any = None,
        fix: str = "",
        answer: Answer | None = None,
    ) -> None:
        super().__init__(message or self.kind)
        self.fix = fix
        self.answer = answer
        if retry_after is None and headers is not None:
            retry_after = rate_headers.retry_after(headers)
        self.retry_after = _seconds(retry_after)
        self.rate = None if headers is None else rate_headers.rate_limits(headers)


class RateLimited(TrialError):
    """The provider asks to slow down. Retried, after `retry_after` seconds if given."""

    kind = "rate_limit"
    blame: Blame = "infrastructure"


class Transient(TrialError):
    """A transient fault of the network or the provider. Retried."""

    kind = "network"
    blame: Blame = "infrastructure"


class Unauthenticated(TrialError):
    """A missing or wrong key, or not logged in. Not retried: the next attempt would fail too."""

    kind = "auth"
    blame: Blame = "infrastructure"


class TimedOut(TrialError):
    """The variant was too slow. The variant's fault."""

    kind = "timeout"


class Refused(TrialError):
    """The model declined to answer. The variant's fault."""

    kind = "refused"


class TooLong(TrialError):
    """The request is too long for the model. The variant's fault."""

    kind = "too_long"


class TooBig(TrialError):
    """The answer is larger than `limits: answer_size`. The variant's fault; not retried."""

    kind = "too_big"

    @classmethod
    def of(cls, size: str, most: int, answer: Answer | None = None) -> TooBig:
        largest = megabytes(LARGEST_ANSWER_SIZE)
        fix = f"ask for less, or raise limits: answer_size (up to {largest}) and run with --retry-failed"
        return cls(f"{size}; at most {megabytes(most)} are stored", fix=fix, answer=answer)


class NoAnswer(TrialError):
    """The target returned nothing. The variant's fault."""

    kind = "no_answer"


class McpFailed(TrialError):
    """An MCP server of the variant did not start, so the variant was not measured. Retried."""

    kind = "mcp_failed"
    blame: Blame = "infrastructure"


class ToolDenied(TrialError):
    """A tool call of the agent was denied, so its permissions were measured. Not retried."""

    kind = "tool_denied"
    blame: Blame = "infrastructure"


class Rejected(TrialError):
    """The provider rejects such requests, for an unknown model or parameter. Nothing was measured; not retried."""

    kind = "rejected"
    blame: Blame = "infrastructure"


class Crashed(TrialError):
    """The target crashed. The variant's fault."""


class Classified(TrialError):
    """An exception that was classified where it was raised."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Skipped(TrialError):
    """Not a failure: the trial does not apply, for the reason in the message."""

    kind = "skipped"


def classify(error: BaseException, in_user_code: bool = False) -> Failure:
    """Return the failure behind any exception: as a `TrialError` defines it, else by HTTP status, else by classes
    and causes. Never raises, even if inspecting the exception does.

    For an untyped exception of a user's function, blame on infrastructure is marked as presumed, because the function
    might raise it where it should return an answer.

    >>> classify(ConnectionResetError("peer went away")).blame
    'infrastructure'
    >>> classify(TimeoutError("slow")).kind, classify(TimeoutError("slow")).blame
    ('timeout', 'infrastructure')
    >>> classify(MemoryError()).kind
    'resources'
    >>> classify(ZeroDivisionError("division by zero")).kind
    'crash'
    """
    message = _text(error) if _is(error, TrialError) else _message(error)
    for cause, is_explicit in _chain(error):
        failure = _own_failure(cause, message if cause is error else f"{message} (caused by {_message(cause)})")
        if failure is not None and (is_explicit or failure.blame == "infrastructure"):
            presumed = in_user_code and not _is(cause, TrialError) and failure.blame == "infrastructure"
            return _located(replace(failure, presumed=True) if presumed else failure, error)
    return _located(Failure("crash", "variant", message), error)


def _located(failure: Failure, error: BaseException) -> Failure:
    """Add the calls that led to the failure, unless it is a `TrialError`, which is raised on purpose."""
    if _is(error, TrialError):
        return failure
    try:
        return replace(failure, detail=where_raised(error))
    except Exception:  # noqa: BLE001 - a user's exception; sources may be gone
        return failure


def where_raised(error: BaseException) -> str:
    """The calls in user code that led to an exception and its causes, one per line.

    Calls inside libraries are omitted, except the one that raised.
    """
    lines: list[str] = []
    for cause, is_explicit in _chain(error):
        calls = _calls(cause)
        if cause is not error and (calls or is_explicit):
            lines.append(f"{'caused by' if is_explicit else 'while handling'} {_message(cause)}")
        lines += calls
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_DETAIL else text[: LONGEST_DETAIL - 2] + " …"


def location(detail: str) -> str:
    """The last calls before an exception, outermost first, from the result of `where_raised`.

    >>> location("predict.py:4 in predict: return half(case)\\npredict.py:9 in half: 1 / 0\\ncaused by KeyError: 'x'")
    'predict.py:4 in predict: return half(case) > predict.py:9 in half: 1 / 0'
    """
    calls = itertools.takewhile(
        lambda line: not line.startswith(("caused by ", "while handling ")), detail.splitlines()
    )
    return " > ".join(list(calls)[-MOST_CALLS_IN_MESSAGE:])


def _calls(error: BaseException) -> list[str]:
    steps: list[tuple[FrameType, int]] = []
    entry = error.__traceback__
    while entry is not None:
        if not entry.tb_frame.f_code.co_filename.startswith(_OWN_CODE):
            steps.append((entry.tb_frame, entry.tb_lineno))
        entry = entry.tb_next
    outside_stdlib = [step for step in steps if not step[0].f_code.co_filename.startswith(_standard_library())]
    in_user_code = [
        step for step in outside_stdlib if not any(folder in step[0].f_code.co_filename for folder in _INSTALLED)
    ]
    calls = in_user_code or outside_stdlib
    if not calls:
        return []
    if calls[-1] is not steps[-1]:
        calls.append(steps[-1])
    if len(calls) <= MOST_CALLS:
        return [_call(*step) for step in calls]
    lines = [_call(*step) for step in calls[:4] + calls[4 - MOST_CALLS :]]
    return [*lines[:4], f"… {len(calls) - MOST_CALLS:,} more calls …", *lines[4:]]


def _call(frame: FrameType, number: int) -> str:
    """`predict.py:12 in predict: return 1 / 0`."""
    import linecache

    path = frame.f_code.co_filename
    source = linecache.getline(path, number, frame.f_globals).strip()
    return f"{_short_path(path)}:{number} in {frame.f_code.co_name}" + (f": {source[:200]}" if source else "")


def _short_path(path: str) -> str:
    """A path relative to the installed packages, the standard library or the working folder."""
    for folder in (*_INSTALLED, *_standard_library()):
        if folder in path:
            return path.rpartition(folder)[2]
    return path.removeprefix(str(Path.cwd()) + os.sep)


@cache
def _standard_library() -> tuple[str, ...]:
    import sysconfig

    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")} | {str(Path(os.__file__).parent)}
    return ("<frozen ", *(folder + os.sep for folder in folders))


_OWN_CODE = str(Path(__file__).parent) + os.sep
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def _chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield the exception and its causes, nearest first; False marks those that were only being handled."""
    pending: list[tuple[BaseException, bool]] = [(error, True)]
    visited: set[int] = set()
    while pending:
        cause, is_explicit = pending.pop(0)
        if id(cause) in visited:
            continue
        visited.add(id(cause))
        yield cause, is_explicit
        members = _peek(cause, "exceptions")
        causes = [_peek(cause, "__cause__"), _peek(cause, "reason"), *(members if type(members) is tuple else ())]
        pending += [(item, is_explicit) for item in causes if _is(item, BaseException)]
        context = _peek(cause, "__context__")
        if _is(context, BaseException) and not _peek(cause, "__suppress_context__"):
            pending.append((context, False))


def _own_failure(error: BaseException, message: str) -> Failure | None:
    """The failure that an exception means on its own, ignoring its causes; None if unknown."""
    if _is(error, TrialError):
        return _typed(error, message)
    status = _status(error)
    if status is not None and status >= 400:
        return _by_status(status, message, *_headers(error))
    names = {kind.__name__ for kind in type(error).__mro__}
    number = _peek(error, "errno") if _is(error, OSError) else None
    is_out_of_threads = _is(error, RuntimeError) and "can't start new thread" in message
    if _is(error, MemoryError) or number in _EXHAUSTED or is_out_of_threads:
        return Failure("resources", "infrastructure", message)
    if number in _NETWORK_ERRNOS:
        return Failure("network", "infrastructure", message)
    if _is(error, TimeoutError) or any("Timeout" in name for name in names):
        return Failure("timeout", "infrastructure", message)
    if names & _CALLERS_FAULT:
        return None
    if names & _NETWORK_NAMES or any(kind.__module__ == "http.client" for kind in type(error).__mro__):
        return Failure("network", "infrastructure", message)
    return None


# By name, to recognise classes of SDKs and heavy standard modules without importing them.
_NETWORK_NAMES = {
    *("ConnectionError", "gaierror", "herror", "SSLError", "ContentTooShortError", "ChunkedEncodingError"),
    *("ConnectError", "ReadError", "WriteError", "CloseError", "NetworkError", "RemoteProtocolError", "ProtocolError"),
    *("ServerDisconnectedError", "ClientConnectionError", "ClientConnectorError", "ClientOSError"),
    *("ClientPayloadError", "APIConnectionError", "NewConnectionError", "ConnectionClosed"),
}
_CALLERS_FAULT = {"LocalProtocolError", "InvalidURL", "UnimplementedFileMode"}


def _numbers(*names: str) -> set[int]:
    return {getattr(errno, name) for name in names if hasattr(errno, name)}


_EXHAUSTED = _numbers("EMFILE", "ENFILE", "ENOMEM", "ENOSPC", "EAGAIN", "ENOBUFS", "EDQUOT")
_NETWORK_ERRNOS = _numbers(
    *("ENETUNREACH", "ENETDOWN", "ENETRESET", "EHOSTUNREACH", "EHOSTDOWN", "ECONNREFUSED", "ECONNRESET"),
    *("ECONNABORTED", "ETIMEDOUT", "EPIPE", "ESHUTDOWN", "ENOTCONN", "EADDRNOTAVAIL"),
)
_BLAMES: tuple[Blame, ...] = ("variant", "infrastructure", "unknown")


def _typed(error: BaseException, message: str) -> Failure:
    failure = _peek(error, "failure")
    if type(failure) is Failure:
        return failure
    kind, blame = _peek(error, "kind"), _peek(error, "blame")
    detail, rate, fix = _peek(error, "detail"), _peek(error, "rate"), _peek(error, "fix")
    return Failure(
        kind=kind if type(kind) is str else "crash",
        blame=blame if type(blame) is str and blame in _BLAMES else "variant",
        message=message,
        retry_after=_seconds(_peek(error, "retry_after")),
        detail=detail if type(detail) is str else "",
        rate=rate if isinstance(rate, RateLimits) else None,
        fix=fix if type(fix) is str else "",
    )


def _status(error: BaseException) -> int | None:
    if _is(error, SystemExit):  # `code` is an exit code
        return None
    response = _peek(error, "response")
    for owner, name in ((error, "status_code"), (error, "status"), (error, "code"), (response, "status_code")):
        value = _peek(owner, name)
        if _is(value, int) and not _is(value, bool) and 100 <= value <= 599:
            return int(value)
    return None


def _by_status(status: int, message: str, retry_after: float | None, rate: RateLimits | None) -> Failure:
    if status in (429, 529):
        return Failure("rate_limit", "infrastructure", message, retry_after, rate=rate)
    if status >= 500 or status == 408:
        return Failure("network", "infrastructure", message, retry_after, rate=rate)
    if status in (401, 403):
        return Failure("auth", "infrastructure", message)
    if status == 413:
        return Failure("too_long", "variant", message)
    return Failure("crash", "variant", message)


def _headers(error: BaseException) -> tuple[float | None, RateLimits | None]:
    """Read retry time and rate limits from the headers of the response behind an exception."""
    for owner in (_peek(error, "response"), error):
        headers = _peek(owner, "headers")
        if headers is not None:
            return _seconds(rate_headers.retry_after(headers)), rate_headers.rate_limits(headers)
    return None, None


def _seconds(value: Any) -> float | None:
    """A valid delay: finite, not negative, at most an hour.

    >>> _seconds("2.5"), _seconds(-1), _seconds("nan"), _seconds("soon"), _seconds(1e9)
    (2.5, None, None, None, 3600.0)
    """
    if value is None or isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except Exception:  # noqa: BLE001 - any object from a header or user code
        return None
    return min(seconds, LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) and seconds >= 0 else None


def _is(value: Any, kind: type) -> bool:
    """`isinstance` by the type alone, because the object's `__class__` may raise."""
    return issubclass(type(value), kind)


def _peek(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - a property of a user's exception
        return None


def _message(error: BaseException) -> str:
    text = _text(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str.__str__(str(error))  # a subclass of str might not be picklable
    except Exception as broken:  # noqa: BLE001 - a user's __str__
        return f"(its message cannot be shown: {type(broken).__name__})"
