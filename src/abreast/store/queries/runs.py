"""Queries for runs, their variants and their events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from abreast.store.queries.base import QueryGroup


@dataclass(frozen=True, slots=True)
class StoredVariant:
    index: int
    name: str
    target: str
    params: Mapping[str, Any]
    digest: str


class StoredEvent(NamedTuple):
    happened_at: float
    kind: str
    detail: dict[str, Any]


class RunQueries(QueryGroup):
    def run_names(self) -> set[str]:
        return set(self._column("SELECT run FROM runs"))

    def experiment_names(self, most: int) -> list[str]:
        """Names of experiments with a run, at most `most`."""
        return self._column("SELECT DISTINCT experiment FROM runs LIMIT ?", most)

    def count_runs(self, experiment: str) -> int:
        """The number of runs of an experiment, without debug runs."""
        return int(self._scalar("SELECT COUNT(*) FROM runs WHERE experiment = ? AND debug = 0", experiment))

    def last_run(self, experiment: str) -> dict[str, Any] | None:
        """The newest run of an experiment; a debug run only if there is no other."""
        query = "SELECT * FROM runs WHERE experiment = ? ORDER BY debug, run_id DESC LIMIT 1"
        return next(iter(self._store.dicts(query, (experiment,))), None)

    def run_before(self, experiment: str, run_id: int) -> dict[str, Any] | None:
        """The last run of an experiment before this one, without debug runs."""
        query = "SELECT * FROM runs WHERE experiment = ? AND debug = 0 AND run_id < ? ORDER BY run_id DESC LIMIT 1"
        return next(iter(self._store.dicts(query, (experiment, run_id))), None)

    def later_specs(self, run_id: int) -> list[dict[str, Any]]:
        """The specs of the runs that began after this one, without debug runs."""
        query = "SELECT spec FROM runs WHERE run_id > ? AND debug = 0 ORDER BY run_id"
        return [json.loads(spec) for spec in self._column(query, run_id)]

    def variants(self, run_id: int) -> list[StoredVariant]:
        rows = self._store.rows(
            "SELECT variant, name, target, params, digest FROM variants WHERE run_id = ? ORDER BY variant", (run_id,)
        )
        return [
            StoredVariant(index, name, target, json.loads(params), digest)
            for index, name, target, params, digest in rows
        ]

    def variant_digests(self, run_id: int) -> dict[str, str]:
        """Digests of the variants by name; empty if `abreast cache clear` removed them."""
        return {variant.name: variant.digest for variant in self.variants(run_id)}

    def events(self, run_id: int, kind: str | None = None) -> list[StoredEvent]:
        """Actions of the scheduler in order, of all kinds or one."""
        query = "SELECT happened_at, kind, detail FROM events WHERE run_id = ? ORDER BY seq"
        return [
            StoredEvent(happened_at, event_kind, json.loads(detail))
            for happened_at, event_kind, detail in self._store.rows(query, (run_id,))
            if kind in (None, event_kind)
        ]

    def event_times(self, run_id: int) -> list[float]:
        return self._column("SELECT happened_at FROM events WHERE run_id = ? ORDER BY seq", run_id)

    def has_columns(self, *names: str) -> bool:
        """Whether any answer in the store returned one of these values."""
        return any(column.kind == "data" and column.name in names for column in self._store.columns())
