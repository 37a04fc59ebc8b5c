"""`abreast delete`: remove runs, or what a tracker wrote, with everything that is theirs."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput, suggestion
from abreast.filenames import relative_path
from abreast.output import echo, say
from abreast.store import Store
from abreast.text import many

EPILOG = """NAME is the full name of a run, or the full track_id of a Tracker: its rows in all tables are deleted, with
what is cached of them. You are asked to confirm; without a terminal, --yes is required.
  abreast delete brave-otter-4821
  abreast delete results.db --debug --yes"""

MOST_NAMES = 5_000  # searched for a similar one


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
    store_argument.add_shared(parser, "--yes", "--store")


def main(args: argparse.Namespace) -> int:
    from abreast.targets.processes.cleanup import clean

    words = list(args.words)
    address = words.pop(0) if words and not args.store and store_argument.names_store(words[0]) else args.store
    clean()
    with store_argument.find_store(address) as store:
        if not words and not args.debug:
            raise BadInput(
                "delete: name runs or track_ids, or --debug for all debug runs",
                "abreast runs lists runs; abreast ls track_id --unique what was tracked",
            )
        chosen = _chosen(store, words)
        if args.debug:
            chosen.runs |= {run["run"]: run for run in store.runs() if run["debug"]}
        if not chosen:
            say("no debug run to delete")
            return 0
        if not store_argument.is_confirmed(args, _question(chosen), _command(store, words, args.debug)):
            say("nothing deleted")
            return 1
        _delete_tracked(store, chosen.tracked)
        _delete_runs(store, chosen.runs)
        store.materialise()
    return 0


def _chosen(store: Store, words: list[str]) -> Chosen:
    """The runs and tracked rows with exactly these names. What a name merely suggests is never deleted."""
    from abreast.store.user_tables import tables

    chosen = Chosen()
    runs = {run["run"]: run for run in store.runs()}
    for word in words:
        rows = tables.written_as(store, word)
        if word in runs:
            chosen.runs[word] = runs[word]
        if rows:
            chosen.tracked[word] = rows
        if word not in runs and not rows:
            raise _not_a_full_name(store, word)
    return chosen


def _not_a_full_name(store: Store, word: str) -> BadInput:
    from abreast.store.run_names import matching_runs, shorten
    from abreast.store.user_tables import tables

    where, tracked = store_argument.option(store), tables.track_ids(store)
    matches = [*matching_runs(store, word), *(name for name in tracked if word and name.startswith(word))]
    if len(matches) == 1:
        return BadInput(
            f'delete takes full names only; "{word}" matches {matches[0]}', f"abreast delete {matches[0]}{where}"
        )
    if matches:
        return BadInput(f'delete takes full names only; "{word}" matches {len(matches):,}: {shorten(matches)}')
    known = [*(run["run"] for run in store.runs()), *tracked][-MOST_NAMES:]
    return BadInput(
        f'{store.path}: no run or track_id "{word}"{suggestion(word, known)}',
        f"abreast runs{where}, or: abreast ls track_id --unique{where}",
    )


def _question(chosen: Chosen) -> str:

    parts = []
    if chosen.runs:
        trials = sum(run["stored_trials"] for run in chosen.runs.values())
        parts.append(f"{', '.join(chosen.runs)} with {many(trials, 'trial')} and the report")
    parts += [f"{name} with {_rows_in_words(rows)}" for name, rows in chosen.tracked.items()]
    return f"delete {'; '.join(parts)}?"


def _rows_in_words(rows: dict[str, int]) -> str:

    return ", ".join(f"{many(count, 'row')} of {table}" for table, count in rows.items())


def _delete_tracked(store: Store, names: dict[str, dict[str, int]]) -> None:
    from abreast.store.user_tables import tables

    for name in names:
        echo(f"deleted {name}: {_rows_in_words(tables.delete(store, name)) or 'it was gone already'}")


def _delete_runs(store: Store, runs: dict[str, dict[str, Any]]) -> None:
    from abreast.report import folder

    if runs:
        removed = store.delete(list(runs))
        store.close()
        echo(f"deleted {', '.join(runs)}: {many(removed, 'trial')}")
        for run in runs:
            _tell(folder.remove(store, run))


def _tell(report: tuple[Path, list[str]] | None) -> None:
    if report is None:
        return
    folder, foreign = report
    if foreign:
        echo(f"left {relative_path(folder)}: {', '.join(foreign)} was not written by abreast, or changed since")
    else:
        echo(f"removed {relative_path(folder)} with its report")


def _command(store: Store, words: list[str], debug: bool) -> str:
    flags = ["--debug", "--yes"] if debug else ["--yes"]
    return f"{shlex.join(['abreast', 'delete', *words, *flags])}{store_argument.option(store)}"
