"""Which run a name means: its own name, `latest`, `previous`, a label, or a prefix of a name."""

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
    """Names of the runs that `name` may mean, oldest first. An exact run name means that run and no other."""
    labels = _labels(store)
    if name in POSITIONS:  # even if a foreign store calls a run so
        return list(labels)[POSITIONS[name] :][:1] if len(labels) >= -POSITIONS[name] else []
    if name in labels:
        return [name]
    return [run for run, label in labels.items() if name and (label == name or run.startswith(name))]


def find_run(stores: Sequence[AnyStore], name: str) -> tuple[AnyStore, str]:
    """The run that `name` means and the store that holds it; refuses a name that could mean several runs."""
    if len(stores) > 1 and name in POSITIONS:
        raise BadInput(f'"{name}" is ambiguous with several stores', "name the run: abreast runs --store S lists them")
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
    """Refuse a label that could never name its run, or that a terminal could not show."""
    if not label.strip() or not label.isprintable() or len(label) > LONGEST_LABEL:
        rule = f"it must be printable text on one line, of at most {LONGEST_LABEL} characters"
        raise BadInput(f"{label[:LONGEST_LABEL]!r} cannot be a label: {rule}", "such as e1.2.0")
    if label in POSITIONS:
        raise BadInput(
            f'"{label}" cannot be a label: it always names the {label} run', "choose another, such as e1.2.0"
        )


def check_label_in(store: Database, label: str, run: str | None = None) -> None:
    """Refuse a label for `run` that could never name it, or that is the name of another run."""
    check_label(label)
    if label != run and store.rows("SELECT 1 FROM runs WHERE run = ?", (label,)):
        raise BadInput(f'"{label}" cannot be a label: it is the name of another run', "choose another, such as e1.2.0")


def shorten(names: Sequence[str]) -> str:
    """Candidates for an error message: `a, b, c and 7 more`."""
    more = f" and {len(names) - MOST_CANDIDATES:,} more" if len(names) > MOST_CANDIDATES else ""
    return f"{', '.join(names[:MOST_CANDIDATES])}{more}"


def _labels(store: Database) -> dict[str, str | None]:
    """The label of each run, oldest run first."""
    return dict(store.rows("SELECT run, label FROM runs ORDER BY run_id"))


def _ambiguous(holders: dict[str, AnyStore], name: str) -> BadInput:
    candidates = [run if run.startswith(name) else f'{run} (label "{name}")' for run in holders]
    return BadInput(f'"{name}" matches {len(holders):,} runs: {shorten(candidates)}', "write the full name")


def _unknown(stores: Sequence[Database], name: str) -> BadInput:
    first, labels = stores[0], {run: label for store in stores for run, label in _labels(store).items()}
    if not labels:
        return BadInput(f"{first.path}: there is no run in it", "abreast run SPEC starts one")
    if name in POSITIONS:
        return BadInput(f"{first.path}: there is only one run in it, so none is previous", "abreast runs lists them")
    known = {*labels, *(label for label in labels.values() if label)}
    return BadInput(f'{first.path}: no run "{name}"{suggestion(name, known)}', f"abreast runs --store {first.path}")
