"""The run of an experiment before this one, and what it stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from abreast.store import Store
from abreast.store.schema import LABEL_VERSION

LOOKED_AT = 200  # trials, to see what targets give back

_RUN = (
    "SELECT run_id, run, debug, label, provenance, json_extract(spec, '$.options') AS options FROM runs "
    "WHERE experiment = ?1 AND {} ORDER BY debug, run_id DESC LIMIT 1"
)


class EarlierVariant(NamedTuple):
    """A contender as it was."""

    name: str
    target: str
    params: Mapping[str, Any]
    digest: str


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
        self.selects = _selects(json.loads(row["options"] or "{}"))
        self._store, self._experiment = store, experiment

    @cached_property
    def variants(self) -> tuple[EarlierVariant, ...]:
        rows = self._store.rows(
            "SELECT name, target, params, digest FROM variants WHERE run_id = ? ORDER BY variant", (self.run_id,)
        )
        return tuple(EarlierVariant(name, target, json.loads(params), digest) for name, target, params, digest in rows)

    @cached_property
    def scores(self) -> dict[str, str]:
        """The version of the scorer that gave each score."""
        return dict(
            self._store.rows(
                "SELECT name, version FROM scores WHERE run_id = ?1 AND version IS NOT ?2 "
                "AND position = (SELECT MIN(position) FROM scores WHERE run_id = ?1 AND version IS NOT ?2)",
                (self.run_id, LABEL_VERSION),
            )
        )

    @cached_property
    def cases(self) -> dict[str, str]:
        """The digest of each case that has a row, by its id."""
        return dict(
            self._store.rows(
                "SELECT id, digest FROM cases WHERE digest IN (SELECT case_digest FROM trials WHERE run_id = ?)",
                (self.run_id,),
            )
        )

    @cached_property
    def given(self) -> dict[str, Given]:
        """What came with the first answers, by target."""
        rows = self._store.rows(
            "SELECT v.target, p.raw_response IS NOT NULL, t.input_tokens IS NOT NULL OR t.output_tokens IS NOT NULL, "
            "t.cost_usd IS NOT NULL, t.model IS NOT NULL, p.data FROM trials t "
            "JOIN variants v ON v.run_id = t.run_id AND v.variant = t.variant "
            "JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
            "WHERE t.run_id = ? AND t.status = 'ok' ORDER BY t.position LIMIT ?",
            (self.run_id, max(LOOKED_AT, 5 * len(self.variants))),
        )
        found: dict[str, Given] = {}
        for target, *flags, data in rows:
            fields = {name: _is_number(value) for name, value in (json.loads(data) if data else {}).items()}
            before = found.get(target, Given(False, False, False, False, {}))
            raw, tokens, cost, model = (bool(one or now) for one, now in zip(before[:4], flags, strict=True))
            found[target] = Given(raw, tokens, cost, model, {**before.fields, **fields})
        return found

    @cached_property
    def before(self) -> Earlier | None:
        """The run before this one."""
        return next(_found(self._store, self._experiment, f"debug = 0 AND run_id < {self.run_id}"), None)

    def models(self) -> Iterator[tuple[str, str, str]]:
        """Target, the model that was asked for (empty if none was named), and the one that answered; not of answers
        that were reused."""
        rows = self._store.rows(
            "SELECT DISTINCT variant, model FROM (SELECT variant, model FROM trials WHERE run_id = ? "
            "AND reused_from IS NULL AND model IS NOT NULL ORDER BY position LIMIT 2000)",
            (self.run_id,),
        )
        for index, model in rows:
            variant = self.variants[index]
            yield variant.target, str(variant.params.get("model", "")), model


def earlier(store: Store, experiment: str, continues: str | None = None) -> Earlier | None:
    """The run that goes on, or else the last one; a debug run only if there is no other."""
    if continues is not None:
        row = store.run(continues)
        options = json.dumps(json.loads(row["spec"]).get("options", {}))
        return Earlier(store, {**row, "options": options}, experiment)
    return next(_found(store, experiment, "1"), None)


def _found(store: Store, experiment: str, where: str) -> Iterator[Earlier]:
    for row in store.dicts(_RUN.format(where), (experiment,)):
        yield Earlier(store, row, experiment)


def _selects(options: Mapping[str, Any]) -> bool:
    return any(options.get(key) for key in ("case", "tag", "limit", "debug"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
