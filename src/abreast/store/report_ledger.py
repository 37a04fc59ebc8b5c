"""Ledgers of the files that abreast wrote next to a store: reports of runs and exported results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

RUNS = "runs"  # the folder with a folder of reports per run
LEDGER = ".abreast.json"  # in the folder of a run: its report files and their digests
STORE_FOLDER = "../../"  # the folder of the store, relative to a ledger
OWNER = "/store"  # key of the store's URL, not a path; missing if the store is a file


def read_ledger(folder: Path) -> dict[str, str]:
    """Return the digests of the files in a ledger, by their paths relative to its folder."""
    if not (folder / LEDGER).is_file():
        return {}
    try:
        ledger = json.loads((folder / LEDGER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return ledger if isinstance(ledger, dict) else {}


def exported_files(ledger: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and digest of the files that a run wrote next to the store."""
    for path, digest in ledger.items():
        name = path.removeprefix(STORE_FOLDER)
        if path.startswith(STORE_FOLDER) and Path(name).name == name:
            yield name, digest


def report_folders(folder: Path) -> Iterator[Path]:
    for ledger in (folder / RUNS).glob(f"*/{LEDGER}"):
        yield ledger.parent
