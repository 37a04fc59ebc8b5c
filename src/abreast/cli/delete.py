"""`abreast delete`: remove runs with everything that is theirs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from abreast.cli import stores
from abreast.errors import BadInput


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] RUN", nargs="*")
    parser.add_argument("--debug", action="store_true", help="every run that was marked as debug")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    stores.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.execute import orphans
    from abreast.report import folder
    from abreast.report.sentence import many

    words = list(args.words)
    given = words.pop(0) if words and not args.store and stores.looks_like_store(words[0]) else args.store
    with stores.find_store(given) as store:
        if not words and not args.debug:
            raise BadInput("delete: name the runs, or --debug for all debug runs", "abreast runs lists them")
        chosen = [store.run(word) for word in words]
        if args.debug:
            chosen += [run for run in store.runs() if run["debug"] and run["run"] not in {one["run"] for one in chosen}]
        if not chosen:
            print("no debug run to delete", file=sys.stderr)
            return 0
        trials = sum(run["stored_trials"] for run in chosen)
        names = ", ".join(run["run"] for run in chosen)
        if not _agreed(f"delete {names} with {many(trials, 'trial')} and the report?", args.yes, bool(words)):
            print("nothing deleted", file=sys.stderr)
            return 1
        orphans.reap(store.abandoned())  # with the run goes the mark by which they are known
        removed = store.delete([run["run"] for run in chosen])
        store.close()
        print(f"deleted {names}: {many(removed, 'trial')}")
        for run in chosen:
            _tell(folder.remove(store, run["run"]))
        store.materialise()
    return 0


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
