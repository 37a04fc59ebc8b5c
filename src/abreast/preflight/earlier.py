"""The run of an experiment before this one, and what it stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from abreast.store import Store
from abreast.store.queries.runs import StoredVariant

LOOKED_AT = 200  # trials, to see what targets give back


class Given(NamedTuple):
    """What the answers of one target came with."""

    raw_response: bool
    tokens: bool
    cost: bool
    model: bool
    fields: Mapping[str, bool]  # returned keys; whether their values are numbers


class Earlier:
    """A stored run. What is not asked for is not read."""

    def __init__(self, store: Store, row: Mapping[str, Any], experiment: str) -> None:
        self.run, self.run_id = str(row["run"]), int(row["run_id"])
        self.provenance: Mapping[str, Any] = json.loads(row["provenance"])
        self.selects = _selects(json.loads(row["spec"]).get("options") or {})
        self._store, self._experiment = store, experiment

    @cached_property
    def variants(self) -> list[StoredVariant]:
        return self._store.queries.variants(self.run_id)

    @cached_property
    def scores(self) -> dict[str, str]:
        """The version of the scorer that gave each score."""
        return self._store.queries.first_scorer_versions(self.run_id)

    @cached_property
    def cases(self) -> dict[str, str]:
        """The digest of each case that has a row, by its id."""
        return {case.id: case.digest for case in self._store.queries.stored_cases(self.run_id)}

    @cached_property
    def given(self) -> dict[str, Given]:
        """What came with the first answers, by target."""
        most = max(LOOKED_AT, 5 * len(self.variants))
        found: dict[str, Given] = {}
        for target, raw, tokens, cost, model, data in self._store.queries.first_answers(self.run_id, most):
            fields = {name: _is_number(value) for name, value in data.items()}
            before = found.get(target, Given(False, False, False, False, {}))
            found[target] = Given(
                raw_response=raw or before.raw_response,
                tokens=tokens or before.tokens,
                cost=cost or before.cost,
                model=model or before.model,
                fields={**before.fields, **fields},
            )
        return found

    @cached_property
    def before(self) -> Earlier | None:
        """The run before this one."""
        row = self._store.queries.run_before(self._experiment, self.run_id)
        return None if row is None else Earlier(self._store, row, self._experiment)

    def models(self) -> Iterator[tuple[str, str, str]]:
        """Target, the model that was asked for (empty if none was named), and the one that answered; not of answers
        that were reused."""
        for index, model in self._store.queries.new_models(self.run_id, 2_000):
            variant = self.variants[index]
            yield variant.target, str(variant.params.get("model", "")), model


def earlier(store: Store, experiment: str, continues: str | None = None) -> Earlier | None:
    """The run that goes on, or else the last one; a debug run only if there is no other."""
    row = store.queries.last_run(experiment) if continues is None else store.run(continues)
    return None if row is None else Earlier(store, row, experiment)


def _selects(options: Mapping[str, Any]) -> bool:
    return any(options.get(key) for key in ("case", "tag", "limit", "debug"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
