"""What `copy` and `merge` share: bringing stores into one, and saying what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast.errors import BadInput, StoreError
from abreast.filenames import relative_path
from abreast.output import echo, listings, say
from abreast.store import Store, open_store
from abreast.store.merging import Merged, copy_assets, merge
from abreast.text import many


def is_same(one: Store, other: Store) -> bool:
    """Whether two names are of one file."""
    if one.journal.exists() and other.journal.exists():
        return one.journal.samefile(other.journal)
    return one.path.resolve() == other.path.resolve()


def bring(target: str, sources: Sequence[Store], only: Sequence[str] | None, as_json: bool, assets: bool = True) -> int:
    """Everything of the sources into a store, and what that was."""
    from abreast.store.user_tables.tracked_rows import plain_name

    with open_store(target) as store:
        if any(is_same(source, store) for source in sources):
            raise BadInput(f"{target}: a store cannot be copied into itself", "name another one")
        names = None if only is None else [plain_name(name) for name in only]
        found = merge(store, sources, names)
        if assets:
            copy_assets(store, sources, names)
        _materialise(store)
    if as_json:
        listings.show([_object(merged) for merged in found], True, "")
    else:
        for merged in found:
            _tell(merged, relative_path(store.path))
    return 0


def _materialise(store: Store) -> None:
    try:
        store.materialise()
    except StoreError as error:  # somebody has the DuckDB file open
        say(f"note: {error.message}")


def _object(merged: Merged) -> dict[str, Any]:
    return {
        "source": str(merged.source),
        "runs": merged.runs,
        "continued": merged.continued,
        "renamed": merged.renamed,
        "trials": merged.trials,
        "rows": merged.rows,
        "columns": merged.columns,
    }


def _tell(merged: Merged, target: str) -> None:

    source = relative_path(merged.source)
    if not merged:
        echo(f"{source} → {target}: nothing new, it has all of it")
        return
    parts = [many(len(merged.runs), "run")] if merged.runs else []
    parts += [f"more of {', '.join(merged.continued)}"] if merged.continued else []
    parts += [many(merged.trials, "trial")] if merged.trials else []
    parts += [f"{many(count, 'row')} of {table}" for table, count in merged.rows.items()]
    new = {table: count for table, count in merged.columns.items() if table not in merged.rows}
    parts += [f"{many(count, 'column')} of {table}" for table, count in new.items()]
    echo(f"{source} → {target}: {', '.join(parts)}")
    for there, here in merged.renamed.items():
        echo(f"  another run is called {there} already; the one that came is {here}")
