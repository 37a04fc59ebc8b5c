"""Hostile names and texts in a store: nothing is written outside its folder, nothing runs in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from pathlib import Path

import pytest

from conftest import SIMULATED, Folder

FORMULAS = ["=1+1", "+1-1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "'=1+1", "＝1"]
STARTS = ("=", "+", "-", "@", "\t", "\r", "＝")
PLAIN = ["plain", "-3.5", "+1e3", "1-2", "", "'quoted'"]


@pytest.fixture
def foreign(folder: Folder) -> Folder:
    """A store in a nested folder, so that names such as ../../x would lead to a folder that the test checks."""
    path = folder.path / "some" / "where"
    path.mkdir(parents=True)
    folder.path = path
    folder.cases(4)
    folder.write("experiment.yaml", SIMULATED)
    assert folder.abreast("run", "experiment.yaml", "--quiet", "--no-pictures").code == 0
    (run,) = (path / "runs").iterdir()
    for file in (*run.iterdir(), run):
        file.unlink() if file.is_file() else file.rmdir()
    return folder


def change(folder: Folder, statement: str, *values: object) -> None:
    with sqlite3.connect(folder.path / "results.db") as connection:
        connection.execute(statement, values)
    connection.close()


def outside_files(folder: Folder) -> set[Path]:
    """All files near the store, except the folder of reports."""
    top, runs = folder.path.parent.parent, folder.path / "runs"
    return {path for path in top.rglob("*") if not path.is_relative_to(runs) and "results.db" not in path.name}


HOSTILE = ["../../x", "..", "/tmp/abreast-test-outside", "a/b", "a\0b", "\x1b[31mred\n", "x" * 10_000, "-rf", "nul", ""]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name)[:20])
def test_a_run_with_any_name_is_reported_and_deleted_inside_its_folder(foreign: Folder, name: str) -> None:
    change(foreign, "UPDATE runs SET run = ?", name)
    before = outside_files(foreign)
    assert foreign.abreast("report", "--format", "html,json,csv,svg").code == 0
    assert [row["run"] for row in foreign.abreast("runs", "--json").json] == [name]
    assert foreign.abreast("show", "--json").code == 0
    assert outside_files(foreign) == before
    assert not Path("/tmp/abreast-test-outside").exists()
    (report,) = (foreign.path / "runs").iterdir()
    assert report.name.isascii()
    assert report.name[0].isalnum()
    assert len(report.name) < 100
    assert (report / "report.html").is_file()
    done = foreign.abreast("delete", "--yes", "--store", "results.db", "--", name)
    assert done.code == 0, done.output
    assert foreign.abreast("runs", "--json").json == []
    assert not (foreign.path / "runs").exists()
    assert outside_files(foreign) == before


def test_names_of_cases_variants_and_artifacts_do_not_escape_the_report_folder(foreign: Folder) -> None:
    change(foreign, "UPDATE cases SET id = '../../../../' || id")
    change(foreign, "UPDATE variants SET name = '../../../../' || name")
    change(foreign, "UPDATE runs SET baseline = '../../../../' || baseline")
    change(
        foreign,
        "INSERT INTO artifacts (run_id, position, name, content) SELECT run_id, position, '../../../../x', 'text' "
        "FROM trials",
    )
    before = outside_files(foreign)
    assert foreign.abreast("report", "--format", "html,svg").code == 0
    assert outside_files(foreign) == before
    text_files = [path for path in (foreign.path / "runs").rglob("*.txt") if path.read_bytes() == b"text"]
    assert len(text_files) == 8, "an artifact for each trial"


def test_latest_means_the_latest_run_even_if_another_run_has_that_name(foreign: Folder) -> None:
    change(foreign, "UPDATE runs SET run = 'latest'")
    assert foreign.abreast("run", "experiment.yaml", "--fresh", "--quiet", "--no-pictures").code == 0
    names = [row["run"] for row in foreign.abreast("runs", "--json").json]
    assert names[0] == "latest"
    assert foreign.abreast("show", "--json").json[0]["run"] == names[1]
    assert foreign.abreast("show", "previous", "--json").json[0]["run"] == "latest"


def cells(text: str) -> set[str]:
    return {cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row}


def with_answers(folder: Folder) -> list[str]:
    """A store whose answers are formulas and other texts, with these answers."""
    answers = [*FORMULAS, *PLAIN]
    folder.cases(len(answers))
    folder.write("answers.json", json.dumps(answers))
    folder.write(
        "say.py",
        """\
        import json
        from pathlib import Path

        from abreast import Answer

        ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text())

        def predict(case):
            return Answer(ANSWERS[int(case.id[1:])], data={"balance": -3.5})
        """,
    )
    folder.write("spec.yaml", "name: say\ncases: cases.jsonl\nvariants: {only: {target: 'python:say:predict'}}\n")
    assert folder.abreast("run", "spec.yaml", "--quiet").code == 0
    return answers


def test_formulas_are_escaped_in_the_csv_report_and_exact_in_an_export(folder: Folder) -> None:
    answers = with_answers(folder)
    report = folder.abreast("report", "--format", "csv")
    values = cells(report.out)
    assert values >= {f"'{text}" for text in FORMULAS} | set(PLAIN)
    assert {cell for cell in values if cell.startswith(STARTS)} == {"-3.5", "+1e3"}, "numbers stay numbers"
    exact = cells(folder.abreast("report", "--format", "csv", "--no-escape-formulas").out)
    assert exact >= set(answers)
    assert folder.abreast("export", "--output", "rows.csv").code == 0
    assert cells((folder.path / "rows.csv").read_bytes().decode()) >= set(answers)


def test_an_export_can_escape_formulas_reversibly_with_one_quote(folder: Folder) -> None:
    answers = with_answers(folder)
    assert folder.abreast("export", "--escape-formulas", "--output", "rows.csv").code == 0
    text = (folder.path / "rows.csv").read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    escaped = [row["answer"] for row in sorted(rows, key=lambda row: int(row["case_id"][1:]))]
    assert {cell for cell in escaped if cell.startswith(STARTS)} == {"-3.5", "+1e3"}
    assert [re.sub(r"^'(?='*[=+\-@\t\r\n＝＋－＠])", "", cell) for cell in escaped] == answers
    done = folder.abreast("export", "--escape-formulas", "--format", "jsonl")
    assert done.code == 2
    assert "--escape-formulas is for CSV" in done.err
