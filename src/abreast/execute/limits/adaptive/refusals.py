"""Whether refusals mean congestion: a sequential test of their share against the share at lower concurrency.

Some providers refuse a few percent of all requests however few are in flight. That background says nothing about their
capacity. So the test (CUSUM) weighs two hypotheses, request by request: the share of refusals is the background, or the
odds of a refusal are three times as high. The background is estimated from requests sent at lower concurrency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

STEP = 1.05  # from one band of levels to the next
ASSUMED_SHARE = 0.01  # of refusals, before anything is known,
ASSUMED_REQUESTS = 50.0  # and the number of observed requests that weigh as much as this assumption
ODDS = 3.0  # congestion multiplies the odds of a refusal by at least this,
LEAST_SHARE = 0.1  # and is never less than this share
EVIDENCE = 6.5  # log-likelihood ratio at which refusals count as congestion
SUSPICION = 2.0  # the same at which the limit should not grow
CAUTION = 1.5  # standard errors that are added to a share before the lowest is chosen
ENOUGH = 50.0  # requests to estimate a share from
MEMORY = 2_000  # requests; older ones count half
FRESH = 16  # answers after which the background is estimated again


def band(level: int) -> int:
    """The number of the band that a level belongs to."""
    return int(math.log(level) / math.log(STEP))


@dataclass(slots=True)
class RefusalCount:
    """Requests and how many of them were refused."""

    requests: float = 0.0
    refused: float = 0.0

    def add(self, other: RefusalCount) -> None:
        self.requests += other.requests
        self.refused += other.refused

    @property
    def share(self) -> float:
        """The share of refusals, drawn towards the assumed one while there are few requests."""
        return (self.refused + ASSUMED_SHARE * ASSUMED_REQUESTS) / (self.requests + ASSUMED_REQUESTS)

    @property
    def error(self) -> float:
        """The standard error of the share."""
        return math.sqrt(self.share * (1 - self.share) / (self.requests + ASSUMED_REQUESTS))


class RefusalTest:
    """Tells congestion from background refusals."""

    def __init__(self) -> None:
        self._tallies: dict[int, RefusalCount] = {}
        self._requests = 0
        self._evidence = 0.0
        self._backgrounds: dict[int, float] = {}  # by band, as estimated lately
        self.streak = 0  # refusals behind the present suspicion

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

    @property
    def is_suspicious(self) -> bool:
        """Whether there were more refusals lately than the background explains."""
        return self._evidence >= SUSPICION

    def background(self, level: int) -> float:
        """The lowest share of refusals up to any lower level; while little is known of those, the share up to this."""
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
