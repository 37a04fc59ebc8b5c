"""Runs of Terminal-Bench's own harness, as files of our own in the layout of its version 0.2.18."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tools.foreign_logs.questions import QUESTIONS, REPEATS, Overloaded, includes, reply

from canned_models import import_logs, logged_verdict, own_verdict
from conftest import Folder


def run(folder: Folder, model: str, **changes: dict[str, Any]) -> Path:
    """Write a run as `tb run` does. `changes` are values of results by the name of their task."""
    results = []
    for question in QUESTIONS:
        for repeat in range(REPEATS):
            result = {
                "id": "00000000-0000-4000-8000-000000000000",
                "trial_name": f"{question.id}.{repeat + 1}-of-{REPEATS}.{model}",
                "task_id": question.id,
                "instruction": question.text,
                "is_resolved": None,
                "failure_mode": "unset",
                "parser_results": None,
                "recording_path": None,
                "total_input_tokens": 100,
                "total_output_tokens": 20,
                "trial_started_at": "2025-11-19T10:00:00.000000+00:00",
                "trial_ended_at": "2025-11-19T10:01:00.000000+00:00",
                "agent_started_at": "2025-11-19T10:00:10.000000+00:00",
                "agent_ended_at": "2025-11-19T10:00:40.000000+00:00",
            }
            try:
                is_right = bool(includes(reply(model, question, repeat), question.expected))
                tests = {"test_answer": "passed" if is_right else "failed", "test_file": "passed"}
                result |= {"is_resolved": is_right, "parser_results": tests}
            except Overloaded:
                result |= {"failure_mode": "unknown_agent_error"}
            results.append(result | changes.get(f"{question.id}.{repeat}", {}))
    resolved = [result["task_id"] for result in results if result["is_resolved"]]
    summary = {"id": "1", "results": results, "n_resolved": len(resolved), "accuracy": len(resolved) / len(results)}
    metadata = {
        "run_id": "2025-11-19__10-00-00",
        "dataset_name": "arithmetic",
        "agent_name": "terminus",
        "model_name": f"canned/{model}",
        "n_attempts": REPEATS,
        "dataset_size": len(QUESTIONS),
        "accuracy": summary["accuracy"],
        "start_time": "2025-11-19T09:59:00+00:00",
        "end_time": "2025-11-19T11:00:00+00:00",
        **changes.get("metadata", {}),
    }
    folder.write(f"{model}/run_metadata.json", json.dumps(metadata, indent=4))
    return folder.write(f"{model}/results.json", json.dumps(summary, indent=4)).parent


def test_its_accuracy_is_ours(folder: Folder) -> None:
    """Terminal-Bench counts a trial without a result as unresolved; here it is left out, so that sums are compared."""
    for model in ("careful", "quick"):
        place = run(folder, model)
        import_logs(folder, place)
        accuracy = json.loads((place / "results.json").read_text())["accuracy"]
        (row,) = folder.sql(
            f"select sum(score_resolved) as n from predictions where variant = 'terminus / canned/{model}'"
        )
        assert row["n"] / (len(QUESTIONS) * REPEATS) == pytest.approx(accuracy, abs=1e-12)


def test_the_verdict_is_that_of_our_own_run_on_the_same_rows(folder: Folder) -> None:
    logs = run(folder, "careful"), run(folder, "quick") / "results.json"
    verdict = logged_verdict(folder, *logs)
    assert (verdict["cases"], verdict["repeats_left_out"]) == (24, 1)
    assert verdict == own_verdict(folder, QUESTIONS)


@pytest.mark.parametrize(
    ("mode", "kind", "blame"),
    [
        ("agent_timeout", "timeout", "variant"),
        ("context_length_exceeded", "too_long", "variant"),
        ("agent_installation_failed", "environment", "infrastructure"),
        ("parse_error", "verifier", "unknown"),
        ("unknown_agent_error", "error", "unknown"),
    ],
)
def test_trials_without_a_result_are_blamed_by_their_mode(folder: Folder, mode: str, kind: str, blame: str) -> None:
    import_logs(folder, run(folder, "careful", **{"sum-03.1": {"is_resolved": None, "failure_mode": mode}}))
    query = "select case_id, repeat, error_kind, error_blame from predictions where status = 'error'"
    assert folder.sql(query) == [{"case_id": "sum-03", "repeat": 1, "error_kind": kind, "error_blame": blame}]


def test_an_agent_that_ran_out_of_time_counts_with_its_tests(folder: Folder) -> None:
    import_logs(folder, run(folder, "careful", **{"sum-03.1": {"is_resolved": True, "failure_mode": "agent_timeout"}}))
    (row,) = folder.sql("select * from predictions where failure_mode = 'agent_timeout'")
    assert (row["status"], row["score"], row["score_tests"], row["latency_s"]) == ("ok", 1.0, 1.0, 30.0)
    assert (row["prompt"], row["input_tokens"], row["model"]) == ("What is 32 + 35?", 100, "canned/careful")


def test_a_run_that_was_stopped_is_incomplete(folder: Folder) -> None:
    import_logs(folder, run(folder, "careful", metadata={"end_time": None}))
    assert folder.abreast("runs", "--json").json[0]["status"] == "incomplete"


def test_a_truncated_file_is_refused(folder: Folder) -> None:
    place = run(folder, "careful")
    (place / "results.json").write_bytes((place / "results.json").read_bytes()[:-500])
    done = folder.abreast("import", "careful")
    assert (done.code, "careful (results.json): the file is truncated" in done.err) == (2, True), done.err
