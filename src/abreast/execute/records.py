"""Conversion of outcomes to rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from abreast.errors import StoreError
from abreast.execute.job import Job
from abreast.execute.listener import Listener
from abreast.model import Failure, Outcome
from abreast.spec.cases import CaseTable
from abreast.store import RowTooLarge, Writer, rows
from abreast.targets import Target


class TrialRecords:
    """Passes the rows of trials to the writer."""

    def __init__(self, cases: CaseTable, writer: Writer) -> None:
        self._cases, self._writer = cases, writer
        self._run_id = writer.lease.run_id
        self._is_case_written = bytearray(len(cases))

    def outcome(self, job: Job, outcome: Outcome) -> None:
        writer, cases = self._writer, self._cases
        of_case: list[tuple[str, rows.Row]] = []
        if not self._is_case_written[job.case]:  # write it with its first trial: unused cases may be deleted
            self._is_case_written[job.case] = True
            digests = cases.digest(job.case), cases.input_digest(job.case)
            of_case.append(("cases", rows.case_row(*digests, cases.original(job.case, job.trial.case))))
            if job.trial.case.tags:
                writer.register("tag", job.trial.case.tags)
        if outcome.answer is not None and outcome.answer.data:
            writer.register("data", outcome.answer.data)
        job.outcome = outcome
        writer.put_together(
            [*self._rows_of(job, outcome), *of_case],
            job,
            lambda error: [*self._rows_of(job, _unstorable(job, outcome, error)), *of_case],
        )

    def _rows_of(self, job: Job, outcome: Outcome) -> list[tuple[str, rows.Row]]:
        run_id, digest, position = self._run_id, self._cases.digest(job.case), job.trial.position
        of_trial = [
            ("payloads", rows.payload_row(run_id, position, job.prompt, outcome.answer)),
            ("trials", rows.trial_row(run_id, job.trial, job.variant, job.block, digest, outcome, job.timing)),
        ]
        if outcome.answer is not None and outcome.answer.artifacts:
            of_trial += [("artifacts", row) for row in rows.artifact_rows(run_id, position, outcome.answer)]
        return of_trial

    def attempt(self, job: Job, outcome: Outcome, delay: float) -> None:
        assert outcome.failure is not None
        row = rows.attempt_row(self._run_id, job.trial.position, job.attempt, outcome, outcome.failure, delay)
        self._writer.put("attempts", row)


def _unstorable(job: Job, outcome: Outcome, error: StoreError) -> Outcome:
    """Return the outcome if the store refuses the answer: a failure of the variant, so that no resume pays again."""
    answer = outcome.answer
    if answer is not None:
        answer = replace(answer, text="", value=None, data={}, raw_response=None, artifacts={})
    kind = "too_big" if isinstance(error, RowTooLarge) else "crash"
    failure = Failure(kind, "variant", f"the answer cannot be stored: {error.message}")
    job.outcome = replace(outcome, status="error", answer=answer, failure=failure)
    return job.outcome


class EventRecorder(Listener):
    """Stores events in the table `events`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def event(self, kind: str, **detail: Any) -> None:
        self._writer.put("events", (self._writer.lease.run_id, time.time(), kind, rows.to_json(detail)))


class ThreadTimeoutWarning(Listener):
    """Warns once that a timeout cannot end a thread."""

    def __init__(self, targets: Sequence[Target], emit: Callable[..., Any]) -> None:
        self._targets, self._emit = targets, emit
        self._has_warned = False

    def finished(self, job: Job, outcome: Outcome) -> None:
        failure, target = outcome.failure, self._targets[job.variant]
        if failure is not None and failure.kind == "timeout" and target.place == "thread" and not self._has_warned:
            self._has_warned = True
            message = f"a call of {target.name} that timed out is still running in its thread"
            self._emit("warning", message=f"{message}; set executor: process to end such calls")
