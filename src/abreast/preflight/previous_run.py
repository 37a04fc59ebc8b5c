"""The previous run of an experiment, and what earlier trials took."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from abreast.store import Store
from abreast.store.rows import to_json
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


class PreviousRun:
    """A stored run. Its parts are read when they are needed."""

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
    def before(self) -> PreviousRun | None:
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


def previous_run(store: Store, experiment: str, continues: str | None = None) -> PreviousRun | None:
    """The run that goes on, or else the last one; a debug run only if there is no other."""
    if continues is not None:
        row = store.run(continues)
        options = json.dumps(json.loads(row["spec"]).get("options", {}))
        return PreviousRun(store, {**row, "options": options}, experiment)
    return next(_found(store, experiment, "1"), None)


def _found(store: Store, experiment: str, where: str) -> Iterator[PreviousRun]:
    for row in store.dicts(_RUN.format(where), (experiment,)):
        yield PreviousRun(store, row, experiment)


def _selects(options: Mapping[str, Any]) -> bool:
    return any(options.get(key) for key in ("case", "tag", "limit", "debug"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Took(NamedTuple):
    """Means over so many earlier trials; None where none of them said."""

    trials: int
    input_tokens: float | None
    output_tokens: float | None
    cost_usd: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class History:
    """By the digest of a contender, and by the name of a target."""

    of_variant: Mapping[str, Took] = field(default_factory=dict)
    of_target: Mapping[str, Took] = field(default_factory=dict)


RECENT = 10_000  # trials

# What infrastructure broke took nothing; what is reused was paid before.
_TAKEN = """
SELECT v.digest, v.target, COUNT(*), COUNT(t.input_tokens), TOTAL(t.input_tokens), COUNT(t.output_tokens),
  TOTAL(t.output_tokens), COUNT(t.cost_usd), TOTAL(t.cost_usd), COUNT(t.service_s), TOTAL(t.service_s)
FROM trials t JOIN variants v ON t.run_id = v.run_id AND t.variant = v.variant
WHERE t.seq > ? AND v.target IN (SELECT value FROM json_each(?)) AND t.reused_from IS NULL
  AND (t.status = 'ok' OR (t.status = 'error' AND t.error_blame = 'variant'))
GROUP BY v.digest, v.target
"""


def history(store: Store, targets: Iterable[str], digests: Iterable[str]) -> History:
    """A look at the last trials of these targets; at all of them if one of the contenders is not among the last."""
    ((last,),) = store.rows("SELECT COALESCE(MAX(seq), 0) FROM trials")
    recent = _history(store, targets, last - RECENT)
    return recent if last <= RECENT or recent.of_variant.keys() >= set(digests) else _history(store, targets, 0)


def _history(store: Store, targets: Iterable[str], after: int) -> History:
    of_variant: dict[str, list[float]] = {}
    of_target: dict[str, list[float]] = {}
    for digest, target, *numbers in store.rows(_TAKEN, (after, to_json(sorted(set(targets))))):
        for sums in (of_variant.setdefault(digest, [0.0] * 9), of_target.setdefault(target, [0.0] * 9)):
            for index, number in enumerate(numbers):
                sums[index] += number
    return History(
        {digest: _means(sums) for digest, sums in of_variant.items() if digest},  # '' was cleared from the cache
        {target: _means(sums) for target, sums in of_target.items()},
    )


def _means(sums: list[float]) -> Took:
    means = [total / count if count else None for count, total in zip(sums[1::2], sums[2::2], strict=True)]
    return Took(int(sums[0]), *means)
