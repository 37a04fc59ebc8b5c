"""The progress of a run, updated from the rows added since the last update."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass

import numpy as np

from abreast.store import Store
from abreast.store.queries.changes import MOST_CHANGES

RATE_OVER_S, RATE_OVER_TRIALS = 15.0, 10  # the rate is that of the last trials: at least so long, and so many
_OUTCOMES = ("ok", "own failure", "infrastructure", "skipped", "cancelled")


@dataclass(frozen=True, slots=True)
class VariantProgress:
    name: str
    planned: int
    ok: int
    own_failures: int
    infrastructure: int  # failures that are not the variant's fault
    skipped: int

    @property
    def done(self) -> int:
        return self.ok + self.own_failures + self.infrastructure + self.skipped


class RunProgress:
    """The outcomes of a run's trials, and its events, kept up to date."""

    def __init__(self, store: Store, run_id: int, planned: int) -> None:
        self._run_id = run_id
        self._variants = [variant.name for variant in store.queries.variants(run_id)]
        self._planned = planned
        self._load(store)

    def _load(self, store: Store) -> None:
        self._outcome = np.full(self._planned, -1, dtype=np.int8)  # index in `_OUTCOMES`
        self._reused = np.zeros(self._planned, dtype=np.bool_)
        self._cost = np.zeros(self._planned)
        self._errors: dict[int, tuple[str, str]] = {}  # kind and blame by position
        self._now = 0.0
        self._recent: deque[tuple[float, int]] = deque()  # when trials had been executed, and how many
        self.revision = store.queries.revision(self._run_id)
        self.events = store.queries.events(self._run_id)
        columns = store.queries.trial_columns(self._run_id)
        rows = zip(
            *(columns[name].tolist() for name in ("position", "status", "error_kind", "error_blame")),
            *(columns[name].tolist() for name in ("cost_usd", "included", "reused")),
            strict=True,
        )
        for row in rows:
            self._set(*row)

    def update(self, store: Store, now: float) -> None:
        """Read the rows added since the last update. `now` is in seconds on a monotonic clock."""
        last = store.queries.revision(self._run_id)
        if not last.reaches(self.revision):
            self._load(store)
        while self.revision.trials < last.trials:
            rows = store.queries.trials_since(self._run_id, str(self.revision))
            for row in rows:
                is_included = row["cost_basis"] == "included"
                is_reused = row["reused_from"] is not None
                values = (row["status"], row["error_kind"], row["error_blame"], row["cost_usd"])
                self._set(row["position"], *values, is_included, is_reused)
            if len(rows) < MOST_CHANGES:
                break
            self.revision = self.revision._replace(trials=rows[-1]["seq"])
        if self.revision.events < last.events:
            self.events = store.queries.events(self._run_id)  # all, because a revision may lag behind its rows
        self.revision = last
        self._now, executed = now, self.executed
        if not self._recent or executed != self._recent[-1][1]:
            self._recent.append((now, executed))
        while len(self._recent) > 1:
            begin, before = self._recent[1]
            if now - begin < RATE_OVER_S or executed - before < RATE_OVER_TRIALS:
                break
            self._recent.popleft()

    def _set(
        self,
        position: int,
        status: str,
        kind: str | None,
        blame: str | None,
        cost: float | None,
        is_included: bool,
        is_reused: bool,
    ) -> None:
        if not 0 <= position < self._planned:
            return
        outcome = status if status != "error" else "own failure" if blame == "variant" else "infrastructure"
        self._outcome[position] = _OUTCOMES.index(outcome)
        self._reused[position] = is_reused
        is_paid = cost is not None and not math.isnan(cost) and not is_included and not is_reused
        self._cost[position] = cost if is_paid else 0.0
        if status == "error":
            self._errors[position] = (str(kind), str(blame))
        else:
            self._errors.pop(position, None)

    def by_variant(self) -> list[VariantProgress]:
        count = max(1, len(self._variants))
        progress = []
        for index, name in enumerate(self._variants):
            outcomes = self._outcome[index::count]
            ok, own, infrastructure, skipped = (int((outcomes == number).sum()) for number in range(4))
            progress.append(VariantProgress(name, len(outcomes), ok, own, infrastructure, skipped))
        return progress

    def errors(self) -> Counter[tuple[int, str, str]]:
        """The number of failed trials by variant, kind and blame."""
        count = max(1, len(self._variants))
        return Counter((position % count, kind, blame) for position, (kind, blame) in self._errors.items())

    @property
    def done(self) -> int:
        return int(((self._outcome >= 0) & (self._outcome < 4)).sum())

    @property
    def executed(self) -> int:
        return int(((self._outcome >= 0) & (self._outcome < 4) & ~self._reused).sum())

    @property
    def remaining(self) -> int:
        return self._planned - self.done

    @property
    def cost_usd(self) -> float:
        """Cost of the trials, without reused ones, those paid by a subscription, and retried attempts."""
        return float(self._cost.sum())

    def rate(self) -> float | None:
        """Trials per second; None until a trial has been executed after the first look."""
        (begin, before), (_, after) = self._recent[0], self._recent[-1]
        return (after - before) / (self._now - begin) if after > before and self._now - begin >= 1.0 else None
