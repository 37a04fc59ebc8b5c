"""Measure the error of the rule for hallucinated numbers in the suite `numbers`, by simulation.

    python -m benchmarks.hallucination [--trials 60] [--draws 20] [--seed 1]

For each case that asks for a number, numbers are drawn that are invented (the rule should flag them, unless they happen
to be right) and numbers that come from the data (the rule should not flag them). Prints the share that is flagged for
each way of drawing, with the standard error over cases, for the rule of the suite and for the former one: any number
within the tolerance of any value or statistic of the data was taken as grounded.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from abreast.suites.numbers.cases import cases
from abreast.suites.numbers.conditions import columns_of
from abreast.suites.numbers.dataset.queries import QUERIES, VALUES, Query, quantities
from abreast.suites.numbers.dataset.series import Columns, Random
from abreast.suites.numbers.scoring import is_grounded

Draw = Callable[[Random, Columns, Query, float], "tuple[float, str] | None"]  # a number and the reply around it


def asked_values(columns: Columns) -> np.ndarray:
    values = columns["close"] if "close" in columns else next(iter(columns.values()))
    return values[np.isfinite(values)]


def in_range(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str]:
    values = asked_values(columns)
    return round(float(random.uniform(values.min(), values.max())), 2), ""


def like_the_data(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str]:
    values = asked_values(columns)
    return round(float(random.normal(values.mean(), values.std())), 2), ""


def of_the_right_size(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str]:
    """Between half and twice the truth, with four digits."""
    return float(f"{right * 2 ** random.uniform(-1, 1):.4g}"), ""


def round_number(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str]:
    """Two digits, between half and twice the truth."""
    return float(f"{right * 2 ** random.uniform(-1, 1):.2g}"), ""


def truth_rounded(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str]:
    return float(f"{right:.3g}"), ""


def small_slip(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str]:
    """Off by one to two tolerances: wrong, and computed."""
    return right + random.choice([-1, 1]) * random.uniform(1.0, 1.99) * max(query.abs, query.rel * abs(right)), ""


def copied(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str] | None:
    """Another value of the data, where a value of the data is asked for."""
    return (float(random.choice(asked_values(columns))), "") if query.name in VALUES else None


def other_statistic(random: Random, columns: Columns, query: Query, right: float) -> tuple[float, str] | None:
    """Another statistic with two decimals, and its name in the reply half of the time."""
    others = [
        (name, value) for name, value in quantities(columns) if name != query.name and name in ("mean", "median", "std")
    ]
    name, value = others[int(random.integers(len(others)))]
    words = {"mean": "mean", "median": "median", "std": "standard deviation"}
    return round(value, 2), f"I took the {words[name]}." if random.random() < 0.5 else ""


INVENTED: dict[str, Draw] = {
    "uniform over the range of the data": in_range,
    "normal with the mean and std of the data": like_the_data,
    "half to twice the truth, 4 digits": of_the_right_size,
    "half to twice the truth, 2 digits": round_number,
}
GROUNDED: dict[str, Draw] = {
    "the truth with 3 digits": truth_rounded,
    "off by one to two tolerances": small_slip,
    "another value, where one is asked for": copied,
    "mean, median or std instead, 2 decimals": other_statistic,
}


def former_rule(columns: Columns, query: Query, right: float, value: float) -> bool:
    allowed = [right, *(x for values in columns.values() for x in values[np.isfinite(values)].tolist())]
    return any(query.within(value, number) for number in [*allowed, *(number for _, number in quantities(columns))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60, help="cases of each task (60)")
    parser.add_argument("--draws", type=int, default=20, help="numbers drawn for each case and way (20)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    flagged: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in INVENTED | GROUNDED}
    for case in cases(trials=args.trials, seed=args.seed, max_data_size=1000):
        query, right = QUERIES[case["input"]["query"]], case["expected"]
        if query.kind == "number":
            for name, draw in (INVENTED | GROUNDED).items():
                share = flagged_share(random, columns_of(case["input"]), query, float(right), draw, args.draws)
                flagged[name] |= {case["id"]: share} if share else {}
    print(f"{'flagged as hallucinated':45} {'rule':>16} {'former rule':>16} {'cases':>6}")
    for title, ways in (("invented, and wrong", INVENTED), ("from the data", GROUNDED)):
        print(title)
        for name in [*ways, "all of them"]:
            by_case: dict[str, list[tuple[float, float]]] = {}
            for way in [name] if name in ways else ways:
                for case_id, share in flagged[way].items():
                    by_case.setdefault(case_id, []).append(share)
            shares = [np.mean(of_case, axis=0) for of_case in by_case.values()]
            new, old = ([share[at] for share in shares] for at in range(2))
            print(f"  {name:43} {percent(new)} {percent(old)} {len(shares):6}")


def flagged_share(
    random: Random, columns: Columns, query: Query, right: float, draw: Draw, draws: int
) -> tuple[float, float] | None:
    """The share of wrong numbers that each rule flags; None if no number was wrong."""
    new, old = [], []
    for _ in range(draws):
        drawn = draw(random, columns, query, right)
        if drawn is None or (draw in INVENTED.values() and query.within(drawn[0], right)):
            continue
        value, reply = drawn
        new.append(not is_grounded(columns, query, right, [value], reply))
        old.append(not former_rule(columns, query, right, value))
    return (float(np.mean(new)), float(np.mean(old))) if new else None


def percent(shares: list[float]) -> str:
    return f"{np.mean(shares) * 100:7.1f} ± {np.std(shares, ddof=1) / math.sqrt(len(shares)) * 100:3.1f} %"


if __name__ == "__main__":
    main()
