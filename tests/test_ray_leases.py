"""The lease protocol of the Ray engine on a virtual clock: runners die and freeze, messages are lost or late."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.execute.engine.ray.leases import (
    DEADLINE_S,
    HEARTBEAT_S,
    MOST_DEATHS,
    RUNNER_DEADLINE_S,
    DriverContact,
    Inbox,
    Leases,
    Outbox,
)

TICK_S = 0.5
Start = tuple[int, int, float]
"""A ticket, the number of its lease, and how long the attempt takes."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), action))

    def run(self, until: float, is_over: Callable[[], bool]) -> None:
        while self._events and self._events[0][0] <= until and not is_over():
            self.now, _, action = heapq.heappop(self._events)
            action()


@dataclass(eq=False)
class SimulatedRunner:
    """A runner with its half of the protocol, and a network between it and the driver."""

    contact: DriverContact
    starts: Inbox[Start] = field(default_factory=Inbox)
    results: Outbox[tuple[int, int]] = field(default_factory=Outbox)
    running: Counter[tuple[int, int]] = field(default_factory=Counter)
    is_alive: bool = True
    is_frozen: bool = False
    late: list[Callable[[], None]] = field(default_factory=list)  # what happened while it was frozen


@dataclass(eq=False)
class RunnerRecord:
    """What the driver knows of a runner."""

    runner: SimulatedRunner
    starts: Outbox[Start] = field(default_factory=Outbox)
    results: Inbox[tuple[int, int]] = field(default_factory=Inbox)


class Simulation:
    """A driver with some attempts, and runners under the faults of a plan."""

    def __init__(self, seed: int, attempts: int, runners: int, faults: list[tuple[float, str, int]]) -> None:
        self.clock, self.random = Clock(), random.Random(seed)
        self.leases: Leases[RunnerRecord] = Leases()
        self.records: list[RunnerRecord] = []
        self.completed: Counter[int] = Counter()
        self.given_up: Counter[int] = Counter()
        self.deaths: Counter[int] = Counter()
        self.executed: Counter[int] = Counter()
        self.pending = list(range(attempts))
        self.attempts = attempts
        for _ in range(runners):
            self.join()
        for at, kind, index in faults:
            self.clock.after(at, lambda kind=kind, index=index: self.fault(kind, index))  # type: ignore[misc]
        self.tick()

    # -- the driver ----------------------------------------------------------------------------------------------------

    def join(self) -> None:
        record = RunnerRecord(SimulatedRunner(DriverContact(self.clock.now)))
        self.records.append(record)
        self.leases.add_runner(record, self.clock.now)
        self.exchange(record)
        self.watch(record.runner)

    def tick(self) -> None:
        for record in self.leases.overdue(self.clock.now):
            self.lose(record)
        if not self.records:
            self.join()
        while self.pending:
            ticket = self.pending.pop()
            record = self.random.choice(self.records)
            number = self.leases.grant(ticket, record)
            record.starts.extend([(ticket, number, self.random.uniform(0.0, 3.0))])
        self.clock.after(TICK_S, self.tick)

    def lose(self, record: RunnerRecord) -> None:
        if record in self.records:
            self.records.remove(record)
            again, given_up = self.leases.end(record)
            self.deaths.update([*again, *given_up])
            self.pending += again
            self.given_up.update(given_up)

    def exchange(self, record: RunnerRecord) -> None:
        """Send what is not acknowledged, now and again until the runner is lost; it replies in the same way."""
        if record not in self.records:
            return
        first, starts = record.starts.unacknowledged()
        acknowledged = record.results.received
        self.send(record, lambda: self.receive(record, first, starts, acknowledged))
        self.clock.after(self.random.uniform(0.1, HEARTBEAT_S), lambda: self.exchange(record))

    def heard(self, record: RunnerRecord, received: int, first: int, results: list[tuple[int, int]]) -> None:
        """Results of lost runners may arrive as well."""
        self.leases.hear(record, self.clock.now)
        record.starts.acknowledge(received)
        for ticket, number in record.results.new(first, results):
            if self.leases.complete(ticket, number):
                self.completed[ticket] += 1

    # -- the network ---------------------------------------------------------------------------------------------------

    def send(self, record: RunnerRecord, deliver: Callable[[], None]) -> None:
        for _ in range(self.random.choice([0, 1, 1, 1, 1, 2])):  # lost, delivered or doubled
            self.clock.after(self.random.expovariate(10.0), deliver)

    # -- a runner ------------------------------------------------------------------------------------------------------

    def act(self, runner: SimulatedRunner, action: Callable[[], None]) -> None:
        if runner.is_frozen:
            runner.late.append(lambda: self.act(runner, action))
        elif runner.is_alive:
            action()

    def watch(self, runner: SimulatedRunner) -> None:
        def check() -> None:
            if runner.contact.has_expired(self.clock.now):
                runner.is_alive = False
            else:
                self.clock.after(TICK_S, lambda: self.watch(runner))

        self.act(runner, check)

    def receive(self, record: RunnerRecord, first: int, starts: list[Start], acknowledged: int) -> None:
        runner = record.runner

        def take() -> None:
            if not runner.contact.hear(self.clock.now):
                runner.is_alive = False
                return
            runner.results.acknowledge(acknowledged)
            for ticket, number, seconds in runner.starts.new(first, starts):
                runner.running[ticket, number] += 1
                self.executed[ticket, number] += 1  # type: ignore[index]
                self.clock.after(seconds, lambda ticket=ticket, number=number: self.end(runner, ticket, number))  # type: ignore[misc]
            received, (number, results) = runner.starts.received, runner.results.unacknowledged()
            self.send(record, lambda: self.heard(record, received, number, results))

        self.act(runner, take)

    def end(self, runner: SimulatedRunner, ticket: int, number: int) -> None:
        def add() -> None:
            del runner.running[ticket, number]
            runner.results.extend([(ticket, number)])

        self.act(runner, add)

    # -- faults --------------------------------------------------------------------------------------------------------

    def fault(self, kind: str, index: int) -> None:
        if kind == "join":
            self.join()
        if not self.records:
            return
        record = self.records[index % len(self.records)]
        runner = record.runner
        if kind == "kill":
            runner.is_alive = False
            self.clock.after(self.random.uniform(0.0, 1.0), lambda: self.lose(record))  # Ray reports it
        elif kind == "die":  # nobody reports it
            runner.is_alive = False
        elif kind == "freeze":
            runner.is_frozen = True
        elif kind == "thaw":
            for other in [item.runner for item in self.records if item.runner.is_frozen]:
                self.thaw(other)
        elif kind == "brief":
            runner.is_frozen = True
            self.clock.after(self.random.uniform(0.0, 12.0), lambda: self.thaw(runner))

    def thaw(self, runner: SimulatedRunner) -> None:
        runner.is_frozen = False
        late, runner.late = runner.late, []
        self.random.shuffle(late)  # Ray does not keep the order
        for action in late:
            action()


faults = st.lists(
    st.tuples(
        st.floats(0.0, 40.0), st.sampled_from(["kill", "die", "freeze", "thaw", "brief", "join"]), st.integers(0, 9)
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), attempts=st.integers(1, 40), runners=st.integers(1, 4), plan=faults)
def test_every_attempt_completes_exactly_once_whatever_fails(
    seed: int, attempts: int, runners: int, plan: list[tuple[float, str, int]]
) -> None:
    simulation = Simulation(seed, attempts, runners, plan)
    simulation.clock.run(300.0, lambda: False)
    ended = simulation.completed + simulation.given_up
    assert ended == Counter(range(attempts))
    assert all(simulation.deaths[ticket] == MOST_DEATHS for ticket in simulation.given_up)
    assert all(count == 1 for count in simulation.executed.values()), "a lease is executed at most once"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_without_faults_lost_and_doubled_messages_cost_no_second_execution(seed: int) -> None:
    simulation = Simulation(seed, 30, 3, [])
    simulation.clock.run(60.0, lambda: len(simulation.completed) == 30)
    assert simulation.completed == Counter(range(30))
    assert not simulation.deaths
    assert simulation.executed == Counter({(ticket, 1): 1 for ticket in range(30)})


def test_a_result_counts_only_with_the_current_lease() -> None:
    leases: Leases[str] = Leases()
    leases.add_runner("a", 0.0)
    leases.add_runner("b", 0.0)
    first = leases.grant(7, "a")
    assert leases.end("a") == ([7], [])
    assert not leases.complete(7, first)
    second = leases.grant(7, "b")
    assert not leases.complete(7, first)
    assert leases.complete(7, second)
    assert not leases.complete(7, second)


def test_an_attempt_is_given_up_after_three_runners_died_under_it() -> None:
    leases: Leases[int] = Leases()
    for runner in range(MOST_DEATHS):
        leases.add_runner(runner, 0.0)
        leases.grant(1, runner)
        expected = ([], [1]) if runner == MOST_DEATHS - 1 else ([1], [])
        assert leases.end(runner) == expected


def test_a_silent_runner_is_overdue_but_not_if_the_driver_itself_was_frozen() -> None:
    leases: Leases[str] = Leases()
    leases.add_runner("a", 0.0)
    now = 0.0
    while now <= DEADLINE_S:
        assert leases.overdue(now) == []
        now += 1.0
    assert leases.overdue(now) == ["a"]
    leases.hear("a", now)
    assert leases.overdue(now + 60.0) == []
    assert leases.overdue(now + 61.0) == []


def test_a_runner_that_thaws_ignores_what_the_driver_sent_meanwhile() -> None:
    contact = DriverContact(0.0)
    assert contact.hear(RUNNER_DEADLINE_S)
    assert not contact.hear(3 * RUNNER_DEADLINE_S)
    assert not contact.hear(3 * RUNNER_DEADLINE_S + 0.1), "an expired lease stays so"
