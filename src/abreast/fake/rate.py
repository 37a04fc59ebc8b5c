"""Rates that the fake provider announces in its headers and keeps to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from abreast.errors import BadInput
from abreast.rate_headers import announcement


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests, and so many tokens, in each window of so many seconds; what is more gets a 429.

    >>> Rate(requests=60).seconds
    60.0
    """

    requests: int | None = None
    tokens: int | None = None
    seconds: float = 60.0

    def __post_init__(self) -> None:
        for told in (self.requests, self.tokens):
            if told is not None and (type(told) is not int or told < 1):
                raise BadInput(f"rate: requests and tokens must be whole numbers of at least 1, got {told!r}")
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float) or not 0 < self.seconds < 1e9:
            raise BadInput(f"rate: seconds must be a number above 0, got {self.seconds!r}")


class Window:
    """What is left of a rate in its present window."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._ends = clock() + rate.seconds
        self._requests = self._tokens = 0

    def take(self, tokens: int) -> float | None:
        """Count one request; if it is too much, the seconds until the window ends."""
        if self._left() <= 0:
            self._ends = self._clock() + self._rate.seconds
            self._requests = self._tokens = 0
        rate = self._rate
        fits = (rate.requests is None or self._requests < rate.requests) and (
            rate.tokens is None or self._tokens < rate.tokens
        )
        if not fits:
            return self._left()
        self._requests += 1
        self._tokens += tokens
        return None

    def spend(self, tokens: int) -> None:
        """Count the tokens of an answer."""
        self._tokens += tokens

    def headers(self, manner: str) -> dict[str, str]:
        """The announcement in the manner of `anthropic` or `openai`."""
        left, headers = max(0.0, self._left()), dict[str, str]()
        if self._rate.requests is not None:
            requests = self._rate.requests
            headers |= announcement(manner, "requests", requests, requests - self._requests, left)
        if self._rate.tokens is not None:
            headers |= announcement(manner, "tokens", self._rate.tokens, self._rate.tokens - self._tokens, left)
        return headers

    def _left(self) -> float:
        return self._ends - self._clock()
