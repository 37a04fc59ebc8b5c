"""Prices of tokens: a dated table that ships as data, and the prices of a spec.

>>> Prices().of("claude-sonnet-4-5-20250929").output
15.0
>>> Prices().of("a-model-of-tomorrow") is None
True
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from abreast.model import Usage

_SNAPSHOT = re.compile(r"[-@](?:latest|\d{8}|\d{4}-\d{2}-\d{2})(?:-v\d+(?::\d+)?)?$")
MILLION = 1e6


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Dollars per million tokens; above `over` input tokens, `long` applies."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    over: int | None = None
    long: TokenPrice | None = None

    def of(self, usage: Usage) -> float | None:
        """Return the cost in dollars; None without token counts."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        counts = (usage.input_tokens, usage.cache_read_tokens or 0, usage.cache_write_tokens or 0)
        if self.long is not None and self.over is not None and sum(counts) > self.over:
            return self.long.of(usage)
        prices = (self.input, self.cache_read, self.cache_write)
        cost = sum(count * price for count, price in zip(counts, prices, strict=True))
        return (cost + usage.output_tokens * self.output) / MILLION


class Prices:
    """The shipped table with a spec's own prices over it."""

    def __init__(self, own: Mapping[str, Any] | None = None) -> None:
        """`own` maps models to prices: mappings or pydantic objects."""
        self._own = {model: _price(_mapping(price)) for model, price in (own or {}).items()}

    def of(self, *models: str | None) -> TokenPrice | None:
        """Return the price of the first of these models that has one."""
        names = [name for model in models if model for name in _names(model)]
        for table in (self._own, _read_shipped()):
            for name in names:
                if name in table:
                    return table[name]
        return None


def as_of() -> str:
    """Return the date of the shipped table."""
    return str(_table()["as_of"])


def _names(model: str) -> list[str]:
    """Return the names under which a model may have a price: with and without its provider and snapshot date.

    >>> _names("anthropic/claude-opus-4-5-20251101")[-1]
    'claude-opus-4-5'
    """
    plain = model.rpartition("/")[2]
    return list(dict.fromkeys([model, _SNAPSHOT.sub("", model), plain, _SNAPSHOT.sub("", plain)]))


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("abreast.targets.api").joinpath("prices.json").read_text(encoding="utf-8"))
    return table


@cache
def _read_shipped() -> dict[str, TokenPrice]:
    return {model: _price(price) for model, price in _table()["models"].items()}


def _price(prices: Mapping[str, Any]) -> TokenPrice:
    base = float(prices["input"])
    long = prices.get("long")
    read, write = (base if prices.get(name) is None else float(prices[name]) for name in ("cache_read", "cache_write"))
    price = TokenPrice(base, float(prices["output"]), read, write)
    return price if long is None else replace(price, over=int(long["over"]), long=_price(long))


def _mapping(price: Any) -> Mapping[str, Any]:
    return price if isinstance(price, Mapping) else price.model_dump()
