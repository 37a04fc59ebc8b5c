"""Logs as runs of a temporary store, for commands that only read them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from abreast.errors import BadInput
from abreast.importers.base import ImportOptions
from abreast.importers.importing import Imported, import_log
from abreast.store import Store, open_store
from abreast.store.run_names import POSITIONS, find_run, matching_runs

_EXTENSIONS = (".eval", ".json", ".jsonl", ".csv", ".tsv", ".xml")


@dataclass(frozen=True, slots=True)
class Contenders:
    """Runs to compare, by name; those in `store` are logs."""

    names: Sequence[str]
    store: Store | None
    imported: Sequence[Imported]


@contextmanager
def contenders(
    names: Sequence[str],
    stores: Sequence[Store],
    options: ImportOptions | None = None,
) -> Iterator[Contenders]:
    """Import the files among these names into a temporary store, as runs named after the files. A name that is also a
    run of `stores` means the run. If there is only one file, its variants are the contenders."""
    files = {name: path for name, path in files_among(names).items() if not _names_run(stores, name)}
    if not files:
        yield Contenders(names, None, ())
        return
    with tempfile.TemporaryDirectory(prefix="abreast-") as folder, open_store(Path(folder) / "logs.db") as store:
        imported = {
            path: import_log(store, path, options, run_name=str(path)) for path in dict.fromkeys(files.values())
        }
        chosen = []
        for name in names:
            run = imported[files[name]].run + name.removeprefix(_path_part(name)) if name in files else None
            chosen.append(run or _resolved(stores, name))
        yield Contenders(_variants(chosen[0], store) if len(chosen) == 1 else chosen, store, list(imported.values()))


def _path_part(name: str) -> str:
    """Return the part of the name that is a file or folder; empty if there is none.

    >>> _path_part("no/such/file.eval:b")
    ''
    """
    while name and not Path(name).exists():
        name = name.rpartition(":")[0]
    return name


def files_among(names: Sequence[str]) -> dict[str, Path]:
    """Return the names that are files or folders, with or without `:VARIANT` at the end. Refuses names that can only
    be files and do not exist."""
    files = {name: Path(path) for name in names if (path := _path_part(name))}
    for name in names:
        if name not in files and name.endswith(_EXTENSIONS):
            raise BadInput(f"{name}: no such file")
    return files


def _names_run(stores: Sequence[Store], name: str) -> bool:
    starts = [name, *(name[:at] for at, character in enumerate(name) if character == ":")]
    if any(start in POSITIONS and matching_runs(store, start) for store in stores for start in starts):
        return True
    return any(not {run["run"], run["label"]}.isdisjoint(starts) for store in stores for run in store.runs())


def _resolved(stores: Sequence[Store], name: str) -> str:
    """Replace `latest` and `previous` by the runs of the user's store; they never mean logs."""
    run, colon, variant = name.partition(":")
    return f"{find_run(stores, run)[1]}{colon}{variant}" if run in POSITIONS else name


def _variants(name: str, store: Store) -> list[str]:
    """Return all variants of the only log, as contenders."""
    run = store.run("latest")
    variants = [variant.name for variant in store.queries.variants(run["run_id"])]
    if name != run["run"] or len(variants) < 2:
        what = f"has one variant, {variants[0]}" if len(variants) < 2 else "one variant cannot be compared"
        raise BadInput(f"{name}: {what}", "name another file or run to compare it with")
    return [f"{name}:{variant}" for variant in variants]
