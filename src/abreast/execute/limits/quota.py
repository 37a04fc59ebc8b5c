"""Quotas: a number of calls in a sliding window of hours, counted for the account over all its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext
from abreast.spec.schema import quota_window
from abreast.store.base import NoConnection
from abreast.store.user_state.quota_ledger import Ledger

RETRY_S = 1.0  # pause after the server of a shared ledger could not be reached


def build(context: LimitContext) -> Iterator[Limit]:
    for name, variants in context.variants_of_target.items():
        quota, target = context.limits.of(name).quota, context.targets[min(variants)]
        if quota is not None:
            most, window_s = quota_window(quota)
            yield Quota(
                most=most,
                window_s=window_s,
                account=target.account or target.name,
                variants=variants,
                ledger=context.ledger(),
                waits=context.waits_for_quota,
                on_pause=context.emit,
            )


class Quota(Limit):
    """Reserves one call ahead for the next job. If the quota is used up, jobs wait or the run ends."""

    is_shared = True

    def __init__(
        self,
        most: int,
        window_s: float,
        account: str,
        variants: frozenset[int],
        ledger: Ledger,
        waits: bool,
        on_pause: Callable[..., Any],
    ) -> None:
        self.most, self.window_s, self.account = most, window_s, account
        self.variants = variants
        self._ledger, self._waits, self._on_pause = ledger, waits, on_pause
        self._ticket: int | None = None
        self._free_at = 0.0
        self._retry_at = 0.0
        self._is_paused = False

    def change(self, new: Self) -> None:
        self.most, self.window_s = new.most, new.window_s
        self._free_at, self._is_paused = 0.0, False

    def wait(self, job: Job, now: float) -> float:
        if self._ticket is not None:
            return 0.0
        if now < self._free_at:
            return self._pause(now)
        if now < self._retry_at:
            return self._retry_at - now
        try:
            self._ticket, seconds = self._ledger.take(self.account, self.most, self.window_s)
        except NoConnection:
            self._retry_at = now + RETRY_S
            return RETRY_S
        if self._ticket is not None:
            self._is_paused = False
            return 0.0
        self._free_at = now + seconds  # another run may take that call, so try again then
        if not self._is_paused:
            self._is_paused = True
            self._on_pause("quota", most=self.most, window_s=self.window_s, seconds=seconds, waits=self._waits)
        return self._pause(now)

    def _pause(self, now: float) -> float:
        return self._free_at - now if self._waits else UNTIL_AN_EVENT

    def affordable(self, jobs: list[Job], now: float) -> list[Job]:
        is_used_up = self._ticket is None and now < self._free_at
        return [job for job in jobs if not self.applies_to(job.variant)] if is_used_up else jobs

    def take(self, job: Job, now: float) -> None:
        self._ticket = None

    def exhausted(self, job: Job, now: float) -> tuple[str, str, str] | None:
        if self._waits or self._ticket is not None:
            return None
        message = f"the quota of {self.most} in {self.window_s / 3600:g} h is used up"
        return "quota", message, f"wait {max(0.0, self._free_at - now) / 60:.0f} minutes until calls are available"

    def close(self) -> None:
        if self._ticket is not None:
            self._ledger.give_back(self._ticket)
            self._ticket = None
        self._ledger.close()
