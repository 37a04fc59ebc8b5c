"""Handling of failures: whether to retry, and the fix to suggest."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from abreast.model import Failure, Outcome

FIRST_S, LONGEST_S = 0.5, 60.0  # the first delay before another attempt, and the longest
NEVER_RETRIED = ("auth", "rejected", "tool_denied", "not_carried")  # the next attempt would fail in the same way
FIXES = {
    "auth": "log in or set the API key, then try again",
    "rate_limit": "reduce --parallel, or declare the rate under limits:",
    "network": "check the connection and the service, then try again",
    "mcp_failed": "start the server by hand and read its output, or run `abreast check SPEC`",
    "tool_denied": "add the tool to allowed_tools:, or remove it from tools:",
    "timeout": "raise limits.timeout, or reduce --parallel",
}


def suggested_fix(failure: Failure) -> str:
    """The fix that the target suggests, else the one for failures of this kind."""
    fix = failure.fix or FIXES.get(failure.kind, "run `abreast logs --errors` for details")
    if failure.presumed or failure.blame == "variant":
        return f"if the variant itself is at fault, set limits.breaker: 0 and run again; otherwise {fix}"
    return fix


def shows_service_is_up(failure: Failure) -> bool:
    return failure.blame != "infrastructure" and failure.kind != "timeout"


def cancelled_if_crashed(outcome: Outcome) -> Outcome:
    """Turn a crash during an interrupted run into a cancellation, so that a resume executes the trial again.

    Ctrl-C in a terminal also reaches the processes that a target started, so the crash may not be the variant's.
    """
    failure = outcome.failure
    if failure is None or outcome.status != "error" or failure.kind != "crash":
        return outcome
    message = f"crashed while the run was being interrupted: {failure.message}"
    return replace(outcome, status="cancelled", failure=Failure("cancelled", "unknown", message))


@dataclass(slots=True)
class Retry:
    """Exponential back-off with full jitter, for infrastructure errors only."""

    retries: int = 3
    rng: random.Random = field(default_factory=random.Random)

    def delay(self, failure: Failure, attempt: int, excused: int = 0) -> float | None:
        """Seconds until the next attempt; None if this one was the last. Excused attempts use up no retries."""
        if failure.blame != "infrastructure" or failure.kind in NEVER_RETRIED or attempt - excused > self.retries:
            return None
        jitter = self.rng.uniform(0.0, min(LONGEST_S, FIRST_S * 2 ** min(attempt - 1, 10)))
        if failure.retry_after is None:
            return jitter
        return failure.retry_after + min(jitter, 0.1 * failure.retry_after)
