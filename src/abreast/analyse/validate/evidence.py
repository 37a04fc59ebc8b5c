"""One run as the checks see it: counted in the database, text only where it is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from abreast.store import Store
from abreast.store.queries.base import Matches
from abreast.store.queries.runs import StoredVariant


class Variant(StoredVariant):
    """One contender, and what tells it from another."""

    @property
    def simulated(self) -> bool:
        return self.target == "simulated"

    def differs_in(self, other: Variant) -> set[str]:
        """The parameters in which two contenders differ; the target is one of them."""
        missing = object()
        keys = self.params.keys() | other.params.keys()
        found = {key for key in keys if self.params.get(key, missing) != other.params.get(key, missing)}
        if self.target != other.target:
            found.add("target")
        return found or ({"code"} if self.digest != other.digest else set())


class Evidence:
    """One run, and the questions that several checks ask of it."""

    def __init__(self, store: Store, run: dict[str, Any]) -> None:
        self.store, self.run, self.run_id = store, run, int(run["run_id"])
        self.spec = json.loads(run["spec"])
        self.trials = int(run["stored_trials"])
        self.repeats = int(self.spec.get("repeats", 1))
        self.variants = [
            Variant(stored.index, stored.name, stored.target, stored.params, stored.digest)
            for stored in store.queries.variants(self.run_id)
        ]
        self.per_case = len(self.variants) * self.repeats
        self.baseline = next(variant for variant in self.variants if variant.name == run["baseline"])
        self.others = [variant for variant in self.variants if variant is not self.baseline]

    @cached_property
    def cases(self) -> int:
        """How many cases have a row."""
        return self.store.queries.count_blocks(self.run_id, self.per_case)

    @cached_property
    def arms(self) -> list[dict[str, Any]]:
        """Each variant in numbers, in one look at its rows."""
        totals = self.store.queries.variant_totals(self.run_id)
        first = next(iter(totals.values()))
        nothing = {key: 0 if isinstance(value, int | float) else None for key, value in first.items()}
        return [totals.get(variant.index, nothing) | {"name": variant.name} for variant in self.variants]

    def named(self, matches: Matches) -> tuple[int, tuple[str, ...]]:
        """How many trials match, and the first of them by name."""
        return matches.total, self.trial_ids(matches.positions)

    def trial_ids(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(
            f"{case} · {self.variants[variant].name} · repeat {repeat}"
            for case, variant, repeat in self.store.queries.trial_places(self.run_id, positions)
        )
