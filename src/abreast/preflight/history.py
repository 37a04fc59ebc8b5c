"""What earlier trials in this store took: of the very same contender, and of anything with the same target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from abreast.store import Store


class Took(NamedTuple):
    """Means over so many earlier trials; None where none of them said."""

    trials: int
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class History:
    """By the digest of a contender, and by the name of a target."""

    of_variant: Mapping[str, Took] = field(default_factory=dict)
    of_target: Mapping[str, Took] = field(default_factory=dict)


RECENT = 10_000  # trials


def history(store: Store, targets: Iterable[str], digests: Iterable[str]) -> History:
    """A look at the last trials of these targets; at all of them if one of the contenders is not among the last."""
    last = store.queries.last_sequence()
    recent = _history(store, targets, last - RECENT)
    return recent if last <= RECENT or recent.of_variant.keys() >= set(digests) else _history(store, targets, 0)


def _history(store: Store, targets: Iterable[str], after: int) -> History:
    of_variant: dict[str, list[float]] = {}
    of_target: dict[str, list[float]] = {}
    for digest, target, *numbers in store.queries.use_by_variant(sorted(set(targets)), after):
        for sums in (of_variant.setdefault(digest, [0.0] * 9), of_target.setdefault(target, [0.0] * 9)):
            for index, number in enumerate(numbers):
                sums[index] += number
    return History(
        {digest: _means(sums) for digest, sums in of_variant.items() if digest},  # '' was cleared from the cache
        {target: _means(sums) for target, sums in of_target.items()},
    )


def _means(sums: list[float]) -> Took:
    means = [total / count if count else None for count, total in zip(sums[1::2], sums[2::2], strict=True)]
    return Took(int(sums[0]), *means)
