"""The trials of a plan as jobs, refilled from a cursor over its blocks.

Trials that continue another one wait for it outside the lanes, and delay no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from abreast.execute.early_stopping import EarlyStopping
from abreast.execute.job import Job, TrialJob
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, by_variant
from abreast.execute.listener import Listener
from abreast.execute.records import TrialRecords
from abreast.execute.sources.lanes import Lanes, Source
from abreast.execute.state import RunState
from abreast.model import Outcome
from abreast.plan.plan import Plan

WINDOW = 5_000  # no variant starts a block more than this many past the stored prefix
AHEAD = 32  # most jobs of a lane whose requests are prepared before they start
FEW = 50  # cases past that prefix, or a tenth of all, in a run that may stop early
LEAD = 32  # blocks that one variant may start before the others in such a run

Fate = Literal["starts", "waits", "never starts"]


class Trials(Source):
    """Every trial of the plan that is not done."""

    job_type = TrialJob
    decides_blame = True

    def __init__(
        self,
        *,
        plan: Plan,
        limits: Sequence[Limit],
        records: TrialRecords,
        on_commit: Callable[[Sequence[Job]], None],
        listener: Listener,
        state: RunState,
        early_stopping: EarlyStopping | None = None,
        unjudged: Callable[[], int] = lambda: 0,
    ) -> None:
        """`on_commit` gets jobs whose rows are safe. `unjudged` counts the answers that wait for the
        deciding judge."""
        variants = range(len(plan.variants))
        super().__init__(Lanes(variants, limits))
        self._plan, self._records, self._on_commit = plan, records, on_commit
        self._listener, self._state = listener, state
        self._follow_limits(limits)
        self._early_stopping, self._unjudged = early_stopping, unjudged
        self.lead = UNTIL_AN_EVENT if early_stopping is None else LEAD
        self._chains = Chains(plan) if plan.is_chained else None
        self._blocks = plan.open_blocks()
        self._cursor = 0  # index of the next block to be put into the lanes
        self._to_come = plan.missing_by_variant()  # number of trials not yet in a lane
        self._open: dict[int, int] = {}  # number of unstored trials by block, of those begun
        self._prefix = 0  # number of blocks stored without a gap
        self._unstored = plan.missing()
        self._failing: dict[Job, Outcome] = {}  # failed by infrastructure, and not stored yet
        self._given_up: dict[Job, Outcome] = {}  # failed by infrastructure, and stored
        self._left_out: list[Job] = []
        self.executed = 0

    def use_limits(self, limits: Sequence[Limit]) -> None:
        super().use_limits(limits)
        self._follow_limits(limits)

    def _follow_limits(self, limits: Sequence[Limit]) -> None:
        self._limits, variants = limits, range(len(self._plan.variants))
        self._concluding = by_variant(
            (limit for limit in limits if type(limit).conclude is not Limit.conclude), variants
        )
        self._storing = by_variant((limit for limit in limits if type(limit).store is not Limit.store), variants)

    @property
    def is_done(self) -> bool:
        return self._unstored == 0

    def is_held_back(self) -> bool:
        return self._early_stopping is not None and self._early_stopping.is_behind(self._unjudged())

    # -- filling the lanes ---------------------------------------------------------------------------------------------

    def refill(self, now: float) -> None:
        window = WINDOW
        if self._early_stopping is not None:
            self.apply_decision()
            window = self._early_stopping_window()
        end = min(len(self._blocks), self._prefix + window)
        lanes = self.lanes
        while self._cursor < end and lanes.is_short(self._state.most_in_flight // len(lanes) + 2):
            self._add_block(self._blocks[self._cursor], now)

    def apply_decision(self) -> None:
        """Drop trials that a decision made unnecessary."""
        if self._early_stopping is not None and self._early_stopping.is_decision_due:
            self._early_stopping.apply(self.keep_begun_cases(self._early_stopping.begun))

    def _early_stopping_window(self) -> int:
        """Blocks past the prefix: few, because a trial in back-off delays the decision while others cost money."""
        few = max(FEW, len(self._plan.cases) // 10) * self._plan.repeats
        return min(WINDOW, few + 2 * self._state.in_flight)

    def _add_block(self, block: int, now: float) -> None:
        plan, done = self._plan, self._plan.done
        self._cursor += 1
        positions = plan.dispatch(block)
        case = plan.parts(positions[0])[0]
        jobs = [
            TrialJob(
                trial=plan.trial(position),
                variant=position % len(plan.variants),
                block=block,
                slot=slot,
                case=case,
                ready_at=now,
            )
            for slot, position in enumerate(positions)
            if not done[position]
        ]
        self._open[block] = len(jobs)
        for job in jobs:
            self._to_come[job.variant] -= 1
            if not self._to_come[job.variant]:
                self.lanes.complete(job.variant)
            if self._chains is None:
                self.lanes.append(job)
            else:
                self._add_chained(self._chains, job, now)

    def _add_chained(self, chains: Chains, job: Job, now: float) -> None:
        fate = chains.fate(job)
        if fate == "starts":
            self.lanes.append(job)
        elif fate == "never starts":
            self._leave_out(job)
            self._follow(chains, job, now)

    def upcoming(self) -> list[Job]:
        """The first jobs of the lanes, about as many as are in flight."""
        return self.lanes.upcoming(min(AHEAD, self._state.in_flight // max(1, len(self.lanes)) + 1))

    def keep_begun_cases(self, begun_before: Collection[int] = ()) -> int:
        """Drop every case without a started trial, here or before; return the number of trials saved."""
        plan, repeats = self._plan, self._plan.repeats
        fresh = Counter(job.block for job in self.lanes if not job.attempt)
        untouched = {block for block in fresh if fresh[block] == plan.missing_in(block)}
        refilled, ahead = self._blocks[: self._cursor], self._blocks[self._cursor :]
        begun = {block // repeats for block in refilled if block not in untouched}
        begun.update(plan.block(case, 0) // repeats for case in begun_before)
        left_out = {block for block in untouched if block // repeats not in begun}
        self.lanes.keep(lambda job: job.block not in left_out)
        for block in left_out:
            del self._open[block]
        self._advance()
        needed = [block for block in ahead if block // repeats in begun]
        self._blocks = [*refilled, *needed]
        saved = sum(fresh[block] for block in left_out) + sum(self._to_come)
        self._to_come = [0] * len(plan.variants)
        for block in needed:
            saved -= plan.missing_in(block)
            for position in plan.dispatch(block):
                self._to_come[position % len(plan.variants)] += not plan.done[position]
        self._unstored -= saved
        self._state.wake()
        return saved

    # -- progress of jobs ----------------------------------------------------------------------------------------------

    def started(self, job: Job, in_flight: int) -> None:
        self._listener.started(job, in_flight)

    def retried(self, job: Job, outcome: Outcome, delay: float) -> None:
        self._records.attempt(job, outcome, delay)
        assert outcome.failure is not None
        self._listener.retried(job, outcome.failure, delay)

    def concluded(self, job: Job, outcome: Outcome, now: float) -> None:
        for limit in self._concluding[job.variant]:
            limit.conclude(job, outcome, now)
        self._listener.finished(job, outcome)

    def store(self, job: Job, outcome: Outcome) -> None:
        for limit in self._storing[job.variant]:
            limit.store(job, outcome)
        if outcome.status == "error" and outcome.failure is not None and outcome.failure.blame != "variant":
            self._failing[job] = outcome
        if self._chains is not None:
            self._chains.concluded(job, outcome)
        self._records.outcome(job, outcome)

    def stored(self, jobs: Sequence[Job], now: float) -> None:
        self._on_commit(jobs)
        for job in jobs:
            self._close(job.block)
            if job in self._failing:
                self._given_up[job] = self._failing.pop(job)
            if self._chains is not None and self._state.stopped is None:
                self._follow(self._chains, job, now)
        self._unstored -= len(jobs)
        self.executed += len(jobs)
        self._listener.stored(jobs)

    def _follow(self, chains: Chains, job: Job, now: float) -> None:
        """Move followers of this trial to their lanes, or leave them out."""
        ended = [job]
        while ended:
            for follower in chains.end(ended.pop()):
                if chains.fate(follower) == "starts":
                    follower.ready_at = now
                    self.lanes.insert(follower)
                else:
                    self._leave_out(follower)
                    ended.append(follower)

    def _leave_out(self, job: Job) -> None:
        """Leave out a trial whose predecessor is missing; a resume executes it."""
        for limit in self._limits:
            limit.leave_out(job)
        trial = job.trial
        self._listener.event("left_out", case=trial.case.id, variant=trial.variant.name, repeat=trial.repeat)
        self._left_out.append(job)
        self._unstored -= 1
        self._close(job.block)
        self._state.wake()  # a limit may be waiting for it

    def retry(self, now: float) -> int:
        """Execute again the trials that infrastructure failures ended in this execution, and then those that were left
        out because of them. Return the number of failed ones."""
        failed, self._given_up = self._given_up, {}
        jobs, self._left_out = sorted([*failed, *self._left_out], key=lambda job: job.order), []
        if self._chains is not None:
            self._chains.reopen(jobs)
        for job, outcome in failed.items():
            self._records.attempt(job, outcome, 0.0)  # the row of the trial will be replaced
        for job in jobs:
            self._unstored += 1
            self._open[job.block] = self._open.get(job.block, 0) + 1
            trial = self._plan.trial(job.trial.position)
            again = TrialJob(
                trial=trial, variant=job.variant, block=job.block, slot=job.slot, case=job.case, ready_at=now
            )
            if self._chains is None or self._chains.fate(again) == "starts":
                self.lanes.insert(again)
        if failed:
            self.executed -= len(failed)
            kinds = Counter(outcome.failure.kind for outcome in failed.values() if outcome.failure is not None)
            self._listener.event("requeued", trials=len(failed), errors=dict(kinds))
        self._state.wake()
        return len(failed)

    def _close(self, block: int) -> None:
        self._open[block] -= 1
        if not self._open[block]:
            del self._open[block]
        self._advance()

    def _advance(self) -> None:
        while self._prefix < self._cursor and self._blocks[self._prefix] not in self._open:
            self._prefix += 1


class Chains:
    """Trials that wait for the one they continue.

    They follow any final outcome, including the variant's own failures. After an infrastructure failure they never
    start: a resume executes that trial again, and then those that continue it.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._is_final: dict[int, bool] = {}  # outcomes of this execution, by position
        self._ended: set[int] = set()  # trials whose rows are safe, or that never start
        self._waiting: dict[int, list[Job]] = {}  # by the position of the trial they continue

    def fate(self, job: Job) -> Fate:
        """Decide the fate of a job; `end` returns jobs that wait."""
        before = self._plan.before(job.trial.position)
        if before is None or self._plan.done[before]:
            return "starts"
        if before not in self._ended:
            self._waiting.setdefault(before, []).append(job)
            return "waits"
        return "starts" if self._is_final.get(before) else "never starts"

    def concluded(self, job: Job, outcome: Outcome) -> None:
        is_own_failure = outcome.failure is not None and outcome.failure.blame == "variant"
        is_final = outcome.status in ("ok", "skipped") or (outcome.status == "error" and is_own_failure)
        self._is_final[job.trial.position] = is_final

    def end(self, job: Job) -> list[Job]:
        """Record that a trial is stored or never starts; return those that waited for it."""
        self._ended.add(job.trial.position)
        return self._waiting.pop(job.trial.position, [])

    def reopen(self, jobs: Iterable[Job]) -> None:
        """Record that these trials will be executed again."""
        for job in jobs:
            self._ended.discard(job.trial.position)
            self._is_final.pop(job.trial.position, None)
