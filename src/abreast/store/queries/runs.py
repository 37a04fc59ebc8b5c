"""Questions about runs, their variants and their events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from abreast.store.queries.base import QueryGroup


@dataclass(frozen=True, slots=True)
class StoredVariant:
    """One contender as it is stored."""

    index: int
    name: str
    target: str
    params: Mapping[str, Any]
    digest: str


class StoredEvent(NamedTuple):
    """Something the scheduler did."""

    happened_at: float
    kind: str
    detail: dict[str, Any]


class RunQueries(QueryGroup):
    def run_names(self) -> set[str]:
        return {name for (name,) in self._store.rows("SELECT run FROM runs")}

    def experiment_names(self, most: int) -> list[str]:
        """Some of the experiments that have a run."""
        return [name for (name,) in self._store.rows("SELECT DISTINCT experiment FROM runs LIMIT ?", (most,))]

    def count_runs(self, experiment: str) -> int:
        """The number of runs of an experiment, without debug runs."""
        asked = "SELECT COUNT(*) FROM runs WHERE experiment = ? AND debug = 0"
        return int(self._store.rows(asked, (experiment,))[0][0])

    def last_run(self, experiment: str) -> dict[str, Any] | None:
        """The newest run of an experiment; a debug run only if there is no other."""
        asked = "SELECT * FROM runs WHERE experiment = ? ORDER BY debug, run_id DESC LIMIT 1"
        return next(iter(self._store.dicts(asked, (experiment,))), None)

    def run_before(self, experiment: str, run_id: int) -> dict[str, Any] | None:
        """The run of an experiment before this one, without debug runs."""
        asked = "SELECT * FROM runs WHERE experiment = ? AND debug = 0 AND run_id < ? ORDER BY run_id DESC LIMIT 1"
        return next(iter(self._store.dicts(asked, (experiment, run_id))), None)

    def later_specs(self, run_id: int) -> list[dict[str, Any]]:
        """The specs of the runs that began after this one, without debug runs."""
        found = self._store.rows("SELECT spec FROM runs WHERE run_id > ? AND debug = 0", (run_id,))
        return [json.loads(spec) for (spec,) in found]

    def variants(self, run_id: int) -> list[StoredVariant]:
        """The contenders of a run, in their order."""
        found = self._store.rows(
            "SELECT variant, name, target, params, digest FROM variants WHERE run_id = ? ORDER BY variant", (run_id,)
        )
        return [
            StoredVariant(index, name, target, json.loads(params), digest)
            for index, name, target, params, digest in found
        ]

    def variant_digests(self, run_id: int) -> dict[str, str]:
        """The digest of each contender, by its name; empty if `abreast cache clear` removed it."""
        return {variant.name: variant.digest for variant in self.variants(run_id)}

    def events(self, run_id: int, kind: str | None = None) -> list[StoredEvent]:
        """What the scheduler did, in order: all of it, or of one kind."""
        asked = "SELECT happened_at, kind, detail FROM events WHERE run_id = ? ORDER BY seq"
        return [
            StoredEvent(at, its, json.loads(detail))
            for at, its, detail in self._store.rows(asked, (run_id,))
            if kind in (None, its)
        ]

    def event_times(self, run_id: int) -> list[float]:
        """When something happened."""
        return [at for (at,) in self._store.rows("SELECT happened_at FROM events WHERE run_id = ?", (run_id,))]

    def has_columns(self, *names: str) -> bool:
        """Whether answers of some run returned one of these values."""
        return any(column.kind == "data" and column.name in names for column in self._store.columns())
