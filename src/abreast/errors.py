"""The errors of the product.

Two families. `AbreastError` is what a command ends with: one line that says what and where, one that says what to do.
`TrialError` is what a target raises during a trial; its class decides whether it is retried and whose fault it is.

>>> raise_for = RateLimited("slow down", retry_after=2.0)
>>> raise_for.kind, raise_for.blame, raise_for.retry_after
('rate_limit', 'infrastructure', 2.0)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from abreast.model import Blame, Failure


class AbreastError(Exception):
    """Something a user can cause and mend. Shown without a traceback; the process ends with `exit_code`."""

    exit_code = 2

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class BadInput(AbreastError):
    """A spec, case file or argument that cannot be used."""


class StoreError(AbreastError):
    """The store cannot be read or written."""


class Incomplete(AbreastError):
    """The run ended before its plan; what is done is stored, and `resume` goes on."""

    exit_code = 3


class PreflightRefused(AbreastError):
    """A preflight check failed; nothing was executed."""

    exit_code = 4


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean "variants"?)`, or the known names, or nothing."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f' (did you mean "{near[0]}"?)'
    return f" (known: {', '.join(names)})" if names else ""


class TrialError(Exception):
    """Raised by a target: the attempt gave no answer."""

    kind = "crash"
    blame: Blame = "variant"

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message or self.kind)
        self.retry_after = retry_after


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


class NoAnswer(TrialError):
    """The target came back with nothing. Its own failure."""

    kind = "no_answer"


class Crashed(TrialError):
    """The target broke. Its own failure."""


class Skipped(TrialError):
    """Not a failure: this trial does not apply. The message is the reason."""

    kind = "skipped"


def classify(error: BaseException) -> Failure:
    """The failure behind any exception: typed ones say it themselves, SDK ones by their HTTP status.

    >>> classify(ConnectionResetError("peer went away")).blame
    'infrastructure'
    >>> classify(ZeroDivisionError("division by zero")).kind
    'crash'
    """
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, TrialError):
        return Failure(error.kind, error.blame, str(error), error.retry_after)
    status = getattr(error, "status_code", None) or getattr(error, "status", None)
    if isinstance(status, int):
        return _by_status(status, message, _retry_after(error))
    if isinstance(error, ConnectionError) or "Connect" in type(error).__name__:
        return Failure("network", "infrastructure", message)
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return Failure("timeout", "unknown", message)
    return Failure("crash", "variant", message)


def _by_status(status: int, message: str, retry_after: float | None) -> Failure:
    if status in (429, 529):
        return Failure("rate_limit", "infrastructure", message, retry_after)
    if status >= 500 or status == 408:
        return Failure("network", "infrastructure", message, retry_after)
    if status in (401, 403):
        return Failure("auth", "infrastructure", message)
    if status == 413:
        return Failure("too_long", "variant", message)
    return Failure("crash", "variant", message)


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    try:
        return float(headers["retry-after"]) if headers is not None else None
    except (KeyError, TypeError, ValueError):
        return None
