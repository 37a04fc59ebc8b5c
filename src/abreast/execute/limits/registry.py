"""All limits. To add one, write a module with a `Limit` and a `build` function, and list it here.

Other packages register their `build` under the entry point `abreast.limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from abreast.execute import estimate
from abreast.execute.limits import announced, breaker, budget, concurrency, failing, quota, rate, turns
from abreast.execute.limits.base import Limit, LimitContext
from abreast.plugins import find_plugin, plugin_names_at_start

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
    own = [limit for build in FACTORIES for limit in build(context)]
    return [*own, *(limit for name in plugin_names_at_start("limit") for limit in _build_plugin(name, context))]


def _build_plugin(name: str, context: LimitContext) -> list[Limit]:
    plugin = find_plugin("limit", name)
    assert plugin is not None
    built = plugin.build("a function that returns limits", ("context",), context)
    limits: list[Limit] = plugin.call("listing its limits", list, built)
    for limit in limits:
        if not isinstance(limit, Limit):
            plugin.refuse("it must return instances of abreast.execute.limits.base.Limit", limit)
    return limits
