"""The trials of a run as columns, for the reports of suites."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from abreast.analyse.answer_fields import answer_fields, numbers
from abreast.analyse.rows import Bools, Floats
from abreast.analyse.run import Analysis
from abreast.text import many

Value = TypeVar("Value")
FailureCounts = Mapping[tuple[str, str], int]  # by kind and blame


class TrialTable:
    """The trials of a run in plan order."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.rows = analysis, analysis.rows
        self.names = tuple(self.rows.variants)
        self.variants = range(len(self.names))
        self.baseline: str = analysis.run["baseline"]

    @cached_property
    def reported(self) -> list[Mapping[str, Any]]:
        """The `data` of each answer."""
        return answer_fields(self.rows)

    def of(self, variant: int) -> Bools:
        """Return which trials belong to a variant."""
        mask: Bools = self.rows.variant == variant
        return mask

    def number(self, name: str) -> Floats:
        return numbers(self.reported, name)

    def has_case(self, mask: Bools) -> Bools:
        """For each planned case, whether any of the trials in `mask` belongs to it."""
        has_trial: Bools = np.bincount(self.rows.case[mask], minlength=self.rows.planned_cases) > 0
        return has_trial

    @property
    def prompt_tokens(self) -> Floats:
        """Input tokens, including cached ones where they are reported."""
        tokens = self.rows.tokens
        total: Floats = tokens["input"] + np.nansum([tokens["cache_read"], tokens["cache_write"]], axis=0)
        return total

    @property
    def service_times(self) -> Floats:
        """Seconds of each trial; nan for reused answers."""
        return np.where(~self.rows.reused & (self.rows.service_s > 0), self.rows.service_s, np.nan)

    def costs_per_correct(self) -> tuple[float | None, ...]:
        costs = [summary.cost_per_correct for summary in self.analysis.variants]
        return tuple(None if cost is None else none_if_nan(cost.estimate) for cost in costs)

    def by_variant(self, values: Iterable[Value]) -> dict[str, Value]:
        return dict(zip(self.names, values, strict=True))

    def not_counted(self, noun: str) -> list[str]:
        """Describe trials that are not scored, as in `2 runs of careful failed by infrastructure`."""
        reasons = {"failed by infrastructure": self.rows.error & ~self.rows.own_failure, "skipped": self.rows.skipped}
        counts = {
            (name, reason): int((self.of(variant) & mask).sum())
            for reason, mask in reasons.items()
            for variant, name in enumerate(self.names)
        }
        return [f"{many(count, noun)} of {name} {reason}" for (name, reason), count in counts.items() if count]


def none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def failures_in_words(counts: FailureCounts) -> str:
    """Format failures as `1 timeout (variant's fault), 2 network`."""
    fault = " (variant's fault)"
    return ", ".join(
        f"{number:,} {kind}{fault if blame == 'variant' else ''}" for (kind, blame), number in sorted(counts.items())
    )


def failures_as_data(counts: FailureCounts, unit: str) -> list[dict[str, Any]]:
    return [{"kind": kind, "blame": blame, unit: number} for (kind, blame), number in sorted(counts.items())]
