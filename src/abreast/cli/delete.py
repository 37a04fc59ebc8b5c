"""`abreast delete`: remove runs, or what a tracker wrote, with everything that is theirs."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast.cli import stores
from abreast.errors import BadInput, suggestion
from abreast.store import Store

EPILOG = """NAME is a run, or the track_id of a Tracker: its rows in all tables go, with what is cached of them.
  abreast delete brave-otter-4821
  abreast delete results.db --debug --yes"""

MOST_NAMES = 5_000  # looked through for one that was meant


@dataclass(slots=True)
class Chosen:
    """What goes: runs by their name, and names of trackers with how many rows of which table they wrote."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    tracked: dict[str, dict[str, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.runs or self.tracked)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] NAME", nargs="*")
    parser.add_argument("--debug", action="store_true", help="every run that was marked as debug")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    stores.argument(parser)


def main(args: argparse.Namespace) -> int:
    words = list(args.words)
    given = words.pop(0) if words and not args.store and stores.looks_like_store(words[0]) else args.store
    with stores.find_store(given) as store:
        if not words and not args.debug:
            raise BadInput(
                "delete: name runs or track_ids, or --debug for all debug runs",
                "abreast runs lists runs; abreast ls track_id --unique what was tracked",
            )
        chosen = _chosen(store, words)
        if args.debug:
            chosen.runs |= {run["run"]: run for run in store.runs() if run["debug"]}
        if not chosen:
            print("no debug run to delete", file=sys.stderr)
            return 0
        if not _agreed(_question(chosen), args.yes, bool(words)):
            print("nothing deleted", file=sys.stderr)
            return 1
        _delete_tracked(store, chosen.tracked)
        _delete_runs(store, chosen.runs)
        store.materialise()
    return 0


def _chosen(store: Store, words: list[str]) -> Chosen:
    """What the words name: runs, what was tracked, or both; the start of a name will do if only one begins so."""
    from abreast.store import tables

    chosen = Chosen()
    runs, tracked = {run["run"]: run for run in store.runs()}, tables.track_ids(store) if words else []
    known = [*dict.fromkeys([*runs, *tracked])]
    for word in words:
        name = _meant(store, store.run(word)["run"] if word in ("latest", "previous") else word, known)
        if name in runs:
            chosen.runs[name] = runs[name]
        if rows := tables.written_as(store, name):
            chosen.tracked[name] = rows
    return chosen


def _meant(store: Store, word: str, known: list[str]) -> str:
    matching = [name for name in known if name == word] or [name for name in known if name.startswith(word)]
    if len(matching) != 1:
        near = known[-MOST_NAMES:]
        hint = f" (several begin so: {', '.join(matching[:5])})" if matching else suggestion(word, near)
        raise BadInput(
            f'{store.path}: nothing is called "{word}", no run and no track_id{hint}',
            f"abreast runs{stores.option(store)}, or: abreast ls track_id --unique{stores.option(store)}",
        )
    return matching[0]


def _question(chosen: Chosen) -> str:
    from abreast.report.sentence import many

    parts = []
    if chosen.runs:
        trials = sum(run["stored_trials"] for run in chosen.runs.values())
        parts.append(f"{', '.join(chosen.runs)} with {many(trials, 'trial')} and the report")
    parts += [f"{name} with {_rows_in_words(rows)}" for name, rows in chosen.tracked.items()]
    return f"delete {'; '.join(parts)}?"


def _rows_in_words(rows: dict[str, int]) -> str:
    from abreast.report.sentence import many

    return ", ".join(f"{many(count, 'row')} of {table}" for table, count in rows.items())


def _delete_tracked(store: Store, names: dict[str, dict[str, int]]) -> None:
    from abreast.store import tables

    for name in names:
        print(f"deleted {name}: {_rows_in_words(tables.delete(store, name)) or 'it was gone already'}")


def _delete_runs(store: Store, runs: dict[str, dict[str, Any]]) -> None:
    from abreast.report import folder
    from abreast.report.sentence import many
    from abreast.targets import orphans

    if runs:
        orphans.reap(store.abandoned())  # with the run goes the mark by which they are known
        removed = store.delete(list(runs))
        store.close()
        print(f"deleted {', '.join(runs)}: {many(removed, 'trial')}")
        for run in runs:
            _tell(folder.remove(store, run))


def _tell(report: tuple[Path, list[str]] | None) -> None:
    if report is None:
        return
    folder, foreign = report
    if foreign:
        print(f"left {stores.shown(folder)}: {', '.join(foreign)} was not written by abreast, or changed since")
    else:
        print(f"removed {stores.shown(folder)} with its report")


def _agreed(question: str, yes: bool, named: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        if named:
            return True
        raise BadInput("delete --debug needs --yes where nobody can be asked")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
