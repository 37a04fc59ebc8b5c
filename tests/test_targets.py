"""Targets through the front door: the simulator and Python functions, sync, async and in processes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abreast import Answer, Case, Experiment, Usage, Variant
from abreast.errors import BadInput, RateLimited, Refused, Skipped, Transient, Unauthenticated
from conftest import Folder

CASES = [Case(f"c{n}", f"question {n}", expected="yes") for n in range(6)]


def rows_of(target: Any, tmp_path: Path, variants: Any = None, **options: Any) -> list[dict[str, Any]]:
    experiment = Experiment(
        cases=options.pop("cases", CASES),
        target=target,
        variants=variants or {"only": {}},
        scorers=options.pop("scorers", ["exact"]),
        store=tmp_path / "results.db",
        limits=options.pop("limits", {}),
    )
    return experiment.run(**options).rows()


def say_yes(case: Case) -> str:
    return "yes"


async def say_yes_later(case: Case) -> str:
    return "yes"


def with_parameters(case: Case, word: str, times: int = 1) -> str:
    return word * times


def as_dictionary(case: Case) -> dict[str, Any]:
    return {"prediction": "yes", "confidence": 0.9, "order": 1, "score": 7, "input_tokens": 11, "cost_usd": 0.5}


def as_answer(case: Case) -> Answer:
    return Answer("yes", usage=Usage(3, 4), cost_usd=0.25, cost_basis="reported", model="m-1", raw_response="{...}")


def square(case: Case) -> int:
    return int(case.input) ** 2


def test_a_plain_function_and_an_async_one_give_the_same_rows(tmp_path: Path) -> None:
    for function in (say_yes, say_yes_later):
        rows = rows_of(function, tmp_path, parallel=3)
        assert [(row["answer"], row["score"], row["status"]) for row in rows] == [("yes", 1.0, "ok")] * 6
        assert [row["case_id"] for row in rows] == [case.id for case in CASES], "in plan order"


def test_parameters_reach_the_function_and_become_columns(tmp_path: Path) -> None:
    variants = {"one": {"word": "yes"}, "two": {"word": "no", "times": 2}}
    rows = rows_of(with_parameters, tmp_path, variants)
    trials = {(row["variant"], row["answer"], row["params_word"], row["params_times"]) for row in rows}
    assert trials == {("one", "yes", "yes", None), ("two", "nono", "no", 2)}


@dataclasses.dataclass(frozen=True)
class Settings:
    word: str
    size: int = 3


def with_dataclass(item: str, params: Settings) -> str:
    assert isinstance(item, str)
    return params.word


def test_a_dataclass_is_passed_unchanged_and_unpacked_into_columns(tmp_path: Path) -> None:
    rows = rows_of(
        with_dataclass, tmp_path, [Variant("a", params=Settings("yes")), Variant("b", params=Settings("no", 9))]
    )
    assert {(row["variant"], row["answer"], row["params_size"]) for row in rows} == {("a", "yes", 3), ("b", "no", 9)}


def test_the_keys_of_a_returned_dictionary_become_columns(tmp_path: Path) -> None:
    row = rows_of(as_dictionary, tmp_path)[0]
    assert (row["answer"], row["confidence"], row["order"]) == ("yes", 0.9, 1)
    assert row["result_score"] == 7, "a key that is already a column gets another name"
    assert row["score"] == 1.0
    assert (row["input_tokens"], row["cost_usd"], row["cost_basis"]) == (11, 0.5, "reported")


def test_an_answer_object_is_stored_completely(tmp_path: Path) -> None:
    row = rows_of(as_answer, tmp_path)[0]
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (3, 4, 0.25)
    assert (row["model"], row["raw_response"]) == ("m-1", "{...}")


@pytest.mark.parametrize(
    ("raised", "kind", "blame", "status", "attempts"),
    [
        (ValueError("bad"), "crash", "variant", "error", 1),
        (Refused("no"), "refused", "variant", "error", 1),
        (Unauthenticated("key?"), "auth", "infrastructure", "error", 1),
        (RateLimited("slow", retry_after=0.0), "rate_limit", "infrastructure", "error", 2),
        (Transient("gone"), "network", "infrastructure", "error", 2),
        (ConnectionResetError("gone"), "network", "variant", "error", 2),
        (TimeoutError("slow"), "timeout", "variant", "error", 2),
        (MemoryError(), "resources", "variant", "error", 2),
        (Skipped("too large"), "skipped", "unknown", "skipped", 1),
        (SystemExit(3), "crash", "variant", "error", 1),
        (KeyboardInterrupt(), "crash", "variant", "error", 1),
        (StopIteration("x"), "crash", "variant", "error", 1),
    ],
)
def test_every_error_has_a_kind_and_an_origin(
    raised: BaseException, kind: str, blame: str, status: str, attempts: int, tmp_path: Path
) -> None:
    def fail(case: Case) -> str:
        raise raised

    row = rows_of(fail, tmp_path, cases=CASES[:1], limits={"retries": 1})[0]
    assert (row["status"], row["error_kind"], row["error_blame"]) == (status, kind, blame)
    assert row["error"]
    assert row["answer"] is None
    assert row["attempts"] == attempts
    assert row["score"] == (0.0 if status == "error" and blame == "variant" else None)


class Outside(BaseException):
    """A BaseException, like the one raised by pytest.skip."""


@pytest.mark.parametrize("raised", [Outside("away"), asyncio.CancelledError()])
def test_an_async_function_that_raises_a_base_exception_ends_only_its_trial(
    raised: BaseException, tmp_path: Path
) -> None:
    async def fail(case: Case) -> str:
        if case.id == "c2":
            raise raised
        return "yes"

    rows = rows_of(fail, tmp_path, parallel=3)
    assert [(row["status"], row["error_kind"]) for row in rows].count(("error", "crash")) == 1
    assert [row["status"] for row in rows].count("ok") == 5


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer("yes", usage=Usage(input_tokens="12")), "integers"),  # type: ignore[arg-type]
        (Answer("yes", cost_usd=float("nan")), "cost_usd"),
        (Answer("yes", cost_usd="much"), "cost_usd"),  # type: ignore[arg-type]
        (Answer(7), "text"),  # type: ignore[arg-type]
        (object(), "object"),
        ((item for item in "ab"), "generator"),
    ],
)
def test_an_answer_that_cannot_be_stored_fails_only_its_trial(answer: Any, message: str, tmp_path: Path) -> None:
    rows = rows_of(lambda case: answer if case.id == "c2" else "yes", tmp_path)
    bad = next(row for row in rows if row["case_id"] == "c2")
    assert (bad["status"], bad["error_kind"]) == ("error", "crash")
    assert message in bad["error"]
    assert [row["status"] for row in rows].count("ok") == 5


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    row = rows_of(lambda _case: Answer("yes", usage=Usage(np.int64(12)), cost_usd=np.float64(0.5)), tmp_path)[0]  # type: ignore[arg-type]
    assert (row["input_tokens"], row["cost_usd"]) == (12, 0.5)


@pytest.mark.parametrize("retry_after", ["0", float("nan"), float("-inf"), "soon"])
def test_an_invalid_retry_after_is_ignored(retry_after: Any, tmp_path: Path) -> None:
    def fail(case: Case) -> str:
        raise RateLimited("slow", retry_after=retry_after)

    row = rows_of(fail, tmp_path, cases=CASES[:1], limits={"retries": 1})[0]
    assert (row["error_kind"], row["attempts"]) == ("rate_limit", 2)


def test_a_slow_transform_does_not_delay_other_trials(tmp_path: Path) -> None:
    def slow(value: str) -> str:
        if value.endswith(("1", "3")):
            time.sleep(0.8)
        return value

    variants = {"a": {"transform": slow}}
    rows = rows_of(say_yes_later, tmp_path, variants, limits={"timeout": 0.4}, parallel=6)
    assert {row["status"] for row in rows if row["case_id"] not in ("c1", "c3")} == {"ok"}


def test_a_lambda_cannot_run_in_a_process_and_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be sent to another process"):
        rows_of(lambda case: "yes", tmp_path, [Variant("a", executor="process")])
    assert not (tmp_path / "results.db").exists()


def test_errors_of_an_sdk_are_classified_by_their_status(tmp_path: Path) -> None:
    class TooMany(Exception):
        status_code = 429

    def fail(case: Case) -> str:
        raise TooMany("slow down")

    row = rows_of(fail, tmp_path, cases=CASES[:1], limits={"retries": 1})[0]
    assert (row["error_kind"], row["attempts"]) == ("rate_limit", 2)
    assert row["error_blame"] == "variant", "only a typed error says that the provider is at fault"


@pytest.mark.parametrize("returned", [None, {"prediction": None}])
def test_none_is_not_an_answer(returned: Any, tmp_path: Path) -> None:
    row = rows_of(lambda case: returned, tmp_path, cases=CASES[:1])[0]
    assert (row["status"], row["error_kind"], row["score"]) == ("error", "no_answer", 0.0)


def test_a_returned_error_is_an_error_not_an_answer(tmp_path: Path) -> None:
    row = rows_of(lambda case: {"error": "it broke"}, tmp_path, cases=CASES[:1])[0]
    assert (row["status"], row["error"]) == ("error", "it broke")


@pytest.mark.parametrize(("answers", "blame"), [(True, "variant"), (False, "infrastructure")])
def test_a_timeout_is_a_failure_of_the_variant_if_the_function_answers_at_all(
    tmp_path: Path, answers: bool, blame: str
) -> None:
    never = threading.Event()

    def hang(case: Case) -> str:
        if not answers or case.id != CASES[2].id:
            never.wait(30)
        return "yes"

    rows = rows_of(hang, tmp_path, cases=CASES[:3], limits={"timeout": 0.2}, parallel=3)
    never.set()
    late = [row for row in rows if row["status"] == "error"]
    assert len(late) == (2 if answers else 3)
    assert {(row["error_kind"], row["error_blame"]) for row in late} == {("timeout", blame)}
    assert "0.2 s" in late[0]["error"]


def test_numbers_and_lists_keep_their_kind_for_the_scorer(tmp_path: Path) -> None:
    cases = [Case(str(n), str(n), expected=n * n) for n in range(4)]
    rows = rows_of(square, tmp_path, cases=cases, scorers=["exact", "number"])
    assert {(row["score_exact"], row["score_number"]) for row in rows} == {(1.0, 1.0)}


def test_process_executor_runs_functions_in_other_processes(folder: Folder) -> None:
    folder.write(
        "heavy.py", "import os\ndef predict(case):\n    return {'prediction': 'yes', 'process': os.getpid()}\n"
    )
    folder.cases(12)
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants: {only: {target: python:heavy:predict, executor: process}}
        scorers: [exact]
        limits: {parallel: 8}
        """,
    )
    done = folder.rerun("run", "spec.yaml")
    assert done.code == 0, done.err
    rows = folder.sql("select count(*) n, count(distinct process) p, avg(score) s, max(in_flight) f from predictions")[
        0
    ]
    assert (rows["n"], rows["s"]) == (12, 1.0)
    assert 1 <= rows["p"] <= 8


def test_the_start_of_a_worker_process_does_not_count_as_time_of_the_trial(folder: Folder) -> None:
    folder.write("heavy.py", "import time\ntime.sleep(0.7)\ndef predict(case):\n    return 'yes'\n")
    folder.cases(2)
    folder.write(
        "spec.yaml", "{cases: cases.jsonl, variants: {only: {target: 'python:heavy:predict', executor: process}}}"
    )
    assert folder.rerun("run", "spec.yaml").code == 0
    first, second = folder.sql("select queue_s, service_s from predictions order by started_at")
    assert first["queue_s"] > 0.7
    assert max(first["service_s"], second["service_s"]) < 0.7


def test_a_process_that_dies_fails_only_its_own_trial(folder: Folder) -> None:
    folder.write(
        "deadly.py",
        """
        import os, signal
        def predict(case):
            if case.id == "c3":
                os.kill(os.getpid(), signal.SIGKILL)
            return "yes"
        """,
    )
    folder.cases(8)
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants: {only: {target: python:deadly:predict, executor: process}}
        scorers: [exact]
        limits: {parallel: 4}
        """,
    )
    done = folder.rerun("run", "spec.yaml")
    assert done.code == 0, done.err
    rows = folder.sql("select case_id, status, error_kind, error_blame, error from predictions where status <> 'ok'")
    assert [(row["case_id"], row["error_kind"], row["error_blame"]) for row in rows] == [("c3", "crash", "variant")]
    assert "SIGKILL" in rows[0]["error"]


def test_a_crash_in_a_process_says_where_it_happened(folder: Folder) -> None:
    folder.write("broken.py", "def predict(case):\n    return case.input['nothing']\n")
    folder.cases(1)
    folder.write(
        "spec.yaml", "{cases: cases.jsonl, variants: {only: {target: 'python:broken:predict', executor: process}}}"
    )
    assert folder.rerun("run", "spec.yaml").code == 1
    assert "broken.py:2" in folder.abreast("logs").out


def test_a_timeout_kills_the_process_and_its_children(folder: Folder) -> None:
    folder.write(
        "stuck.py",
        """
        import pathlib, subprocess, time
        def predict(case):
            child = subprocess.Popen(["sleep", "300"])
            pathlib.Path("child.pid").write_text(str(child.pid))
            time.sleep(300)
        """,
    )
    folder.cases(1)
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants: {only: {target: python:stuck:predict, executor: process}}
        scorers: [exact]
        limits: {timeout: 3.0}
        """,
    )
    begin = time.monotonic()
    done = folder.rerun("run", "spec.yaml")
    assert time.monotonic() - begin < 40
    assert done.code == 3, "no trial gave an answer"
    child = int((folder.path / "child.pid").read_text())
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


def test_an_async_function_cannot_run_in_processes(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="async"):
        rows_of(say_yes_later, tmp_path, [Variant("a", executor="process")])


def test_a_parameter_the_function_does_not_accept_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did you mean"):
        rows_of(with_parameters, tmp_path, {"a": {"wrod": "x"}})
    assert not (tmp_path / "results.db").exists()


def test_a_transform_that_fails_in_advance_is_retried_by_the_next_attempt(tmp_path: Path) -> None:
    tried: Counter[str] = Counter()

    def hiccups(text: str) -> str:
        tried[text] += 1
        if tried[text] == 1:
            raise Transient("once")
        return text

    cases = [Case(f"c{n}", f"q{n}", expected="yes") for n in range(6)]
    rows = rows_of(say_yes, tmp_path, {"a": {"transform": hiccups}}, cases=cases, limits={"breaker": 100})
    assert [(row["status"], row["attempts"]) for row in rows] == [("ok", 2)] * 6
    assert set(tried.values()) == {2}


def test_a_request_made_in_advance_is_made_once_however_often_it_is_sent(tmp_path: Path) -> None:
    transform_counts: Counter[str] = Counter()
    sent: Counter[str] = Counter()

    def slowly(text: str) -> str:
        transform_counts[text] += 1
        time.sleep(0.05)
        return text

    def busy(case: Case) -> str:
        sent[case.id] += 1
        time.sleep(0.1)
        if sent[case.id] == 1:
            raise Transient("once")
        return "yes"

    cases = [Case(f"c{n}", f"q{n}", expected="yes") for n in range(5)]
    rows = rows_of(busy, tmp_path, {"a": {"transform": slowly}}, cases=cases, limits={"breaker": 100})
    assert [row["attempts"] for row in rows] == [2] * 5
    assert sum(transform_counts.values()) <= 6  # only the first could not be foreseen


def test_no_transform_starts_after_a_run_stops(tmp_path: Path) -> None:
    began: list[float] = []
    failed: list[float] = []

    def slowly(text: str) -> str:
        began.append(time.monotonic())
        time.sleep(0.02)
        return text

    def fails(case: Case) -> str:
        if case.id == "c0":
            time.sleep(0.5)  # in flight at the stop
            return "yes"
        failed.append(time.monotonic())
        raise Unauthenticated("no key")

    cases = [Case(f"c{n}", f"q{n}", expected="yes") for n in range(60)]
    rows_of(fails, tmp_path, {"a": {"transform": slowly}}, cases=cases, parallel=4, limits={"breaker": 1})
    assert len(began) < 20
    assert [moment for moment in began if moment > failed[-1] + 0.15] == []


def test_a_transform_and_a_template_make_the_request(folder: Folder) -> None:
    folder.write("shape.py", "def upper(value):\n    return {'text': value['text'].upper()}\n")
    folder.write("cases.jsonl", '{"id": "a", "input": {"text": "hello"}, "expected": "x"}\n')
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants:
          shouted: {target: simulated, prompt: "Say {{ text }}!", transform: "python:shape:upper"}
        scorers: [exact]
        """,
    )
    done = folder.abreast("run", "spec.yaml", "--dry-run")
    assert "Say HELLO!" in done.out
    assert not (folder.path / "results.db").exists(), "a dry run writes nothing"
    assert folder.abreast("run", "spec.yaml").code == 0
    assert folder.sql("select prompt from predictions")[0]["prompt"] == "Say HELLO!"


SHAPE = """
def cut(value, to, suffix="", *, words=()):
    words and words.append("more")
    return value[:to] + suffix + " ".join(words[:1])
"""


def cut(folder: Folder, transform: str, more: str = "", target: str = "simulated") -> None:
    """Write a spec with this transform and a module with a function that takes arguments."""
    folder.write("shape.py", SHAPE)
    folder.write(
        "spec.yaml",
        f"cases: cases.jsonl\nvariants: {{a: {{target: {target}, transform: {transform}}}}}\nscorers: [exact]\n{more}",
    )


def test_a_transform_takes_arguments_from_the_spec(folder: Folder) -> None:
    folder.cases(3)
    cut(folder, "{from: python:shape:cut, to: 4, suffix: '!', words: [a]}")
    assert folder.abreast("run", "spec.yaml").code == 0
    assert {row["prompt"] for row in folder.sql("select prompt from predictions")} == {"ques!a"}
    stored_transform = folder.sql("select params_transform from predictions")[0]["params_transform"]
    assert json.loads(stored_transform) == {"from": "python:shape:cut", "to": 4, "suffix": "!", "words": ["a"]}


def test_a_transform_with_arguments_works_from_python_and_for_functions(folder: Folder, tmp_path: Path) -> None:
    folder.write("shape.py", SHAPE)
    experiment = Experiment(
        cases=CASES,
        target=lambda case: case.input,
        params={"transform": {"from": "python:shape:cut", "to": 3}},
        variants={"short": {}, "long": {"transform": {"from": "python:shape:cut", "to": 5}}},
        store=tmp_path / "results.db",
        base=folder.path,
    )
    assert {(row["variant"], row["answer"]) for row in experiment.run().rows()} == {("short", "que"), ("long", "quest")}


def test_answers_are_reused_while_function_and_arguments_of_a_transform_are_the_same(folder: Folder) -> None:
    folder.cases(3)

    def executed(transform: str, code: str = SHAPE) -> int:
        cut(folder, transform)
        folder.write("shape.py", code)
        done = folder.rerun("run", "spec.yaml", "--json")
        assert done.code == 0, done.output
        return int(done.json[0]["executed"])

    assert executed("{from: python:shape:cut, to: 4, suffix: a}") == 3
    assert executed("{suffix: a, to: 4, from: 'python:shape:cut'}") == 0, "the order says nothing"
    assert executed("{from: python:shape:cut, to: 5, suffix: a}") == 3
    assert executed("{from: python:shape:cut, to: 4}") == 3
    assert executed("{from: python:shape:cut, to: 4}", SHAPE.replace("[:to]", "[-to:]")) == 3
    plain = "def cut(value):\n    return value\n"
    assert executed("python:shape:cut", plain) == 3
    assert executed("{from: python:shape:cut}", plain) == 0, "without arguments both forms say the same"


def test_a_run_whose_transform_has_arguments_can_be_resumed(folder: Folder) -> None:
    folder.cases(8)
    cut(folder, "{from: python:shape:cut, to: 4}", "params: {cost_usd: 1}\nlimits: {budget_usd: 3}\n")
    assert folder.abreast("run", "spec.yaml").code == 3
    assert folder.abreast("run", "spec.yaml", "--budget", "5").code == 3
    done = folder.abreast("resume", "--budget", "100")
    assert done.code == 0, done.output
    assert len(folder.abreast("runs", "--json").json) == 1
    assert len(folder.sql("select 1 from predictions where prompt = 'ques'")) == 8


@pytest.mark.parametrize("target", ["simulated", "anthropic, model: m", "'python:shape:answer'"])
@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("{to: 3}", 'spec.yaml: variant "a": transform: "from" is missing'),
        ("{to: 3}", "use {from: python:MODULE:FUNCTION, NAME: VALUE}"),
        ("{from: [1], to: 3}", 'variant "a": transform: from must be text, got [1]'),
        ("{from: python:shape:cut, too: 3}", 'python:shape:cut does not take "too" (did you mean "to"?)'),
        ("{from: python:shape:cut, to: 3, value: x}", 'python:shape:cut does not take "value"'),
        ("{from: python:shape:cut, suffix: x}", 'python:shape:cut needs "to"'),
        ("{from: python:shape:answr}", 'has no "answr" (did you mean "answer"?)'),
        ("{from: python:shape:alone, to: 3}", "cannot be called as function(input, NAME=VALUE)"),
        ("3", 'variant "a": transform must be python:module:function, got 3'),
    ],
)
def test_a_transform_that_cannot_be_called_is_refused(
    folder: Folder, target: str, transform: str, message: str
) -> None:
    folder.cases(1)
    cut(folder, transform, target=target)
    folder.write("shape.py", SHAPE + "def answer(case):\n    return 'yes'\ndef alone(*, to):\n    return to\n")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 2, done.output
    assert message in done.err


CHOOSY = """
from abreast.errors import Refused, Skipped, Transient

def choosy(value, most):
    with open("calls.txt", "a") as file:
        file.write(value + "\\n")
    if int(value.split()[1]) >= most:
        raise Skipped(f"more than {most} points")
    return value

def typed(value, kind):
    raise {"refused": Refused, "network": Transient}[kind]("said by the transform")
"""


def choosy(folder: Folder, cases: int = 12, more: str = "") -> None:
    """A plain variant, and one whose transform does not apply to cases from the ninth on."""
    folder.cases(cases)
    folder.write("choosy.py", CHOOSY)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nscorers: [exact]\nvariants:\n"
        f"  plain: {{}}\n  choosy: {{transform: {{from: python:choosy:choosy, most: 8}}}}\n{more}",
    )


def calls(folder: Folder) -> list[str]:
    return (folder.path / "calls.txt").read_text().splitlines()


def test_a_transform_may_skip_a_trial_as_not_applicable(folder: Folder) -> None:
    choosy(folder)
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 0, done.output
    assert "4 of 12 cases are not compared: 4 skipped" in " ".join(done.out.split())
    rows = folder.sql("select * from predictions where variant = 'choosy' and status <> 'ok'")
    outcomes = {(row["status"], row["error"], row["attempts"], row["score"], row["cost_usd"]) for row in rows}
    assert (len(rows), outcomes) == (4, {("skipped", "more than 8 points", 1, None, None)})
    assert len(folder.sql("select 1 from predictions where status = 'ok'")) == 20
    report = folder.abreast("report", "--json").json[0]
    assert report["verdicts"][0]["dropped"] == {"failed": 0, "unscored": 0, "skipped": 4}
    assert {name: variant["skipped"] for name, variant in report["variants"].items()} == {"plain": 0, "choosy": 4}
    assert len(calls(folder)) == 12, "nothing is tried again"


def test_skipped_trials_are_reused_like_answers(folder: Folder) -> None:
    choosy(folder)
    assert folder.abreast("run", "spec.yaml").code == 0
    folder.cases(13)
    done = folder.abreast("run", "spec.yaml", "--json")
    assert (done.json[0]["executed"], done.json[0]["reused"]) == (2, 24)
    assert len(calls(folder)) == 13
    last = folder.abreast("runs", "--json").json[-1]["run"]
    skipped = folder.sql(f"select error, reused_from from predictions where run = '{last}' and status = 'skipped'")
    assert sorted(row["reused_from"] is None for row in skipped) == [False, False, False, False, True]
    assert {row["error"] for row in skipped} == {"more than 8 points"}


def test_skipped_trials_stay_skipped_when_a_run_is_resumed(folder: Folder) -> None:
    choosy(folder, 30, "params: {cost_usd: 1}\nlimits: {budget_usd: 20}\n")
    assert folder.abreast("run", "spec.yaml").code == 3
    before = calls(folder)
    assert folder.sql("select count(*) as n from predictions where status = 'skipped'")[0]["n"] > 0
    assert folder.abreast("resume", "--budget", "100").code == 0
    later = calls(folder)[len(before) :]
    assert {*before, *later} == {f"question {n}" for n in range(30)}
    assert len(before) + len(later) <= 30 + 2, "twice only what was made ahead when the run stopped"
    assert folder.sql("select count(*) as n from predictions where status = 'skipped'")[0]["n"] == 22


def test_a_transform_may_raise_any_typed_error_and_other_errors_are_crashes(folder: Folder) -> None:
    folder.cases(1)
    folder.write("choosy.py", CHOOSY)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nscorers: [exact]\nlimits: {retries: 2, breaker: 0}\nvariants:\n"
        "  refused: {transform: {from: python:choosy:typed, kind: refused}}\n"
        "  network: {transform: {from: python:choosy:typed, kind: network}}\n"
        "  broken: {transform: {from: python:choosy:typed, kind: other}}\n",
    )
    folder.abreast("run", "spec.yaml")
    rows = folder.sql("select variant, error_kind, error_blame, attempts, error from predictions")
    assert {tuple(row.values()) for row in rows} == {
        ("refused", "refused", "variant", 1, "said by the transform"),
        ("network", "network", "infrastructure", 3, "said by the transform"),
        ("broken", "crash", "variant", 1, "transform: KeyError: 'other'"),
    }


def test_a_dry_run_reports_why_a_request_cannot_be_made(folder: Folder) -> None:
    choosy(folder, more="params: {}\n")
    folder.write("cases.jsonl", '{"id": "a", "input": "question 9", "expected": "yes"}\n')
    done = folder.abreast("run", "spec.yaml", "--dry-run")
    assert done.code == 0, done.output
    assert "(skipped: more than 8 points)" in done.out


def test_a_template_with_an_unknown_name_is_refused_and_fails_its_trials_if_forced(folder: Folder) -> None:
    folder.write("cases.jsonl", '{"id": "a", "input": {"text": "hello"}, "expected": "x"}\n')
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants: {only: {target: simulated, prompt: "{{ txet }}"}}
        scorers: [exact]
        """,
    )
    refused = folder.abreast("run", "spec.yaml")
    assert refused.code == 4
    assert (
        'variant "only", case "a": prompt template, line 1: \'txet\' is undefined (did you mean "text"?)' in refused.err
    )
    assert not (folder.path / "results.db").exists()
    assert folder.abreast("run", "spec.yaml", "--force").code == 1
    row = folder.sql("select error_kind, error from predictions")[0]
    assert row["error_kind"] == "crash"
    assert "txet" in row["error"]


def simulated(tmp_path: Path, params: dict[str, Any], cases: int = 2000, **options: Any) -> list[dict[str, Any]]:
    test_cases = [Case(f"c{n}", f"q{n}", expected="yes") for n in range(cases)]
    return rows_of("simulated", tmp_path, {"only": params}, cases=test_cases, **options)


def test_the_simulator_has_the_requested_accuracy(tmp_path: Path) -> None:
    for accuracy in (0.0, 0.3, 0.75, 1.0):
        rows = simulated(tmp_path, {"accuracy": accuracy}, parallel=50)
        mean = sum(row["score"] for row in rows) / len(rows)
        assert abs(mean - accuracy) < 0.04


def test_the_simulator_has_the_requested_error_rate(tmp_path: Path) -> None:
    rows = simulated(tmp_path, {"errors": {"crash": 0.2, "refused": 0.1}}, parallel=50)
    kinds = [row["error_kind"] for row in rows]
    assert abs(kinds.count("crash") / len(rows) - 0.2) < 0.03
    assert abs(kinds.count("refused") / len(rows) - 0.1) < 0.03


def wrongly(tmp_path: Path, expected: list[Any], value: Any = "q", **options: Any) -> list[Any]:
    """Answers of a simulator that is always wrong, one for each expected value, in order."""
    cases = [
        Case(f"c{n}", {"n": n, **value} if isinstance(value, dict) else f"{value}{n}", answer)
        for n, answer in enumerate(expected)
    ]
    rows = rows_of("simulated", tmp_path, {"only": {"accuracy": 0.0}}, cases=cases, **options)
    assert all(row["score"] == 0 for row in rows)
    return [row["answer"] for row in sorted(rows, key=lambda row: int(row["case_id"][1:]))]


def test_a_wrong_number_is_wrong_under_any_tolerance(tmp_path: Path) -> None:
    expected = [0, 1, -1, 0.001, -37.5, 1e6, 1.5e308, -1.7e308, *range(200)]
    answers = wrongly(tmp_path, expected, scorers=[{"number": {"rel": 0.4, "abs": 0.4}}])
    above = 0
    for right, text in zip(expected, answers, strict=True):
        if abs(right) < 1e300:
            assert abs(float(text) - right) >= 0.499 * (1 + abs(right))
            above += float(text) > right
    assert 50 < above < 160, "to both sides"


def test_a_wrong_list_of_numbers_has_the_same_length_and_no_right_number(tmp_path: Path) -> None:
    expected: list[Any] = [[0], [1, 2, 3], [-5, 5], [0.5] * 4, *([n, n + 1, n * n] for n in range(100))]
    answers = wrongly(tmp_path, expected, scorers=["set"])
    for right, text in zip(expected, answers, strict=True):
        numbers = json.loads(text)
        assert len(numbers) == len(right)
        assert all(abs(number - other) >= 0.499 for number in numbers for other in right)


def test_a_wrong_choice_is_one_of_the_other_choices(tmp_path: Path) -> None:
    choices = ["up", "down", "flat"]
    answers = wrongly(tmp_path, ["down"] * 60, {"choices": choices})
    assert set(answers) == {"up", "flat"}
    numbers = wrongly(tmp_path, [3] * 60, {"choices": [1, 2, 3]}, scorers=["number"])
    assert set(numbers) == {"1", "2"}
    assert "a wrong answer" in wrongly(tmp_path, ["elsewhere"], {"choices": choices})[0]
    assert "a wrong answer" in wrongly(tmp_path, ["only"], {"choices": ["only"]})[0]
    assert "a wrong answer" in wrongly(tmp_path, ["text"], {"choices": "a text"})[0]


def test_simulated_results_are_marked_everywhere(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: mock}, b: {target: simulated}}\nscorers: [exact]\n"
    )
    done = folder.abreast("run", "spec.yaml")
    assert "SIMULATED · no model was called" in done.out
    assert "SIMULATED · no model was called" in done.err
    assert {row["simulated"] for row in folder.sql("select simulated from predictions")} == {1}
    assert folder.abreast("runs", "--json").json[0]["simulated"] is True
    assert "SIMULATED" in folder.abreast("runs").out
    assert "SIMULATED" in folder.abreast("report").out
    assert "SIMULATED" in folder.abreast("show", "latest", "c1").out
    page = next(folder.path.glob("runs/*/report.html")).read_text()
    assert "SIMULATED · no model was called" in page


AHEAD = """
    import pathlib
    import time


    def shout(text):
        with pathlib.Path("made.txt").open("a") as file:
            file.write(f"{text} {time.time()}\\n")
        if text == "question 2":
            raise ValueError("not this one")
        return text.upper()
"""


def test_a_transform_runs_while_the_previous_trial_is_in_flight(folder: Folder) -> None:
    folder.write("mine.py", AHEAD)
    folder.cases(4)
    folder.write(
        "e.yaml",
        """
        cases: cases.jsonl
        target: simulated
        variants: {only: {transform: "python:mine:shout", latency: 0.6}}
        scorers: [exact]
        """,
    )
    done = folder.rerun("run", "e.yaml")
    assert done.code == 0, done.err
    transform_times = [line.rsplit(" ", 1) for line in (folder.path / "made.txt").read_text().splitlines()]
    assert sorted(text for text, _ in transform_times) == [f"question {number}" for number in range(4)]  # each once
    rows = folder.sql("select case_id, status, prompt, finished_at, latency_s from predictions order by started_at")
    ended = {f"question {row['case_id'][1:]}": row["finished_at"] for row in rows if row["status"] == "ok"}
    waited_for = [at for text, at in transform_times[1:] if float(at) < max(ended.values())]
    first = min(ended.values())
    assert float(transform_times[1][1]) < first, (transform_times, ended)
    assert len(waited_for) == 3
    assert [row["status"] for row in rows if row["case_id"] == "c2"] == ["error"]
    assert all(row["prompt"].isupper() or row["status"] == "error" for row in rows)
    assert all(row["latency_s"] >= 0.6 for row in rows if row["status"] == "ok")
