"""What earlier trials in this store took: of the very same contender, and of anything with the same target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from abreast.store import Store
from abreast.store.rows import to_json


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

# What infrastructure broke took nothing; what is reused was paid before.
_TAKEN = """
SELECT v.digest, v.target, COUNT(*), COUNT(t.input_tokens), TOTAL(t.input_tokens), COUNT(t.output_tokens),
  TOTAL(t.output_tokens), COUNT(t.cost_usd), TOTAL(t.cost_usd), COUNT(t.service_s), TOTAL(t.service_s)
FROM trials t JOIN variants v ON t.run_id = v.run_id AND t.variant = v.variant
WHERE t.seq > ? AND v.target IN (SELECT value FROM json_each(?)) AND t.reused_from IS NULL
  AND (t.status = 'ok' OR (t.status = 'error' AND t.error_blame = 'variant'))
GROUP BY v.digest, v.target
"""


def history(store: Store, targets: Iterable[str], digests: Iterable[str]) -> History:
    """A look at the last trials of these targets; at all of them if one of the contenders is not among the last."""
    ((last,),) = store.rows("SELECT COALESCE(MAX(seq), 0) FROM trials")
    recent = _history(store, targets, last - RECENT)
    return recent if last <= RECENT or recent.of_variant.keys() >= set(digests) else _history(store, targets, 0)


def _history(store: Store, targets: Iterable[str], after: int) -> History:
    of_variant: dict[str, list[float]] = {}
    of_target: dict[str, list[float]] = {}
    for digest, target, *numbers in store.rows(_TAKEN, (after, to_json(sorted(set(targets))))):
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
