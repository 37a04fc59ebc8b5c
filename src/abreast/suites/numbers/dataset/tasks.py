"""The six tasks: their series, sizes and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SIZES = (50, 100, 500, 1000, 5000, 10_000)
PRICES = ("return_percent", "vwap", "drawdown")
DOMAINS: Mapping[str, tuple[str, ...]] = {  # generators of queries about several columns
    **dict.fromkeys(PRICES, ("ohlcv",)),
    "spread_percent": ("order_book",),
    "imbalance": ("order_book",),
    "portfolio_return": ("portfolio",),
    "humid_mean": ("sensors",),
}


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A group of queries. `sources` are generators by query; other queries use `usual`."""

    queries: tuple[str, ...]
    sizes: tuple[int, ...]
    usual: tuple[str, ...]
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def drawn_from(self, query: str) -> tuple[str, ...]:
        return self.sources.get(query, self.usual)


_TRENDS = ("rising", "falling", "flat", "seasonal", "growth", "drift", "random_walk", "flat_line")
_MOVING = ("rising", "falling", "growth", "drift")
_BASES = ("uniform", "rising", "falling", "seasonal", "sensor")
_COMPARISONS = {
    "higher_mean": ("different_means",),
    "more_volatile": ("different_volatility",),
    "stronger_trend": ("different_trends",),
    "correlation": ("correlated",),
}

TASKS: dict[str, TaskKind] = {
    "statistical": TaskKind(
        (*("mean", "median", "std", "min", "max", "p25", "p75", "p95", "iqr", "range"), "skewness", "count", "shape"),
        (100, 1000),
        ("normal", "exponential", "left_skewed", "uniform", "gappy_sensor"),
        {"skewness": ("exponential",), "shape": ("normal", "uniform", "exponential", "left_skewed")},
    ),
    "trend": TaskKind(
        ("direction", "strength", "slope"),
        (100, 200, 500),
        _TRENDS,
        {"slope": _MOVING, "strength": ("rising", "falling", "noisy", "noisy", "flat", "seasonal", "random_walk")},
    ),
    "anomaly": TaskKind(("presence", "anomalies", "locations", "type"), (200,), _BASES),
    "comparative": TaskKind(tuple(_COMPARISONS), (100,), (), _COMPARISONS),
    "multi_step": TaskKind(
        ("forecast", "z_of_max", "variation", "range_percent", "normalised_max", *DOMAINS),
        (100,),
        ("normal", "rising", "falling"),
        {"forecast": ("rising", "falling"), **DOMAINS},
    ),
    "scaling": TaskKind(("mean", "std", "count"), SIZES, ("wide_normal",)),
}
