"""Columns of any table become the fields of cases, by `cases: {file: ...}` and by `--map`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abreast import Experiment
from abreast.errors import BadInput
from conftest import Folder

TABLE = """\
number,question,context,answer,kind,level,document
7,How many?,a b c,3,count,easy,one
8,Which?,,b,choice,hard,two
"""


def run(folder: Folder, cases: Any, *words: str) -> list[dict[str, Any]]:
    spec = {
        "cases": cases,
        "variants": {"only": {"prompt": "{{ input }}"}},
        "target": "simulated",
        "scorers": ["exact"],
    }
    folder.write("spec.yaml", json.dumps(spec))
    (folder.path / "results.db").unlink(missing_ok=True)
    done = folder.abreast("run", "spec.yaml", "--quiet", *words)
    assert done.code == 0, done.err
    return folder.sql("select case_id, prompt, expected, tag_kind, tag_level from predictions order by case_id")


COLUMNS = {
    "file": "table.csv",
    "id": "number",
    "input": "question",
    "expected": "answer",
    "tags": ["kind", "level"],
    "group": "document",
}


def test_columns_make_cases(folder: Folder) -> None:
    folder.write("table.csv", TABLE)
    rows = run(folder, COLUMNS)
    assert [(row["case_id"], row["prompt"], row["tag_kind"]) for row in rows] == [
        ("7", "How many?", "count"),
        ("8", "Which?", "choice"),
    ]
    assert [row["expected"] for row in rows] == ["3", "b"]


def test_values_have_the_requested_type(folder: Folder) -> None:
    folder.write("table.csv", "q,n,b,j,t\nx,3,true,[1],5\n")
    columns = {"n": "n:number", "b": "b:boolean", "j": "j:json", "t": "t"}
    rows = run(folder, {"file": "table.csv", "input": "q", "expected": columns, "tags": {"kind": "t", "level": "n"}})
    assert json.loads(rows[0]["expected"]) == {"n": 3, "b": True, "j": [1], "t": "5"}


def test_the_flag_maps_columns_of_the_file_in_the_spec(folder: Folder) -> None:
    folder.write("table.csv", TABLE)
    words = [
        word
        for pair in ("id=number", "input=question", "expected=answer", "tags=kind,level")
        for word in ("--map", pair)
    ]
    mapped = run(folder, "table.csv", *words)
    assert mapped == run(folder, COLUMNS)


def test_keys_of_json_lines_are_columns_too(folder: Folder) -> None:
    folder.write("table.csv", TABLE)
    folder.write("rows.jsonl", '{"q": "How many?", "a": 3, "more": {"x": 1}}\n{"q": "Which?", "a": 4}\n')
    rows = run(folder, {"file": "rows.jsonl", "input": "q", "expected": "a", "tags": {"kind": "q", "level": "q"}})
    assert {row["prompt"] for row in rows} == {"How many?", "Which?"}


@pytest.mark.parametrize(
    ("cases", "parts"),
    [
        ({"file": "table.csv", "input": "qestion"}, ["table.csv", 'no column "qestion"', 'did you mean "question"?']),
        ({"file": "table.csv", "expected": "answer"}, ["no column for input"]),
        ({"file": "table.csv", "input": "question", "expcted": "answer"}, ['"expcted"', 'did you mean "expected"?']),
        (
            {"file": "table.csv", "input": "question", "expected": "answer:number"},
            ["table.csv:3", '"b" is not of type number'],
        ),
        ({"file": "table.csv", "input": 3}, ["input must be a column"]),
        ({"file": 3, "input": "question"}, ["file must be the name of a file"]),
        ({"file": "nowhere.csv", "input": "question"}, ["nowhere.csv", "no such file"]),
        ({"input": "question"}, ["cases", "{file: FILE"]),
    ],
)
def test_an_invalid_mapping_is_refused_with_its_location(folder: Folder, cases: Any, parts: list[str]) -> None:
    folder.write("table.csv", TABLE)
    folder.write("spec.yaml", json.dumps({"cases": cases, "variants": {"only": {}}, "target": "simulated"}))
    done = folder.abreast("check", "spec.yaml")
    assert done.code == 2
    for part in parts:
        assert part in done.err


def test_the_flag_needs_one_file(folder: Folder) -> None:
    folder.write("spec.yaml", json.dumps({"cases": [{"input": "x"}], "variants": {"only": {}}, "target": "simulated"}))
    done = folder.abreast("run", "spec.yaml", "--map", "input=question")
    assert done.code == 2
    assert "only for a file" in done.err
    assert folder.abreast("run", "spec.yaml", "--map", "question").code == 2


def test_the_mapping_works_in_python(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(TABLE)
    built = Experiment(
        cases=str(tmp_path / "table.csv"),
        variants={"only": {}},
        target="simulated",
        scorers=["exact"],
        store=str(tmp_path / "results.db"),
    )
    result = built.run(columns={"input": "question", "expected": "answer:text"})
    assert {row["expected"] for row in result.rows()} == {"3", "b"}
    with pytest.raises(BadInput, match="no column"):
        built.run(columns={"input": "nothing"})
