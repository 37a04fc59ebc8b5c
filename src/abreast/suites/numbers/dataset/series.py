"""Generators of random series, and their perturbations. The same seed gives the same series."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Columns = dict[str, Values]
Random = np.random.Generator

PERIOD = 20  # the period of seasonal series, in points


def normal(random: Random, size: int, mean: float = 50.0, std: float = 10.0) -> Values:
    return random.normal(mean, std, size)


def wide_normal(random: Random, size: int) -> Values:
    return normal(random, size, 50.0, 15.0)


def uniform(random: Random, size: int) -> Values:
    return random.uniform(0.0, 100.0, size)


def exponential(random: Random, size: int) -> Values:
    return random.exponential(10.0, size)


def left_skewed(random: Random, size: int) -> Values:
    return 100.0 - exponential(random, size)


def _line(random: Random, size: int, rise: float) -> Values:
    """Generate a line with this total rise, and noise."""
    noise = random.uniform(2.0, 8.0)
    return random.uniform(80.0, 120.0) + np.linspace(0.0, rise, size) + random.normal(0.0, noise, size)


def rising(random: Random, size: int) -> Values:
    return _line(random, size, random.uniform(25.0, 60.0))


def falling(random: Random, size: int) -> Values:
    return _line(random, size, -random.uniform(25.0, 60.0))


def flat(random: Random, size: int) -> Values:
    return _line(random, size, 0.0)


def noisy(random: Random, size: int) -> Values:
    """Generate a trend of moderate strength, upwards or downwards."""
    rise = random.uniform(25.0, 40.0) * random.choice([-1.0, 1.0])
    return 100.0 + np.linspace(0.0, rise, size) + random.normal(0.0, abs(rise) * random.uniform(0.3, 0.45), size)


def flat_line(random: Random, size: int) -> Values:
    return np.full(size, round(float(random.uniform(10.0, 90.0)), 2))


def seasonal(random: Random, size: int) -> Values:
    at = np.arange(size)
    wave = random.uniform(8.0, 15.0) * np.sin(2 * math.pi * at / PERIOD + random.uniform(0, 2 * math.pi))
    return random.uniform(40.0, 60.0) + wave + random.normal(0.0, 2.0, size)


def growth(random: Random, size: int) -> Values:
    factor = random.uniform(3.0, 6.0)
    return 20.0 * factor ** np.linspace(0.0, 1.0, size) + random.normal(0.0, 1.5, size)


def drift(random: Random, size: int) -> Values:
    """Generate a series that is constant at first, then slowly drifts away."""
    start = int(size * random.uniform(0.3, 0.5))
    away = np.maximum(0, np.arange(size) - start) / (size - start) * random.uniform(15.0, 30.0)
    return 50.0 + float(random.choice([-1.0, 1.0])) * away + random.normal(0.0, 2.0, size)


def random_walk(random: Random, size: int) -> Values:
    return 100.0 + np.cumsum(random.normal(0.0, 1.0, size))


def sensor(random: Random, size: int) -> Values:
    at = np.arange(size)
    daily = random.uniform(3.0, 6.0) * np.sin(2 * math.pi * at / 24 + random.uniform(0, 2 * math.pi))
    return 20.0 + daily + random.normal(0.0, 0.5, size)


def gappy_sensor(random: Random, size: int) -> Values:
    return with_gaps(random, sensor(random, size))


def with_gaps(random: Random, values: Values, share: float = 0.05) -> Values:
    """Remove some values, at least one and never all."""
    number = min(len(values) - 2, max(1, round(share * len(values))))
    gappy = values.copy()
    gappy[random.choice(len(values), number, replace=False)] = np.nan
    return gappy


def pair(random: Random, size: int, correlation: float) -> Columns:
    first, second = random.normal(0.0, 1.0, (2, size))
    mixed = correlation * first + math.sqrt(1 - correlation**2) * second
    return {"A": 50.0 + 10.0 * first, "B": 60.0 + 12.0 * mixed}


def correlated(random: Random, size: int) -> Columns:
    """Generate two series that correlate positively, negatively, or not at all."""
    return pair(random, size, float(random.choice([-0.95, 0.0, 0.95])))


def different_means(random: Random, size: int) -> Columns:
    gap = random.uniform(3.0, 8.0) * random.choice([-1.0, 1.0])
    return {"A": normal(random, size), "B": normal(random, size, 50.0 + gap)}


def different_volatility(random: Random, size: int) -> Columns:
    stds = random.permutation([random.uniform(4.0, 7.0), random.uniform(9.0, 14.0)])
    return {"A": normal(random, size, 50.0, stds[0]), "B": normal(random, size, 50.0, stds[1])}


def different_trends(random: Random, size: int) -> Columns:
    clear = (rising if random.random() < 0.5 else falling)(random, size)
    columns = [clear, flat(random, size)]
    first = int(random.integers(2))
    return {"A": columns[first], "B": columns[1 - first]}


def ohlcv(random: Random, size: int) -> Columns:
    """Generate daily prices and volumes of a stock, with low ≤ open, close ≤ high."""
    close = 100.0 * np.exp(np.cumsum(random.normal(0.0005, 0.015, size)))
    opened = np.concatenate([[100.0], close[:-1]]) * np.exp(random.normal(0.0, 0.004, size))
    top, bottom = np.maximum(opened, close), np.minimum(opened, close)
    return {
        "open": opened,
        "high": top * (1 + np.abs(random.normal(0.0, 0.005, size))),
        "low": bottom * (1 - np.abs(random.normal(0.0, 0.005, size))),
        "close": close,
        "volume": np.round(random.lognormal(13.0, 0.4, size)),
    }


def order_book(random: Random, size: int) -> Columns:
    """Generate the levels of an order book, the best price first."""
    middle, gap = random.uniform(80.0, 120.0), random.uniform(0.2, 0.8)
    steps = np.cumsum(random.uniform(0.02, 0.08, (2, size)), axis=1)
    more = random.uniform(0.5, 2.0)
    return {
        "bid": middle - gap / 2 - steps[0],
        "bid_size": np.round(random.lognormal(5.0, 0.6, size) * more),
        "ask": middle + gap / 2 + steps[1],
        "ask_size": np.round(random.lognormal(5.0, 0.6, size)),
    }


def portfolio(random: Random, size: int) -> Columns:
    drift = random.normal(0.0, 0.002, (3, 1))
    moves = drift + random.normal(0.0, 1.0, (3, size)) * np.array([[0.012], [0.004], [0.009]])
    stocks, bonds, gold = 100.0 * np.exp(np.cumsum(moves, axis=1))
    return {"stocks": stocks, "bonds": bonds, "gold": gold}


def sensors(random: Random, size: int) -> Columns:
    """Generate readings of three sensors; the air is drier when it is warmer."""
    temperature = sensor(random, size)
    humidity = 60.0 - random.uniform(1.0, 3.0) * (temperature - 20.0) + random.normal(0.0, 3.0, size)
    pressure = 1013.0 + np.cumsum(random.normal(0.0, 0.3, size))
    return {"temperature": temperature, "humidity": humidity, "pressure": pressure}


Generator = Callable[[Random, int], Values | Columns]

GENERATORS: Mapping[str, Generator] = {
    generator.__name__: generator
    for generator in (
        *(normal, wide_normal, uniform, exponential, left_skewed, rising, falling, flat, noisy, flat_line),
        *(seasonal, growth, drift, random_walk, sensor, gappy_sensor),
        *(correlated, different_means, different_volatility, different_trends, ohlcv, order_book, portfolio, sensors),
    )
}


def draw(name: str, random: Random, size: int) -> Columns:
    """Generate the columns of one series, rounded as they are shown."""
    drawn = GENERATORS[name](random, size)
    return rounded(drawn if isinstance(drawn, dict) else {"value": drawn})


def rounded(columns: Mapping[str, Values]) -> Columns:
    """Round to two decimal places, or more for small numbers.

    >>> rounded({"value": np.array([1.23456, 2.5])})["value"].tolist()
    [1.2346, 2.5]
    """
    return {name: np.round(values, _decimals(values)) + 0.0 for name, values in columns.items()}


def _decimals(values: Values) -> int:
    deviation = spread(values)
    return max(2, min(10, 3 - math.floor(math.log10(deviation)))) if deviation else 2


def spread(values: Values) -> float:
    """Return the standard deviation; exactly 0 for a constant, despite rounding errors."""
    deviation = float(np.nanstd(values))
    return deviation if deviation > 1e-9 * float(np.nanmax(np.abs(values))) else 0.0


NOISE = 0.1  # share of the standard deviation
FACTOR = 1000.0
TRUNCATED = 0.7  # remaining share of a truncated series
WINDOW = 5  # points that are shuffled together
OUTLIERS = 0.02  # share of points, at least 2


def noise(random: Random, columns: Columns) -> Columns:
    return _change_values(
        columns, lambda values: values + random.normal(0.0, NOISE * (spread(values) or 1.0), len(values))
    )


def scaling(random: Random, columns: Columns) -> Columns:
    return _change_values(columns, lambda values: values * FACTOR)


def shifting(random: Random, columns: Columns) -> Columns:
    """Shift every value by three to five standard deviations."""
    share = random.uniform(3.0, 5.0)
    return _change_values(columns, lambda values: values + share * (spread(values) or 10.0))


def missing(random: Random, columns: Columns) -> Columns:
    return _change_values(columns, lambda values: with_gaps(random, values))


def outliers(random: Random, columns: Columns) -> Columns:
    return _change_values(columns, lambda values: _with_outliers(random, values))


def truncation(random: Random, columns: Columns) -> Columns:
    return _change_values(columns, lambda values: values[: max(2, round(TRUNCATED * len(values)))])


def precision(random: Random, columns: Columns) -> Columns:
    """Keep two digits of the standard deviation."""
    decimals = {name: 1 - math.floor(math.log10(spread(values) or 10.0)) for name, values in columns.items()}
    return {name: np.round(values, decimals[name]) + 0.0 for name, values in columns.items()}


def reorder(random: Random, columns: Columns) -> Columns:
    """Shuffle every five points, in all columns alike."""
    size = max(map(len, columns.values()))
    order = np.concatenate([at + random.permutation(min(WINDOW, size - at)) for at in range(0, size, WINDOW)])
    return {name: values[order] for name, values in columns.items()}


def _change_values(columns: Columns, change: Callable[[Values], Values]) -> Columns:
    return rounded({name: change(values) for name, values in columns.items()})


def _with_outliers(random: Random, values: Values) -> Values:
    changed = values.copy()
    number = min(max(2, round(OUTLIERS * len(values))), len(values) // 3)
    for at in random.choice(len(values), number, replace=False):
        changed[at] = np.nanmean(values) + random.choice([-1.0, 1.0]) * random.uniform(8.0, 12.0) * (
            spread(values) or 1.0
        )
    return changed


PERTURBATIONS: Mapping[str, Callable[[Random, Columns], Columns]] = {
    change.__name__: change for change in (noise, scaling, shifting, missing, outliers, truncation, precision, reorder)
}
