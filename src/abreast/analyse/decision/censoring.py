"""Limits that cut one variant off more often than another: timeouts, caps, memory, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from abreast.stats import mcnemar

CENSORED = {
    "timeout": "timeouts",
    "too_long": "prompts that were too long",
    "too_big": "answers that were too big",
    "resources": "stops for want of memory",
    "refused": "refusals",
}
CHANCE = 0.05

Errors = Mapping[tuple[str, str], int]  # by kind and blame


@dataclass(frozen=True, slots=True)
class Censoring:
    """One kind of failure that one variant has more often than another, beyond chance."""

    kind: str
    baseline: int
    variant: int

    @property
    def noun(self) -> str:
        return CENSORED[self.kind]


def lopsided(baseline: Errors, variant: Errors) -> tuple[Censoring, ...]:
    """Kinds of censoring that fall on one of two variants, with about as many trials each, beyond chance.

    >>> lopsided({}, {("timeout", "variant"): 14})
    (Censoring(kind='timeout', baseline=0, variant=14),)
    >>> lopsided({("timeout", "variant"): 9}, {("timeout", "variant"): 14})
    ()
    """
    counts = [Censoring(kind, _count(baseline, kind), _count(variant, kind)) for kind in CENSORED]
    return tuple(item for item in counts if mcnemar(item.baseline, item.variant, exact=True).p < CHANCE)


def _count(errors: Errors, kind: str) -> int:
    return sum(number for (name, _), number in errors.items() if name == kind)
