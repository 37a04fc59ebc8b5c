"""The logger `abreast`, for events of runs started from Python. No handler is added to it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from abreast.execute.listener import Listener
from abreast.progress.displays import notice, trial_name
from abreast.report.words.concurrency import describe_change
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.execute.job import Job
    from abreast.model import Failure, Outcome
    from abreast.preflight.finding import Finding

LOGGER = logging.getLogger("abreast")
_LEVELS = {
    "store_failed": logging.ERROR,
    **dict.fromkeys(("warning", "outage", "store_lost", "quota", "interrupted"), logging.WARNING),
}


class EventLog(Listener):
    """Logs events of the scheduler: problems as warnings, notices as information, others at debug level."""

    def event(self, kind: str, **detail: Any) -> None:
        if kind == "run_started":
            _log(
                logging.INFO, f"{detail['run']}: started, {detail['to_execute']:,} of {detail['planned']:,} trials left"
            )
        elif kind == "run_finished":
            _log(logging.INFO, f"{detail['run']}: {detail['status']}, {detail['executed']:,} trials executed")
        elif message := notice(kind, detail):
            is_cancelled = kind == "interrupted" and not detail["grace_s"]  # cancelled by the caller
            level = logging.INFO if is_cancelled else _LEVELS.get(kind, logging.INFO)
            _log(level, message.removeprefix("warning: ").removeprefix("error: "))
        elif LOGGER.isEnabledFor(logging.DEBUG):
            words = describe_change(kind, detail)
            _log(logging.DEBUG, f"{kind}: {words or ', '.join(f'{key} {value}' for key, value in detail.items())}")


class TrialLog(EventLog):
    """Logs failures and retries as well, and every trial at debug level.

    Used only if level INFO is enabled, because it is called for each trial.
    """

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        _log(logging.INFO, f"{trial_name(job)}: {failure.kind}: {failure.message}; retry in {delay:.1f} s")

    def finished(self, job: Job, outcome: Outcome) -> None:
        if outcome.failure is None:
            _log(logging.DEBUG, f"{trial_name(job)}: {outcome.status} ({outcome.service_s:.2f} s)")
        else:
            why = f"{outcome.failure.kind}: {outcome.failure.message}"
            _log(logging.INFO, f"{trial_name(job)}: {outcome.status}: {why}")


def event_log() -> Listener:
    """The listener for the level of the logger."""
    return TrialLog() if LOGGER.isEnabledFor(logging.INFO) else EventLog()


def log_findings(findings: Sequence[Finding]) -> None:
    """Log the warnings of the checks, as information because the run continues."""
    for finding in findings:
        if finding.level == "warn":
            fix = f": {finding.fix}" if finding.fix else ""
            _log(logging.INFO, f"{finding.check}: {finding.message}{fix}")


def warn(message: str) -> None:
    """Log a warning, which Python prints on standard error if there is no handler."""
    _log(logging.WARNING, message)


def _log(level: int, message: str) -> None:
    LOGGER.log(level, "%s", printable(" ".join(message.split())))
