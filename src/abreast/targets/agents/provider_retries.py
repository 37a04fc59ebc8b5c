"""Requests that an agent's program repeats on its own because its provider did not answer them."""

from __future__ import annotations

from typing import Protocol

from abreast import errors
from abreast.errors import TrialError
from abreast.targets.api.http_target import refusal

SILENT_S = 10.0  # a provider that has not begun to answer for so long is not there


class OutputListener(Protocol):
    """Follows what a program prints while it runs."""

    def hear(self, line: bytes) -> float:
        """Read a line; return the seconds that the program had waited for retries if this line ends them."""

    def silent_request(self) -> TrialError | None:
        """The request that the provider has not begun to answer for `SILENT_S` seconds; None if there is none."""


def silent(seconds: float) -> TrialError:
    """The error of a program that was ended while its provider had not begun to answer its last request.

    >>> str(silent(21.7))
    'the provider did not begin to answer a request within 22 s'
    """
    return errors.Transient(f"the provider did not begin to answer a request within {seconds:.0f} s")


def unanswered(retries: int, status: int | None = None, reason: str = "", login: str = "") -> TrialError:
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
    return refusal(status, "", reason, message, {}, login)
