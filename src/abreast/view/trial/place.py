"""A trial, its run and the trials of its case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from abreast.errors import BadInput
from abreast.store import Store
from abreast.store.queries.runs import StoredVariant
from abreast.view.rendering import run_path


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlace:
    """A trial of a run, and the trials of its case."""

    store: Store
    run: Mapping[str, Any]
    trial: dict[str, Any]
    variants: list[StoredVariant]
    repeats: int

    @classmethod
    def find(cls, store: Store, name: str, position: int) -> TrialPlace:
        run = store.run(name)
        trial = store.queries.trial(int(run["run_id"]), position)
        if trial is None:
            is_planned = position < run["planned_trials"]
            why = "has not been executed" if is_planned else f"does not exist; the last is {run['planned_trials'] - 1}"
            raise BadInput(f"{run['run']}: trial {position} {why}", "open another one from the page of the run")
        repeats = int(json.loads(run["spec"]).get("repeats", 1))
        return cls(
            store=store, run=run, trial=trial, variants=store.queries.variants(int(run["run_id"])), repeats=repeats
        )

    @property
    def run_id(self) -> int:
        return int(self.run["run_id"])

    @property
    def position(self) -> int:
        return int(self.trial["position"])

    @property
    def of_case(self) -> range:
        per_case = max(1, len(self.variants) * self.repeats)
        first = self.position // per_case * per_case
        return range(first, first + per_case)

    def at(self, variant: int, repeat: int) -> int:
        """Return the position of a trial of the same case."""
        return self.of_case.start + repeat * len(self.variants) + variant

    def name(self, variant: int, repeat: int) -> str:
        name = self.variants[variant].name
        return f"{name}, repeat {repeat + 1}" if self.repeats > 1 else name

    def path(self, *parts: object, **query: object) -> str:
        return run_path(self.run["run"], "trials", self.position, *parts, **query)
