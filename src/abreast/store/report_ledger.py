"""What lies beside a store and comes from it: the reports of its runs, and files of results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

RUNS = "runs"  # the folder of reports, one folder for each run
LEDGER = ".abreast.json"  # in the folder of a run: which files are reports, and what they held
STORE_FOLDER = "../../"  # from there to where the store is


def read_ledger(folder: Path) -> dict[str, str]:
    """What a ledger says: files by their path from its folder, with digests of what they held."""
    if not (folder / LEDGER).is_file():  # nor a pipe
        return {}
    try:
        found = json.loads((folder / LEDGER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def exported_files(ledger: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The plain names of files that a run put beside the store, and what they held."""
    for path, digest in ledger.items():
        name = path.removeprefix(STORE_FOLDER)
        if path.startswith(STORE_FOLDER) and Path(name).name == name:
            yield name, digest


def report_folders(place: Path) -> Iterator[Path]:
    """The folders of runs with reports, of stores in this place."""
    for ledger in (place / RUNS).glob(f"*/{LEDGER}"):
        yield ledger.parent
