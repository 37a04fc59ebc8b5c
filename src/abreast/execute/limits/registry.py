"""Every limit there is. To add one, write a file with a `Limit` and a `build`, and add a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from abreast.execute import estimate
from abreast.execute.limits import announced, breaker, budget, concurrency, failing, quota, rate, turns
from abreast.execute.limits.base import Limit, LimitContext

FACTORIES: list[Callable[[LimitContext], Iterable[Limit]]] = [
    estimate.build,
    concurrency.build,
    turns.build,
    rate.build,
    quota.build,
    budget.build,
    announced.build,
    breaker.build,
    failing.build,
]
"""Functions that make the limits which the settings of a spec ask for: none, one, or one for each target."""


def build_limits(context: LimitContext) -> list[Limit]:
    """Every limit that was asked for, what providers announce, and no other."""
    return [limit for build in FACTORIES for limit in build(context)]
