"""Rates that the fake provider announces in its headers and enforces."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from abreast.errors import BadInput
from abreast.rate_headers import announcement


@dataclass(frozen=True, slots=True)
class Rate:
    """Limits on requests and tokens in each window of `seconds`; further requests get a 429.

    >>> Rate(requests=60).seconds
    60.0
    """

    requests: int | None = None
    tokens: int | None = None
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for limit in (self.requests, self.tokens):
            if limit is not None and (type(limit) is not int or limit < 1):
                raise BadInput(f"rate: requests and tokens must be integers of at least 1, got {limit!r}")
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not 0 < self.seconds < 1e9:
            raise BadInput(f"rate: seconds must be a number above 0, got {self.seconds!r}")


class Window:
    """The use of a rate in its current window."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._ends = clock() + rate.seconds
        self._requests = self._tokens = 0

    def take(self, tokens: int) -> float | None:
        """Count a request and return None; if it exceeds the rate, return the seconds until the window ends."""
        if self._remaining_s() <= 0:
            self._ends = self._clock() + self._rate.seconds
            self._requests = self._tokens = 0
        rate = self._rate
        fits = (rate.requests is None or self._requests < rate.requests) and (
            rate.tokens is None or self._tokens < rate.tokens
        )
        if not fits:
            return self._remaining_s()
        self._requests += 1
        self._tokens += tokens
        return None

    def spend(self, tokens: int) -> None:
        """Count the tokens of an answer."""
        self._tokens += tokens

    def headers(self, provider: str) -> dict[str, str]:
        """Return the rate headers of `anthropic` or `openai`."""
        reset_s, headers = max(0.0, self._remaining_s()), dict[str, str]()
        limits = {"requests": (self._rate.requests, self._requests), "tokens": (self._rate.tokens, self._tokens)}
        for kind, (limit, used) in limits.items():
            if limit is not None:
                headers |= announcement(provider, kind, limit, limit - used, reset_s)
        return headers

    def _remaining_s(self) -> float:
        return self._ends - self._clock()
