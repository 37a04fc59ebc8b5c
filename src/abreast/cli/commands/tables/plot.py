"""`abreast plot`: columns of a table as a picture in the terminal."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.errors import BadInput, suggestion
from abreast.output import echo, listings

EPILOG = """  hist COLUMN         how often numbers fall where
  bar COLUMN [Y]      how often each value occurs; or the mean of Y for each
  scatter X Y         a point a row
  line X Y            the mean of Y for each X
The store may come before or after the kind: abreast plot hist results.db accuracy"""

KINDS = {"hist": (1, 1), "bar": (1, 2), "scatter": (2, 2), "line": (2, 2)}  # how many columns they take


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] hist|bar|scatter|line COLUMN", nargs="*")
    parser.add_argument("--bins", type=int, default=20, metavar="N", help="of hist (20)")
    store_argument.add_shared(parser, "--table", "--engine", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.report.words.text_charts import bar_chart, histogram, point_chart
    from abreast.store.user_tables.tables import read

    store, words = store_argument.store_and_words(args, KINDS)
    with store:
        kind, keys = _asked(words)
        name = store_argument.table_name(args)
        frame = read(store, name, keys=list(dict.fromkeys(keys)))
        if not len(frame):
            listings.show([], args.json, store_argument.no_rows(store, name))
            return 0
    columns = {key: list(frame.columns[key]) for key in keys}
    if kind == "hist":
        rows, lines = histogram(keys[0], columns[keys[0]], args.bins)
    elif kind == "bar":
        rows, lines = bar_chart(keys, [columns[key] for key in keys])
    else:
        rows, lines = point_chart(keys, [columns[key] for key in keys], joined=kind == "line")
    if args.json:
        listings.show_json(rows)
    else:
        echo("\n".join(lines))
    return 0


def _asked(words: list[str]) -> tuple[str, list[str]]:
    kind, keys = (words[0], words[1:]) if words else ("", [])
    if kind not in KINDS:
        known = suggestion(kind, KINDS) if kind else ""
        raise BadInput(f'plot: what picture is wanted? "{kind}" is none{known}', "abreast plot hist COLUMN")
    least, most = KINDS[kind]
    if not least <= len(keys) <= most:
        wanted = "COLUMN" if kind == "hist" else "COLUMN [Y]" if kind == "bar" else "X Y"
        raise BadInput(f"plot {kind}: {len(keys)} columns are named", f"abreast plot {kind} {wanted}")
    return kind, keys
