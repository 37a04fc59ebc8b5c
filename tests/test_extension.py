"""Runs that extend earlier ones: what was looked at keeps its order, and the final interval is used once."""

from __future__ import annotations

import json

from abreast.analyse.rows import Rows
from abreast.store import open_store
from conftest import Folder

SPEC = """\
name: growing
cases: cases.jsonl
variants:
  plain: {target: simulated, accuracy: 0.6}
  better: {target: simulated, accuracy: 0.7}
scorers: [exact]
"""


def write_cases(folder: Folder, numbers: range | list[int], group_size: int = 0) -> None:
    """Cases c0, c1, ... in the file; `group_size` puts that many neighbours into one group."""
    lines = [
        {
            "id": f"c{n}",
            "input": f"question {n}",
            "expected": "yes",
            **({"group": f"g{n // group_size}"} if group_size else {}),
        }
        for n in numbers
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def run(folder: Folder, *words: str, code: int = 0) -> str:
    """The name of the run."""
    folder.write("experiment.yaml", SPEC)
    done = folder.abreast("run", "experiment.yaml", "--quiet", "--json", *words)
    assert done.code == code, done.said
    name: str = done.json[0]["run"]
    return name


def test_the_size_of_the_largest_group_is_stored_with_the_run(folder: Folder) -> None:
    write_cases(folder, range(7))
    ungrouped = run(folder)
    write_cases(folder, range(7), group_size=3)
    grouped = run(folder)
    with open_store(folder.path / "results.db") as store:
        assert Rows(store, ungrouped).largest_group is None
        assert Rows(store, grouped).largest_group == 3


def test_of_an_older_run_the_largest_group_is_counted_among_the_cases_with_rows(folder: Folder) -> None:
    write_cases(folder, range(7), group_size=3)
    name = run(folder)
    remove = "update runs set provenance = json_remove(provenance, '$.largest_group')"
    assert folder.abreast("sql", "--write", "results.db", remove).code == 0
    with open_store(folder.path / "results.db") as store:
        assert Rows(store, name).largest_group == 3
