"""One run as the checks see it: counted in the database, text only where it is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.analyse.validate.finding import SHOWN
from abreast.store import Store

Floats = npt.NDArray[np.float64]

# Skipped trials and those that infrastructure spoiled have no outcome that can be compared.
HAS_OUTCOME = "(t.status = 'ok' OR (t.status = 'error' AND t.error_blame = 'variant'))"
INFRASTRUCTURE = "(t.status = 'error' AND t.error_blame <> 'variant')"


@dataclass(frozen=True, slots=True)
class Variant:
    """One contender as it is stored."""

    index: int
    name: str
    target: str
    params: dict[str, Any]
    digest: str

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
        found = self.ask(
            "SELECT variant, name, target, params, digest FROM variants WHERE run_id = ?1 ORDER BY variant"
        )
        self.variants = [
            Variant(index, name, target, json.loads(params), digest) for index, name, target, params, digest in found
        ]
        self.per_case = len(self.variants) * self.repeats
        self.baseline = next(variant for variant in self.variants if variant.name == run["baseline"])
        self.others = [variant for variant in self.variants if variant is not self.baseline]
        # The cases `c` that have a row, each once, by the first of their trials.
        self.its_cases = (
            f"(SELECT MIN(position) AS first FROM trials WHERE run_id = ?1 GROUP BY position / {self.per_case}) m "
            "CROSS JOIN trials t ON t.run_id = ?1 AND t.position = m.first "  # in this order: each is looked up once
            "CROSS JOIN cases c ON c.digest = t.case_digest"
        )

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows; the run is ?1."""
        return self.store.rows(sql, (self.run_id, *parameters))

    @cached_property
    def cases(self) -> int:
        """How many cases have a row."""
        return int(self.ask("SELECT COUNT(DISTINCT position / ?2) FROM trials WHERE run_id = ?1", self.per_case)[0][0])

    @cached_property
    def arms(self) -> list[dict[str, Any]]:
        """Each variant in numbers, in one look at its rows."""
        known = ", ".join(
            f"COUNT(CASE WHEN t.status = 'ok' THEN t.{name} END) AS {name}"
            for name in ("cost_usd", "input_tokens", "output_tokens", "model")
        )
        found = self.store.dicts(
            f"SELECT t.variant, COUNT(*) AS trials, SUM(t.status = 'ok') AS ok, SUM({HAS_OUTCOME}) AS outcomes, "
            f"SUM({INFRASTRUCTURE}) AS infrastructure, COUNT(t.reused_from) AS reused, {known}, "
            "MIN(CASE WHEN t.reused_from IS NULL THEN t.started_at END) AS begun, "
            "MAX(CASE WHEN t.reused_from IS NULL THEN t.started_at END) AS last_begun, "
            "MIN(CASE WHEN t.status = 'ok' THEN t.model END) AS a_model, "
            "MAX(CASE WHEN t.status = 'ok' THEN t.model END) AS another_model, "
            "MIN(CASE WHEN t.cost_usd IS NOT NULL THEN t.cost_basis END) AS a_basis, "
            "MAX(CASE WHEN t.cost_usd IS NOT NULL THEN t.cost_basis END) AS another_basis "
            "FROM trials t WHERE t.run_id = ?1 GROUP BY t.variant",
            (self.run_id,),
        )
        by_index = {row["variant"]: row for row in found}
        nothing = {key: 0 if isinstance(value, int | float) else None for key, value in found[0].items()}
        return [by_index.get(variant.index, nothing) | {"name": variant.name} for variant in self.variants]

    def matching(self, condition: str, *parameters: Any) -> tuple[int, tuple[str, ...]]:
        """How many trials `t` a condition holds for, and the first of them."""
        rows = self.ask(
            f"SELECT COUNT(*) OVER (), t.position FROM trials t WHERE t.run_id = ?1 AND {condition} LIMIT {SHOWN}",
            *parameters,
        )
        return (rows[0][0] if rows else 0), self.trial_ids(row[1] for row in rows)

    def moments(self, condition: str) -> Floats:
        """Position, start, end and `seq` of the trials `t` for which a condition holds, a row each."""
        rows = self.store.each(
            f"SELECT t.position, t.started_at, t.finished_at, t.seq FROM trials t WHERE t.run_id = ?1 AND {condition}",
            (self.run_id,),
        )
        return np.fromiter(chain.from_iterable(rows), dtype=np.float64).reshape(-1, 4)

    def trial_ids(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(
            f"{case} · {self.variants[variant].name} · repeat {repeat}"
            for position in positions
            for case, variant, repeat in self.ask(
                "SELECT c.id, t.variant, t.repeat FROM trials t JOIN cases c ON c.digest = t.case_digest "
                "WHERE t.run_id = ?1 AND t.position = ?2",
                position,
            )
        )

    def case_ids(self, cases: Iterable[int]) -> tuple[str, ...]:
        return tuple(
            row[0]
            for case in cases
            for row in self.ask(
                "SELECT c.id FROM trials t JOIN cases c ON c.digest = t.case_digest "
                "WHERE t.run_id = ?1 AND t.position BETWEEN ?2 AND ?3 LIMIT 1",
                case * self.per_case,
                (case + 1) * self.per_case - 1,
            )
        )
