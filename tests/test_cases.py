"""Cases: every format, errors with lines, and files larger than memory."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast import Case, Experiment
from abreast.errors import BadInput
from abreast.spec.cases import CaseTable, Selection, load_cases
from conftest import Folder

SPEC = "cases: {cases}\nvariants: {{a: {{target: simulated}}}}\nscorers: [exact]\n"


def read(folder: Folder, cases: Any) -> list[Case]:
    with closing(load_cases(cases, folder.path)) as table:
        return [table[index] for index in range(len(table))]


def refused(folder: Folder, cases: str = "cases.jsonl", *options: str) -> str:
    """The error of a run that refuses these cases, after a check that it created nothing."""
    folder.write("experiment.yaml", SPEC.format(cases=cases))
    before = sorted(path.name for path in folder.path.rglob("*"))
    done = folder.abreast("run", "experiment.yaml", *options)
    assert done.code == 2, done.output
    assert done.err.startswith("error: ")
    assert sorted(path.name for path in folder.path.rglob("*")) == before
    for jargon in ("dict", "NoneType", "JSON serializable", "recursion", "set_int_max", "codec"):
        assert jargon not in done.err
    return done.err


THREE = [
    Case("a", "one\ntwo", "x, y", {"level": "1", "kind": "easy"}, "g"),
    Case("b", 'say "hi"', "é", {"level": "2"}),
    Case("c", "three", "4"),
]


def _as_dict(case: Case) -> dict[str, Any]:
    values = {"id": case.id, "input": case.input, "expected": case.expected, "tags": case.tags, "group": case.group}
    return {key: value for key, value in values.items() if value not in (None, {})}


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson"])
def test_json_lines_may_have_comments_blank_lines_and_a_byte_order_mark(folder: Folder, suffix: str) -> None:
    lines = ["// what is asked", "", *(json.dumps(_as_dict(case)) for case in THREE[:2]), "   ", "  // more"]
    lines += [json.dumps(_as_dict(THREE[2]), ensure_ascii=False)]
    folder.write(f"cases.{suffix}", b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert read(folder, f"cases.{suffix}") == THREE


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t")])
def test_tables_take_quoted_line_breaks_tags_and_empty_cells(folder: Folder, suffix: str, separator: str) -> None:
    rows = [
        ["id", "input", "expected", "tag_level", "tag.kind", "group"],
        ["a", '"one\ntwo"', '"x, y"', "1", "easy", "g"],
        ["b", '"say ""hi"""', "é", "2", "", ""],
        ["c", "three", "4", "", "", ""],
    ]
    text = "\n".join(separator.join(row) for row in rows) + "\n\n"
    folder.write(f"cases.{suffix}", text.encode("utf-8-sig"))
    assert read(folder, f"cases.{suffix}") == THREE


def test_columns_of_input_and_expected_make_mappings(folder: Folder) -> None:
    folder.write("cases.csv", "id,input.question,input.hint,expected.low,tags.level\na,why?,,3,easy\n")
    assert read(folder, "cases.csv") == [Case("a", {"question": "why?", "hint": ""}, {"low": "3"}, {"level": "easy"})]


def test_parquet_keeps_types_and_takes_the_same_columns(folder: Folder) -> None:
    path = folder.path / "cases.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT * FROM (VALUES "
            "('a', 'why', 4, 'easy', DATE '2026-01-02', [1, 2], 1.50::DECIMAL(5,2)),"
            "('b', 'how', NULL, NULL, DATE '2026-01-03', [3], 2.00::DECIMAL(5,2)))"
            f'AS t(id, "input.text", expected, tag_level, "input.day", "input.list", "input.price")) '
            f"TO '{path}' (FORMAT parquet)"
        )
    assert read(folder, "cases.parquet") == [
        Case("a", {"text": "why", "day": "2026-01-02", "list": [1, 2], "price": 1.5}, 4, {"level": "easy"}),
        Case("b", {"text": "how", "day": "2026-01-03", "list": [3], "price": 2}, None, {}),
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_yaml_and_json_files_hold_a_list_of_cases(folder: Folder, wrapped: bool) -> None:
    cases: Any = [_as_dict(case) for case in THREE]
    cases = {"cases": cases} if wrapped else cases
    folder.write("cases.json", json.dumps(cases))
    folder.write("cases.yaml", json.dumps(cases))  # YAML is a superset
    assert read(folder, "cases.json") == read(folder, "cases.yaml") == THREE


def test_patterns_and_lists_take_several_files_in_order(folder: Folder) -> None:
    for name in ("b", "a", "c"):
        folder.write(f"cases/{name}.jsonl", json.dumps({"id": name, "input": name}))
    folder.write("cases/deeper/d.csv", "id,input\nd,d\n")
    assert [case.id for case in read(folder, "cases/*.jsonl")] == ["a", "b", "c"]
    assert [case.id for case in read(folder, "cases/**/*.*")] == ["a", "b", "c", "d"]
    assert [case.id for case in read(folder, str(folder.path / "cases" / "[ab].jsonl"))] == ["a", "b"]
    mixed = ["cases/c.jsonl", "cases/deeper/d.csv", {"id": "z", "input": "inside"}]
    assert [case.id for case in read(folder, mixed)] == ["c", "d", "z"]


def test_names_of_the_code_search_format_are_accepted(folder: Folder) -> None:
    case = {
        "id": "s1",
        "prompt": "where is the parser?",
        "ground_truth": {"files": ["a.py"]},
        "category": "navigate",
        "difficulty": "hard",
        "description": "not used",
        "tags": {"lang": "py"},
    }
    folder.write("cases.jsonl", json.dumps(case))
    tags = {"lang": "py", "category": "navigate", "difficulty": "hard"}
    assert read(folder, "cases.jsonl") == [Case("s1", "where is the parser?", {"files": ["a.py"]}, tags)]


def test_tags_are_converted_to_text(folder: Folder) -> None:
    folder.write("cases.yaml", "- {input: x, tags: {a: 1, b: true, c: 1.5, d: text}}")
    assert read(folder, "cases.yaml")[0].tags == {"a": "1", "b": "true", "c": "1.5", "d": "text"}


def test_cases_without_ids_are_named_after_their_content(folder: Folder) -> None:
    text_case, mapping_case = {"input": "one", "expected": "1"}, {"input": {"n": 2}}
    ids = [case.id for case in read(folder, [text_case, mapping_case, text_case, text_case])]
    assert ids[2] == f"{ids[0]}-2"
    assert ids[3] == f"{ids[0]}-3"
    assert len(set(ids)) == 4
    later_ids = [case.id for case in read(folder, [{"input": "something above"}, mapping_case, text_case])]
    assert later_ids[1:] == [ids[1], ids[0]]
    folder.write("cases.jsonl", json.dumps(text_case))
    assert [case.id for case in read(folder, "cases.jsonl")] == ids[:1]


PYTHON = """
from abreast import Case

def listed():
    return [{"id": "a", "input": "x", "expected": "y"}, Case("b", "z", "y")]

def generated():
    for n in range(3):
        yield {"id": f"g{n}", "input": n, "expected": "y"}

def raises():
    raise RuntimeError("no network")

def raises_later():
    yield {"input": "x", "expected": "y"}
    raise RuntimeError("lost the line")

def number():
    return 5

def text():
    return "cases"

def mapping():
    return {"input": "x"}

def odd():
    return [{"input": "x", "expected": "y"}, 7]

def nothing():
    return []

def wants(more):
    return []

def objects():
    return [Case("t", (1, 2), {3, 4})]
"""


def test_a_python_function_returns_cases(folder: Folder) -> None:
    folder.write("mine.py", PYTHON)
    for name, ids in (("listed", ["a", "b"]), ("generated", ["g0", "g1", "g2"])):
        folder.write("experiment.yaml", SPEC.format(cases=f"python:mine:{name}"))
        done = folder.abreast("run", "experiment.yaml", "--store", f"{name}.db", "--quiet")
        assert done.code == 0, done.output
        rows = folder.sql("SELECT case_id FROM predictions ORDER BY case_id", f"{name}.db")
        assert [row["case_id"] for row in rows] == ids


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", "python:mine:raises: raised RuntimeError: no network (mine.py:12)"),
        ("raises_later", "python:mine:raises_later, case 2: raised RuntimeError: lost the line"),
        ("number", "must return cases (a list or a generator), got a number"),
        ("text", "must return cases (a list or a generator), got text"),
        ("mapping", "must return cases (a list or a generator), got a mapping"),
        ("odd", "python:mine:odd, case 2: a case must be a mapping with input and expected, got 7"),
        ("nothing", 'experiment.yaml:1: cases: "python:mine:nothing" has no cases'),
        ("wants", "python:mine:wants: raised TypeError"),
        ("listd", 'has no "listd" (did you mean "listed"?)'),
    ],
)
def test_a_python_function_without_cases_is_named(folder: Folder, name: str, message: str) -> None:
    folder.write("mine.py", PYTHON)
    assert message in refused(folder, f"python:mine:{name}")


FACTORY = """
def made(count, prefix="c", *, sizes=()):
    sizes and sizes.pop()
    return [{"id": f"{prefix}{n}", "input": f"question {n} {list(sizes)}", "expected": "yes"} for n in range(count)]
def anything(**named):
    return [{"id": name, "input": str(value), "expected": "yes"} for name, value in named.items()]
def nothing(count):
    return [][:count]
def wants_a_place(count, /):
    return []
def breaks(count):
    raise RuntimeError("no network")
"""


def test_a_function_takes_arguments_from_the_spec(folder: Folder) -> None:
    folder.write("mine.py", FACTORY)
    for cases, ids in (
        ("{from: python:mine:made, count: 2}", ["c0", "c1"]),
        ("{count: 3, prefix: d, from: 'python:mine:made'}", ["d0", "d1", "d2"]),
        ("{from: python:mine:anything, one: 1, other: [2, {a: null}]}", ["one", "other"]),
    ):
        folder.write("experiment.yaml", SPEC.format(cases=cases))
        done = folder.abreast("run", "experiment.yaml", "--fresh", "--quiet")
        assert done.code == 0, done.output
        run = folder.abreast("runs", "--json").json[-1]["run"]
        rows = folder.sql(f"SELECT case_id FROM predictions WHERE run = '{run}' ORDER BY case_id")
        assert [row["case_id"] for row in rows] == ids


def test_a_function_with_arguments_works_from_python_too(folder: Folder) -> None:
    folder.write("mine.py", FACTORY)
    call = {"from": "python:mine:made", "count": 2, "sizes": [7, 8]}
    variants = {"a": {"target": "simulated"}}
    experiment = Experiment(cases=call, variants=variants, scorers=["exact"], base=folder.path)
    assert [row["case_id"] for row in experiment.run().rows()] == ["c0", "c1"]
    assert [case.input for case in read(folder, call)] == ["question 0 [7]", "question 1 [7]"]
    assert call["sizes"] == [7, 8], "changes of the function to its arguments do not leak"


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("{count: 2}", "experiment.yaml:1: cases must be a file such as cases.jsonl"),
        ("{count: 2}", "{from: python:module:function, NAME: VALUE}, or {file: FILE"),
        ("{from: 3, count: 2}", "experiment.yaml:1: cases: from must be text, got 3"),
        ("{from: mine.jsonl, count: 2}", 'experiment.yaml:1: cases: "mine.jsonl" is not a function reference'),
        ("{from: 'python:mine:mode', count: 2}", 'has no "mode" (did you mean "made"?)'),
        (
            "{from: 'python:mine:made', cuont: 2}",
            'experiment.yaml:1: cases: python:mine:made does not take "cuont" (did you mean "count"?)',
        ),
        ("{from: 'python:mine:made', cuont: 2}", "use the arguments count, prefix, sizes"),
        ("{from: 'python:mine:made', prefix: x}", 'cases: python:mine:made needs "count"'),
        (
            "{from: 'python:mine:made', prefix: x}",
            "add count: VALUE next to from; use the arguments count, prefix, sizes",
        ),
        ("{from: 'python:mine:anything', 3: 2}", "the key 3 is not text"),
        ("{from: 'python:mine:wants_a_place'}", "missing a required"),
        ("{from: 'python:mine:wants_a_place', count: 1}", 'does not take "count"'),
        ("{from: 'python:mine:nothing', count: 1}", 'experiment.yaml:1: cases: "python:mine:nothing" has no cases'),
        ("{from: 'python:mine:breaks', count: 1}", "python:mine:breaks: raised RuntimeError: no network (mine.py:"),
        ("{from: 'python:mine:breaks', count: 1}", "it is called as breaks(count=1)"),
    ],
)
def test_wrong_arguments_are_refused_with_the_right_ones(folder: Folder, cases: str, message: str) -> None:
    folder.write("mine.py", FACTORY)
    assert message in refused(folder, cases)


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, float("nan"), {1}, lambda: 1])
def test_an_argument_that_json_cannot_represent_is_refused(folder: Folder, value: Any) -> None:
    folder.write("mine.py", FACTORY)
    call = {"from": "python:mine:anything", "one": value}
    with pytest.raises(BadInput, match="cases: one must be a JSON value, got"):
        Experiment(cases=call, variants={"a": {"target": "simulated"}}, base=folder.path).check()


def test_a_run_with_cases_of_a_function_with_arguments_can_be_resumed(folder: Folder) -> None:
    folder.write("mine.py", FACTORY)
    text = """
        cases: {from: python:mine:made, count: 8}
        variants: {a: {target: simulated, cost_usd: 1}}
        scorers: [exact]
        limits: {budget_usd: 3}
        """
    folder.write("spec.yaml", text)
    assert folder.abreast("run", "spec.yaml").code == 3
    done = folder.abreast("run", "spec.yaml", "--budget", "5")
    assert done.code == 3, done.output
    folder.write("spec.yaml", "cases: gone")
    done = folder.abreast("resume", "--budget", "100")
    assert done.code == 0, done.output
    assert len(folder.abreast("runs", "--json").json) == 1
    assert len(folder.sql("SELECT case_id FROM predictions")) == 8


def test_python_objects_that_json_cannot_represent_are_kept(folder: Folder) -> None:
    case = Case("t", (1, 2), {3, 4})
    cases = read(folder, [case, Case("u", "plain", "text")])
    assert cases[0] == case
    assert (type(cases[0].input), type(cases[0].expected)) == (tuple, set)
    assert cases[1] == Case("u", "plain", "text")


def test_cases_made_in_python_follow_the_same_rules(folder: Folder) -> None:
    for case, message in (
        (Case("a", None), '"input" is missing'),
        (Case("a\0", "x"), "invisible character"),
        (Case(1.5, "x"), "id must be text"),  # type: ignore[arg-type]
        (Case("a", "x", tags=["t"]), "tags must be a mapping"),  # type: ignore[arg-type]
        (Case("a", {"n": float("nan")}), "input.n is NaN"),
    ):
        with pytest.raises(BadInput) as caught:
            read(folder, [Case("first", "x"), case])
        assert message in str(caught.value)
        assert str(caught.value).startswith("cases[1]: ")


GOOD = '{"id": "ok", "input": "x", "expected": "y"}\n'
BAD_LINES = [
    ('{"id": \n', "not valid JSON: a value is missing"),
    ("nonsense\n", "not valid JSON"),
    ('{"input": "x" "expected": "y"}', "not valid JSON: a comma or a closing bracket is missing (column 15)"),
    ("[1]\n", "a case must be a mapping with input and expected, got [1]"),
    ('{"input": "x", "input": "z"}', 'duplicate key "input"'),
    ('{"id": "a", "expected": "y"}', '"input" is missing'),
    ('{"id": "a", "input": null, "expected": "y"}', '"input" is missing'),
    ('{"id": "a", "input": "x"}', '"expected" is missing; the scorer "exact" needs it'),
    ('{"id": "ok", "input": "z", "expected": "y"}', 'duplicate case id "ok" (first at cases.jsonl:1)'),
    ('{"input": "x", "expectd": "y"}', 'unknown key "expectd" (did you mean "expected"?)'),
    ('{"input": "x", "prompt": "y"}', 'has both "prompt" and "input"'),
    ('{"input": "x", "tags": ["a"]}', 'tags must be a mapping such as {category: easy}, got ["a"]'),
    ('{"input": "x", "tags": {"a": null}}', "the tag a must be text, got nothing"),
    ('{"input": "x", "tags": {"a": {}}}', "the tag a must be text, got {}"),
    ('{"input": "x", "tags": {"a\\u0000": "b"}}', "is not a name"),
    ('{"id": 1.5, "input": "x"}', "id must be text, got 1.5"),
    ('{"id": true, "input": "x"}', "id must be text, got true"),
    ('{"id": " ", "input": "x"}', "id is empty"),
    ('{"id": "a\\u0000", "input": "x"}', "id contains an invisible character"),
    ('{"id": "\\ud800", "input": "x"}', "id contains half a character"),
    ('{"id": "' + "x" * 300 + '", "input": "x"}', "id is longer than 200 characters"),
    ('{"input": "x", "group": []}', "group must be text, got []"),
    ('{"input": "\\ud800"}', "input contains half a character"),
    ('{"input": {"a": NaN}}', "NaN is not valid JSON"),
    ('{"input": 1e999}', "input is infinite"),
    ('{"input": ' + "9" * 5000 + "}", "a number has more than 4,300 digits"),
    ('{"input": ' + "[" * 150 + "]" * 150 + "}", "input contains itself, or is nested more than 100 levels deep"),
    ('{"input": ' + "[" * 100_000 + "}", "nested too deeply"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES, ids=[message[:40] for _, message in BAD_LINES])
def test_a_bad_line_of_a_case_file_is_named(folder: Folder, line: str, message: str) -> None:
    folder.write("cases.jsonl", GOOD + "// comment\n\n" + line)
    error = refused(folder)
    assert error.startswith("error: cases.jsonl:4: ")
    assert message in error


def test_bad_utf8_names_its_line_in_every_text_format(folder: Folder) -> None:
    folder.write("cases.jsonl", GOOD.encode() + b'{"input": "\xff", "expected": "y"}')
    assert "cases.jsonl:2: not valid UTF-8" in refused(folder)
    folder.write("cases.csv", b'id,input,expected\na,"b\nc",d\ne,\xe9,f\n')
    assert "cases.csv:4: not valid UTF-8 (byte 2 of the line)" in refused(folder, "cases.csv")
    folder.write("cases.yaml", b"- {input: a, expected: b}\n- {input: \xff}\n")
    assert "cases.yaml:2: not valid UTF-8" in refused(folder, "cases.yaml")


BAD_TABLES = [
    ("id,input,expected\na,b\n", "cases.csv:2: 2 fields, but the header has 3 (id, input, expected)"),
    ("id,input,expected\na,b,c,d\n", "cases.csv:2: 4 fields, but the header has 3"),
    ('id,input,expected\na,b,c\nd,"e,f\n', 'cases.csv:3: not valid CSV: a quotation mark (") is never closed'),
    ('id,input,expected\na,"b"x,c\n', "cases.csv:2: not valid CSV: text after a closing quotation mark"),
    ("id,input,input\na,b,c\n", 'cases.csv:1: duplicate column "input"'),
    ("id,input,input.a,expected\na,b,c,d\n", "cases.csv:2: has both input and input.a"),
    ("id,input.a,input,expected\na,b,c,d\n", "cases.csv:2: has both input and input.a"),
    ("id,input,tags,tag_a\na,b,c,d\n", "cases.csv:2: has both tags and tags.a"),
    ("id,inpt,expected\na,b,c\n", 'cases.csv:2: unknown key "inpt" (did you mean "input"?)'),
    ('id,input,expected\na,"b\nc",d\na,e,f\n', 'cases.csv:4: duplicate case id "a" (first at cases.csv:2)'),
    ("id,input,expected\n", 'experiment.yaml:1: cases: "cases.csv" has no cases'),
    ("", 'experiment.yaml:1: cases: "cases.csv" has no cases'),
]


@pytest.mark.parametrize(("text", "message"), BAD_TABLES, ids=[message[:60] for _, message in BAD_TABLES])
def test_a_bad_line_of_a_table_is_named(folder: Folder, text: str, message: str) -> None:
    folder.write("cases.csv", text)
    assert message in refused(folder, "cases.csv")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"not parquet at all" * 10])
def test_a_corrupt_parquet_file_is_refused(folder: Folder, content: bytes) -> None:
    folder.write("cases.parquet", content)
    assert "cases.parquet: not a readable parquet file: " in refused(folder, "cases.parquet")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cases.json", '[{"input": "a", "expected": "b"},\n\n{"input": "c", "x": 1}]', 'cases.json:3: unknown key "x"'),
        ("cases.json", '[{"input": "a"},\n{"input": }]', "cases.json:2: not valid JSON: a value is missing"),
        ("cases.json", '{"input": "a"}', "cases.json: must be a list of cases, got a mapping"),
        ("cases.json", '[{"input": "a",\n"input": "b"}]', 'cases.json:2: duplicate key "input"'),
        ("cases.yaml", "- input: a\n  expected: b\n- input: c\n  expectd: d\n", 'cases.yaml:3: unknown key "expectd"'),
        ("cases.yaml", "cases: 5", "cases.yaml: must be a list of cases, got a number"),
        ("cases.yaml", "- &a {input: *a}", "cases.yaml:1: refers to itself"),
        ("cases.yaml", "- {input: {1: a}}", "cases.yaml:1: the key 1 is not text"),
        ("cases.yaml", "- {input: .nan, expected: 1}", "cases.yaml:1: input is NaN"),
        ("cases.yaml", "", 'cases: "cases.yaml" has no cases'),
        ("cases.yaml", "# none yet", 'cases: "cases.yaml" has no cases'),
        ("cases.jsonl", "// none yet\n\n", 'cases: "cases.jsonl" has no cases'),
        ("cases.txt", "a", "experiment.yaml:1: cases: cases.txt is not a case file"),
    ],
)
def test_a_bad_case_file_is_refused_with_its_line(folder: Folder, name: str, text: str, message: str) -> None:
    folder.write(name, text)
    assert message in refused(folder, name)


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("case.jsonl", 'cases: case.jsonl: no such file (did you mean "cases.jsonl"?)'),
        ("nowhere/x.jsonl", "cases: nowhere/x.jsonl: no such file"),
        ("folder", 'cases: "folder" is a folder'),
        ("'*.nope'", 'cases: no file matches "*.nope"'),
        ("'[.jsonl'", 'cases: no file matches "[.jsonl"'),
        ("'../**x'", "cases: "),
        ("''", 'cases: "" is not a file name'),
        ('"a\\0b.jsonl"', "is not a file name"),
        ('"\\ud800.jsonl"', "is not a file name"),
        ("x" * 5000 + ".jsonl", "is not a file name"),
        ("/dev/null", "cases: /dev/null: not a file"),
        ("[]", "cases: no cases"),
        ("[cases.jsonl, 5]", "cases[1]: a case must be a mapping with input and expected, got 5"),
        ("[{input: x}]", 'cases[0]: "expected" is missing; the scorer "exact" needs it'),
        ("[[cases.jsonl]]", "cases[0]: a case must be a mapping"),
    ],
)
def test_missing_cases_are_refused_with_the_line_of_the_spec(folder: Folder, cases: str, message: str) -> None:
    folder.cases(1)
    folder.write("folder/x.jsonl", GOOD)
    error = refused(folder, cases)
    assert error.startswith("error: experiment.yaml:1: ")
    assert message in error


def test_a_duplicate_id_in_two_files_names_both_lines(folder: Folder) -> None:
    folder.write("a.jsonl", GOOD)
    folder.write("b.csv", "id,input,expected\nother,x,y\nok,z,y\n")
    message = refused(folder, "[a.jsonl, b.csv]")
    assert 'b.csv:3: duplicate case id "ok" (first at a.jsonl:1)' in message


def test_errors_in_cases_inside_a_spec_name_their_line(folder: Folder) -> None:
    folder.write(
        "inside.yaml",
        "variants: {a: {target: simulated}}\nscorers: [exact]\ncases:\n"
        "- {id: a, input: x, expected: y}\n- {id: a, input: z, expected: y}\n",
    )
    done = folder.abreast("run", "inside.yaml")
    assert done.code == 2
    assert 'inside.yaml:5: cases[1]: duplicate case id "a" (first at inside.yaml:4: cases[0])' in done.err


def test_a_case_file_that_is_too_large_is_refused_with_json_lines_as_the_fix(folder: Folder) -> None:
    folder.write("cases.json", b" " * 17_000_000)
    message = refused(folder, "cases.json")
    assert "cases.json: larger than 16 MB" in message
    assert ".jsonl" in message


def test_editing_the_file_after_loading_changes_nothing(folder: Folder) -> None:
    path = folder.cases(3)
    with closing(load_cases("cases.jsonl", folder.path)) as table:
        path.write_text('{"id": "other", "input": "changed"}\n')
        assert [table[index].input for index in range(3)] == ["question 0", "question 1", "question 2"]
        path.unlink()
        assert table[1] == Case("c1", "question 1", "yes")


def test_the_table_returns_cases_in_any_order(folder: Folder) -> None:
    cases = [{"id": f"c{n}", "input": "é" * (n % 7) + "x" * 50_000, "group": str(n % 3)} for n in range(60)]
    with closing(load_cases(cases, folder.path)) as table:  # three megabytes: on disk by now
        for index in (59, 0, 31, 31, 1):
            assert table[index].id == f"c{index}"
            assert table[index].input == cases[index]["input"]


STREAM = """
import json, resource, sys
from pathlib import Path
from abreast.spec.cases import load_cases

folder = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = load_cases("large.jsonl", folder)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
last = table[len(table) - 1]
print(json.dumps({"cases": len(table), "grown": (after - before) * 1024, "last": last.id, "length": len(last.input)}))
"""


def test_a_large_file_is_streamed(folder: Folder) -> None:
    path = folder.path / "large.jsonl"
    count, text = 20_000, "lorem ipsum " * 170
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"case-{number}", "input": f"{number} {text}", "expected": "yes"}) + "\n")
    size = path.stat().st_size
    assert size > 40_000_000
    try:
        done = subprocess.run(
            [sys.executable, "-c", STREAM, str(folder.path)], capture_output=True, text=True, timeout=60, check=True
        )
    finally:
        path.unlink()
    report = json.loads(done.stdout)
    assert report["cases"] == count
    assert report["last"] == f"case-{count - 1}"
    assert report["grown"] < size / 3, f"{report['grown'] / 1e6:.0f} MB for a file of {size / 1e6:.0f} MB"


def test_filters_apply_before_cases_are_stored(folder: Folder) -> None:
    cases = [{"id": f"c{n}", "input": n, "tags": {"even": str(n % 2 == 0).lower()}} for n in range(10)]

    def ids(**selection: Any) -> list[str]:
        with closing(load_cases(cases, folder.path, Selection(**selection))) as table:
            return list(table.ids)

    assert ids(limit=3) == ["c0", "c1", "c2"]
    assert ids(tags={"even": "true"}, limit=2) == ["c0", "c2"]
    assert ids(ids=("c7", "c2")) == ["c2", "c7"]
    assert ids(ids=("c7", "c2"), limit=1) == ["c2"]
    with pytest.raises(BadInput, match=r'--case c77: no such case \(did you mean "c7"\?\)'):
        ids(ids=("c77",))
    with pytest.raises(BadInput, match="no case matches --tag even=maybe"):
        ids(tags={"even": "maybe"})


# Arbitrary content as a case file.

FUZZ = settings(
    max_examples=100, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
SUFFIXES = ("jsonl", "ndjson", "csv", "tsv", "parquet", "yaml", "yml", "json")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(["\0", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["id", "input", "expected", "tags", "group", "prompt", "ground_truth", "category", "x"])


@pytest.fixture(scope="module")
def fuzz_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def _load(folder: Path, cases: Any) -> None:
    with contextlib.suppress(BadInput), closing(load_cases(cases, folder)) as table:
        _use(table)


def _use(table: CaseTable) -> None:
    for index in range(len(table)):
        case = table[index]
        assert case.id == table.ids[index]
        assert len(table.digest(index)) == len(table.input_digest(index)) == 24
        json.dumps([case.input, case.expected], allow_nan=False, ensure_ascii=False).encode()


@FUZZ
@given(st.dictionaries(KEYS, VALUES), st.sampled_from(["jsonl", "json", "yaml", "python"]))
def test_any_mapping_as_a_case_is_stored_or_refused(fuzz_path: Path, case: dict[str, Any], suffix: str) -> None:
    if suffix == "python":
        _load(fuzz_path, [{"input": "x"}, case])
        return
    line = json.dumps(case)
    (fuzz_path / f"cases.{suffix}").write_text(line if suffix == "jsonl" else f"[{line}]")
    _load(fuzz_path, f"cases.{suffix}")


@FUZZ
@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_noise_as_a_case_file_is_refused_or_read(fuzz_path: Path, noise: bytes) -> None:
    for suffix in SUFFIXES:
        (fuzz_path / f"noise.{suffix}").write_bytes(noise)
        _load(fuzz_path, f"noise.{suffix}")


@FUZZ
@given(st.data())
def test_a_case_file_with_bytes_lost_or_changed_is_refused_or_read(fuzz_path: Path, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(["jsonl", "csv", "yaml", "json"]))
    cases = [_as_dict(case) for case in THREE]
    original = {
        "jsonl": "\n".join(map(json.dumps, cases)),
        "csv": 'id,input,expected,tag_a\na,"b\nc","d""e",f\ng,h,i,\n',
        "yaml": "- id: a\n  input: {x: [1, 2]}\n  expected: |\n    text\n- {id: b, input: 'c', tags: {d: e}}\n",
        "json": json.dumps(cases, indent=1),
    }[suffix].encode()
    at, length = data.draw(st.integers(0, len(original))), data.draw(st.integers(0, 4))
    put = data.draw(
        st.binary(max_size=3) | st.sampled_from([b'"', b"\n", b"\r", b",", b"{", b"[", b"*a", b"&a ", b"\0"])
    )
    (fuzz_path / f"part.{suffix}").write_bytes(original[:at] + put + original[at + length :])
    _load(fuzz_path, f"part.{suffix}")


@FUZZ
@given(st.lists(st.tuples(st.text(min_size=1, max_size=8), st.text(max_size=8)), min_size=1, max_size=6))
def test_texts_round_trip_through_json_lines(fuzz_path: Path, pairs: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"input": question, "expected": answer}) for question, answer in pairs]
    (fuzz_path / "texts.jsonl").write_text("\n".join(lines))
    with closing(load_cases("texts.jsonl", fuzz_path)) as table:
        assert [(table[index].input, table[index].expected) for index in range(len(table))] == pairs
        assert len(set(table.ids)) == len(pairs)


def test_a_run_over_cases_of_every_kind_stores_them_all(folder: Folder) -> None:
    inputs: list[Any] = ["text", 5, 1.5, True, ["a", None], {"k": {"deep": []}}, "é🙂\u202e", "tab\tline\nend\0", 2**70]
    cases = [{"id": f"c{n}", "input": value, "expected": value} for n, value in enumerate(inputs)]
    result = Experiment(
        cases=cases, variants={"a": {"accuracy": 1.0}}, target="simulated", scorers=["exact"], base=folder.path
    ).run()
    assert [row["case_id"] for row in result.rows()] == [f"c{n}" for n in range(len(inputs))]
