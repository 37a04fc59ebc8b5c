"""Leases: which runner may complete an attempt. Time is an argument, and nothing here waits or sends.

The driver grants a lease for each attempt that it sends to a runner. It ends the leases of runners that died, or that
it has not heard from for `DEADLINE_S`, and grants new ones with higher numbers. A result counts only with the current
number. A runner that has not heard from the driver for `RUNNER_DEADLINE_S` ends everything that it runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

HEARTBEAT_S = 1.0
DEADLINE_S = 5.0  # without a message from a runner, until the driver gives it up
RUNNER_DEADLINE_S = 6.0  # without a message from the driver, until a runner ends; the driver gives up first
MOST_DEATHS = 3  # of runners that had the same attempt
STALL_S = 2.0  # between two checks; longer means that the driver itself was frozen

Runner = TypeVar("Runner")
Item = TypeVar("Item")


@dataclass(slots=True)
class AttemptLease(Generic[Runner]):
    number: int
    runner: Runner | None
    deaths: int = 0  # of runners that had it


class Leases(Generic[Runner]):
    """The driver's record of attempts in flight, by ticket, and of when it last heard from each runner."""

    def __init__(self) -> None:
        self._leases: dict[int, AttemptLease[Runner]] = {}
        self._tickets: dict[Runner, set[int]] = {}
        self._heard_at: dict[Runner, float] = {}
        self._checked_at: float | None = None

    def add_runner(self, runner: Runner, now: float) -> None:
        self._tickets[runner], self._heard_at[runner] = set(), now

    def grant(self, ticket: int, runner: Runner) -> int:
        """Lease an attempt to a runner; return the number of the lease."""
        lease = self._leases.setdefault(ticket, AttemptLease(0, None))
        assert lease.runner is None
        lease.number, lease.runner = lease.number + 1, runner
        self._tickets[runner].add(ticket)
        return lease.number

    def hear(self, runner: Runner, now: float) -> None:
        if runner in self._heard_at:
            self._heard_at[runner] = now

    def complete(self, ticket: int, number: int) -> bool:
        """Whether a result counts: it is the first one, and from the current lease."""
        lease = self._leases.get(ticket)
        if lease is None or lease.number != number or lease.runner is None:
            return False
        self._tickets[lease.runner].discard(ticket)
        del self._leases[ticket]
        return True

    def overdue(self, now: float) -> list[Runner]:
        """Return runners not heard from for too long. Time in which the driver itself was frozen does not count."""
        if self._checked_at is not None and now - self._checked_at > STALL_S:
            for runner in self._heard_at:
                self._heard_at[runner] += now - self._checked_at
        self._checked_at = now
        return [runner for runner, heard_at in self._heard_at.items() if now - heard_at > DEADLINE_S]

    def end(self, runner: Runner) -> tuple[list[int], list[int]]:
        """End the leases of a lost runner; return the tickets to lease again, and those to fail."""
        to_retry, to_fail = [], []
        self._heard_at.pop(runner, None)
        for ticket in sorted(self._tickets.pop(runner, ())):
            lease = self._leases[ticket]
            lease.runner, lease.deaths = None, lease.deaths + 1
            if lease.deaths < MOST_DEATHS:
                to_retry.append(ticket)
            else:
                to_fail.append(ticket)
                del self._leases[ticket]
        return to_retry, to_fail

    def drop(self, ticket: int) -> None:
        """Forget an attempt that no runner has."""
        self._leases.pop(ticket, None)

    def held_by(self, runner: Runner) -> int:
        """Number of attempts that a runner has."""
        return len(self._tickets[runner])


class DriverContact:
    """A runner's record of when it last heard from the driver. Once the lease has expired, it stays expired."""

    def __init__(self, now: float) -> None:
        self._heard_at = now
        self._has_expired = False

    def hear(self, now: float) -> bool:
        """Record a message from the driver; return False if it is too late and must be ignored."""
        if not self.has_expired(now):
            self._heard_at = now
        return not self._has_expired

    def has_expired(self, now: float) -> bool:
        self._has_expired = self._has_expired or now - self._heard_at > RUNNER_DEADLINE_S
        return self._has_expired


@dataclass(slots=True)
class Outbox(Generic[Item]):
    """Messages to the other side, numbered from 1 and kept until it has acknowledged them."""

    _items: deque[Item] = field(default_factory=deque)
    _acknowledged: int = 0

    def __len__(self) -> int:
        return len(self._items)

    def extend(self, items: Iterable[Item]) -> None:
        self._items.extend(items)

    def acknowledge(self, number: int) -> None:
        """Drop the messages up to this number."""
        while self._acknowledged < number:
            self._items.popleft()
            self._acknowledged += 1

    def unacknowledged(self) -> tuple[int, list[Item]]:
        """Return the number of the first unacknowledged message, and all messages from it on."""
        return self._acknowledged + 1, list(self._items)


@dataclass(slots=True)
class Inbox(Generic[Item]):
    """Messages from the other side, each accepted once, in order."""

    received: int = 0  # number of the last one

    def new(self, first: int, items: list[Item]) -> list[Item]:
        """Return the new ones of these messages; `first` is the number of the first."""
        fresh = items[max(0, self.received + 1 - first) :]
        self.received = max(self.received, first + len(items) - 1)
        return fresh
