"""Judging: stored answers become questions to judges, and what judges reply becomes scores.

All of it happens on the loop, between the scheduler, which asks the questions as it starts trials, and the writer: a
judgement is on disk before the score that comes from it. Only positions wait in memory; an answer is read again when
its turn has come. The same question to the same judge is asked once, whoever asked it, in this run or in another.
"""

from __future__ import annotations

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
from abreast.store.queries.answers import JudgedTrial
from abreast.store.queries.judgements import JudgeQuestion
from abreast.store.rows import Paid, Row, judgement_row, paid_for, score_rows
from abreast.targets import Target

AT_ONCE = 50  # answers looked at before others have their turn
AHEAD = 32  # questions to each judge that wait for their start, besides as many as are in flight
FIRST_PLACE = -1_000_000  # a job needs a place in the plan of its own: below those of trials and warm-ups
UNFINISHED = ""  # the version of a score that a resume tries again
SAID_NO = ("refused", "too_long", "too_big", "no_answer")  # a judge that says nothing says so next time too


@dataclass(frozen=True, slots=True)
class Panel:
    """The judges of a run with their targets, the number of variants and the index of the baseline."""

    judges: Sequence[Judge]
    targets: Sequence[Target]
    variants: int
    baseline: int
    alone: bool = False  # nothing is reused of other runs
    anew: bool = False  # what could not be used is asked again

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
        """Stored answers without a score by the present version of this judge."""
        return store.queries.unjudged(run_id, judge.columns, judge.version, only_usable=self.anew)


def without_judges(scorers: Sequence[Scorer]) -> list[Scorer]:
    return [scorer for scorer in scorers if not isinstance(scorer, Judge)]


@dataclass(slots=True, eq=False)
class Pending:
    """An answer that waits for one of the judges."""

    judge: int
    position: int
    earlier: bool  # stored by an earlier execution
    missing: int = 0  # replies
    readings: dict[str, Judgement] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Question:
    """A call of a judge, and the answers that wait for its reply."""

    judge: int
    item: str
    key: str
    prompt: str
    asked_by: list[Pending]
    paid: Paid  # for attempts before the last one, in this execution and in earlier ones
    readings: dict[int, Judgement] = field(default_factory=dict)  # by judge: two may ask the same
    written: int = 0  # of those who asked, so many have a row


def _given(trial: JudgedTrial) -> JudgedAnswer:
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
        """The judges' targets follow those of the variants, from `first_variant`. `early_stopping` gets the score that
        decides, if a judge gives it."""
        super().__init__(Lanes(range(first_variant, first_variant + len(panel.judges)), limits))
        self._first_variant = first_variant
        self._panel, self._store, self._held, self._listener = panel, store, writer.lease, listener
        self._writer, self._state, self._early_stopping = writer, state, early_stopping
        self._waiting: list[deque[tuple[int, bool]]] = [deque() for _ in panel.judges]  # positions, stored before?
        self._ready: list[deque[Question]] = [deque() for _ in panel.judges]
        self._asked: dict[str, Question] = {}  # by key, until the reply is safe
        self._seen: list[set[int]] = [set() for _ in panel.judges]
        self._fallen: set[int] = set()  # baselines that infrastructure broke in this execution
        self._open = [0 for _ in panel.judges]  # answers that wait for a reply
        self._earlier = 0  # answers stored before whose score may decide
        self._number = 0
        self._asked_before = False  # in an earlier execution of this run
        self._variants = panel.contenders

    def begin(self) -> None:
        """Queue the answers of earlier executions, which are judged first."""
        self._asked_before = self._store.queries.has_judgements(self._held.run_id)
        for number, judge in enumerate(self._panel.judges):
            found = self._panel.unjudged(self._store, self._held.run_id, judge)
            self._waiting[number].extend((position, True) for position in found)
            if self._decides(number):
                self._earlier = len(found)
        if self._early_stopping is not None and not self._earlier:
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
        if self._look(enough):
            self._state.wake()
        for number, ready in enumerate(self._ready):
            while ready and self.lanes.size(number) < enough:
                self.lanes.append(self._job(number, ready.popleft(), now))

    def _look(self, enough: int) -> bool:
        """Turn answers into questions until every judge has enough; return whether there may be more."""
        more = False
        for number, waiting in enumerate(self._waiting):
            for _ in range(AT_ONCE):
                if not waiting or len(self._ready[number]) >= enough:
                    break
                self._look_at(number, *waiting.popleft())
            else:
                more = more or bool(waiting)
        return more

    def _job(self, judge: int, question: Question, now: float) -> JudgeJob:
        self._number += 1
        # Whoever judges sees what is in the key, and nothing else.
        case = Case(question.key[:12], question.prompt)
        return JudgeJob(
            trial=Trial(FIRST_PLACE - self._number, case, self._variants[judge], 0),
            variant=self._first_variant + judge,
            block=self._number,
            slot=0,
            ready_at=now,
            question=question,
        )

    # -- from answers to questions ---------------------------------------------------------------------------------

    def add(self, position: int, outcome: Outcome) -> None:
        """Queue a stored trial for judging."""
        baseline = position - position % self._panel.variants + self._panel.baseline
        for waiting, judge in zip(self._waiting, self._panel.judges, strict=True):
            if not judge.pairwise or position != baseline:
                if outcome.status == "ok":
                    waiting.append((position, False))
                continue
            if _is_open(outcome.status, outcome.failure.blame if outcome.failure else None):
                self._fallen.add(position)
            first = position - self._panel.baseline
            waiting.extend((first + variant, False) for variant in range(self._panel.variants))
        self._listener.judging(self._backlog)

    def _look_at(self, number: int, position: int, earlier: bool) -> None:
        judge, pending = self._panel.judges[number], Pending(number, position, earlier)
        baseline = position - position % self._panel.variants + self._panel.baseline
        trials = self._store.queries.judged_trials(self._held.run_id, (position, baseline))
        mine, theirs = trials.get(position), trials.get(baseline)
        if position in self._seen[number] or mine is None or mine.status != "ok" or mine.answer is None:
            self._passed(pending)
        elif not judge.pairwise:
            self._ask(pending, mine)
        elif position == baseline:
            self._give(pending, judge.fill(0.5, "the baseline itself"))
        elif theirs is None or _is_open(theirs.status, theirs.blame):
            if baseline in self._fallen:  # nothing can be said in this execution
                self._report(pending, None)
            self._passed(pending)
        elif theirs.status == "skipped":
            self._give(pending, judge.fill(None, "the baseline was skipped"))
        elif theirs.status != "ok" or theirs.answer is None:
            self._give(pending, judge.fill(1.0, "the baseline gave no answer"))
        elif theirs.answer == mine.answer and (theirs.change == mine.change or not judge.sees_change):
            self._give(pending, judge.fill(0.5, "the same answer as the baseline's"))
        else:
            self._ask(pending, mine, theirs)

    def _ask(self, pending: Pending, mine: JudgedTrial, theirs: JudgedTrial | None = None) -> None:
        number = pending.judge
        judge = self._panel.judges[number]
        case = Case("", json.loads(mine.input), json.loads(mine.expected))
        self._seen[number].add(pending.position)
        self._open[number] += 1
        pending.missing = len(judge.items)
        for item in judge.items:
            prompt = judge.prompt(item, case, _given(mine), None if theirs is None else _given(theirs))
            key = judge.key(item, prompt)
            question = self._asked.get(key)
            if question is not None:
                question.asked_by.append(pending)
                question.paid = question.paid.and_then(self._paid(key, pending, item))
                continue
            known = self._known(key, pending, item)
            if known is not None:
                self._resolve(pending, item, known)
                continue
            question = Question(
                judge=number, item=item, key=key, prompt=prompt, asked_by=[pending], paid=self._paid(key, pending, item)
            )
            self._asked[key] = question
            self._ready[number].append(question)

    def _known(self, key: str, pending: Pending, item: str) -> Judgement | None:
        """An earlier reply to the same question, which is stored for this answer too."""
        judge, run_id = self._panel.judges[pending.judge], self._held.run_id
        question = JudgeQuestion(run_id, pending.position, judge.name, item)
        only = run_id if self._panel.alone else None
        found = self._store.queries.known_judgement(key, question, only, self._panel.anew)
        if found is None:
            return None
        is_own, known = found
        if not is_own:
            copied = known | question._asdict()
            paid = self._paid(key, pending, item)
            if paid.is_known:  # for a call of its own that failed: that stays paid
                copied |= {"reused_from": None, **paid._asdict()}
            self._writer.put("judgements", tuple(copied.values()))
        if known["answer"] is None or known["error_kind"] is not None:
            return Judgement(None, f"{known['error_kind']}: {known['error']}")
        return judge.read(item, known["answer"])

    def _paid(self, key: str, pending: Pending, item: str) -> Paid:
        """Use by earlier executions for this question, without a usable reply."""
        if not self._asked_before:
            return Paid()
        name = self._panel.judges[pending.judge].name
        question = JudgeQuestion(self._held.run_id, pending.position, name, item)
        return self._store.queries.paid_for_question(question, key)

    # -- from replies to scores ------------------------------------------------------------------------------------

    def retried(self, job: Job, outcome: Outcome, delay: float) -> None:
        """Store what a failed call cost."""
        assert isinstance(job, JudgeJob)
        question: Question = job.question
        paid = paid_for(outcome.answer)
        if paid.is_known:
            question.paid = question.paid.and_then(paid)
            row = self._row(question, question.asked_by[0], outcome.status, outcome, question.paid)
            self._writer.put("judgements", row)

    def store(self, job: Job, outcome: Outcome) -> None:
        """Store a reply for every answer that waits for it."""
        assert isinstance(job, JudgeJob)
        question: Question = job.question
        job.outcome = outcome
        self._writer.put_together([("judgements", row) for row in self._rows(question, outcome)], job)

    def _rows(self, question: Question, outcome: Outcome) -> list[Row]:
        """One row per waiting answer; the first carries the cost of all attempts."""
        question.written = len(question.asked_by)
        last = paid_for(outcome.answer)
        made = []
        for place, pending in enumerate(question.asked_by):
            reading, status = self._reading(question, pending.judge, outcome), str(outcome.status)
            if reading.remarks is None and reading.final:
                status = "skipped" if status == "skipped" else "invalid"
            paid = last if place else question.paid.and_then(last)
            row = self._row(question, pending, status, outcome, paid)
            made.append((*row[:-1], self._held.run) if place else row)
        return made

    def _row(self, question: Question, pending: Pending, status: str, outcome: Outcome, paid: Paid) -> Row:
        name = self._panel.judges[pending.judge].name
        asked = (pending.position, name, question.item, question.key, question.prompt)
        return judgement_row(self._held.run_id, *asked, status, outcome, paid)

    def _reading(self, question: Question, number: int, outcome: Outcome) -> Judgement:
        if number not in question.readings:
            question.readings[number] = _read(self._panel.judges[number], question.item, outcome)
        return question.readings[number]

    def stored(self, jobs: Sequence[Job], now: float) -> None:
        for job in jobs:
            assert isinstance(job, JudgeJob)
            assert job.outcome is not None
            question, outcome = job.question, job.outcome
            del self._asked[question.key]
            if question.written < len(question.asked_by):  # others asked the same meanwhile
                for row in self._rows(question, outcome):
                    self._writer.put("judgements", row)
            if outcome.status == "cancelled":
                continue  # a resume asks again
            for pending in question.asked_by:
                self._resolve(pending, question.item, self._reading(question, pending.judge, outcome))
            self._listener.judging(self._backlog, outcome)

    def _resolve(self, pending: Pending, item: str, reading: Judgement) -> None:
        pending.readings[item] = reading
        pending.missing -= 1
        if pending.missing:
            return
        self._open[pending.judge] -= 1
        judge = self._panel.judges[pending.judge]
        final = all(each.final for each in pending.readings.values())
        version = judge.version if final else UNFINISHED
        self._give(pending, judge.scores(pending.readings), version)

    def _give(self, pending: Pending, scores: Sequence[Score], version: str | None = None) -> None:
        self._seen[pending.judge].add(pending.position)
        version = self._panel.judges[pending.judge].version if version is None else version
        rows = score_rows(self._held.run_id, pending.position, version, scores)
        self._writer.put_together([("scores", row) for row in rows])
        deciding = self._early_stopping.score if self._early_stopping is not None else None
        self._report(pending, next((score.value for score in scores if score.name == deciding), None))
        self._passed(pending)

    def _decides(self, number: int) -> bool:
        """Whether early stopping uses the score of this judge."""
        return self._early_stopping is not None and self._early_stopping.score in self._panel.judges[number].columns

    def _report(self, pending: Pending, value: float | None) -> None:
        if self._early_stopping is not None and self._decides(pending.judge):
            self._early_stopping.judged(pending.position, value)

    def _passed(self, pending: Pending) -> None:
        if pending.earlier and self._early_stopping is not None and self._decides(pending.judge):
            self._earlier -= 1
            if not self._earlier:
                self._early_stopping.caught_up()


def _read(judge: Judge, item: str, outcome: Outcome) -> Judgement:
    """What a reply means to this judge, or why there is none."""
    failure = outcome.failure
    if outcome.status == "ok" and outcome.answer is not None:
        return judge.read(item, outcome.answer.text)
    kind, message = ("crash", "no answer") if failure is None else (failure.kind, failure.message)
    final = outcome.status == "skipped" or (outcome.status == "error" and kind in SAID_NO)
    return Judgement(None, f"the judge failed: {kind}: {' '.join(message.split())}", final)


def _is_open(status: str, blame: str | None) -> bool:
    """Whether a resume executes the trial again."""
    return status == "cancelled" or (status == "error" and blame != "variant")
