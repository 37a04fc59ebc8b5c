"""Lookup of runs by name, `latest`, `previous`, label, or prefix of a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from abreast.errors import BadInput, suggestion
from abreast.store.base import Database

AnyStore = TypeVar("AnyStore", bound=Database)

POSITIONS = {"latest": -1, "previous": -2}
LONGEST_LABEL = 100
MOST_CANDIDATES = 10  # listed in an error message


def matching_runs(store: Database, name: str) -> list[str]:
    """Names of the runs that `name` may refer to, oldest first. An exact run name refers to that run only."""
    labels = _labels(store)
    if name in POSITIONS:  # even if a run in a foreign store has this name
        return list(labels)[POSITIONS[name] :][:1] if len(labels) >= -POSITIONS[name] else []
    if name in labels:
        return [name]
    return [run for run, label in labels.items() if name and (label == name or run.startswith(name))]


def find_run(stores: Sequence[AnyStore], name: str) -> tuple[AnyStore, str]:
    """Return the store and the full name of the run that `name` refers to. Raises if it is ambiguous or unknown."""
    if len(stores) > 1 and name in POSITIONS:
        raise BadInput(f'"{name}" is ambiguous with several stores', "name the run; see `abreast runs --store S`")
    holders: dict[str, AnyStore] = {}
    for store in stores:
        for run in matching_runs(store, name):
            holders.setdefault(run, store)
    if name in holders:
        return holders[name], name
    if len(holders) != 1:
        raise _ambiguous(holders, name) if holders else _unknown(stores, name)
    ((run, store),) = holders.items()
    return store, run


def check_label(label: str) -> None:
    """Refuse a label that could never refer to its run, or that a terminal cannot print."""
    if not label.strip() or not label.isprintable() or len(label) > LONGEST_LABEL:
        rule = f"must be one line of printable text, at most {LONGEST_LABEL} characters"
        raise BadInput(f"invalid label {label[:LONGEST_LABEL]!r}: {rule}", "use a label such as e1.2.0")
    if label in POSITIONS:
        raise BadInput(f'invalid label "{label}": it always means the {label} run', "use a label such as e1.2.0")


def check_label_in(store: Database, label: str, run: str | None = None) -> None:
    """Refuse a label for `run` that is invalid or the name of another run."""
    check_label(label)
    if label != run and store.rows("SELECT 1 FROM runs WHERE run = ?", (label,)):
        raise BadInput(f'invalid label "{label}": it is the name of another run', "use a label such as e1.2.0")


def shorten(names: Sequence[str]) -> str:
    """Format candidates for an error message: `a, b, c and 7 more`."""
    more = f" and {len(names) - MOST_CANDIDATES:,} more" if len(names) > MOST_CANDIDATES else ""
    return f"{', '.join(names[:MOST_CANDIDATES])}{more}"


def _labels(store: Database) -> dict[str, str | None]:
    """The label of each run, oldest run first."""
    return dict(store.rows("SELECT run, label FROM runs ORDER BY run_id"))


def _ambiguous(holders: dict[str, AnyStore], name: str) -> BadInput:
    candidates = [run if run.startswith(name) else f'{run} (label "{name}")' for run in holders]
    return BadInput(f'"{name}" matches {len(holders):,} runs: {shorten(candidates)}', "use the full name")


def _unknown(stores: Sequence[Database], name: str) -> BadInput:
    first, labels = stores[0], {run: label for store in stores for run, label in _labels(store).items()}
    if not labels:
        return BadInput(f"{first.address}: no runs", "run `abreast run SPEC`")
    if name in POSITIONS:
        return BadInput(f"{first.address}: no previous run, there is only one", "run `abreast runs` to list it")
    names = {*labels, *(label for label in labels.values() if label)}
    return BadInput(
        f'{first.address}: no run "{name}"{suggestion(name, names)}',
        f"see `abreast runs --store {first.quoted_address}`",
    )
