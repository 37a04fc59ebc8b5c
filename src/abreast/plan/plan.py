"""The plan: all trials, the order in which they start, and which are already done.

A trial's position is arithmetic: case, then repeat, then variant, in the order they were written; reports use it.
Trials start in another order, the dispatch order: groups shuffled, cases shuffled within a group, all repeats of a
case together, the variants of a block next to each other in random order; cases of a chain in their written order. In a
run that extends an earlier one, the cases of the earlier one come first. A million trials are a few arrays.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from abreast.digest import compose
from abreast.model import Trial, Variant
from abreast.plan.chains import FIRST, Before, in_order
from abreast.spec.cases import CaseTable, count_duplicates
from abreast.stats.intervals.population import ALL_CASES, Population, population_of
from abreast.store.runs.provenance import Extension
from abreast.targets.base import Sees

_MASK = 2**64 - 1


class Plan:
    """Cases × variants × repeats, in dispatch order."""

    def __init__(
        self,
        cases: CaseTable,
        variants: Sequence[Variant],
        digests: Sequence[str],
        repeats: int,
        seed: int,
        sees: Sequence[Sees] | None = None,
        before: Before | None = None,
        extension: Extension | None = None,
    ) -> None:
        self.cases = cases
        self.variants = tuple(variants)
        self.digests = tuple(digests)
        self.repeats = repeats
        self.seed = seed
        self.done: npt.NDArray[np.bool_] = np.zeros(len(self), dtype=np.bool_)
        self._before = before
        self._extension = extension
        self._order = dispatch_order(cases.groups, seed, extension.order if extension else ())
        if before is not None:
            self._order = in_order(self._order, before)
        self._case_occurrence = count_duplicates(cases)
        self.variant_occurrence = tuple(self.digests[:i].count(digest) for i, digest in enumerate(self.digests))
        self.sees: tuple[Sees, ...] = tuple(sees or ["input"] * len(self.variants))
        self._same = tuple(self.digests.count(digest) for digest in self.digests)

    def __len__(self) -> int:
        return len(self.cases) * len(self.variants) * self.repeats

    @property
    def blocks(self) -> int:
        return len(self.cases) * self.repeats

    def position(self, case: int, repeat: int, variant: int) -> int:
        return (case * self.repeats + repeat) * len(self.variants) + variant

    def parts(self, position: int) -> tuple[int, int, int]:
        """Case index, repeat and variant index."""
        block, variant = divmod(position, len(self.variants))
        case, repeat = divmod(block, self.repeats)
        return case, repeat, variant

    def trial(self, position: int) -> Trial:
        """The trial at a position, with its own copy of the case, which a target may change."""
        index, repeat, variant = self.parts(position)
        return Trial(position, self.cases[index], self.variants[variant], repeat, self.occurrence(index, variant))

    def occurrence(self, case: int, variant: int) -> int:
        """Index of a trial among those that share a key: of identical variants, and of cases with the same input."""
        case_occurrence = self._case_occurrence(case) if self.sees[variant] == "input" else 0  # other keys have ids
        return case_occurrence * self._same[variant] + self.variant_occurrence[variant]

    @property
    def is_chained(self) -> bool:
        """Whether some trials continue others."""
        return self._before is not None

    @property
    def beginnings(self) -> int:
        """Number of trials that do not wait for others."""
        return len(self) if self._before is None else int((self._before == FIRST).sum()) * self.repeats

    def before(self, position: int) -> int | None:
        """The trial of the same variant and repeat that this one continues."""
        if self._before is None or position < 0:
            return None
        case, repeat, variant = self.parts(position)
        before = int(self._before[variant, case])
        return None if before == FIRST else self.position(before, repeat, variant)

    def dispatch(self, block: int) -> list[int]:
        """Positions of the block at this index of the dispatch order, in the order its variants start."""
        first = self.position(self.case(block), block % self.repeats, 0)
        return [first + variant for variant in block_order(self.seed, block, len(self.variants))]

    def missing_in(self, block: int) -> int:
        """Number of unfinished trials in the block at this index of the dispatch order."""
        first = self.position(self.case(block), block % self.repeats, 0)
        return len(self.variants) - int(self.done[first : first + len(self.variants)].sum())

    def case(self, block: int) -> int:
        """Case index of the block at this index of the dispatch order."""
        return int(self._order[block // self.repeats])

    def block(self, case: int, repeat: int) -> int:
        """Index of a block in the dispatch order."""
        return int(self._index_of_case[case]) * self.repeats + repeat

    @cached_property
    def _index_of_case(self) -> npt.NDArray[np.int64]:
        return np.argsort(self._order)

    def open_blocks(self) -> Sequence[int]:
        """Blocks with a trial that is not done, in dispatch order."""
        missing = (~self.done).reshape(len(self.cases), self.repeats, len(self.variants))
        return np.flatnonzero(np.logical_or.reduce(missing, axis=2)[self._order].ravel()).data

    def missing_by_variant(self) -> list[int]:
        number = len(self.variants)
        return [int((~self.done[index::number]).sum()) for index in range(number)]

    def missing(self) -> int:
        return len(self) - int(self.done.sum())

    @property
    def largest_group(self) -> int | None:
        """Number of cases in the largest group, here or in the run that this one extends; None without groups."""
        sizes = Counter(group for group in self.cases.groups if group is not None)
        if not sizes:
            return None
        earlier = self._extension.largest_group if self._extension else None
        return max(*sizes.values(), earlier or 0)

    @property
    def population(self) -> Population:
        """The cases that a verdict on this plan is about."""
        if self.is_chained or len(self.variants) < 2:
            return ALL_CASES
        cases, independent = len(self.cases), self.independent_cases
        return population_of(cases, self.repeats, len(self.variants) - 1, independent if independent < cases else None)

    @property
    def independent_cases(self) -> int:
        """Number of groups plus cases without a group."""
        groups = self.cases.groups
        return len({*groups} - {None}) + groups.count(None)

    @property
    def final_spent(self) -> bool:
        """Whether an earlier run used the final interval, so that only the confidence sequence decides."""
        return self._extension is not None and self._extension.final_spent

    def extending(self, extension: Extension) -> Plan:
        """The same trials in the order of a run that extends another."""
        shared = (self.cases, self.variants, self.digests, self.repeats, self.seed, self.sees, self._before)
        return Plan(*shared, extension)

    def fingerprint(self) -> str:
        """Digest of cases, variants, repeats and seed: only a plan with the same digest continues a run."""
        variants = [f"{variant.name}={digest}" for variant, digest in zip(self.variants, self.digests, strict=True)]
        return compose("plan", self.cases.hash, *variants, self.repeats, self.seed)


def dispatch_order(groups: Sequence[str | None], seed: int, first: Sequence[int] = ()) -> npt.NDArray[np.int64]:
    """Case indexes: groups shuffled, then cases within a group, so that no two groups mix.

    Groups with cases in `first` come first, in the order of these; within a group, cases in `first` precede the others.

    >>> order = dispatch_order(["a", "b", "a", "b"], seed=1)
    >>> {tuple(sorted(order[:2])), tuple(sorted(order[2:]))} == {(0, 2), (1, 3)}
    True
    >>> dispatch_order(["a", "b", "a", "b"], seed=1, first=[3, 0]).tolist()
    [3, 1, 0, 2]
    """
    random = np.random.default_rng(seed)
    numbers: dict[str, int] = {}
    group_numbers = [
        len(groups) + index if name is None else numbers.setdefault(name, len(numbers))
        for index, name in enumerate(groups)
    ]
    _, group = np.unique(np.array(group_numbers, dtype=np.int64), return_inverse=True)
    group_rank = random.permutation(int(group.max()) + 1 if len(group) else 0)
    rank = np.full(len(groups), len(first), dtype=np.int64)
    rank[list(first)] = np.arange(len(first))
    earliest = np.full(len(group_rank), len(first), dtype=np.int64)
    np.minimum.at(earliest, group, rank)
    return np.lexsort((random.random(len(groups)), rank, group_rank[group], earliest[group]))


def block_order(seed: int, block: int, variants: int) -> list[int]:
    """A random order of the variants, the same for the same seed and block.

    >>> sorted(block_order(7, 3, 4))
    [0, 1, 2, 3]
    """
    remaining = list(range(variants))
    if variants == 1:
        return remaining
    code = _mixed(seed * 0x9E3779B97F4A7C15 + block + 1)
    order = []
    for size in range(variants, 0, -1):
        if code < size:  # the digits are used up: more than 20 variants
            code = _mixed(code + math.factorial(size % 20) + block)
        code, index = divmod(code, size)
        order.append(remaining.pop(index))
    return order


def _mixed(value: int) -> int:
    """Well-mixed bits of a number (splitmix64)."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
