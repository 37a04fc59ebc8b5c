"""Reports of pydantic-evals: its averages and ours, repeats, assertions, failures of tasks and of evaluators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools.foreign_logs.questions import QUESTIONS

from canned_models import LOGS, import_logs, logged_verdict, own_verdict
from conftest import Folder

NEW = LOGS / "pydantic-evals"
OLD = NEW / "1.0.0"


def report(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def averages(folder: Folder, model: str) -> dict[str, float]:
    """The averages of the cases, each of which is the average of its repeats."""
    (row,) = folder.sql(
        "select avg(includes) as includes, avg(assertions) as assertions from (select case_id, "
        "avg(score_includes) as includes, avg(score_assertions) as assertions "
        f"from predictions where variant = '{model}' group by case_id)"
    )
    return dict(row)


@pytest.mark.parametrize(("place", "model"), [(NEW, "careful"), (NEW, "quick"), (OLD, "quick")])
def test_its_averages_are_ours(folder: Folder, place: Path, model: str) -> None:
    import_logs(folder, place / f"{model}.json")
    theirs = json.loads((place / "averages.txt").read_text())[model]
    ours = averages(folder, model)
    assert ours["includes"] == pytest.approx(theirs["scores"]["includes"], abs=1e-12)
    if model == "quick":  # where an evaluator raised, they average the assertions that are left, and we have no value
        assert ours["assertions"] == pytest.approx(theirs["assertions"], abs=1e-12)


def test_the_verdict_is_that_of_our_own_run_on_the_same_rows(folder: Folder) -> None:
    for model in ("careful", "quick"):  # without the case at which an evaluator raises
        content = report(NEW / f"{model}.json")
        for name in ("cases", "failures"):
            content[name] = [case for case in content[name] if case["source_case_name"] != "product-11"]
        folder.write(f"{model}.json", json.dumps(content))
    verdict = logged_verdict(folder, "careful.json", "quick.json")
    assert (verdict["cases"], verdict["repeats_left_out"]) == (23, 1)
    assert verdict == own_verdict(folder, QUESTIONS[:-1], "both")


def test_reports_of_different_versions_are_compared(folder: Folder) -> None:
    verdict = logged_verdict(folder, OLD / "careful.json", NEW / "quick.json")
    assert verdict["cases"] == 22  # of 24, without one that failed and one at which an evaluator raised


def test_a_case_keeps_what_pydantic_evals_knows(folder: Folder) -> None:
    import_logs(folder, NEW / "careful.json")
    (row,) = folder.sql("select * from predictions where case_id = 'sum-07' and repeat = 1")
    assert (row["prompt"], row["answer"], row["expected"]) == ("What is 52 + 47?", "The answer is 99.", "99")
    assert (row["score_EqualsExpected"], row["score_brief"], row["score_includes"]) == (0.0, 0.0, 1.0)
    assert (row["score_assertions"], row["tag_kind"], row["variant"]) == (0.0, "sum", "careful")
    assert row["latency_s"] > 0


def test_a_task_that_raised_is_no_wrong_answer(folder: Folder) -> None:
    import_logs(folder, NEW / "quick.json")
    assert folder.sql("select case_id, repeat, error_kind, error_blame from predictions where status = 'error'") == [
        {"case_id": "sum-07", "repeat": 0, "error_kind": "network", "error_blame": "infrastructure"}
    ]


def test_scores_of_an_evaluator_that_raised_are_missing(folder: Folder) -> None:
    import_logs(folder, NEW / "careful.json")
    (row,) = folder.sql("select * from predictions where case_id = 'product-11' and repeat = 0")
    assert row["score_EqualsExpected"] == 1.0
    assert [row[f"score_{name}"] for name in ("includes", "brief", "assertions")] == [None, None, None]
    assert "the evaluator fails" in folder.abreast("show", "latest", "product-11").out


def test_other_shapes_are_refused_with_what_they_have(folder: Folder) -> None:
    content = report(NEW / "quick.json")
    folder.write("report.json", json.dumps({**content, "cases": [{"id": 1, "task_duration": 2.0}]}))
    done = folder.abreast("import", "report.json")
    assert (done.code, "needs name and inputs; has id, task_duration" in done.err) == (2, True), done.err


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(folder: Folder, share: float) -> None:
    whole = (NEW / "quick.json").read_bytes()
    folder.write("report.json", whole[: int(share * len(whole))])
    done = folder.abreast("import", "report.json")
    assert (done.code, "report.json: the file is truncated" in done.err) == (2, True), done.err
    assert not (folder.path / "results.db").exists()


@pytest.mark.heavy
def test_a_report_of_100_000_cases_is_imported(folder: Folder) -> None:
    (first, *_) = report(NEW / "quick.json")["cases"]
    with folder.write("big.json", "").open("w") as file:
        file.write('{"name": "big", "cases": [')
        for n in range(100_000):
            case = {**first, "name": f"case {n}", "source_case_name": None, "inputs": f"question {n}"}
            file.write((", " if n else "") + json.dumps(case))
        file.write('], "failures": []}')
    import_logs(folder, "big.json")
    assert folder.sql("select count(*) as n, avg(score_includes) as mean from predictions") == [
        {"n": 100_000, "mean": 1.0}
    ]
