"""The previous run of an experiment, and the use of earlier trials."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from abreast.store import Store
from abreast.store.queries.runs import StoredVariant

SAMPLE = 200  # trials whose answers are read


class ReturnedData(NamedTuple):
    """The contents of the answers of one target."""

    raw_response: bool
    tokens: bool
    cost: bool
    model: bool
    fields: Mapping[str, bool]  # returned keys; whether their values are numbers


class PreviousRun:
    """A stored run, read as needed."""

    def __init__(self, store: Store, row: Mapping[str, Any], experiment: str) -> None:
        self.run, self.run_id = str(row["run"]), int(row["run_id"])
        self.provenance: Mapping[str, Any] = json.loads(row["provenance"])
        options = json.loads(row["spec"]).get("options") or {}
        self.selects = any(options.get(key) for key in ("case", "tag", "limit", "debug"))
        self._store, self._experiment = store, experiment

    @cached_property
    def variants(self) -> list[StoredVariant]:
        return self._store.queries.variants(self.run_id)

    @cached_property
    def scores(self) -> dict[str, str]:
        """Scorer version by score."""
        return self._store.queries.first_scorer_versions(self.run_id)

    @cached_property
    def cases(self) -> dict[str, str]:
        """Digest of each stored case by id."""
        return {case.id: case.digest for case in self._store.queries.stored_cases(self.run_id)}

    @cached_property
    def returned(self) -> dict[str, ReturnedData]:
        """Contents of the first answers, by target."""
        most = max(SAMPLE, 5 * len(self.variants))
        returned: dict[str, ReturnedData] = {}
        for target, raw, tokens, cost, model, data in self._store.queries.first_answers(self.run_id, most):
            fields = {
                name: isinstance(value, int | float) and not isinstance(value, bool) for name, value in data.items()
            }
            before = returned.get(target, ReturnedData(False, False, False, False, {}))
            returned[target] = ReturnedData(
                raw_response=raw or before.raw_response,
                tokens=tokens or before.tokens,
                cost=cost or before.cost,
                model=model or before.model,
                fields={**before.fields, **fields},
            )
        return returned

    @cached_property
    def before(self) -> PreviousRun | None:
        row = self._store.queries.run_before(self._experiment, self.run_id)
        return None if row is None else PreviousRun(self._store, row, self._experiment)

    def with_earlier(self, most: int) -> Iterator[PreviousRun]:
        """This run and those before it, the newest first, at most this many."""
        run: PreviousRun | None = self
        while run is not None and most > 0:
            yield run
            run, most = run.before, most - 1

    def models(self) -> Iterator[tuple[str, str, str]]:
        """Target, requested model (empty if none), and the model that answered, of answers that were not reused."""
        for index, model in self._store.queries.new_models(self.run_id, 2_000):
            variant = self.variants[index]
            yield variant.target, str(variant.params.get("model", "")), model


def previous_run(store: Store, experiment: str, continues: str | None = None) -> PreviousRun | None:
    """The run to continue, else the last one; a debug run only if there is no other."""
    row = store.queries.last_run(experiment) if continues is None else store.run(continues)
    return None if row is None else PreviousRun(store, row, experiment)


class MeanUse(NamedTuple):
    """Means over earlier trials; None if unknown."""

    trials: int
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class TrialHistory:
    """Use by variant digest, and by target name."""

    of_variant: Mapping[str, MeanUse] = field(default_factory=dict)
    of_target: Mapping[str, MeanUse] = field(default_factory=dict)


RECENT = 10_000  # trials


def history(store: Store, targets: Iterable[str], digests: Iterable[str]) -> TrialHistory:
    """Use of recent trials of these targets; of all trials if a variant is not among the recent ones."""
    last = store.queries.last_sequence()
    recent = _history(store, targets, last - RECENT)
    return recent if last <= RECENT or recent.of_variant.keys() >= set(digests) else _history(store, targets, 0)


def _history(store: Store, targets: Iterable[str], after: int) -> TrialHistory:
    of_variant: dict[str, list[float]] = {}
    of_target: dict[str, list[float]] = {}
    for digest, target, *numbers in store.queries.use_by_variant(sorted(set(targets)), after):
        for sums in (of_variant.setdefault(digest, [0.0] * 9), of_target.setdefault(target, [0.0] * 9)):
            for index, number in enumerate(numbers):
                sums[index] += number
    return TrialHistory(
        {digest: _means(sums) for digest, sums in of_variant.items() if digest},  # '' if removed from the cache
        {target: _means(sums) for target, sums in of_target.items()},
    )


def _means(sums: list[float]) -> MeanUse:
    means = [total / count if count else None for count, total in zip(sums[1::2], sums[2::2], strict=True)]
    return MeanUse(int(sums[0]), *means)
