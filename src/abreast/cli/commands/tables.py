"""`abreast ls`, `head`, `tail`, `columns`, `stats` and `plot`: query the tables of a store."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from typing import Any, Literal

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag, words
from abreast.errors import BadInput, suggestion
from abreast.output import echo, listings
from abreast.store import Store
from abreast.text import many

SHARED = "--table --engine --store --json"
EXAMPLES = """  abreast {0}                               predictions in the store of this folder
  abreast {0} results.db metrics -n 20
  abreast {0} results.db --columns model,accuracy"""
NEWEST = 100  # rows in which the latest value is searched for
ACTIONS = ("describe", "top", "bottom")
NAME, TEXT = 24, 10  # characters of a column name, and of the minimum and maximum of a text column
CHARTS = {  # least and most columns, and usage
    "hist": (1, 1, "COLUMN"),
    "bar": (1, 2, "COLUMN [Y]"),
    "scatter": (2, 2, "X Y"),
    "line": (2, 2, "X Y"),
}


@command(
    "ls",
    words("[STORE] [COLUMN]"),
    flag("--unique", "print each distinct value once, in order of first occurrence"),
    SHARED,
    epilog="""  abreast ls results.db                      the tables, with rows and columns
  abreast ls results.db track_id --unique    one distinct value per line, for shell loops""",
)
def list_tables(args: argparse.Namespace) -> None:
    from abreast.store.user_tables.tables import read, table_summaries

    store, rest = store_argument.store_and_words(args)
    with store:
        store_argument.refuse_more_words("ls", rest, "[STORE] [COLUMN]")
        if not rest:
            listings.show(table_summaries(store), args.json, "no tables")
            return
        (column,) = rest
        values = read(store, store_argument.table_name(args), keys=[column]).columns[column]
    lines = [listings.line(value) for value in values]
    rows = [{"value": value} for value in values]
    if args.unique:
        counts = Counter(lines)
        firsts = dict(zip(reversed(lines), reversed(values), strict=True))
        rows = [{"value": firsts[text], "rows": count} for text, count in counts.items()]
        lines = list(counts)
    if args.json:
        listings.show_json(rows)
    elif lines:
        echo("\n".join(lines))


def _declare_ends(name: str) -> None:
    """Declare `head` or `tail`."""

    @command(
        name,
        words("[STORE] [TABLE]"),
        argument("-n", "--n", dest="rows", type=int, default=5, metavar="N", help="how many rows (default: 5)"),
        f"--columns {SHARED}",
        epilog=EXAMPLES.format(name),
    )
    def show_end(args: argparse.Namespace) -> None:
        from abreast.store.user_tables.tables import read

        if args.rows < 0:
            raise BadInput(f"{name}: -n {args.rows} is negative", f"use `abreast {name} -n 5`")
        store, rest = store_argument.store_and_words(args)
        with store:
            store_argument.refuse_more_words(name, rest, "[STORE] [TABLE]")
            table = store_argument.table_name(args, *rest)
            amount = {"first" if name == "head" else "last": args.rows}
            rows = read(store, table, keys=store_argument.column_names(args), **amount).rows()
            _show_fitted(rows, args.json, "" if rows else store_argument.no_rows(store, table))


_declare_ends("head")
_declare_ends("tail")


def _show_fitted(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json or not rows:
        listings.show(rows, as_json, nothing)
    else:
        listings.show_fitted(rows)


@command("columns", words("[STORE] [TABLE]"), SHARED)
def show_columns(args: argparse.Namespace) -> None:
    from abreast.store.user_tables.cells import cell
    from abreast.store.user_tables.tables import read

    store, rest = store_argument.store_and_words(args)
    with store:
        store_argument.refuse_more_words("columns", rest, "[STORE] [TABLE]")
        frame = read(store, store_argument.table_name(args, *rest), last=NEWEST)
    rows = []
    for key, values in frame.columns.items():
        latest = next((value for value in reversed(values) if value is not None), None)
        kind = frame.types[key] or cell(latest).type
        rows.append({"column": key, "type": None if kind == "null" else kind, "latest": latest})
    listings.show(rows, args.json, "no columns")


@command(
    "stats",
    words("[STORE] [describe|top|bottom] [COLUMN]"),
    argument("-n", "--n", dest="rows", type=int, default=1, metavar="N", help="rows of top and bottom (default: 1)"),
    f"--columns {SHARED}",
    epilog="""  describe            count, nulls, distinct, min, mean, p50, p95, max and std of every column
  top COLUMN          the rows with the largest values of a column
  bottom COLUMN       the rows with the smallest values
The store may come before or after the action: abreast stats top results.db accuracy""",
)
def show_stats(args: argparse.Namespace) -> None:
    store, rest = store_argument.store_and_words(args, ACTIONS)
    with store:
        action = rest.pop(0) if rest and rest[0] in ACTIONS else "describe"
        store_argument.refuse_more_words("stats", rest, "[STORE] [describe|top|bottom] [COLUMN]")
        table = store_argument.table_name(args)
        if action == "describe":
            _describe(store, table, rest or store_argument.column_names(args), args.json)
        else:
            _rank(store, table, action, rest, args)


def _describe(store: Store, table: str, keys: list[str] | None, as_json: bool) -> None:
    from abreast.stats.summary import summarise
    from abreast.store.user_tables.tables import read

    frame = read(store, table, keys=keys)
    if not len(frame):
        listings.show([], as_json, store_argument.no_rows(store, table))
        return
    rows = [{"column": key, **asdict(summarise(values))} for key, values in frame.columns.items()]
    if as_json:
        listings.show_json(rows)
        return
    echo(f"{table}: {many(len(frame), 'row')}")
    listings.show([_rounded(row) for row in rows if row["count"]], False, "")
    listings.name_columns("empty", [row["column"] for row in rows if not row["count"]])


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """The summary of a column with fewer digits, shorter texts and no count."""
    short = {key: value for key, value in row.items() if key != "count"}
    for key, value in short.items():
        if isinstance(value, str):
            short[key] = listings.cut(listings.line(value), NAME if key == "column" else TEXT)
        elif isinstance(value, float):
            short[key] = float(f"{value:.4g}")
    return short


def _rank(store: Store, table: str, action: str, columns: list[str], args: argparse.Namespace) -> None:
    from abreast.store.user_tables.tables import Condition, read

    if not columns or args.rows < 1:
        raise BadInput(f"stats {action} needs a column and -n above 0", f"use `abreast stats {action} COLUMN -n 1`")
    (column,) = columns
    rows: list[dict[str, Any]] = []
    for only_numbers in (True, False):  # text ranks only if there is no number
        if not rows:
            condition, keys = Condition.not_null(column, only_numbers), store_argument.column_names(args)
            order: Literal["ASC", "DESC"] = "DESC" if action == "top" else "ASC"
            rows = read(store, table, condition, first=args.rows, keys=keys, by=(column, order)).rows()
    _show_fitted(rows, args.json, f"{table}: no values in {column}")


@command(
    "plot",
    words("[STORE] hist|bar|scatter|line COLUMN"),
    argument("--bins", type=int, default=20, metavar="N", help="bins of hist (default: 20)"),
    SHARED,
    epilog="""  hist COLUMN         histogram of numbers
  bar COLUMN [Y]      count of each value, or the mean of Y per value
  scatter X Y         one point per row
  line X Y            mean of Y for each X
The store may come before or after the kind: abreast plot hist results.db accuracy""",
)
def plot(args: argparse.Namespace) -> None:
    from abreast.report.words.text_charts import bar_chart, histogram, point_chart
    from abreast.store.user_tables.tables import read

    store, rest = store_argument.store_and_words(args, CHARTS)
    with store:
        kind, keys = _chart_of(rest)
        table = store_argument.table_name(args)
        frame = read(store, table, keys=list(dict.fromkeys(keys)))
        if not len(frame):
            listings.show([], args.json, store_argument.no_rows(store, table))
            return
    columns = [list(frame.columns[key]) for key in keys]
    if kind == "hist":
        rows, lines = histogram(keys[0], columns[0], args.bins)
    elif kind == "bar":
        rows, lines = bar_chart(keys, columns)
    else:
        rows, lines = point_chart(keys, columns, joined=kind == "line")
    if args.json:
        listings.show_json(rows)
    else:
        echo("\n".join(lines))


def _chart_of(rest: list[str]) -> tuple[str, list[str]]:
    kind, keys = (rest[0], rest[1:]) if rest else ("", [])
    if kind not in CHARTS:
        problem = f'unknown chart "{kind}"{suggestion(kind, CHARTS)}' if kind else "no chart is named"
        raise BadInput(f"plot: {problem}", "use `abreast plot hist COLUMN`")
    least, most, usage = CHARTS[kind]
    if not least <= len(keys) <= most:
        raise BadInput(f"plot {kind}: wrong number of columns ({len(keys)})", f"use `abreast plot {kind} {usage}`")
    return kind, keys
