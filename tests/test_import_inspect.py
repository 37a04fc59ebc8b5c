"""Logs of Inspect, made by Inspect (`tools/foreign_logs`): rows, figures, verdicts, damage, and the way back."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tools.foreign_logs import questions

from conftest import Folder
from test_import import figures, imported, verdicts

LOGS = Path(__file__).parent / "logs" / "inspect"
OURS = """\
import os
from tools.foreign_logs.questions import BY_TEXT, Overloaded, reply
from abreast.errors import Transient

class Repeats:
    asked = {}

def answer(case, model):
    key = os.getcwd(), case.id, model
    repeat = Repeats.asked[key] = Repeats.asked.get(key, -1) + 1
    try:
        return reply(model, BY_TEXT[case.input], repeat)
    except Overloaded as error:
        raise Transient(str(error))
"""


@pytest.fixture
def ours(folder: Folder) -> str:
    """Our own run of the same questions, models and replies."""
    lines = [{"id": item.id, "input": item.text, "expected": item.expected} for item in questions.QUESTIONS]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("canned.py", OURS)
    folder.write(
        "spec.yaml",
        "name: arithmetic\ncases: cases.jsonl\ntarget: python:canned:answer\nrepeats: 2\n"
        "variants: {careful: {model: careful}, quick: {model: quick}}\n"
        "scorers: [contains, exact]\nlimits: {retries: 0}\n",
    )
    assert folder.abreast("run", "spec.yaml", "--quiet").code == 3
    return str(folder.abreast("runs", "--json").json[0]["run"])


@pytest.mark.parametrize("version", [".", "0.3.60"])
def test_the_verdict_on_two_logs_is_that_of_our_own_run(folder: Folder, ours: str, version: str) -> None:
    first, second = sorted((LOGS / version).glob("careful.*"))[0], sorted((LOGS / version).glob("quick.*"))[0]
    (before,) = [item for item in verdicts(folder.abreast("report", ours, "--json")) if item["primary"]]
    (after,) = verdicts(folder.abreast("compare", str(first), str(second), "--json"))
    assert after["verdict"] == "worse"
    same = ("effect", "interval", "level", "p", "wins", "losses", "ties", "cases", "bounds", "dropped_cases", "scores")
    of_both = figures(before), figures(after)
    assert [of_both[1][key] for key in same] == [of_both[0][key] for key in same]


def test_the_figures_are_those_of_inspect(folder: Folder) -> None:
    for name in ("careful", "quick"):
        run = imported(folder, str(LOGS / f"{name}.eval"))
        facts = folder.abreast("show", run, "--json").json[0]["provenance"]["imported"]["facts"]
        for scorer, figure in (("includes", "accuracy"), ("exact", "mean")):
            (row,) = folder.sql(
                f"select avg(mean) as mean from (select avg(score_{scorer}) as mean from predictions "
                f"where run = '{run}' group by case_id)"
            )
            assert row["mean"] == pytest.approx(facts["results"][f"{scorer}/{figure}"], rel=1e-12)


def test_rows_have_what_the_log_has(folder: Folder) -> None:
    imported(folder, str(LOGS / "quick.eval"))
    (row,) = folder.sql(
        "select variant, status, score_includes, expected, answer, prompt, model, input_tokens, output_tokens, "
        "params_model, tag_kind, latency_s > 0 as timed from predictions where case_id = 'product-00' and repeat = 1"
    )
    question = questions.QUESTIONS[1]
    assert row == {
        "variant": "canned/quick",
        "status": "ok",
        "score_includes": questions.includes(row["answer"], question.expected),
        "expected": question.expected,
        "answer": questions.reply("quick", question, 1),
        "prompt": question.text,
        "model": "canned/quick",
        "input_tokens": 10,
        "output_tokens": len(row["answer"]),
        "params_model": "canned/quick",
        "tag_kind": "product",
        "timed": 1,
    }
    (failed,) = folder.sql("select case_id, repeat, error_kind, error_blame from predictions where status = 'error'")
    assert failed == {"case_id": "sum-07", "repeat": 0, "error_kind": "network", "error_blame": "infrastructure"}
    (run,) = folder.abreast("runs", "--json").json
    assert (run["experiment"], run["status"], run["planned"]) == ("arithmetic", "complete", 48)


def test_conversations_choices_graders_and_dictionaries_of_scores(folder: Folder) -> None:
    imported(folder, str(LOGS / "conversation.eval"))
    first, second = folder.sql("select * from predictions order by case_id")
    assert first["prompt"] == "system: You are good at arithmetic.\n\nuser: What is 6 * 7?"
    assert (first["answer"], second["answer"]) == ("6 * 7 is 42.", "apple")
    assert (first["score"], second["score"]) == (1.0, 0.5), "C and P"
    assert (first["score_measures_length"], first["score_measures_unknown"]) == (12.0, None)
    assert second["expected"] == '["A","apple"]'
    assert first["input_tokens"] == 20, "two calls, without the grader's"
    assert "multiply" in first["raw_response"], "with the tool call"
    inputs = [json.loads(row["input"]) for row in folder.sql("select input from cases order by id")]
    assert inputs[1] == {"question": "Which one is a fruit?", "choices": ["apple", "chair"]}
    assert all(set(message) == {"role", "content"} for message in inputs[0]), "ids of messages differ between runs"
    (report,) = folder.abreast("report", "--json").json
    figures = report["provenance"]["imported"]["facts"]["results"]
    assert figures["unknown/mean"] is None, "Inspect logs NaN"


@pytest.mark.parametrize(
    ("name", "trials", "reason"),
    [
        ("cancelled", 11, "cancelled in Inspect"),
        ("failed", 16, "Inspect stopped with an error: "),
        ("killed", 10, "Inspect did not finish this log: it was killed, or is still running"),
    ],
)
def test_partial_logs_are_incomplete_runs(folder: Folder, name: str, trials: int, reason: str) -> None:
    imported(folder, str(LOGS / f"{name}.eval"))
    (run,) = folder.abreast("runs", "--json").json
    assert (run["status"], run["trials"], run["planned"]) == ("incomplete", trials, 48)
    assert run["reason"].startswith(reason)
    assert folder.abreast("report").code == 0
    done = folder.abreast("compare", str(LOGS / "careful.eval"), run["run"], "--json")
    (verdict,) = verdicts(done)
    assert verdict["cases"] < 24


def test_another_score_of_the_log_decides(folder: Folder) -> None:
    logs = [str(LOGS / f"{name}.eval") for name in ("careful", "quick")]
    (first,) = verdicts(folder.abreast("compare", *logs, "--json"))
    (second,) = verdicts(folder.abreast("compare", *logs, "--score", "exact", "--json"))
    assert (first["metric"], second["metric"]) == ("includes", "exact")
    assert first["effect"] != second["effect"]
    refused = folder.abreast("compare", *logs, "--score", "exakt")
    assert '--score exakt: no such score (did you mean "exact"?)' in refused.err


def test_json_and_archives_of_the_same_rows_are_equal(folder: Folder) -> None:
    (verdict,) = verdicts(
        folder.abreast("compare", str(LOGS / "careful.eval"), str(LOGS / "0.3.60" / "careful.json"), "--json")
    )
    assert (verdict["wins"], verdict["losses"], verdict["ties"]) == (0, 0, 24)
    assert not verdict["changed_inputs"]


# -- damage ------------------------------------------------------------------------------------------------------------


def header(**changes: Any) -> dict[str, Any]:
    spec = {"task": "t", "model": "m/x", "created": "2026-11-01T10:00:00+00:00", "dataset": {}, "config": {}}
    return {"version": 2, "status": "success", "eval": spec, "plan": {}, "results": {}, "stats": {}, **changes}


def sample(**changes: Any) -> dict[str, Any]:
    return {"id": 1, "epoch": 1, "input": "x", "target": "y", "scores": {"s": {"value": "C"}}, **changes}


def write_log(folder: Folder, *samples: Mapping[str, Any], **changes: Any) -> None:
    folder.write("log.json", json.dumps({**header(**changes), "samples": samples}))


def test_ids_of_samples_may_contain_slashes(folder: Folder) -> None:
    with zipfile.ZipFile(folder.path / "log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps(header()))
        for name in ("math/1", "math/2"):
            archive.writestr(f"samples/{name}_epoch_1.json", json.dumps(sample(id=name)))
    imported(folder, "log.eval")
    assert folder.sql("select case_id from predictions order by 1") == [{"case_id": "math/1"}, {"case_id": "math/2"}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "log.json: version 3 of the Inspect log format; versions 1 and 2 are supported"),
        ({"version": None}, "log.json: version None of the Inspect log format"),
        ({"eval": {**header()["eval"], "shards": {"selection": "ids"}}}, "a sharded log"),
        ({"eval": {**header()["eval"], "dataset": {"samples": 10**12}}}, "1,000,000,000,000 planned cases"),
    ],
)
def test_a_log_of_an_unknown_version_is_refused(folder: Folder, changes: dict[str, Any], message: str) -> None:
    write_log(folder, sample(), **changes)
    done = folder.abreast("import", "log.json")
    assert done.code == 2
    assert message in done.err
    assert not (folder.path / "results.db").exists()


@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_a_truncated_document_is_refused_and_nothing_is_stored(folder: Folder, share: float) -> None:
    content = (LOGS / "0.3.60" / "quick.json").read_bytes()
    folder.write("cut.json", content[: int(len(content) * share)])
    done = folder.abreast("import", "cut.json")
    assert done.code == 2
    assert "cut.json: the file is truncated: it ends " in done.err
    assert not (folder.path / "results.db").exists()


def test_a_truncated_archive_is_refused(folder: Folder) -> None:
    content = (LOGS / "quick.eval").read_bytes()
    folder.write("cut.eval", content[: len(content) // 2])
    done = folder.abreast("import", "cut.eval")
    assert done.code == 2
    assert "cut.eval: the archive is damaged or truncated" in done.err
    assert "help: copy it again from its source" in done.err


def test_a_damaged_member_is_refused(folder: Folder) -> None:
    with zipfile.ZipFile(LOGS / "quick.eval") as archive:
        info = archive.getinfo("samples/sum-03_epoch_2.json")
    content = bytearray((LOGS / "quick.eval").read_bytes())
    at = info.header_offset + 30 + len(info.filename)
    content[at + 20 : at + 60] = bytes(40)
    folder.write("bad.eval", bytes(content))
    done = folder.abreast("import", "bad.eval")
    assert done.code == 2
    assert "bad.eval (samples/sum-03_epoch_2.json): " in done.err
    assert not (folder.path / "results.db").exists()


def test_a_log_without_samples_is_refused(folder: Folder) -> None:
    write_log(folder)
    assert "log.json: the Inspect log has no trials" in folder.abreast("import", "log.json").err


@pytest.mark.parametrize("bad", [{"id": 1, "epoch": "x"}, {"epoch": 1}, sample(scores={"s": {"value": {"a": []}}})])
def test_a_sample_that_inspect_would_not_write_is_named(folder: Folder, bad: dict[str, Any]) -> None:
    write_log(folder, sample(), bad)
    done = folder.abreast("import", "log.json")
    assert done.code == 2
    assert "not in the format of Inspect" in done.err


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("C", 1.0),
        ("I", 0.0),
        ("P", 0.5),
        ("N", 0.0),
        ("yes", 1.0),
        ("False", 0.0),
        ("0.25", 0.25),
        (True, 1.0),
        (0.5, 0.5),
        ("what", 0.0),
    ],
)
def test_values_count_as_in_the_metrics_of_inspect(folder: Folder, value: Any, score: float) -> None:
    write_log(folder, sample(scores={"s": {"value": value}}))
    imported(folder, "log.json")
    assert folder.sql("select score_s from predictions") == [{"score_s": score}]


@pytest.mark.parametrize(
    ("message", "blame"),
    [
        ("RateLimitError('Error code: 429')", "infrastructure"),
        ("APIConnectionError: Connection error.", "infrastructure"),
        ("BadRequestError: prompt is too long", "variant"),
        ("KeyError('answer')", "unknown"),
        ("FileNotFoundError: data.csv", "unknown"),
        ("getaddrinfo ENOTFOUND api.example.com", "infrastructure"),
    ],
)
def test_errors_are_judged_by_their_message(folder: Folder, message: str, blame: str) -> None:
    write_log(folder, sample(scores=None, error={"message": message, "traceback": ""}), sample(id=2))
    imported(folder, "log.json")
    (row,) = folder.sql("select error_blame, error from predictions where status = 'error'")
    assert row == {"error_blame": blame, "error": message}


def test_a_sample_that_inspect_scored_in_spite_of_an_error_is_scored(folder: Folder) -> None:
    write_log(folder, sample(error={"message": "boom", "traceback": ""}))
    imported(folder, "log.json")
    assert folder.sql("select status, score_s, sample_error from predictions") == [
        {"status": "ok", "score_s": 1.0, "sample_error": "boom"}
    ]


def test_long_texts_that_inspect_keeps_aside_are_put_back(folder: Folder) -> None:
    write_log(folder, sample(input="attachment://abc", attachments={"abc": "a long question"}))
    imported(folder, "log.json")
    assert folder.sql("select prompt from predictions") == [{"prompt": "a long question"}]


# -- the way back ------------------------------------------------------------------------------------------------------


def test_an_exported_run_imports_with_the_same_verdict(folder: Folder, ours: str) -> None:
    done = folder.abreast("export", ours, "--format", "inspect", "--output", "logs")
    assert done.code == 0, done.err
    names = [line.partition(": ")[0] for line in done.out.splitlines()]
    assert names == [f"logs/{ours}-careful.eval", f"logs/{ours}-quick.eval"]
    (before,) = [item for item in verdicts(folder.abreast("report", ours, "--json")) if item["primary"]]
    (after,) = verdicts(folder.abreast("compare", *names, "--json"))
    same = ("effect", "interval", "level", "p", "wins", "losses", "ties", "cases", "bounds", "scores")
    of_both = figures(before), figures(after)
    assert [of_both[1][key] for key in same] == [of_both[0][key] for key in same]


def test_an_exported_log_has_the_form_that_inspect_reads(folder: Folder, ours: str) -> None:
    folder.abreast("export", ours, "--output", "careful.eval")
    assert not (folder.path / "careful.eval").exists(), "one file cannot hold two variants"
    folder.abreast("export", ours, "--format", "inspect")
    with zipfile.ZipFile(folder.path / f"{ours}-quick.eval") as archive:
        names, head = set(archive.namelist()), json.loads(archive.read("header.json"))
        refused = json.loads(archive.read("samples/sum-07_epoch_1.json"))
        summaries = json.loads(archive.read("summaries.json"))
    assert {"header.json", "summaries.json", "_journal/start.json", "samples/sum-00_epoch_2.json"} <= names
    assert (head["version"], head["status"], head["eval"]["config"]) == (2, "success", {"epochs": 2})
    assert head["results"]["total_samples"] == 48
    assert head["results"]["completed_samples"] == 47
    assert refused["error"]["message"].startswith("network (infrastructure): 503")
    assert len(summaries) == 48


def test_several_expected_texts_are_several_targets(folder: Folder) -> None:
    folder.write(
        "cases.jsonl", '{"id": "c1", "input": "x", "expected": ["a", "b"]}\n{"id": "c2", "input": "y", "expected": 4}'
    )
    folder.write("spec.yaml", "name: e\ncases: cases.jsonl\nvariants: {a: {target: simulated}}\nscorers: [exact]\n")
    assert folder.abreast("run", "spec.yaml", "--quiet", "--yes").code == 0
    assert folder.abreast("export", "latest", "--format", "inspect", "--output", "log.eval").code == 0
    with zipfile.ZipFile(folder.path / "log.eval") as archive:
        targets = [json.loads(archive.read(f"samples/{name}_epoch_1.json"))["target"] for name in ("c1", "c2")]
    assert targets == [["a", "b"], "4"]


def test_an_export_overwrites_nothing(folder: Folder, ours: str) -> None:
    assert folder.abreast("export", ours, "--format", "inspect").code == 0
    again = folder.abreast("export", ours, "--format", "inspect")
    assert again.code == 2
    assert f"{ours}-careful.eval: exists already" in again.err


def test_an_imported_conversation_is_exported_whole(folder: Folder) -> None:
    shutil.copy(LOGS / "conversation.eval", folder.path)
    run = imported(folder, "conversation.eval")
    assert folder.abreast("export", run, "--output", "again.eval").code == 0
    with zipfile.ZipFile(folder.path / "again.eval") as archive:
        messages = json.loads(archive.read("samples/1_epoch_1.json"))["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant"]


# -- hostile and large logs --------------------------------------------------------------------------------------------

JUNK = [None, "x", "", -1, 3.5, [], {}, [1], {"a": 1}, True, float("nan"), 10**30, "\ud800", [[]]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


@pytest.mark.parametrize(
    "seed", [1, 2, pytest.param(3, marks=pytest.mark.heavy), pytest.param(4, marks=pytest.mark.heavy)]
)
def test_a_log_with_any_value_anywhere_is_imported_or_refused_by_name(folder: Folder, seed: int) -> None:
    log = json.loads((LOGS / "0.3.60" / "quick.json").read_text())
    log["samples"] = [{**item, "events": []} for item in log["samples"][:2]]
    luck = random.Random(seed)
    for number in range(25):
        damaged = json.loads(json.dumps(log))
        *parents, last = luck.choice(places(log)[1:])
        place = damaged
        for key in parents:
            place = place[key]
        place[last] = luck.choice(JUNK)
        folder.write(f"{number}.json", json.dumps(damaged))
        done = folder.abreast("import", f"{number}.json", "--store", f"{number}.db")
        assert done.code in (0, 2), (parents, last)
        assert "unexpected" not in done.err, (parents, last, done.err)
        if done.code == 2:
            assert done.err.startswith(f"error: {number}.json"), done.err


@pytest.mark.heavy
def test_a_log_of_100_000_samples_is_imported(folder: Folder) -> None:
    with (folder.path / "large.json").open("w") as file:
        file.write(json.dumps(header())[:-1] + ', "samples": [')
        file.write(",".join(json.dumps(sample(id=n, scores={"s": {"value": "CI"[n % 2]}})) for n in range(100_000)))
        file.write("]}")
    imported(folder, "large.json")
    assert folder.sql("select count(*) as n, avg(score_s) as mean from predictions") == [{"n": 100_000, "mean": 0.5}]
    assert folder.abreast("report").code == 0
