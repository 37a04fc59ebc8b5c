"""All limits. To add one, write a module with a `Limit` and a `build` function, and list it here.

Other packages register their `build` under the entry point `abreast.limits`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from abreast.execute import estimate
from abreast.execute.limits import announced, breaker, budget, concurrency, failing, quota, rate, turns
from abreast.execute.limits.base import Limit, LimitContext
from abreast.plugins import find_plugin, plugin_names_at_start
from abreast.spec.schema import Limits

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
"""Functions that make the limits which the settings of a spec request: none, one, or one for each target."""


class ActiveLimits:
    """The limits of an execution, whose settings may change while it runs."""

    def __init__(self, context: LimitContext, of_engine: Iterable[Limit] = ()) -> None:
        self._context = context
        self._own = _build(context)
        plugins = (limit for name in plugin_names_at_start("limit") for limit in _build_plugin(name, context))
        self._others = [*plugins, *of_engine]

    @property
    def settings(self) -> Limits:
        return self._context.limits

    @property
    def requested(self) -> int | None:
        """Declared number of trials in flight; None if adaptive."""
        return self._context.concurrency.requested

    @property
    def target_names(self) -> Collection[str]:
        return self._context.variants_of_target.keys()

    def __iter__(self) -> Iterator[Limit]:
        yield from self._own
        yield from self._others

    def change(self, settings: Limits) -> list[Limit]:
        """Continue with other settings; return the limits that are new and have not counted what is in flight."""
        self._context = replace(self._context, limits=settings)
        old: dict[object, deque[Limit]] = {}
        for limit in self._own:
            old.setdefault(limit.key, deque()).append(limit)
        self._own, added = [], []
        for limit in _build(self._context):
            same = old.get(limit.key)
            if same:
                same[0].change(limit)
                self._own.append(same.popleft())
            else:
                self._own.append(limit)
                added.append(limit)
        for limit in (limit for removed in old.values() for limit in removed):
            limit.close()
        return added


def _build(context: LimitContext) -> list[Limit]:
    return [limit for build in FACTORIES for limit in build(context)]


def _build_plugin(name: str, context: LimitContext) -> list[Limit]:
    plugin = find_plugin("limit", name)
    assert plugin is not None
    built = plugin.build("a function that returns limits", ("context",), context)
    limits: list[Limit] = plugin.call("listing its limits", list, built)
    for limit in limits:
        if not isinstance(limit, Limit):
            plugin.refuse("it must return instances of abreast.execute.limits.base.Limit", limit)
    return limits
