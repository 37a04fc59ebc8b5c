"""Results of promptfoo: its figures and ours, providers and prompts as variants, repeats, errors, versions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tools.foreign_logs.questions import QUESTIONS

from canned_models import LOGS, import_logs, logged_verdict, own_verdict
from conftest import Folder

RESULTS, EXPORT, OLD = (LOGS / "promptfoo" / name for name in ("results.json", "export.json", "0.57.1/results.json"))


def content(path: Path = RESULTS) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@pytest.mark.parametrize("log", [RESULTS, EXPORT, OLD], ids=["results", "export", "old"])
def test_its_summary_is_ours(folder: Folder, log: Path) -> None:
    import_logs(folder, log)
    results = content(log)["results"]
    prompts = results["prompts"] if results["version"] == 3 else results["table"]["head"]["prompts"]
    rows = folder.sql(
        "select variant, sum(score_pass) as passed, sum(score_pass = 0) as failed, sum(status = 'error') as errors, "
        "sum(score_score) as score, sum(score_includes) as includes, sum(score_exact) as exact, sum(cost_usd) as cost, "
        "sum(output_tokens) as tokens from predictions group by variant order by variant"
    )
    label = "label" if results["version"] == 3 else "display"
    prompts.sort(key=lambda prompt: (prompt["provider"], prompt[label]))
    assert len(rows) == len(prompts)
    for row, metrics in zip(rows, (prompt["metrics"] for prompt in prompts), strict=True):
        failed = metrics["testFailCount"] + metrics.get("testErrorCount", 0)
        assert (row["passed"], row["failed"] + row["errors"]) == (metrics["testPassCount"], failed)
        assert row["errors"] == metrics.get("testErrorCount", row["errors"])
        assert row["score"] == pytest.approx(metrics["score"], abs=1e-12)
        assert {name: row[name] for name in ("includes", "exact")} == metrics["namedScores"]
        assert row["cost"] == pytest.approx(metrics["cost"], abs=1e-12)
        assert row["tokens"] == metrics["tokenUsage"]["completion"]


@pytest.mark.parametrize("log", [RESULTS, OLD], ids=["results", "old"])
def test_the_verdict_is_that_of_our_own_run_on_the_same_rows(folder: Folder, log: Path) -> None:
    verdict = logged_verdict(folder, log)
    assert (verdict["cases"], verdict["repeats_left_out"]) == (16, 1)
    assert verdict == own_verdict(folder, QUESTIONS[:16])


def test_each_combination_of_provider_and_prompt_is_a_variant(folder: Folder) -> None:
    import_logs(folder, EXPORT)
    rows = folder.sql(
        "select variant, params_provider as provider, count(*) as n from predictions group by 1, 2 order by 1"
    )
    asked = [f"{model} / {prompt}" for model in ("careful", "quick") for prompt in ("Answer with a number. ", "")]
    assert [row["variant"] for row in rows] == [f"{name}{{{{question}}}}" for name in asked]
    assert {row["n"] for row in rows} == {8}
    assert "careful / {{question}}" in folder.abreast("report").out


def test_a_result_keeps_what_promptfoo_knows(folder: Folder) -> None:
    import_logs(folder, RESULTS)
    (row,) = folder.sql("select * from predictions where case_id = 'sum-07' and variant = 'careful' and repeat = 1")
    assert (row["prompt"], row["answer"], row["expected"]) == ("What is 52 + 47?", "The answer is 99.", "99")
    assert (row["score"], row["score_exact"], row["score_score"]) == (1.0, 0.0, 0.5)
    assert (row["input_tokens"], row["output_tokens"], row["cost_basis"]) == (10, 17, "estimated")
    assert (row["tag_kind"], row["model"]) == ("sum", "canned:careful")


def test_errors_of_providers_are_no_wrong_answers(folder: Folder) -> None:
    import_logs(folder, RESULTS)
    query = "select case_id, variant, repeat, error_kind, error_blame from predictions where status = 'error'"
    assert folder.sql(query) == [
        {"case_id": "sum-07", "variant": "quick", "repeat": 0, "error_kind": "network", "error_blame": "infrastructure"}
    ]
    assert "promptfoo marks errors of providers apart" in " ".join(folder.abreast("report").out.split())


def test_tests_without_descriptions_are_numbered_and_repeats_found(folder: Folder) -> None:
    document = content()
    for row in document["results"]["results"]:
        del row["testCase"]["description"]
    folder.write("results.json", json.dumps(document))
    import_logs(folder, "results.json")
    rows = folder.sql("select distinct case_id, prompt from predictions order by prompt")
    assert {row["case_id"]: row["prompt"] for row in rows} == {
        f"test {number}": question.text for number, question in enumerate(QUESTIONS[:16])
    }
    assert folder.sql("select count(distinct repeat) as n from predictions") == [{"n": 2}]


def test_one_description_of_several_tests_names_them_apart(folder: Folder) -> None:
    document = content()
    for row in document["results"]["results"]:
        row["testCase"]["description"] = "arithmetic"
    folder.write("results.json", json.dumps(document))
    assert logged_verdict(folder, "results.json") == logged_verdict(folder, RESULTS)
    import_logs(folder, "results.json")
    assert folder.sql("select count(distinct case_id) as n, min(case_id) as first from predictions") == [
        {"n": 16, "first": "arithmetic (test 0)"}
    ]


def test_a_metric_with_the_name_of_the_verdict_is_kept_apart(folder: Folder) -> None:
    document = content()
    for row in document["results"]["results"]:
        row["namedScores"] = {"pass": 0.25}
    folder.write("results.json", json.dumps(document))
    assert logged_verdict(folder, "results.json") == logged_verdict(folder, RESULTS)
    import_logs(folder, "results.json")
    query = "select distinct score_metric_pass as metric from predictions where status = 'ok'"
    assert folder.sql(query) == [{"metric": 0.25}]


def test_a_latency_below_0_is_refused_with_its_case(folder: Folder) -> None:
    document = content()
    document["results"]["results"][0]["latencyMs"] = -500
    folder.write("results.json", json.dumps(document))
    done = folder.abreast("import", "results.json")
    assert done.code == 2
    assert re.search(r"results.json: case \S+: the latency is -0.5, below 0", done.err), done.err


def test_json_lines_are_read_as_well(folder: Folder) -> None:
    folder.write("results.jsonl", "".join(json.dumps(row) + "\n" for row in content()["results"]["results"]))
    assert logged_verdict(folder, "results.jsonl") == logged_verdict(folder, RESULTS)
    folder.write("export.jsonl", "".join(json.dumps(row) + "\n" for row in content(EXPORT)["results"]["results"]))
    import_logs(folder, "export.jsonl", EXPORT)
    rows = folder.sql("select variant, count(distinct run) as runs from predictions group by variant")
    assert [row["runs"] for row in rows] == [2] * 4, rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 4}, "version 4 of promptfoo's results; versions 2 and 3 are supported"),
        ({"results": [{"score": 1}]}, "not a result of promptfoo: needs vars and prompt; has score"),
        ({"results": []}, "has no trials"),
    ],
)
def test_other_results_are_refused_with_what_was_found(folder: Folder, change: dict[str, Any], message: str) -> None:
    document = content()
    folder.write("results.json", json.dumps({**document, "results": {**document["results"], **change}}))
    done = folder.abreast("import", "results.json")
    assert (done.code, message in done.err) == (2, True), done.err


def test_results_of_version_1_are_refused_by_their_version(folder: Folder) -> None:
    folder.write("results.json", json.dumps({"version": 1, "results": [], "stats": {}, "table": []}))
    done = folder.abreast("import", "results.json")
    assert "version 1 of promptfoo's results; versions 2 and 3 are supported" in done.err, done.err


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(folder: Folder, share: float) -> None:
    whole = RESULTS.read_bytes()
    folder.write("results.json", whole[: int(share * len(whole))])
    done = folder.abreast("import", "results.json")
    assert (done.code, "results.json: the file is truncated" in done.err) == (2, True), done.err
    assert not (folder.path / "results.db").exists()


@pytest.mark.heavy
def test_results_of_100_000_tests_are_imported(folder: Folder) -> None:
    document = content()
    (first, *_) = document["results"]["results"]
    with folder.write("big.json", "").open("w") as file:
        head = {"version": 3, "prompts": document["results"]["prompts"]}
        file.write('{"evalId": "e", "results": ' + json.dumps(head)[:-1] + ', "results": [')
        for n in range(100_000):
            row = {**first, "testIdx": n // 2, "promptIdx": n % 2, "vars": {"n": n // 2}, "success": n % 4 < 3}
            file.write((", " if n else "") + json.dumps(row))
        file.write('], "stats": {}}, "config": {}}')
    verdict = logged_verdict(folder, "big.json")
    assert (verdict["cases"], verdict["effect"]) == (50_000, pytest.approx(-0.5))
