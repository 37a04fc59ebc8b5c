"""Detection of congestion by refusals: a sequential test of their share against that at lower concurrency.

Some providers refuse a few percent of all requests however few are in flight. That background says nothing about their
capacity. So the test (CUSUM) weighs two hypotheses, request by request: the share of refusals is the background, or the
odds of a refusal are three times as high. The background is estimated from requests sent at lower concurrency.

Refusals usually arrive long before answers. So requests count in the order of sending: when one is refused, earlier
ones that are still in flight count as accepted.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

STEP = 1.05  # ratio of successive bands of levels
ASSUMED_SHARE = 0.01  # prior share of refusals,
ASSUMED_REQUESTS = 50.0  # and its weight in requests
ODDS = 3.0  # congestion multiplies the odds of a refusal by at least this,
LEAST_SHARE = 0.1  # and means at least this share
EVIDENCE = 6.5  # log-likelihood ratio from which refusals mean congestion
EXPECTED = 2.0  # this ratio where congestion is expected: one refusal suffices unless there is a background
CAUTION = 1.5  # standard errors added to each share before the lowest is chosen
ENOUGH = 50.0  # requests needed to estimate a share
MEMORY = 2_000  # in requests; older ones count half
FRESH = 16  # answers after which the background is estimated again


def band(level: int) -> int:
    return int(math.log(level) / math.log(STEP))


@dataclass(slots=True)
class RefusalCount:
    requests: float = 0.0
    refused: float = 0.0

    def add(self, other: RefusalCount) -> None:
        self.requests += other.requests
        self.refused += other.refused

    @property
    def share(self) -> float:
        """The share of refusals, shrunk towards the assumed one while there are few requests."""
        return (self.refused + ASSUMED_SHARE * ASSUMED_REQUESTS) / (self.requests + ASSUMED_REQUESTS)

    @property
    def error(self) -> float:
        """Standard error of the share."""
        return math.sqrt(self.share * (1 - self.share) / (self.requests + ASSUMED_REQUESTS))


class RefusalTest:
    """Distinguishes congestion from background refusals."""

    def __init__(self) -> None:
        self._tallies: dict[int, RefusalCount] = {}
        self._requests = 0
        self._evidence = 0.0
        self._backgrounds: dict[int, float] = {}  # cached estimates by band
        self._uncounted: dict[int, int] = {}  # levels of requests in flight, in the order of sending
        self.streak = 0  # refusals behind the present suspicion

    def send(self, number: int, level: int) -> None:
        """Remember a request that is sent as the `level`-th in flight."""
        self._uncounted[number] = level

    def accept(self, number: int) -> None:
        """Count an answered request, unless it has been counted."""
        level = self._uncounted.pop(number, None)
        if level is not None:
            self.add(level, refused=False)

    def refuse(self, number: int, level: int, needed: float = EVIDENCE) -> bool:
        """Count a refused request and those sent before it; return whether there is congestion now."""
        if number in self._uncounted:
            for earlier in list(itertools.takewhile(lambda other: other != number, self._uncounted)):
                self.accept(earlier)
        self.forget(number)
        return self.add(level, refused=True, needed=needed)

    def forget(self, number: int) -> None:
        self._uncounted.pop(number, None)

    def add(self, level: int, refused: bool, needed: float = EVIDENCE) -> bool:
        """Count a request that was sent as the `level`-th in flight; return whether there is congestion now."""
        share = self.background(level)
        congested = max(LEAST_SHARE, ODDS * share / (1 + (ODDS - 1) * share))
        self._evidence += math.log(congested / share if refused else (1 - congested) / (1 - share))
        self._evidence = max(0.0, self._evidence)
        self.streak = self.streak + refused if self._evidence > 0.0 else 0
        self._tallies.setdefault(band(level), RefusalCount()).add(RefusalCount(1.0, float(refused)))
        self._requests += 1
        if refused or not self._requests % FRESH:
            self._backgrounds.clear()
        if self._requests > MEMORY:
            self._requests //= 2
            for tally in self._tallies.values():
                tally.requests /= 2
                tally.refused /= 2
        if self._evidence < needed:
            return False
        self._evidence = 0.0
        return True

    def background(self, level: int) -> float:
        """The lowest share of refusals up to any lower level, or up to this level while there are few requests."""
        own = band(level)
        if own not in self._backgrounds:
            self._backgrounds[own] = self._estimate(own)
        return self._backgrounds[own]

    def _estimate(self, own: int) -> float:
        below, shares = RefusalCount(), []
        for at in sorted(at for at in self._tallies if at <= own):
            below.add(self._tallies[at])
            if at < own and below.requests >= ENOUGH:
                shares.append(below.share + CAUTION * below.error)
        return min(shares, default=below.share)
