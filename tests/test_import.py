"""Rows of other tools as runs: what is kept, what is refused, and that the verdict is that of a run of our own."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.errors import BadInput
from abreast.importers import json_stream
from abreast.importers.base import LogHeader
from abreast.importers.formats import table
from abreast.importers.log_file import LogFile
from conftest import Done, Folder
from packages import install
from scripted import pairs, scripted

MAP = "case=question,variant=model,score=right,input=text,expected=gold,answer=reply,latency=seconds,cost=usd,tags=kind"
ROWS = """\
question,model,text,gold,reply,right,seconds,usd,kind,problem
q1,small,2 + 2,4,4,true,0.5,0.01,sum,
q1,large,2 + 2,4,4,true,0.9,0.02,sum,
q2,small,2 * 3,6,5,false,0.4,0.01,product,
q2,large,2 * 3,6,6,true,0.8,0.02,product,
"""


def verdicts(done: Done) -> list[dict[str, Any]]:
    (content,) = done.json
    return list(content["verdicts"])


def figures(verdict: dict[str, Any]) -> dict[str, Any]:
    """Everything of a verdict but the names of runs, with numbers to 12 digits."""
    named = {"run", "baseline_run", "unmatched", "not_begun", "changes", "import_notes", "before", "after", "metric"}
    text = json.dumps({key: value for key, value in verdict.items() if key not in named})
    rounded: dict[str, Any] = json.loads(text, parse_float=lambda number: float(f"{float(number):.12g}"))
    return rounded


def imported(folder: Folder, *words: str) -> str:
    """Import one file and return the name of its run."""
    done = folder.abreast("import", "--json", *words)
    assert done.code == 0, done.err
    (result,) = done.json
    return str(result["run"])


# -- rows ----------------------------------------------------------------------------------------------------------


def test_columns_are_mapped_to_the_fields_of_a_trial(folder: Folder) -> None:
    folder.write("rows.csv", ROWS)
    run = imported(folder, "rows.csv", "--map", MAP)
    rows = folder.sql(
        "select case_id, variant, status, score, score_right, expected, answer, prompt, latency_s, cost_usd, tag_kind "
        "from predictions order by case_id, variant desc"
    )
    assert rows[2] == {
        "case_id": "q2",
        "variant": "small",
        "status": "ok",
        "score": 0.0,
        "score_right": 0.0,
        "expected": "6",
        "answer": "5",
        "prompt": "2 * 3",
        "latency_s": 0.4,
        "cost_usd": 0.01,
        "tag_kind": "product",
    }
    (listed,) = folder.abreast("runs", "--json").json
    assert (listed["run"], listed["experiment"], listed["imported"], listed["trials"]) == (run, "rows", "table", 4)


def test_json_lines_with_the_usual_names_need_no_map(folder: Folder) -> None:
    lines = [{"case": f"c{n}", "variant": side, "score": n % 2, "answer": "x"} for n in range(4) for side in "ab"]
    folder.write("rows.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    imported(folder, "rows.jsonl")
    assert folder.sql("select count(*) as n, avg(score) as mean from predictions") == [{"n": 8, "mean": 0.5}]


def test_one_row_of_json_lines_is_a_log(folder: Folder) -> None:
    folder.write("rows.jsonl", '{"case": "c1", "score": 1}\n')
    imported(folder, "rows.jsonl")
    assert folder.sql("select case_id, score from predictions") == [{"case_id": "c1", "score": 1.0}]


def test_importing_twice_changes_nothing(folder: Folder) -> None:
    folder.write("rows.csv", ROWS)
    run = imported(folder, "rows.csv", "--map", MAP)
    again = folder.abreast("import", "rows.csv", "--map", MAP)
    assert again.out == f"rows.csv: already imported as {run}\n"
    assert folder.sql("select count(*) as n from predictions") == [{"n": 4}]
    folder.write("copy.csv", ROWS)
    assert folder.abreast("import", "copy.csv", "--map", MAP).out == f"copy.csv: already imported as {run}\n"


def test_other_columns_of_the_same_file_are_another_run(folder: Folder) -> None:
    folder.write("rows.csv", ROWS)
    imported(folder, "rows.csv", "--map", MAP)
    imported(folder, "rows.csv", "--map", "case=question,variant=kind,score=right")
    assert len(folder.abreast("runs", "--json").json) == 2


def test_errors_are_kept_apart_by_blame(folder: Folder) -> None:
    folder.write(
        "rows.csv",
        "case,variant,score,error,blame\n"
        "c1,a,1,,\nc1,b,,HTTP 503,infrastructure\nc2,a,1,,\nc2,b,,broke,variant\n"
        "c3,a,1,,\nc3,b,,what,\nc4,a,1,,\nc4,b,1,,\n",
    )
    run = imported(folder, "rows.csv")
    (verdict,) = verdicts(folder.abreast("report", "--json"))
    assert (verdict["losses"], verdict["cases"], verdict["dropped"]["failed"]) == (1, 2, 2)
    report = folder.abreast("report", run).out
    assert "errors: a row with an error failed" in " ".join(report.split())


def test_a_column_that_only_later_lines_have_is_read(folder: Folder) -> None:
    lines = [{"case": "c1", "score": 1}, {"case": "c2", "score": None, "error": "HTTP 503"}]
    folder.write("rows.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    imported(folder, "rows.jsonl")
    assert folder.sql("select status, error from predictions order by case_id") == [
        {"status": "ok", "error": None},
        {"status": "error", "error": "HTTP 503"},
    ]


@pytest.mark.parametrize("nothing", ["false", "False", "null", "0", "{}"])
def test_an_error_of_false_is_no_error(folder: Folder, nothing: str) -> None:
    folder.write("rows.csv", f"case,score,error,skipped\nc1,1,{nothing},{nothing}\n")
    imported(folder, "rows.csv", "--map", "skipped=skipped")
    assert folder.sql("select status, score from predictions") == [{"status": "ok", "score": 1.0}]


def test_a_first_line_of_any_length_is_read(folder: Folder) -> None:
    lines = [{"case": f"c{n}", "input": "x" * 70_000, "score": 1} for n in range(2)]
    folder.write("rows.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    imported(folder, "rows.jsonl")
    assert folder.sql("select count(*) as n from predictions") == [{"n": 2}]


def test_a_table_whose_first_column_begins_like_an_archive_is_a_table(folder: Folder) -> None:
    folder.write("rows.csv", "PK,score\nc1,1\nc2,0\n")
    imported(folder, "rows.csv", "--map", "case=PK")
    assert folder.sql("select count(*) as n from predictions") == [{"n": 2}]


def test_what_the_log_lacks_is_counted_and_said(folder: Folder) -> None:
    folder.write("rows.csv", "case,variant,score\nc1,a,1\nc1,b,0\nc2,a,1\n")
    done = folder.abreast("import", "rows.csv")
    assert "not in the log, counted as skipped: 1 trial of 4" in done.err
    (row,) = folder.sql("select case_id, variant, error from predictions where status = 'skipped'")
    assert row == {"case_id": "c2", "variant": "b", "error": "not in the log"}


def test_rows_with_one_id_and_different_inputs_are_not_paired(folder: Folder) -> None:
    folder.write("rows.csv", "case,variant,input,score\nc1,a,red,1\nc1,b,blue,0\nc2,a,green,1\nc2,b,green,0\n")
    done = folder.abreast("import", "rows.csv")
    assert "not paired, because the same case id has several inputs: c1" in done.err
    (verdict,) = verdicts(folder.abreast("report", "--json"))
    assert verdict["cases"] == 1


def test_rows_of_one_case_and_variant_are_repeats(folder: Folder) -> None:
    lines = [f"c{case},{side},{repeat}" for case in range(3) for side in "ab" for repeat in range(2)]
    folder.write("rows.csv", "case,variant,score\n" + "\n".join(lines) + "\n")
    imported(folder, "rows.csv")
    assert folder.sql("select distinct repeat from predictions order by 1") == [{"repeat": 0}, {"repeat": 1}]


@pytest.mark.parametrize("first", [0, 1])
def test_repeats_count_from_0_or_from_1(folder: Folder, first: int) -> None:
    lines = [f"c{case},{repeat},1" for case in range(3) for repeat in (first + 1, first)]
    folder.write("rows.csv", "case,repeat,score\n" + "\n".join(lines) + "\n")
    imported(folder, "rows.csv")
    rows = folder.sql("select repeat, status, count(*) as n from predictions group by 1, 2 order by 1")
    assert rows == [{"repeat": repeat, "status": "ok", "n": 3} for repeat in (0, 1)]


def test_ids_that_are_no_ids_are_refused(folder: Folder) -> None:
    folder.write("rows.csv", "kind,variant,score\n" + "math,a,1\nmath,b,1\n" * 50 + "logic,a,1\n" * 2)
    folder.write("rows2.csv", "kind,variant,score\n" + "math,a,1\n" * 100 + "".join(f"c{n},a,1\n" for n in range(100)))
    done = folder.abreast("import", "rows2.csv", "--map", "case=kind")
    assert done.code == 2
    assert "200 trials of 101 cases, 100 of them of one case and variant" in done.err
    assert "each case needs a distinct id" in done.err


def test_a_score_beyond_0_and_1_needs_its_range(folder: Folder) -> None:
    folder.write("rows.csv", "case,variant,bleu\nc1,a,20\nc1,b,80\nc2,a,40\nc2,b,90\n")
    refused = folder.abreast("import", "rows.csv", "--map", "score=bleu")
    assert refused.code == 2
    assert "the score bleu ranges from 20 to 90, outside 0 to 1" in refused.err
    assert "--range bleu=LOWEST..HIGHEST" in refused.err
    imported(folder, "rows.csv", "--map", "score=bleu", "--range", "bleu=0..100")
    assert folder.sql("select score from predictions order by score") == [
        {"score": value} for value in (0.2, 0.4, 0.8, 0.9)
    ]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words", "message"),
    [
        ("empty.csv", "", (), "unknown format: the file is empty"),
        ("notes.txt", "hello world\n", (), "unknown format: text"),
        (
            "rows.csv.gz",
            gzip.compress(b"case,score\nc1,1\n"),
            (),
            "unknown format: compressed with gzip; unpack it first",
        ),
        ("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\r", (), "unknown format: binary data"),
        ("other.json", '{"winner": "b", "rounds": []}', (), "unknown format: JSON with winner, rounds"),
        ("page.html", "<html><body/></html>", (), "unknown format: XML"),
        ("rows.csv", ROWS, ("--map", "case=id"), "--map case=id: no such column"),
        ("rows.csv", ROWS, ("--map", "id=question"), "--map id: unknown field"),
        ("rows.csv", ROWS, ("--map", "case=question"), "no column with a score"),
        ("rows.csv", ROWS, ("--map", "question"), "--map question: not FIELD=COLUMN"),
        (
            "rows.csv",
            "number,answer,score\n1,x,1\n",
            (),
            "no column with the id of the case (columns: number, answer, ",
        ),
        ("rows.csv", ROWS, ("--map", "case=question,score=reply,latency=kind"), "kind is not a number: sum"),
        ("rows.csv", ROWS[:-20], ("--map", MAP), "line 5: 6 cells, the first line has 10"),
        ("rows.csv", ROWS, ("--map", MAP, "--range", "x=0..2"), "--range x: no score x"),
        ("rows.csv", ROWS, ("--range", "x=2..1"), "the lowest value must be below the highest"),
        ("rows.csv", ROWS, ("--range", "x=0..inf"), "--range x=0..inf: both values must be finite"),
        ("rows.csv", ROWS, ("--format", "exel"), "--format exel: unknown format"),
        ("rows.jsonl", '{"case": "a", "score": 1}\n{"case": "b", "sc', (), "line 2 is not JSON"),
        ("rows.csv", "case,score\n", (), "the table has no rows"),
        ("rows.csv", "case,score\n,1\n", (), "line 2: case is empty"),
        ("rows.csv", "case,score,score\nc1,1,0\n", (), "line 1: two columns are named score"),
        ("rows.csv", "case,score\nc1,1\nc2,1\n".encode("utf-16"), (), "unknown format: text in UTF-16"),
        ("rows.csv", "case,score\nc1,1\n".encode("utf-16"), ("--map", "case=case"), "iconv -f UTF-16 -t UTF-8"),
        ("rows.csv", "case,score,answer\nc1,1,x\nc2,1,Küche\n".encode("cp1252"), (), "line 3: not UTF-8"),
        ("rows.jsonl", b'{"case": "a", "score": 1}\n{"case": "\xfc", "score": 1}\n', (), "line 2: not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_what_was_found(
    folder: Folder, name: str, content: str | bytes, words: tuple[str, ...], message: str
) -> None:
    folder.write(name, content)
    done = folder.abreast("import", name, *words)
    assert done.code == 2
    assert message in done.err, done.err
    assert not (folder.path / "results.db").exists(), "nothing is stored"


@pytest.mark.parametrize(
    ("column", "what"),
    [("cost", "cost is -1"), ("latency", "latency is -1"), ("input_tokens", "input_tokens must be a whole number")],
)
def test_costs_times_and_tokens_below_0_are_refused(folder: Folder, column: str, what: str) -> None:
    folder.write("rows.csv", f"case,score,{column}\nc1,1,2\nc2,1,-1\n")
    done = folder.abreast("import", "rows.csv")
    assert done.code == 2
    assert what in done.err, done.err


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("latency", "inf", "the latency is inf, too large for a time in seconds"),
        ("started_at", "1.79e12", "the start is 1.79e+12, too large for a time in seconds"),
        ("cost", "inf", "the cost is inf, too large"),
        ("input_tokens", "1e30", "the input tokens is 1e+30, too large"),
    ],
)
def test_numbers_that_no_report_can_show_are_refused(folder: Folder, column: str, value: str, what: str) -> None:
    folder.write("rows.csv", f"case,score,{column}\nc1,1,2\nc2,1,{value}\n")
    done = folder.abreast("import", "rows.csv")
    assert done.code == 2
    assert f"case c2: {what}" in done.err, done.err


def test_files_before_a_damaged_one_are_imported_and_named(folder: Folder) -> None:
    folder.write("good.csv", "case,score\nc1,1\n")
    folder.write("bad.csv", "case,score\nc1\n")
    done = folder.abreast("import", "good.csv", "bad.csv")
    assert done.code == 2
    assert done.out.startswith("good.csv: 1 trial of table → "), done.output


def test_names_of_variants_and_cases_stay_in_their_line(folder: Folder) -> None:
    rows = [
        {"case": f"c{n}\n::error::x", "variant": name, "score": 1} for n in range(2) for name in ("a\n::set-env::", "b")
    ]
    folder.write("rows.jsonl", "\n".join(map(json.dumps, rows)))
    folder.write("fewer.jsonl", "\n".join(map(json.dumps, rows[:2])))
    done = folder.abreast("compare", "rows.jsonl", "fewer.jsonl")
    assert "rows.jsonl:a ::set-env::" in done.out
    assert "not paired, only in rows.jsonl: c1 ::error::x (1 case)" in done.out
    assert not any(line.startswith("::") for line in done.out.splitlines())


def test_a_cell_that_is_too_large_is_refused(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "LARGEST_CELL", 1_000)
    path = folder.write("rows.csv", f"case,score\nc1,{'1' * 2_000}\n")
    with pytest.raises(BadInput, match=r"not a valid table \(line 2: field larger than field limit"):
        list(table.Table().trials(LogFile(path), LogHeader(tool="table", task="rows")))


def test_lines_may_end_as_on_an_old_macintosh(folder: Folder) -> None:
    folder.write("rows.csv", "case,score\rc1,1\rc2,0\r")
    imported(folder, "rows.csv")
    assert folder.sql("select count(*) as n from predictions") == [{"n": 2}]


def test_mapped_columns_are_those_of_a_table_whatever_else_the_lines_look_like(folder: Folder) -> None:
    lines = [{"doc_id": n, "doc": {"n": n}, "target": "x", "right": n % 2} for n in range(4)]
    folder.write("rows.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    imported(folder, "rows.jsonl", "--map", "case=doc_id,score=right")
    assert folder.sql("select count(*) as n, avg(score) as mean from predictions") == [{"n": 4, "mean": 0.5}]


def test_a_file_that_does_not_exist_is_named(folder: Folder) -> None:
    assert "no.csv: cannot read the file (No such file or directory)" in folder.abreast("import", "no.csv").err
    assert "no.csv: no such file" in folder.abreast("compare", "no.csv", "latest").err


def test_an_import_that_was_killed_starts_over(folder: Folder) -> None:
    lines = [f"c{n},{side},{n % 2}" for n in range(200) for side in "ab"]
    folder.write("rows.csv", "case,variant,score\n" + "\n".join(lines) + "\n")
    killed = (
        "import itertools, os\n"
        "from abreast.execute.records import TrialRecords\n"
        "write, count = TrialRecords.outcome, itertools.count()\n"
        "TrialRecords.outcome = lambda *words: write(*words) if next(count) < 150 else os._exit(9)\n"
        "from abreast.cli import main\n"
        "main(['import', 'rows.csv'])\n"
    )
    assert subprocess.run([sys.executable, "-c", killed], cwd=folder.path, check=False).returncode == 9
    (left,) = folder.abreast("runs", "--json").json
    assert left["status"] == "incomplete"
    imported(folder, "rows.csv")
    (run,) = folder.abreast("runs", "--json").json
    assert (run["status"], run["trials"]) == ("complete", 400)


# -- comparing ---------------------------------------------------------------------------------------------------------


def same_rows(folder: Folder) -> None:
    """Write the rows of the only run as another tool would, with the inputs and groups of their cases."""
    cases = [json.loads(line) for line in (folder.path / "cases.jsonl").read_text().splitlines()]
    of_case = {case["id"]: {"input": case["input"], "group": case.get("group")} for case in cases}
    rows = folder.sql(
        "select case_id, variant, repeat, answer, expected, score, error, error_blame, service_s as latency, cost_usd, "
        "case when status = 'skipped' then error end as skipped from predictions order by variant, random()"
    )
    lines = [json.dumps({**row, **of_case[row["case_id"]], "expected": "yes"}) for row in rows]
    folder.write("rows.jsonl", "\n".join(lines) + "\n")


@pytest.mark.parametrize("cases", [30, 90])
def test_the_verdict_is_that_of_our_own_run_on_the_same_rows(folder: Folder, cases: int) -> None:
    luck = random.Random(7)

    def case(number: int) -> dict[str, Any]:
        words, costs = ("yes", "yes", "no", "crash"), {"a": luck.random(), "b": luck.random()}
        answers = {"a": luck.choices(words, k=2), "b": luck.choices(words[1:], k=2)}
        return {**answers, "cost": costs, "group": f"g{number % 23}"}

    scripted(folder, [case(number) for number in range(cases)], repeats=2)
    same_rows(folder)
    folder.write("other/readme", "")
    (own,) = folder.abreast("runs", "--json").json
    run = imported(folder, "rows.jsonl", "--store", "other/other.db")
    (before,) = verdicts(folder.abreast("compare", f"{own['run']}:a", f"{own['run']}:b", "--json"))
    (stored,) = verdicts(folder.abreast("compare", f"{run}:a", f"{run}:b", "--json", "--store", "other/other.db"))
    (as_file,) = verdicts(folder.abreast("compare", "rows.jsonl:a", "rows.jsonl:b", "--json"))
    assert before["cases"] == cases
    assert before["interval"]
    assert figures(stored) == figures(as_file) == figures(before)


def test_the_report_on_lost_answers_is_that_of_our_own_run_on_the_same_rows(folder: Folder) -> None:
    words = [*["yes"] * 20, *["no"] * 8, "network", "network", "crash", "skip"]
    luck = random.Random(3)
    scripted(folder, [{"a": [luck.choice(words)], "b": [luck.choice(words)]} for _ in range(50)])
    same_rows(folder)
    folder.write("other/readme", "")
    imported(folder, "rows.jsonl", "--map", "skipped=skipped", "--store", "other/other.db")
    (before,) = verdicts(folder.abreast("report", "--json"))
    (after,) = verdicts(folder.abreast("report", "--json", "--store", "other/other.db"))
    assert before["dropped"]["failed"] == 2
    assert figures(after) == figures(before)


def test_files_and_runs_are_compared_with_each_other(folder: Folder) -> None:
    scripted(folder, pairs(9, 2, 20))
    same_rows(folder)
    own = folder.abreast("runs", "--json").json[0]["run"]
    lines = (folder.path / "rows.jsonl").read_text().splitlines()
    folder.write("b.jsonl", "\n".join(line for line in lines if '"variant": "b"' in line) + "\n")
    (verdict,) = verdicts(folder.abreast("compare", f"{own}:a", "b.jsonl", "--json"))
    assert (verdict["wins"], verdict["losses"], verdict["ties"]) == (9, 2, 20)
    assert len(folder.abreast("runs", "--json").json) == 1, "nothing is stored"
    (latest,) = verdicts(folder.abreast("compare", "latest:a", "b.jsonl:b", "--json"))
    assert figures(latest) == figures(verdict)


def test_the_variants_of_one_file_are_compared_without_a_store(folder: Folder) -> None:
    folder.write("rows.csv", "case,variant,score\n" + "".join(f"c{n},a,0\nc{n},b,1\n" for n in range(10)))
    done = folder.abreast("compare", "rows.csv")
    assert done.out.startswith("improvement: rows.csv:b is better than rows.csv:a: +100.0 points"), done.output
    assert [path.name for path in folder.path.iterdir()] == ["rows.csv"]
    folder.write("one.csv", "case,variant,score\nc1,a,0\n")
    assert "one.csv: has one variant, a" in folder.abreast("compare", "one.csv").err


def test_a_label_is_the_run_although_a_folder_has_that_name(folder: Folder) -> None:
    scripted(folder, pairs(9, 2, 20), "--label", "main")
    (run,) = folder.abreast("runs", "--json").json
    folder.write("main/readme", "")
    folder.write("latest/readme", "")
    for name in ("main", "latest"):
        (verdict,) = verdicts(folder.abreast("compare", f"{name}:a", f"{name}:b", "--json"))
        assert (verdict["baseline_run"], verdict["run"]) == (run["run"], run["run"])


def test_a_file_named_twice_is_not_compared_with_itself(folder: Folder) -> None:
    folder.write("rows.csv", "case,score\nc1,1\nc2,0\n")
    done = folder.abreast("compare", "rows.csv", "rows.csv")
    assert done.code == 1
    assert "a run cannot be compared with itself" in done.out


def test_repeats_are_no_option_where_nothing_can_be_run(folder: Folder) -> None:
    for name in ("a", "b"):
        folder.write(f"{name}.csv", "case,score\n" + "".join(f"c{n},{int(name == 'b')}\n" for n in range(3)))
    done = folder.abreast("compare", "a.csv", "b.csv")
    assert "  2 repeats of each case can decide about these 3 cases alone\n" in done.out


def test_two_files_with_the_same_content_are_compared(folder: Folder) -> None:
    for name in ("a.csv", "b.csv"):
        folder.write(name, "case,variant,score\n" + "".join(f"c{n},x,0\nc{n},y,1\n" for n in range(10)))
    (verdict,) = verdicts(folder.abreast("compare", "a.csv:x", "b.csv:y", "--json"))
    assert (verdict["verdict"], verdict["wins"]) == ("better", 10)


def test_cases_that_cannot_be_paired_are_listed(folder: Folder) -> None:
    folder.write("a.csv", "case,input,score\n1,x,1\n2,y,1\n3,z,1\n5,v,0\n")
    folder.write("b.csv", "case,input,score\n1,x,0\n2,other,1\n4,w,1\n5,v,1\n")
    done = folder.abreast("compare", "a.csv", "b.csv")
    assert "not paired, only in a.csv: 3 (1 case)" in done.out
    assert "not paired, only in b.csv: 4 (1 case)" in done.out
    assert "not paired, same id, different input: 2 (1 case)" in done.out


def test_an_input_that_one_log_lacks_is_not_called_different(folder: Folder) -> None:
    folder.write("a.csv", "case,score\n1,1\n2,0\n")
    folder.write("b.csv", "case,input,score\n1,x,0\n2,y,1\n")
    done = folder.abreast("compare", "a.csv", "b.csv")
    assert "not paired, the input is known in one run only: 1, 2 (2 cases)" in done.out
    assert "different input" not in done.out


@pytest.mark.parametrize(
    ("ours", "theirs", "is_paired"),
    [("4", '"4"', True), ("4", "null", True), ('["a", "b"]', '"[\\"a\\", \\"b\\"]"', True), ("4", '"5"', False)],
)
def test_expected_answers_are_compared_as_other_tools_write_them(
    folder: Folder, ours: str, theirs: str, is_paired: bool
) -> None:
    folder.write("cases.jsonl", f'{{"id": "c1", "input": "x", "expected": {ours}}}')
    folder.write("spec.yaml", "name: e\ncases: cases.jsonl\nvariants: {a: {target: simulated}}\nscorers: [exact]\n")
    assert folder.abreast("run", "spec.yaml", "--quiet", "--yes").code == 0
    folder.write("rows.jsonl", f'{{"id": "c1", "input": "x", "expected": {theirs}, "score": 1, "variant": "a"}}\n' * 2)
    done = folder.abreast("compare", "latest", "rows.jsonl")
    assert ("different expected answer: c1" in done.out) != is_paired, done.output


def test_a_file_without_scores_is_to_be_imported_before_it_is_scored(folder: Folder) -> None:
    for name in ("a", "b"):
        case = {"name": "c1", "inputs": "x", "output": "y", "task_duration": 1}
        folder.write(f"{name}.json", json.dumps({"name": "e", "cases": [case], "failures": []}))
    done = folder.abreast("compare", "a.json", "b.json")
    assert "a.json has no scorer" in done.err, done.output
    assert "run `abreast import a.json`" in done.err


def test_cases_without_an_input_are_no_duplicates(folder: Folder) -> None:
    folder.write("rows.csv", "case,variant,score\n" + "".join(f"c{n},a,{n % 2}\nc{n},b,1\n" for n in range(10)))
    imported(folder, "rows.csv")
    assert "duplicates" not in folder.abreast("validate").out


# -- everything else works on imported runs ----------------------------------------------------------------------------


@pytest.fixture
def stored(folder: Folder) -> Folder:
    """A folder with an imported run of 30 cases and two variants."""
    luck = random.Random(5)
    lines = ["case,variant,input,expected,answer,score,latency,kind"]
    for n in range(30):
        for side, chance in (("a", 0.5), ("b", 0.8)):
            right = luck.random() < chance
            lines.append(
                f"c{n},{side},question {n},{n},{n if right else n + 1},{int(right)},0.5,{'even' if n % 2 else 'odd'}"
            )
    folder.write("rows.csv", "\n".join(lines) + "\n")
    imported(folder, "rows.csv", "--map", "tags=kind")
    return folder


def test_reports_say_where_the_rows_come_from(stored: Folder) -> None:
    for form in ("terminal", "markdown", "html", "json", "junit"):
        done = stored.abreast("report", "--format", form, "--output", "out")
        assert done.code == 0, done.err
    for name in ("report.txt", "report.md", "report.html", "report.json"):
        assert "imported from rows.csv" in (stored.path / "out" / name).read_text(), name
    assert "odd" in (stored.path / "out" / "report.html").read_text()


def test_imported_answers_are_rescored_by_our_scorers(stored: Folder) -> None:
    done = stored.abreast("rescore", "latest", "--scorer", "exact")
    assert done.code == 0, done.err
    assert stored.sql("select count(*) as n from predictions where score_exact <> score_score") == [{"n": 0}]


def test_rescore_says_how_many_answers_got_no_score_and_why(folder: Folder) -> None:
    folder.write("rows.csv", "case,variant,answer,expected,score\nc1,a,x,x,1\nc2,a,x,,1\nc1,b,x,x,1\nc2,b,x,,1\n")
    imported(folder, "rows.csv")
    done = folder.abreast("rescore", "latest", "--scorer", "exact")
    assert "scored 4 answers; nothing was run again\n  2 answers got no score_exact: no expected value\n" in done.out


def test_imported_answers_are_judged(stored: Folder) -> None:
    stored.write("mine.py", 'def judge(case):\n    return \'{"overall": {"justification": "so", "score": 4}}\'\n')
    stored.write(
        "judged.yaml",
        "cases: [{input: x}]\nvariants: {a: {target: simulated}}\n"
        "scorers: [{judge: {target: 'python:mine:judge', rubric: is it true}}]\n",
    )
    done = stored.abreast("rescore", "latest", "--spec", "judged.yaml")
    assert done.code == 0, done.output
    assert stored.sql("select distinct score_judge from predictions") == [{"score_judge": 0.75}]
    assert "8 answers to label" in stored.abreast("label", "--sample", "4", "--export", "sheet.csv").out


def test_run_commands_show_an_imported_run(stored: Folder) -> None:
    assert "rows.csv" in stored.abreast("show").out
    assert "question 3" in stored.abreast("show", "latest", "c3").out
    assert "0.500 s of service" in stored.abreast("logs", "--limit", "1").out
    assert stored.abreast("validate", "--json").code in (0, 1)
    assert stored.abreast("history", "rows").code == 0
    assert stored.abreast("copy", "results.db", "copy.duckdb").code == 0
    before, after = (
        verdicts(stored.abreast("report", "--json", "--store", name)) for name in ("results.db", "copy.duckdb")
    )
    assert figures(before[0]) == figures(after[0])


def test_an_imported_run_is_never_resumed(stored: Folder) -> None:
    done = stored.abreast("resume", "latest")
    assert done.code == 2
    assert "cannot be resumed: imported from rows.csv" in done.err
    assert "run it again with the tool that wrote it, and import the new log" in done.err


def test_imported_runs_are_deleted_like_others(stored: Folder) -> None:
    run = stored.abreast("runs", "--json").json[0]["run"]
    assert stored.abreast("delete", run, "--yes").code == 0
    imported(stored, "rows.csv", "--map", "tags=kind")


def test_every_engine_stores_an_imported_run_in_the_same_way(stored: Folder, postgres: str) -> None:
    stores = ("results.db", "a.duckdb", postgres)
    query = (
        "select case_id, variant, status, score, answer, latency_s, service_s, queue_s, started_at, finished_at, "
        "in_flight from predictions order by case_id, variant"
    )
    results = []
    for store in stores:
        imported(stored, "rows.csv", "--map", "tags=kind", "--store", store)
        (verdict,) = verdicts(stored.abreast("report", "--json", "--store", store))
        results.append((figures(verdict), stored.sql(query, store)))
    assert results[0] == results[1] == results[2]
    assert results[0][1][0]["queue_s"] is None, "unknown, not NaN"


FORMAT = """
from abreast import Answer, Case, Score
from abreast.importers.base import LogFormat, LoggedTrial, LogHeader

class Acme(LogFormat):
    name = "acme"
    title = "Acme log"
    error_rule = "acme never fails"

    def recognises(self, log):
        return log.head.startswith(b"acme")

    def header(self, log):
        version = log.head.split()[1].decode()
        if version != "1":
            raise log.error(f"version {version} of Acme logs; version 1 is supported")
        return LogHeader(tool="Acme", tool_version="1", task="acme-task")

    def trials(self, log, header):
        with log.open() as file:
            for line in list(file)[1:]:
                case, score = line.decode().split()
                scores = [Score("s", float(score))]
                yield LoggedTrial(case=Case(case, case), variant="a", answer=Answer("x"), scores=scores)
"""


def test_a_package_adds_a_format(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("site/acme_log.py", FORMAT)
    install(folder, "acme", {"abreast.importers": {"acme": "acme_log:Acme"}})
    monkeypatch.syspath_prepend(str(folder.path / "site"))
    folder.write("a.log", "acme 1\nc1 1\nc2 0.5\n")
    assert folder.abreast("import", "a.log").code == 0
    assert "imported from a.log, a log of Acme 1" in folder.abreast("report").out
    folder.write("b.log", "acme 2\nc1 1\n")
    assert "b.log: version 2 of Acme logs; version 1 is supported" in folder.abreast("import", "b.log").err


# -- JSON larger than memory -------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
QUICKLY = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@QUICKLY
@given(
    st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
    st.lists(VALUES, max_size=4),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_a_document_is_read_value_by_value(
    members: dict[str, Any], rows: list[Any], indent: int | None, escapes: bool
) -> None:
    document = {**members, "rows": rows, "results": {"version": 3, "rows": rows}}
    text = json.dumps(document, indent=indent, ensure_ascii=escapes)
    read = list(json_stream.values(Slow(text), ["rows", "results.rows"]))
    expected = [*members.items(), *(("rows", row) for row in rows), ("results.version", 3)]
    assert read == [*expected, *(("results.rows", row) for row in rows)]


@QUICKLY
@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_a_cut_document_is_truncated_wherever_it_is_cut(rows: list[Any], data: st.DataObject) -> None:
    text = json.dumps({"rows": rows})
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(json_stream.BadJson) as caught:
        list(json_stream.values(io.StringIO(cut), ["rows"]))
    assert caught.value.is_truncated


@pytest.mark.parametrize("text", ['{"a": 1, b: 2}', '{"a": [1 2]}', '{"a": tru}' + " " * 50, '{"a": 1} x', "[1]"])
def test_what_is_not_json_is_not_called_truncated(text: str) -> None:
    with pytest.raises(json_stream.BadJson) as caught:
        list(json_stream.values(io.StringIO(text + " " * 100), ["a"]))
    assert not caught.value.is_truncated


def test_a_number_with_too_many_digits_is_refused_with_its_place(folder: Folder) -> None:
    folder.write("log.json", '{"status": "success", "eval": {}, "version": ' + "9" * 5_000 + "}")
    folder.write("rows.jsonl", '{"case": "c1", "score": 1}\n{"case": "c2", "score": ' + "9" * 5_000 + "}\n")
    done = folder.abreast("import", "log.json", "--format", "inspect")
    assert done.code == 2
    assert "log.json: not valid JSON (Exceeds the limit" in done.err
    assert "rows.jsonl: line 2 is not JSON (Exceeds the limit" in folder.abreast("import", "rows.jsonl").err


def test_nan_is_read_as_python_writes_it() -> None:
    ((_, value),) = json_stream.values(io.StringIO('{"a": NaN}'), [])
    assert math.isnan(value)


class Slow(io.StringIO):
    """A file that returns a few characters at a time."""

    def read(self, size: int | None = -1, /) -> str:
        return super().read(min(3, size or 3))
