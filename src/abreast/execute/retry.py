"""Whether a failed attempt is made again, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from abreast.model import Failure

FIRST_S = 0.5
LONGEST_S = 60.0
NEVER_RETRIED = ("auth", "rejected", "tool_denied", "not_carried")  # a wrong key is wrong next time too


@dataclass(slots=True)
class Retry:
    """Exponential back-off with full jitter, for infrastructure errors only.

    The variant's own failures are its result.
    """

    retries: int = 3
    chance: random.Random = field(default_factory=random.Random)

    def delay(self, failure: Failure, attempt: int, excused: int = 0) -> float | None:
        """Seconds until the next attempt; None if this one was the last. Excused attempts use up no retries."""
        if failure.blame != "infrastructure" or failure.kind in NEVER_RETRIED or attempt - excused > self.retries:
            return None
        jitter = self.chance.uniform(0.0, min(LONGEST_S, FIRST_S * 2 ** min(attempt - 1, 10)))
        if failure.retry_after is None:
            return jitter
        return failure.retry_after + min(jitter, 0.1 * failure.retry_after)
