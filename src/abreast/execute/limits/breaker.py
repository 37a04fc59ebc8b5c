"""The breaker: a target that fails again and again, and not by the variant's fault, stops the run early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from abreast.execute.job import Job
from abreast.execute.limits import Limit
from abreast.model import Failure, Outcome

FIXES = {
    "auth": "log in, or set the key, and try again",
    "rate_limit": "reduce --parallel, or declare the rate under limits:",
    "network": "check the connection and the service, and try again",
    "mcp_failed": "start the server by hand and read what it says, or: abreast check SPEC",
    "tool_denied": "add the tool to allowed_tools:, or take it out of tools:",
    "timeout": "raise limits.timeout, or reduce --parallel",
}


def fix_of(failure: Failure) -> str:
    """What the user can do: what the target says, else what helps against failures of this kind."""
    fix = failure.fix or FIXES.get(failure.kind, "see abreast logs --errors")
    if failure.presumed:
        return f"if the function itself is at fault, set limits.breaker: 0 and run again; if not, {fix}"
    return fix


class Breaker(Limit):
    """Trips after so many trials in a row of one target failed by infrastructure, retries included."""

    def __init__(self, most: Mapping[str, int], targets: Sequence[str], trip: Callable[[str, str], None]) -> None:
        """`most` is by target; 0 never trips. `targets` are those of the variants."""
        self._most = most
        self._targets = targets
        self._trip = trip
        self._in_a_row: dict[str, int] = dict.fromkeys(targets, 0)
        self._errors = 0

    def conclude(self, job: Job, outcome: Outcome, now: float) -> None:
        target, failure = self._targets[job.variant], outcome.failure
        self._errors += outcome.status == "error"
        if failure is None or outcome.status != "error" or failure.blame != "infrastructure":
            self._in_a_row[target] = 0  # it answered, rightly or wrongly: it is there
            return
        self._in_a_row[target] += 1
        if self._in_a_row[target] == self._most[target]:
            self._trip(*self._told(target, failure))

    def may_be_down(self, job: Job) -> bool:
        target = self._targets[job.variant]
        return 0 < self._in_a_row[target] < self._most[target]

    def _told(self, target: str, failure: Failure) -> tuple[str, str]:
        message = " ".join(failure.message.split())
        what = f"{target}: {failure.kind}: {message}"
        most = self._most[target]
        row = f"{most} trials failed in a row" if most > 1 else "a trial failed"
        return f"{what}; {row} ({self._errors} errors in all)", fix_of(failure)
