"""Logs of lm-evaluation-harness: its figures and ours, filters, tasks and versions, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tools.foreign_logs.questions import QUESTIONS

from canned_models import LOGS, import_logs, logged_verdict, own_verdict
from conftest import Folder

NEW, OLD = LOGS / "lm-eval", LOGS / "lm-eval/0.4.2"
DATE = "2026-11-19T12-00-00.000000"
SUMS = f"samples_sums_{DATE}.jsonl"


def results_of(model: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((NEW / model / f"results_{DATE}.json").read_text())
    return results


@pytest.mark.parametrize("log", [NEW / "careful", NEW / "quick", OLD / "careful", OLD / "quick"], ids=str)
def test_its_summary_is_ours(folder: Folder, log: Path) -> None:
    import_logs(folder, log)
    summary = json.loads(next(log.glob("results*.json")).read_text())["results"]
    assert len(summary) == 2
    for task, figures in summary.items():
        values = {
            name.replace(",", "_"): value for name, value in figures.items() if "," in name and "stderr" not in name
        }
        for name, value in values.items():
            column = f"score_{name.removesuffix('_none')}"
            (row,) = folder.sql(
                f"select avg({column}) as mean, count(*) as n from predictions where tag_task = '{task}'"
            )
            assert row["mean"] == pytest.approx(value, abs=1e-12), (task, name)
            assert row["n"] == 24


@pytest.mark.parametrize(
    "logs",
    [
        (NEW / "careful" / SUMS, NEW / "quick" / SUMS),
        (OLD / "careful/model__careful_sums.jsonl", OLD / "quick/model__quick_sums.jsonl"),
        (OLD / "careful/model__careful_sums.jsonl", NEW / "quick" / SUMS),
    ],
    ids=["new", "old", "old with new"],
)
def test_the_verdict_is_that_of_our_own_run_on_the_same_rows(folder: Folder, logs: tuple[Path, Path]) -> None:
    verdict = logged_verdict(folder, *logs)
    assert verdict["cases"] == 24
    assert verdict == own_verdict(folder, QUESTIONS, "exact", repeats=1, first=1)


def test_a_log_without_a_summary_gives_the_same_verdict(folder: Folder) -> None:
    for model in ("careful", "quick"):
        folder.write(f"{model}/{SUMS}", (NEW / model / SUMS).read_bytes())
    assert logged_verdict(folder, f"careful/{SUMS}", f"quick/{SUMS}") == logged_verdict(
        folder, NEW / "careful" / SUMS, NEW / "quick" / SUMS
    )
    import_logs(folder, f"quick/{SUMS}")
    assert folder.sql("select distinct variant, tag_task from predictions") == [
        {"variant": "quick", "tag_task": "sums"}
    ]


def test_an_old_log_without_a_summary_is_read(folder: Folder) -> None:
    folder.write("old.jsonl", (OLD / "quick/model__quick_sums.jsonl").read_bytes())
    import_logs(folder, "old.jsonl")
    (row,) = folder.sql(
        "select count(*) as n, avg(score_exact_match) as first, avg(score_exact_match_2) as second from predictions"
    )
    assert row == {"n": 24, "first": pytest.approx(7 / 24), "second": pytest.approx(11 / 24)}


def test_a_document_is_one_trial_with_a_score_for_each_filter(folder: Folder) -> None:
    import_logs(folder, NEW / "careful")
    (row,) = folder.sql("select * from predictions where case_id = 'sums/6'")
    question = QUESTIONS[6]
    assert row["prompt"] == question.text
    assert (row["expected"], row["tag_task"], row["variant"]) == (question.expected, "sums", "careful")
    assert (row["score_exact_match_strict"], row["score_exact_match_flexible"]) == (1.0, 1.0)
    (choice,) = folder.sql(
        "select answer, prompt, score_acc, score_exact_match_strict as other from predictions "
        "where case_id = 'choices/6'"
    )
    assert choice == {"answer": question.expected, "prompt": question.text, "score_acc": 1.0, "other": None}


def test_tasks_with_different_metrics_share_a_score(folder: Folder) -> None:
    import_logs(folder, NEW / "careful")
    rows = folder.sql(
        "select tag_task as task, avg(score_score) as score, "
        "avg(coalesce(score_exact_match_strict, score_acc)) as main from predictions group by 1 order by 1"
    )
    assert [row["task"] for row in rows] == ["choices", "sums"]
    assert all(row["score"] == row["main"] for row in rows)


def test_the_models_below_a_folder_are_variants(folder: Folder) -> None:
    for model in ("careful", "quick"):
        shutil.copytree(NEW / model, folder.path / "output" / model)
    one = logged_verdict(folder, "output")
    assert one == logged_verdict(folder, NEW / "careful", NEW / "quick")
    assert one["cases"] == 48


def test_a_summary_stands_for_the_samples_next_to_it(folder: Folder) -> None:
    names = [NEW / model / f"results_{DATE}.json" for model in ("careful", "quick")]
    assert logged_verdict(folder, *names) == logged_verdict(folder, NEW / "careful", NEW / "quick")
    folder.write("alone/results.json", names[0].read_bytes())
    done = folder.abreast("import", "alone/results.json")
    assert (done.code, "a summary without samples next to it" in done.err) == (2, True)
    assert "run lm_eval with --log_samples" in done.err


def test_a_request_without_a_response_counts_for_neither_side(folder: Folder) -> None:
    lines = (NEW / "careful/" / SUMS).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        if row["doc_id"] == 3:
            row["resps"] = row["filtered_resps"] = [None]
    folder.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    import_logs(folder, "rows.jsonl")
    (row,) = folder.sql("select case_id, error_kind, error_blame from predictions where status = 'error'")
    assert row == {"case_id": "3", "error_kind": "no_answer", "error_blame": "unknown"}


def test_a_truncated_file_is_refused_or_its_missing_documents_are_counted(folder: Folder) -> None:
    content = (NEW / "careful" / SUMS).read_bytes()
    folder.write(f"careful/results_{DATE}.json", (NEW / "careful" / f"results_{DATE}.json").read_bytes())
    folder.write(f"careful/{SUMS}", content[: len(content) // 2 + 10])
    done = folder.abreast("import", f"careful/{SUMS}")
    assert (done.code, "the file may be truncated" in done.err) == (2, True), done.err
    assert not (folder.path / "results.db").exists()
    lines = content.splitlines(keepends=True)
    folder.write(f"careful/{SUMS}", b"".join(lines[:20]))  # cut between two lines
    import_logs(folder, f"careful/{SUMS}")
    (run,) = folder.abreast("runs", "--json").json
    assert (run["trials"], run["planned"], run["status"]) == (20, 24, "incomplete")


def test_two_runs_of_a_task_in_a_folder_are_refused(folder: Folder) -> None:
    shutil.copytree(NEW / "careful", folder.path / "careful")
    shutil.copy(folder.path / "careful" / SUMS, folder.path / "careful/samples_sums_2026-11-20T12-00-00.jsonl")
    done = folder.abreast("import", "careful")
    assert done.code == 2
    assert "several runs of the task sums: 2026-11-19T12-00-00.000000 and 2026-11-20T12-00-00" in done.err


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"doc_id": 0, "doc": {}, "acc": 1.0}, "needs doc_id, resps, filtered_resps; has doc_id, doc, acc"),
        (
            {"doc_id": [1], "doc": {}, "resps": [["x"]], "filtered_resps": ["x"], "acc": 1},
            "doc_id is not a number: [1]",
        ),
    ],
)
def test_rows_of_another_shape_are_refused_with_what_they_have(
    folder: Folder, row: dict[str, Any], message: str
) -> None:
    folder.write("rows.jsonl", json.dumps(row) + "\n")
    done = folder.abreast("import", "rows.jsonl")
    assert done.code == 2
    assert message in done.err, done.err


def sample(number: int, **metrics: Any) -> str:
    row = {"doc_id": number, "doc": {"n": number}, "target": "x", "arguments": [], "resps": [["x"]]}
    return json.dumps({**row, "filtered_resps": ["x"], "metrics": list(metrics), **metrics}) + "\n"


def test_the_first_document_may_have_no_number(folder: Folder) -> None:
    folder.write("rows.jsonl", sample(0, acc=math.nan) + sample(1, acc=1.0))
    import_logs(folder, "rows.jsonl")
    assert folder.sql("select score from predictions order by case_id") == [{"score": None}, {"score": 1.0}]


def test_answers_without_a_metric_for_each_document_are_there_to_be_scored(folder: Folder) -> None:
    folder.write("rows.jsonl", sample(0, bypass=999) + sample(1, bypass=999))
    import_logs(folder, "rows.jsonl")
    assert "no scorer: answers are stored" in folder.abreast("report").out
    assert folder.abreast("rescore", "--scorer", "exact").code == 0
    assert folder.sql("select score from predictions") == [{"score": 1.0}, {"score": 1.0}]


def test_a_metric_for_which_less_is_better_is_not_the_main_one(folder: Folder) -> None:
    rows = [
        {"doc_id": n, "doc": {"n": n}, "target": "x", "arguments": [], "resps": [["x"]], "filtered_resps": ["x"]}
        | {"wer": 5.0, "acc": n % 2, "word_perplexity": [-1.0, 3]}
        for n in range(4)
    ]
    folder.write("m/samples_t_2026-11-19T12-00-00.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    summary = {
        "results": {"t": {"wer,none": 5.0, "acc,none": 0.5}},
        "configs": {},
        "higher_is_better": {"t": {"wer": False}},
    }
    folder.write("m/results_2026-11-19T12-00-00.json", json.dumps({**summary, "model_name": "org/model-7b"}))
    import_logs(folder, "m")
    assert folder.sql("select variant, avg(score) as mean, avg(score_wer) as wer from predictions") == [
        {"variant": "org/model-7b", "mean": 0.5, "wer": 5.0}
    ]


def test_less_is_better_holds_for_the_metric_of_a_filter_as_well(folder: Folder) -> None:
    row = {"doc": {}, "target": "x", "arguments": [], "resps": [["x"]], "filtered_resps": ["x"], "filter": "last"}
    rows = [{"doc_id": n, **row, "wer": 0.9, "exact_match": n % 2} for n in range(4)]
    folder.write("m/samples_t_2026-11-19T12-00-00.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    summary = {"results": {"t": {"wer,last": 0.9}}, "configs": {}, "higher_is_better": {"t": {"wer": False}}}
    folder.write("m/results_2026-11-19T12-00-00.json", json.dumps(summary))
    import_logs(folder, "m")
    assert folder.sql("select avg(score) as mean from predictions") == [{"mean": 0.5}]


def test_another_summary_of_the_same_samples_is_another_log(folder: Folder) -> None:
    model = shutil.copytree(NEW / "quick", folder.path / "quick")
    import_logs(folder, model / SUMS)
    path = model / f"results_{DATE}.json"
    path.write_text(json.dumps({**results_of("quick"), "model_name": "org/other"}))
    import_logs(folder, model / SUMS)
    assert len(folder.sql("select distinct variant from predictions")) == 2


@pytest.mark.heavy
def test_a_log_of_100_000_documents_is_imported(folder: Folder) -> None:
    (row,) = (json.loads(line) for line in (NEW / "careful" / SUMS).read_text().splitlines()[:1])
    with folder.write("samples_t_2026-11-19T12-00-00.jsonl", "").open("w") as file:
        for name in ("strict", "flexible"):
            for n in range(100_000):
                scores = {"exact_match": float(n % 4 > 0 if name == "strict" else 1)}
                file.write(json.dumps({**row, "doc_id": n, "filter": name, "doc": {"n": n}, **scores}) + "\n")
    import_logs(folder, "samples_t_2026-11-19T12-00-00.jsonl")
    (sums,) = folder.sql(
        "select count(*) as n, sum(score_exact_match_strict) as strict, sum(score_exact_match_flexible) as flexible "
        "from predictions"
    )
    assert sums == {"n": 100_000, "strict": 75_000.0, "flexible": 100_000.0}
