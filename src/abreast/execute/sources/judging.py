"""Judging: stored answers become questions to judges, and the replies become scores.

All of it happens on the loop, between the scheduler, which submits the questions like trials, and the writer: a
judgement is on disk before the score that comes from it. Only positions wait in memory; an answer is read again when
its turn comes. The same question to the same judge is asked only once, in this run or in another.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from abreast.execute.early_stopping import EarlyStopping
from abreast.execute.job import Job, JudgeJob
from abreast.execute.limits.base import Limit
from abreast.execute.listener import Listener
from abreast.execute.sources.lanes import Lanes, Source
from abreast.execute.state import RunState
from abreast.model import Case, Outcome, Score, Trial, Variant
from abreast.scorers.base import Scorer
from abreast.scorers.judge import Judge, JudgedAnswer, Judgement
from abreast.store import Store, Writer
from abreast.store.base import NoConnection
from abreast.store.queries.answers import JudgedTrial
from abreast.store.queries.judgements import JudgeQuestion
from abreast.store.rows import Paid, Row, cost_of, judgement_row, score_rows
from abreast.targets import Target

AT_ONCE = 50  # most answers turned into questions before other sources have their turn
AHEAD = 32  # most questions to each judge that wait for their start
RETRY_S = 1.0  # pause after the server of the store could not be reached
FIRST_POSITION = -1_000_000  # positions of jobs are unique, and below those of trials and warm-ups
UNFINISHED = ""  # the version of a score that a resume tries again
FINAL_KINDS = ("refused", "too_long", "too_big", "no_answer")  # the judge would fail in the same way again


@dataclass(frozen=True, slots=True)
class Panel:
    """The judges of a run with their targets, the number of variants and the index of the baseline."""

    judges: Sequence[Judge]
    targets: Sequence[Target]
    variants: int
    baseline: int
    only_own_run: bool = False  # reuse nothing from other runs
    retries_unusable: bool = False  # ask again if a reply was unusable

    def gives(self, score: str) -> bool:
        return any(score in judge.columns for judge in self.judges)

    @property
    def contenders(self) -> list[Variant]:
        """The judges as variants, from which their targets are built."""
        return [
            Variant(judge.name, judge.target, judge.params, judge.executor, judge.target_version)
            for judge in self.judges
        ]

    def unjudged(self, store: Store, run_id: int, judge: Judge) -> list[int]:
        """Positions of stored answers without a score by the present version of this judge."""
        return store.queries.unjudged(run_id, judge.columns, judge.version, only_usable=self.retries_unusable)


NO_JUDGES = Panel((), (), 1, 0)


def scored_by_code(scorers: Sequence[Scorer]) -> list[Scorer]:
    """The scorers that need neither a judge nor people."""
    return [scorer for scorer in scorers if scorer.scored_by == "code"]


@dataclass(slots=True, eq=False)
class PendingAnswer:
    """An answer that waits for one of the judges."""

    judge: int
    position: int
    stored_before: bool  # whether an earlier execution stored it
    missing: int = 0  # number of replies that it waits for
    readings: dict[str, Judgement] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class JudgeCall:
    """A question to a judge, and the answers that wait for its reply."""

    judge: int
    item: str
    key: str
    prompt: str
    pending: list[PendingAnswer]
    paid: Paid  # cost of attempts before the last one, in this execution and in earlier ones
    readings: dict[int, Judgement] = field(default_factory=dict)  # by judge, because two may ask the same question
    written: int = 0  # number of pending answers that have a row


def _judged_answer(trial: JudgedTrial) -> JudgedAnswer:
    return JudgedAnswer(trial.answer or "", trial.change or "")


class Judging(Source):
    """The questions of one execution."""

    job_type = JudgeJob

    def __init__(
        self,
        *,
        panel: Panel,
        first_variant: int,
        store: Store,
        writer: Writer,
        limits: Sequence[Limit],
        listener: Listener,
        state: RunState,
        early_stopping: EarlyStopping | None = None,
    ) -> None:
        """The judges' targets follow those of the variants, from `first_variant`. `early_stopping` receives the
        deciding score, if it comes from a judge."""
        super().__init__(Lanes(range(first_variant, first_variant + len(panel.judges)), limits))
        self._first_variant = first_variant
        self._panel, self._store, self._lease, self._listener = panel, store, writer.lease, listener
        self._writer, self._state, self._early_stopping = writer, state, early_stopping
        self._waiting: list[deque[tuple[int, bool]]] = [deque() for _ in panel.judges]  # position, stored before?
        self._ready: list[deque[JudgeCall]] = [deque() for _ in panel.judges]
        self._by_key: dict[str, JudgeCall] = {}  # calls whose reply is not safe yet
        self._by_position: dict[int, JudgeCall] = {}  # by the position of its job
        self._judged: list[set[int]] = [set() for _ in panel.judges]
        self._broken_baselines: set[int] = set()  # broken by infrastructure
        self._open = [0 for _ in panel.judges]  # number of answers that wait for a reply
        self._undecided = 0  # number of earlier answers whose score may decide the run
        self._jobs = 0
        self._retry_at = 0.0  # when to read the store again
        self._has_judgements = False  # whether earlier executions of this run stored any
        self._variants = panel.contenders

    def begin(self) -> None:
        """Queue the answers of earlier executions, which are judged first."""
        self._has_judgements = self._store.queries.has_judgements(self._lease.run_id)
        for number, judge in enumerate(self._panel.judges):
            positions = self._panel.unjudged(self._store, self._lease.run_id, judge)
            self._waiting[number].extend((position, True) for position in positions)
            if self._decides(number):
                self._undecided = len(positions)
        if self._early_stopping is not None and not self._undecided:
            self._early_stopping.caught_up()
        self._listener.judging(self._backlog)

    # -- for the scheduler -----------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return not self._backlog

    @property
    def _backlog(self) -> int:
        return sum(map(len, self._waiting)) + sum(self._open)

    def deciding_backlog(self) -> int:
        """Backlog of the judge that early stopping waits for."""
        judges = range(len(self._panel.judges))
        return sum(len(self._waiting[number]) + self._open[number] for number in judges if self._decides(number))

    def refill(self, now: float) -> None:
        enough = AHEAD + self._state.in_flight
        if now >= self._retry_at and self._ask_about_waiting(enough, now):
            self._state.wake()
        for number, ready in enumerate(self._ready):
            while ready and self.lanes.size(number) < enough:
                self.lanes.append(self._job(number, ready.popleft(), now))

    def _ask_about_waiting(self, enough: int, now: float) -> bool:
        """Turn answers into questions until every judge has enough; return whether there may be more."""
        more = False
        for number, waiting in enumerate(self._waiting):
            for _ in range(AT_ONCE):
                if not waiting or len(self._ready[number]) >= enough:
                    break
                try:
                    trials = self._stored_trials(waiting[0][0])
                except NoConnection:
                    self._retry_at = now + RETRY_S
                    asyncio.get_running_loop().call_later(RETRY_S, self._state.wake)
                    return False
                self._judge(number, *waiting.popleft(), trials)
            else:
                more = more or bool(waiting)
        return more

    def _job(self, judge: int, call: JudgeCall, now: float) -> JudgeJob:
        self._jobs += 1
        position = FIRST_POSITION - self._jobs
        self._by_position[position] = call
        case = Case(call.key[:12], call.prompt)  # the judge sees only parts of the key
        return JudgeJob(
            trial=Trial(position, case, self._variants[judge], 0),
            variant=self._first_variant + judge,
            block=self._jobs,
            slot=0,
            ready_at=now,
        )

    # -- from answers to questions ---------------------------------------------------------------------------------

    def add(self, position: int, outcome: Outcome) -> None:
        """Queue a stored trial for judging."""
        baseline = self._baseline_of(position)
        for waiting, judge in zip(self._waiting, self._panel.judges, strict=True):
            if not judge.pairwise or position != baseline:
                if outcome.status == "ok":
                    waiting.append((position, False))
                continue
            if _is_open(outcome.status, outcome.failure.blame if outcome.failure else None):
                self._broken_baselines.add(position)
            first = position - self._panel.baseline
            waiting.extend((first + variant, False) for variant in range(self._panel.variants))
        self._listener.judging(self._backlog)

    def _baseline_of(self, position: int) -> int:
        return position - position % self._panel.variants + self._panel.baseline

    def _stored_trials(self, position: int) -> dict[int, JudgedTrial]:
        return self._store.queries.judged_trials(self._lease.run_id, (position, self._baseline_of(position)))

    def _judge(self, number: int, position: int, stored_before: bool, trials: dict[int, JudgedTrial]) -> None:
        judge, pending = self._panel.judges[number], PendingAnswer(number, position, stored_before)
        baseline = self._baseline_of(position)
        trial, baseline_trial = trials.get(position), trials.get(baseline)
        if position in self._judged[number] or trial is None or trial.status != "ok" or trial.answer is None:
            self._count_done(pending)
        elif not judge.pairwise:
            self._ask(pending, trial)
        elif position == baseline:
            self._give(pending, judge.fill(0.5, "the baseline itself"))
        elif baseline_trial is None or _is_open(baseline_trial.status, baseline_trial.blame):
            if baseline in self._broken_baselines:  # a resume executes it again
                self._report(pending, None)
            self._count_done(pending)
        elif baseline_trial.status == "skipped":
            self._give(pending, judge.fill(None, "the baseline was skipped"))
        elif baseline_trial.status != "ok" or baseline_trial.answer is None:
            self._give(pending, judge.fill(1.0, "the baseline gave no answer"))
        elif baseline_trial.answer == trial.answer and (baseline_trial.change == trial.change or not judge.sees_change):
            self._give(pending, judge.fill(0.5, "the same answer as the baseline's"))
        else:
            self._ask(pending, trial, baseline_trial)

    def _ask(self, pending: PendingAnswer, trial: JudgedTrial, baseline_trial: JudgedTrial | None = None) -> None:
        number = pending.judge
        judge = self._panel.judges[number]
        case = Case("", json.loads(trial.input), json.loads(trial.expected))
        self._judged[number].add(pending.position)
        self._open[number] += 1
        pending.missing = len(judge.items)
        answer = _judged_answer(trial)
        baseline_answer = None if baseline_trial is None else _judged_answer(baseline_trial)
        for item in judge.items:
            prompt = judge.prompt(item, case, answer, baseline_answer)
            key = judge.key(item, prompt)
            call = self._by_key.get(key)
            if call is not None:
                call.pending.append(pending)
                call.paid = call.paid.and_then(self._paid(key, pending, item))
                continue
            reading = self._stored_reading(key, pending, item)
            if reading is not None:
                self._resolve(pending, item, reading)
                continue
            paid = self._paid(key, pending, item)
            call = JudgeCall(judge=number, item=item, key=key, prompt=prompt, pending=[pending], paid=paid)
            self._by_key[key] = call
            self._ready[number].append(call)

    def _stored_reading(self, key: str, pending: PendingAnswer, item: str) -> Judgement | None:
        """Return an earlier reply to the same question, and store it for this answer as well."""
        judge, run_id = self._panel.judges[pending.judge], self._lease.run_id
        question = JudgeQuestion(run_id, pending.position, judge.name, item)
        only = run_id if self._panel.only_own_run else None
        stored = self._store.queries.find_judgement(key, question, only, self._panel.retries_unusable)
        if stored is None:
            return None
        is_own, row = stored
        if not is_own:
            copy = row | question._asdict()
            paid = self._paid(key, pending, item)
            if paid.is_known:  # keep the cost of its own failed call
                copy |= {"reused_from": None, **paid._asdict()}
            self._writer.put("judgements", tuple(copy.values()))
        if row["answer"] is None or row["error_kind"] is not None:
            return Judgement(None, f"{row['error_kind']}: {row['error']}")
        return judge.read(item, row["answer"])

    def _paid(self, key: str, pending: PendingAnswer, item: str) -> Paid:
        """Return the cost of this question in earlier executions, which got no usable reply."""
        if not self._has_judgements:
            return Paid()
        name = self._panel.judges[pending.judge].name
        question = JudgeQuestion(self._lease.run_id, pending.position, name, item)
        return self._store.queries.paid_for_question(question, key)

    # -- from replies to scores ------------------------------------------------------------------------------------

    def retried(self, job: Job, outcome: Outcome, delay: float) -> None:
        """Store the cost of a failed call."""
        call, paid = self._by_position[job.trial.position], cost_of(outcome.answer)
        if paid.is_known:
            call.paid = call.paid.and_then(paid)
            self._writer.put("judgements", self._row(call, call.pending[0], outcome.status, outcome, call.paid))

    def store(self, job: Job, outcome: Outcome) -> None:
        """Store a reply for every answer that waits for it."""
        job.outcome = outcome
        rows = self._rows(self._by_position[job.trial.position], outcome)
        self._writer.put_together([("judgements", row) for row in rows], job)

    def _rows(self, call: JudgeCall, outcome: Outcome) -> list[Row]:
        """One row per waiting answer; the first carries the cost of all attempts."""
        call.written = len(call.pending)
        last = cost_of(outcome.answer)
        rows = []
        for index, pending in enumerate(call.pending):
            reading, status = self._reading(call, pending.judge, outcome), str(outcome.status)
            if reading.remarks is None and reading.final:
                status = "skipped" if status == "skipped" else "invalid"
            paid = last if index else call.paid.and_then(last)
            row = self._row(call, pending, status, outcome, paid)
            rows.append((*row[:-1], self._lease.run) if index else row)
        return rows

    def _row(self, call: JudgeCall, pending: PendingAnswer, status: str, outcome: Outcome, paid: Paid) -> Row:
        name = self._panel.judges[pending.judge].name
        question = (pending.position, name, call.item, call.key, call.prompt)
        return judgement_row(self._lease.run_id, *question, status, outcome, paid)

    def _reading(self, call: JudgeCall, number: int, outcome: Outcome) -> Judgement:
        if number not in call.readings:
            call.readings[number] = _read(self._panel.judges[number], call.item, outcome)
        return call.readings[number]

    def stored(self, jobs: Sequence[Job], now: float) -> None:
        for job in jobs:
            call, outcome = self._by_position.pop(job.trial.position), job.outcome
            assert outcome is not None
            del self._by_key[call.key]
            if call.written < len(call.pending):  # more answers have asked it in the meantime
                for row in self._rows(call, outcome):
                    self._writer.put("judgements", row)
            if outcome.status == "cancelled":
                continue  # a resume repeats the question
            for pending in call.pending:
                self._resolve(pending, call.item, self._reading(call, pending.judge, outcome))
            self._listener.judging(self._backlog, outcome)

    def _resolve(self, pending: PendingAnswer, item: str, reading: Judgement) -> None:
        pending.readings[item] = reading
        pending.missing -= 1
        if pending.missing:
            return
        self._open[pending.judge] -= 1
        judge = self._panel.judges[pending.judge]
        final = all(reading.final for reading in pending.readings.values())
        version = judge.version if final else UNFINISHED
        self._give(pending, judge.scores(pending.readings), version)

    def _give(self, pending: PendingAnswer, scores: Sequence[Score], version: str | None = None) -> None:
        self._judged[pending.judge].add(pending.position)
        version = self._panel.judges[pending.judge].version if version is None else version
        rows = score_rows(self._lease.run_id, pending.position, version, scores)
        self._writer.put_together([("scores", row) for row in rows])
        deciding = self._early_stopping.score if self._early_stopping is not None else None
        self._report(pending, next((score.value for score in scores if score.name == deciding), None))
        self._count_done(pending)

    def _decides(self, number: int) -> bool:
        """Whether early stopping uses the score of this judge."""
        return self._early_stopping is not None and self._early_stopping.score in self._panel.judges[number].columns

    def _report(self, pending: PendingAnswer, value: float | None) -> None:
        if self._early_stopping is not None and self._decides(pending.judge):
            self._early_stopping.judged(pending.position, value)

    def _count_done(self, pending: PendingAnswer) -> None:
        if pending.stored_before and self._early_stopping is not None and self._decides(pending.judge):
            self._undecided -= 1
            if not self._undecided:
                self._early_stopping.caught_up()


def _read(judge: Judge, item: str, outcome: Outcome) -> Judgement:
    """Parse the reply, or say why there is none."""
    failure = outcome.failure
    if outcome.status == "ok" and outcome.answer is not None:
        return judge.read(item, outcome.answer.text)
    kind, message = ("crash", "no answer") if failure is None else (failure.kind, failure.message)
    final = outcome.status == "skipped" or (outcome.status == "error" and kind in FINAL_KINDS)
    return Judgement(None, f"the judge failed: {kind}: {' '.join(message.split())}", final)


def _is_open(status: str, blame: str | None) -> bool:
    """Whether a resume executes the trial again."""
    return status == "cancelled" or (status == "error" and blame != "variant")
