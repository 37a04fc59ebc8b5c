"""`abreast sql`, `export`, `set` and `rename`: query, export and change rows."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

from abreast.cli import store_argument
from abreast.cli.command import TABLE, argument, command, flag, words
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import echo, is_read, listings, say
from abreast.store import Store
from abreast.store.address import is_url, without_password
from abreast.text import many

FORMATS = ("csv", "parquet", "jsonl")


@command(
    "sql",
    words("[STORE] QUERY", "+"),
    flag("--write", "let the query change the store"),
    "--store --json",
    epilog="""\
The views predictions (a row per trial) and metrics (a row per run, variant and segment) have plain columns:
  abreast sql results.db "select variant, avg(score) from predictions group by variant"
A DELETE of tracked rows needs no --write and also removes them from the cache:
  abreast sql results.db "delete from db.predictions where track_id = 'brave-otter-4821'\"""",
)
def query_store(args: argparse.Namespace) -> None:
    from abreast.store.user_tables.tables import forget_missing

    *names, query = args.words
    if len(names) > (0 if args.store else 1):
        raise BadInput(
            "sql takes a store and one query", 'put the query in quotes, such as abreast sql results.db "select ..."'
        )
    if not names and (is_url(query) or query.endswith(store_argument.SUFFIXES)):
        address = without_password(query)
        fix = f'use `abreast sql {shlex.quote(address)} "select * from metrics"`'
        raise BadInput(f"sql {address}: the query is missing", fix)
    with store_argument.find_store(names[0] if names else args.store) as store:
        table = None if store.is_read_only() else store.deletable_table(query)
        if table is not None:
            _delete_tracked(store, table, query, args.json)
            return
        columns, rows = store.sql(query, args.write)
        if args.write and not store.is_read_only():
            forget_missing(store)
    listings.show([dict(zip(columns, row, strict=True)) for row in rows], args.json, "no rows")


def _delete_tracked(store: Store, table: str, query: str, as_json: bool) -> None:
    """Delete rows that trackers wrote, also from the cache, and print how many."""
    from abreast.store.user_tables.tables import extent, forget_missing

    before, last = extent(store, table)
    store.sql(query)
    forget_missing(store)
    removed = before - extent(store, table, last)[0]
    if as_json:
        listings.show_json([{"table": table, "deleted": removed}])
    else:
        echo(f"deleted {many(removed, 'row')} of {table}")


@command(
    "export",
    argument("run", metavar="NAME", nargs="?", help="only this run (name or label) or track_id (default: all rows)"),
    argument("--format", choices=(*FORMATS, "inspect"), help="default: by the extension of --output, else csv"),
    argument("--table", metavar="T", default=TABLE, help=f"any table (default: {TABLE})"),
    argument("--output", metavar="FILE", help="a file (default: standard output, except for parquet)"),
    flag("--escape-formulas", "for spreadsheets: put ' before CSV cells that would run as a formula (=, +, -, @)"),
    "--store",
    epilog="""With --format inspect, each variant of a run becomes a log that Inspect opens, in the folder --output:
  abreast export brave-otter-4821 --format inspect --output logs
  inspect view --log-dir logs""",
)
def export_rows(args: argparse.Namespace) -> None:
    from abreast.report.formats.row_files import export
    from abreast.store.user_tables.tables import row_counts
    from abreast.store.user_tables.tracked_rows import plain_name

    with store_argument.find_store(args.store) as store:
        if args.format == "inspect" or (args.format is None and (args.output or "").endswith(".eval")):
            _export_logs(store, args)
            return
        name = args.run
        if name and not row_counts(store, name):
            name = store.run(name)["run"]
        format_ = args.format or (args.output.rpartition(".")[2].lower() if args.output is not None else "csv")
        if format_ not in FORMATS:
            fix = "use .csv, .parquet or .jsonl, or set --format"
            raise BadInput(f"--output {args.output}: cannot infer the format from the extension", fix)
        if args.escape_formulas and format_ != "csv":
            raise BadInput(f"--escape-formulas is for CSV, not for {format_}", "omit it, or use --format csv")
        count = export(store, plain_name(args.table), name, format_, args.output, args.escape_formulas)
    if is_read():
        say(many(count, "row"))


def _export_logs(store: Store, args: argparse.Namespace) -> None:
    from abreast.report.formats.inspect_export import export_inspect

    if args.escape_formulas or args.table != TABLE:
        raise BadInput("--format inspect takes a run only", "omit --table and --escape-formulas")
    for path, samples in export_inspect(store, args.run or "latest", args.output):
        echo(f"{relative_path(path)}: {many(samples, 'sample')}")


@command(
    "set",
    words("[STORE] COLUMN VALUE", "+"),
    argument("--track-id", metavar="T", help="only rows of this tracker"),
    argument(
        "--where", metavar="COLUMN=VALUE", action="append", default=[], help="only rows with this value; repeatable"
    ),
    "--yes --table --engine --store",
    epilog="""VALUE is parsed as a number, true, false or null, else taken as text. A missing column is added.
You are asked to confirm; without a terminal, --yes is required.
  abreast set results.db reviewed true --track-id brave-otter-4821
  abreast set results.db model gpt-4 --where model=gpt4 --where split=test""",
)
def set_values(args: argparse.Namespace) -> None:
    from abreast.store.user_tables import tables

    address, (column, text) = store_argument.split_words(args, "set", "COLUMN VALUE")
    flags = [word for condition in args.where for word in ("--where", condition)]
    flags += ["--table", args.table] if args.table is not None else []
    equal = dict(map(_condition, args.where))
    if args.track_id is not None:
        equal["track_id"] = args.track_id
        flags += ["--track-id", args.track_id]
    with store_argument.find_store(address, args.engine) as store:
        table = store_argument.table_name(args)
        question = f"set {column} to {text} in {many(tables.rows_with(store, table, equal), 'row')} of {table}?"
        store_argument.require_confirmation(args, store, question, ["set", column, text, *flags])
        changed = tables.set_values(store, table, column, _value(text), equal)
        store.materialise()
    echo(f"set {column} in {many(changed, 'row')} of {table}")


def _condition(word: str) -> tuple[str, Any]:
    column, equals, text = word.partition("=")
    if not equals:
        raise BadInput(f"set: --where {word} has no value", f"use --where {word}=VALUE")
    return column, _value(text)


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, bool | int | float) else text


@command(
    "rename",
    words("[STORE] OLD NEW", "+", "columns of predictions, such as params_lr"),
    argument("--experiment", metavar="NAME", help="only in runs of this experiment"),
    argument("--table", metavar="T", default=TABLE, help=f"a table that trackers write (default: {TABLE})"),
    "--yes --store",
    epilog="""\
Earlier and later rows then share a column. Answers to requests with the old parameter name are not reused for
requests with the new one. You are asked to confirm; without a terminal, --yes is required.""",
)
def rename(args: argparse.Namespace) -> None:
    from abreast.store.user_tables import column_renames
    from abreast.store.user_tables.tracked_rows import plain_name

    address, (old, new) = store_argument.split_words(args, "rename", "OLD NEW")
    table = plain_name(args.table)
    with store_argument.find_store(address) as store:
        if args.experiment is not None:
            store_argument.check_experiment(args.experiment, store)
        values = column_renames.count_tracked_values(store, table, old) if args.experiment is None else None
        affected, parts = None, [] if values is None else [f"{many(values, 'tracked value')} of {table}"]
        if table == TABLE and (values is None or column_renames.is_prediction_column(store, old)):
            kind, before, after = column_renames.resolve_rename(store, old, new)
            affected = column_renames.affected(store, kind, before, args.experiment)
            parts += [f"{many(len(affected.runs), 'run')}, {many(affected.rows, 'row')}"] if affected.runs else []
        if not parts:
            where = f"run of {args.experiment}" if args.experiment else f"row of {table}"
            raise BadInput(f'no {where} has a column "{old}"', f"run `abreast columns --table {table}` to list columns")
        values_and_runs = " and ".join(parts)
        flags = ["--experiment", args.experiment] if args.experiment is not None else []
        flags += ["--table", args.table] if args.table != TABLE else []
        question = f"rename {old} to {new} in {values_and_runs}?"
        store_argument.require_confirmation(args, store, question, ["rename", old, new, *flags])
        if affected is not None and affected.runs:
            column_renames.rename(store, kind, before, after, args.experiment)
        if values is not None:
            column_renames.rename_tracked(store, table, old, new)
        echo(f"renamed {old} to {new} in {values_and_runs}")
        store.materialise()
