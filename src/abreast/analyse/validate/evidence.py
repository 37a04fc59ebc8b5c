"""Findings, and the queries that checks share: counted in the database, with text only where needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from abreast.store import Store
from abreast.store.queries.base import Matches
from abreast.store.queries.runs import StoredVariant
from abreast.store.runs.provenance import ImportRecord

Level = Literal["serious", "note"]

LISTED = 5  # most ids listed in a finding
FEWEST = 10  # fewer cases may all be alike by chance
FEWEST_ALIKE = 5  # fewer of a kind may be chance
MANY = 0.05  # share of the cases that visibly affects a verdict


@dataclass(frozen=True, slots=True)
class ResultFinding:
    """A finding to explain. It concerns `count` cases, trials, rows or variants; `ids` are the first of them."""

    check: str
    level: Level
    message: str
    fix: str
    concerns: str
    count: int
    ids: tuple[str, ...]


def finding(
    check: str, level: Level, message: str, fix: str, concerns: str, count: int, ids: Iterable[str] = ()
) -> ResultFinding:
    return ResultFinding(check, level, message, fix, concerns, count, tuple(islice(ids, LISTED)))


def of_cases(check: str, level: Level, message: str, fix: str, ids: list[str]) -> ResultFinding:
    return finding(check, level, message, fix, "cases", len(ids), ids)


def of_trials(check: str, level: Level, message: str, fix: str, count: int, ids: Iterable[str] = ()) -> ResultFinding:
    return finding(check, level, message, fix, "trials", count, ids)


def of_variants(check: str, level: Level, message: str, fix: str, names: Iterable[str]) -> ResultFinding:
    all_names = tuple(names)
    return finding(check, level, message, fix, "variants", len(all_names), all_names)


def listed(words: Iterable[str]) -> str:
    all_words = list(words)
    return ", ".join(all_words[:LISTED]) + (" and others" if len(all_words) > LISTED else "")


class ExaminedVariant(StoredVariant):
    """A variant of the run that checks compare with others."""

    @property
    def simulated(self) -> bool:
        return self.target == "simulated"

    def differs_in(self, other: ExaminedVariant) -> set[str]:
        """Names of the parameters in which two variants differ, the target included; `code` if nothing else differs."""
        missing = object()
        keys = self.params.keys() | other.params.keys()
        different = {key for key in keys if self.params.get(key, missing) != other.params.get(key, missing)}
        if self.target != other.target:
            different.add("target")
        return different or ({"code"} if self.digest != other.digest else set())


class Evidence:
    """One run, with the results of queries that several checks share."""

    def __init__(self, store: Store, run: dict[str, Any]) -> None:
        self.store, self.queries = store, store.queries
        self.run, self.run_id, self.primary = run, int(run["run_id"]), run["primary_score"]
        self.spec = json.loads(run["spec"])
        self.trials = int(run["stored_trials"])
        self.repeats = int(self.spec.get("repeats", 1))

    def command(self, name: str) -> str:
        """A command for this run, to paste."""
        return f"abreast {name} {self.run['run']} --store {self.store.quoted_address}"

    @cached_property
    def variants(self) -> list[ExaminedVariant]:
        stored = self.queries.variants(self.run_id)
        return [ExaminedVariant(item.index, item.name, item.target, item.params, item.digest) for item in stored]

    @property
    def resume(self) -> str:
        """Suggest how to run missing trials, without a period."""
        record = ImportRecord.read(json.loads(self.run["provenance"]))
        return f"run `{self.command('resume')}`" if record is None else record.rerun

    @property
    def per_case(self) -> int:
        return len(self.variants) * self.repeats

    @cached_property
    def baseline(self) -> ExaminedVariant:
        return next(variant for variant in self.variants if variant.name == self.run["baseline"])

    @property
    def others(self) -> list[ExaminedVariant]:
        return [variant for variant in self.variants if variant is not self.baseline]

    @cached_property
    def cases(self) -> int:
        """Number of cases that have a row."""
        return self.queries.count_blocks(self.run_id, self.per_case)

    @cached_property
    def arms(self) -> list[dict[str, Any]]:
        totals = self.queries.variant_totals(self.run_id)
        first = next(iter(totals.values()))
        nothing = {key: 0 if isinstance(value, int | float) else None for key, value in first.items()}
        return [totals.get(variant.index, nothing) | {"name": variant.name} for variant in self.variants]

    def of_matches(self, check: str, level: Level, message: str, fix: str, matches: Matches) -> ResultFinding:
        return of_trials(check, level, message, fix, matches.total, self.trial_ids(matches.positions))

    def trial_ids(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(
            f"{case} · {self.variants[variant].name} · repeat {repeat}"
            for case, variant, repeat in self.queries.trial_places(self.run_id, positions)
        )
