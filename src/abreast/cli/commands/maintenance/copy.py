"""`abreast copy`: a store, or tables of it, into another store."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput, StoreError
from abreast.filenames import relative_path
from abreast.output import echo, listings, say
from abreast.store import Store, open_store
from abreast.store.runs.merging import Merged, copy_assets, merge
from abreast.text import many

EPILOG = """TARGET may exist, and be of the other engine; what it has already is not doubled:
  abreast copy results.db results.duckdb
  abreast copy results.db shared.db --table predictions --table metrics"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument(
        "--table", metavar="T", action="append", help="only what was tracked in this table; may be given several times"
    )
    parser.add_argument("--no-assets", action="store_true", help="leave objects that rows refer to behind")
    store_argument.add_shared(parser, "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.cli.commands.maintenance.copy import bring

    with store_argument.find_store(args.source) as source:
        return bring(args.target, [source], args.table, args.json, not args.no_assets)


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
        listings.show_json([_object(merged) for merged in found])
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
