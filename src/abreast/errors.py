"""The errors of the product.

Two families. `AbreastError` is what a command ends with: one line that says what and where, one that says what to do.
`TrialError` is what a target raises during a trial; its class decides whether it is retried and whose fault it is.

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

from abreast import rate_headers as announced
from abreast.model import Answer, Blame, Failure, RateLimits
from abreast.sizes import LARGEST_ANSWER_SIZE, megabytes

LONGEST_RETRY_AFTER_S = 3600.0
LONGEST_DETAIL = 4_000  # characters kept of where a crash happened
MOST_CALLS = 16  # of a deeper stack the first and the last are kept
MOST_CALLS_IN_MESSAGE = 3
MOST_KNOWN = 20  # names listed when none is near


class AbreastError(Exception):
    """Something a user can cause and mend. Shown without a traceback; the process ends with `exit_code`."""

    exit_code = 2

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        if fix:
            self.add_note(fix)  # a traceback shows it


class BadInput(AbreastError):
    """A spec, case file or argument that cannot be used."""


class PluginError(BadInput):
    """A package registered something that does not do what its interface asks for."""


class StoreError(AbreastError):
    """The store cannot be read or written."""


class Incomplete(AbreastError):
    """The run ended before its plan; what is done is stored, and `resume` goes on."""

    exit_code = 3


class PreflightRefused(AbreastError):
    """A preflight check failed; nothing was executed."""

    exit_code = 4


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean "variants"?)`, or nothing."""
    import difflib  # late: only for messages

    found = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f' (did you mean "{found[0]}"?)' if found else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean "variants"?)`, or the known names, or nothing."""
    names = sorted(known)
    if told := did_you_mean(word, names):
        return told
    more = f" and {len(names) - MOST_KNOWN:,} more" if len(names) > MOST_KNOWN else ""
    return f" (known: {', '.join(names[:MOST_KNOWN])}{more})" if names else ""


class TrialError(Exception):
    """Raised by a target: the attempt gave no answer. The `headers` of the response say when to try again, `fix` says
    what the user can do, and `answer` is what was used, paid and said until then."""

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
        told = retry_after if retry_after is not None or headers is None else announced.retry_after(headers)
        self.retry_after = _seconds(told)
        self.rate = None if headers is None else announced.rate_limits(headers)


class RateLimited(TrialError):
    """The provider asks to slow down. Retried, after `retry_after` seconds if given."""

    kind = "rate_limit"
    blame: Blame = "infrastructure"


class Transient(TrialError):
    """A passing fault of the network or the provider. Retried."""

    kind = "network"
    blame: Blame = "infrastructure"


class Unauthenticated(TrialError):
    """No key, a wrong key, not logged in. Never retried: the next one fails too."""

    kind = "auth"
    blame: Blame = "infrastructure"


class TimedOut(TrialError):
    """The variant was too slow. Its own failure."""

    kind = "timeout"


class Refused(TrialError):
    """The model declined to answer. Its own failure."""

    kind = "refused"


class TooLong(TrialError):
    """The request does not fit the model. Its own failure."""

    kind = "too_long"


class TooBig(TrialError):
    """The answer is larger than `limits: answer_size`. Its own failure: paid for, and not repeated."""

    kind = "too_big"

    @classmethod
    def of(cls, what: str, most: int, answer: Answer | None = None) -> TooBig:
        message = f"{what}; at most {megabytes(most)} are stored"
        most_allowed = megabytes(LARGEST_ANSWER_SIZE)
        fix = f"ask for less, or raise limits: answer_size (up to {most_allowed}) and run with --retry-failed"
        return cls(message, fix=fix, answer=answer)


class NoAnswer(TrialError):
    """The target came back with nothing. Its own failure."""

    kind = "no_answer"


class McpFailed(TrialError):
    """An MCP server of the variant did not start: what was measured is not the variant. Retried."""

    kind = "mcp_failed"
    blame: Blame = "infrastructure"


class ToolDenied(TrialError):
    """A tool that the agent asked for was denied: what was measured is the permissions. Not retried."""

    kind = "tool_denied"
    blame: Blame = "infrastructure"


class Rejected(TrialError):
    """The provider does not take such a request: an unknown model, a parameter it does not know. Nothing was measured,
    and the next one fails too: not retried."""

    kind = "rejected"
    blame: Blame = "infrastructure"


class Crashed(TrialError):
    """The target broke. Its own failure."""


class Classified(TrialError):
    """An exception that was classified where it was raised."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Skipped(TrialError):
    """Not a failure: this trial does not apply. The message is the reason."""

    kind = "skipped"


def classify(error: BaseException, in_user_code: bool = False) -> Failure:
    """The failure behind any exception: typed ones say it themselves, SDK ones by their HTTP status, the rest by their
    classes and by what caused them. Nothing that an exception does when it is looked at breaks this.

    If a user's function raised it, infrastructure is only presumed unless the exception is typed: the function could
    raise it instead of a wrong answer.

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
    for each, meant in _chain(error):
        failure = _verdict(each, message if each is error else f"{message} (caused by {_message(each)})")
        if failure is not None and (meant or failure.blame == "infrastructure"):
            typed = _is(each, TrialError)
            presumed = in_user_code and not typed and failure.blame == "infrastructure"
            return _located(replace(failure, presumed=True) if presumed else failure, error)
    return _located(Failure("crash", "variant", message), error)


def _located(failure: Failure, error: BaseException) -> Failure:
    """Add where the exception was raised, unless it is typed: those are raised on purpose."""
    if _is(error, TrialError):
        return failure
    try:
        return replace(failure, detail=where_raised(error))
    except Exception:  # noqa: BLE001 - a user's exception, and sources that may be gone
        return failure


def where_raised(error: BaseException) -> str:
    """The calls in the user's own code that led to an exception and to what caused it, a line each.

    Calls inside of libraries are left out, but for the one that raised.
    """
    lines: list[str] = []
    for each, meant in _chain(error):
        calls = _calls(each)
        if each is not error and (calls or meant):
            lines.append(f"{'caused by' if meant else 'while handling'} {_message(each)}")
        lines += calls
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_DETAIL else text[: LONGEST_DETAIL - 2] + " …"


def location(detail: str) -> str:
    """The last calls before an exception, outermost first, from what `where_raised` returned.

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
    written = [step for step in steps if not step[0].f_code.co_filename.startswith(_standard_library())]
    users = [step for step in written if not any(name in step[0].f_code.co_filename for name in _INSTALLED)] or written
    if not users:
        return []
    kept = users if users[-1] is steps[-1] else [*users, steps[-1]]
    lines = [_call(*step) for step in (kept if len(kept) <= MOST_CALLS else kept[:4] + kept[4 - MOST_CALLS :])]
    if len(kept) > MOST_CALLS:
        lines.insert(4, f"… {len(kept) - MOST_CALLS:,} calls more …")
    return lines


def _call(frame: FrameType, number: int) -> str:
    """`predict.py:12 in predict: return 1 / 0`."""
    import linecache

    path = frame.f_code.co_filename
    source = linecache.getline(path, number, frame.f_globals).strip()
    return f"{_shown(path)}:{number} in {frame.f_code.co_name}" + (f": {source[:200]}" if source else "")


def _shown(path: str) -> str:
    """A file as one would name it: from this folder, or from where its library begins."""
    for folder in (*_INSTALLED, *_standard_library()):
        if folder in path:
            return path.rpartition(folder)[2]
    here = str(Path.cwd()) + os.sep
    return path.removeprefix(here)


@cache
def _standard_library() -> tuple[str, ...]:
    import sysconfig

    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")} | {str(Path(os.__file__).parent)}
    return ("<frozen ", *(folder + os.sep for folder in folders))


_OWN_CODE = str(Path(__file__).parent) + os.sep
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def _chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """The exception and what is behind it, nearest first; with False, what was only being handled when it came."""
    pending: list[tuple[BaseException, bool]] = [(error, True)]
    seen: set[int] = set()
    while pending:
        each, meant = pending.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each, meant
        members = _peek(each, "exceptions")
        behind = [_peek(each, "__cause__"), _peek(each, "reason"), *(members if type(members) is tuple else ())]
        pending += [(found, meant) for found in behind if _is(found, BaseException)]
        context = _peek(each, "__context__")
        if _is(context, BaseException) and not _peek(each, "__suppress_context__"):
            pending.append((context, False))


def _verdict(error: BaseException, message: str) -> Failure | None:
    """What one exception says about itself, without what is behind it; None if it says nothing."""
    if _is(error, TrialError):
        return _typed(error, message)
    status = _status(error)
    if status is not None and status >= 400:
        return _by_status(status, message, *_headers(error))
    names = {kind.__name__ for kind in type(error).__mro__}
    number = _peek(error, "errno") if _is(error, OSError) else None
    if _is(error, MemoryError) or number in _EXHAUSTED or _is_out_of_threads(error, message):
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


# By name: the classes of SDKs and of heavy modules of the standard library are known without importing them.
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
    known = _peek(error, "failure")
    if type(known) is Failure:
        return known
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


def _is_out_of_threads(error: BaseException, message: str) -> bool:
    return _is(error, RuntimeError) and "can't start new thread" in message


def _status(error: BaseException) -> int | None:
    if _is(error, SystemExit):  # its code is the shell's
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
    """What the headers of the response behind an exception say: when to try again, and what is left."""
    for owner in (_peek(error, "response"), error):
        headers = _peek(owner, "headers")
        if headers is not None:
            return _seconds(announced.retry_after(headers)), announced.rate_limits(headers)
    return None, None


def _seconds(value: Any) -> float | None:
    """A wait that can be kept: finite, not negative, an hour at most.

    >>> _seconds("2.5"), _seconds(-1), _seconds("nan"), _seconds("soon"), _seconds(1e9)
    (2.5, None, None, None, 3600.0)
    """
    if value is None or isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except Exception:  # noqa: BLE001 - a header or a user's value: whatever it is, it is no number
        return None
    return min(seconds, LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) and seconds >= 0 else None


def _is(value: Any, kind: type) -> bool:
    """By the type alone: `isinstance` also asks the object, which may answer with an exception."""
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
        return str.__str__(str(error))  # a subclass of str might not travel between processes
    except Exception as broken:  # noqa: BLE001 - a user's __str__
        return f"(its message cannot be shown: {type(broken).__name__})"
