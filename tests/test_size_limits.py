"""Answers of any size: what is too large is stored as such, with its head and tail, and never paid for again."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from abreast.errors import StoreError
from abreast.store import Writer, open_store
from conftest import Folder
from test_durability import calls, new_run

MODULE = """\
from abreast import Answer

MB = 1_000_000

def note(case):
    with open("calls.txt", "a") as file:
        file.write(case.id + "\\n")

def answer(case):
    note(case)
    return {
        "c0": lambda: "yes",
        "c1": lambda: "head" + "x" * 3 * MB + "tail",
        "c2": lambda: {"prediction": "yes", "table": ["y" * 1_000] * 3_000 + ["z" * 2 * MB]},
        "c3": lambda: Answer("yes", raw_response="head" + "r" * 3 * MB + "tail", artifacts={"log": "l" * 3 * MB}),
        "c4": lambda: "\\N{GRINNING FACE}" * (MB // 3),
    }[case.id]()

def transform(value):
    return "p" * 3 * MB if value == "question 1" else value

def judge(case):
    with open("judged.txt", "a") as file:
        file.write("x\\n")
    return '{"reason": "' + "x" * 2 * MB + '", "score": 5}'
"""


def experiment(folder: Folder, variant: str, cases: int = 5, scorers: str = "[exact]", size: str = "1MB") -> None:
    folder.write("mine.py", MODULE)
    folder.cases(cases)
    folder.write(
        "experiment.yaml",
        f"""\
        name: sizes
        cases: cases.jsonl
        variants:
          one: {variant}
        scorers: {scorers}
        limits: {{answer_size: {size}, parallel: 2}}
        """,
    )


def trials(folder: Folder) -> dict[str, dict[str, Any]]:
    query = "select case_id, status, error_kind, error_blame, error, prompt, answer, raw_response from predictions"
    return {row["case_id"]: row for row in folder.sql(query)}


def test_an_oversized_answer_of_a_function_is_its_failure_and_keeps_its_head_and_tail(folder: Folder) -> None:
    experiment(folder, "{target: 'python:mine:answer'}")
    assert folder.abreast("run", "experiment.yaml").code == 0
    rows = trials(folder)
    kinds = {case: (row["status"], row["error_kind"], row["error_blame"]) for case, row in rows.items()}
    too_big = ("error", "too_big", "variant")
    assert kinds == {"c0": ("ok", None, None), "c1": too_big, "c2": too_big, "c3": ("ok", None, None), "c4": too_big}
    assert rows["c1"]["error"] == "the answer has 3 MB; at most 1 MB are stored"
    assert rows["c1"]["answer"].startswith("headxxx")
    assert rows["c1"]["answer"].endswith("xxxtail")
    assert "characters left out" in rows["c1"]["answer"]
    assert all(len((row["answer"] or "").encode()) <= 1_000_000 for row in rows.values())


def test_an_oversized_answer_is_not_paid_for_again(folder: Folder) -> None:
    experiment(folder, "{target: 'python:mine:answer'}")
    folder.abreast("run", "experiment.yaml")
    assert sorted(calls(folder)) == ["c0", "c1", "c2", "c3", "c4"]
    folder.abreast("resume", "latest", "--yes")
    assert folder.rerun("run", "experiment.yaml").code == 0
    assert len(calls(folder)) == 5


def test_an_oversized_raw_response_or_artifact_is_shortened_and_the_answer_stays(folder: Folder) -> None:
    experiment(folder, "{target: 'python:mine:answer'}")
    folder.abreast("run", "experiment.yaml", "--case", "c3")
    row = trials(folder)["c3"]
    assert (row["status"], row["answer"]) == ("ok", "yes")
    assert (row["raw_response"][:5], row["raw_response"][-5:]) == ("headr", "rtail")
    assert len(row["raw_response"]) < 1_000_000
    log = folder.abreast("show", "latest", "c3", "--artifact", "log").out
    assert "characters left out" in log
    assert len(log) < 1_000_000


def test_an_oversized_prompt_is_not_sent(folder: Folder) -> None:
    experiment(folder, "{target: 'python:mine:answer', transform: 'python:mine:transform'}", cases=2)
    assert folder.abreast("run", "experiment.yaml").code == 0
    assert calls(folder) == ["c0"]
    row = trials(folder)["c1"]
    assert row["error_kind"] == "too_big"
    assert row["error"] == "the prompt has 3 MB and was not sent; at most 1 MB are stored"
    assert "characters left out" in row["prompt"]


@pytest.mark.parametrize("output", ["", ", output: json, answer: a"])
def test_an_oversized_output_of_a_command_is_its_failure(folder: Folder, output: str) -> None:
    experiment(folder, "{target: command, command: [python3, '{folder}/agent.py']" + output + "}", cases=1)
    folder.write("agent.py", """print('{"a": "head' + "x" * 5_000_000 + 'tail"}')""")
    assert folder.abreast("run", "experiment.yaml").code in (0, 1)
    row = trials(folder)["c0"]
    assert (row["status"], row["error_kind"], row["error_blame"]) == ("error", "too_big", "variant")
    assert row["answer"].startswith('{"a": "headxxx')
    assert row["answer"].endswith('xxxtail"}')


def test_an_output_of_several_megabytes_is_stored_in_full(folder: Folder) -> None:
    experiment(folder, "{target: command, command: [python3, '{folder}/agent.py']}", cases=1, size="64MB")
    folder.write("agent.py", "print('x' * 5_000_000)")
    assert folder.abreast("run", "experiment.yaml").code == 0
    assert folder.sql("select status, length(answer) as n from predictions") == [{"status": "ok", "n": 5_000_000}]


def test_an_oversized_reply_of_a_judge_gives_no_score_and_is_not_requested_again(folder: Folder) -> None:
    scorers = "[{judge: {target: 'python:mine:judge', rubric: Is it good}}]"
    experiment(folder, "{target: simulated, accuracy: 1}", cases=1, scorers=scorers)
    done = folder.abreast("run", "experiment.yaml")
    assert done.code in (0, 1, 3), done.err
    assert folder.sql("select status, error_kind, length(answer) < 1000000 as short from judgements") == [
        {"status": "invalid", "error_kind": "too_big", "short": 1}
    ]
    folder.abreast("resume", "latest", "--yes")
    assert (folder.path / "judged.txt").read_text() == "x\n"


@pytest.mark.parametrize("size", ["1GB", "10B", "much"])
def test_a_limit_that_no_store_can_keep_is_refused(folder: Folder, size: str) -> None:
    experiment(folder, "{target: simulated}", size=size)
    done = folder.abreast("check", "experiment.yaml")
    assert done.code == 2
    assert "answer_size" in done.err


def test_a_row_that_the_store_refuses_is_stored_as_a_failure_instead(tmp_path: Path) -> None:
    store = open_store(tmp_path / "results.db")
    lease = store.begin(new_run("old-one-1"))
    committed: list[Any] = []
    reasons: list[StoreError] = []

    def event(detail: object) -> list[tuple[str, tuple[Any, ...]]]:
        return [("events", (lease.run_id, 0.0, "kind", detail))]

    def substitute(reason: StoreError) -> list[tuple[str, tuple[Any, ...]]]:
        reasons.append(reason)
        return event("instead")

    writer = Writer(store, lease, committed.extend, reasons.append, lambda _: None)
    writer.put_together(event("before"), 1)
    writer.put_together(event(object()), 2, substitute)
    writer.put_together(event("after"), 3)
    writer.close()
    assert sorted(committed) == [1, 2, 3]
    assert len(reasons) == 1
    assert sorted(store.rows("SELECT detail FROM events")) == [("after",), ("before",), ("instead",)]
    store.release_lease(lease)
    store.close()


# -- over HTTP ---------------------------------------------------------------------------------------------------------


class Provider:
    """A server with an oversized answer."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def _serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        application = web.Application()
        application.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        prompt = (await request.json())["messages"][-1]["content"]
        self.requests.append(prompt)
        if prompt == "question 0":
            message = {"choices": [{"message": {"content": "yes"}}], "usage": {"prompt_tokens": 1}}
            return web.json_response(message)
        status = 400 if prompt == "question 2" else 200
        response = web.StreamResponse(status=status, headers={"content-encoding": "gzip"})
        await response.prepare(request)
        member = gzip.compress(b'{"error": "' + b"e" * 16_000_000)
        try:
            for _ in range(64):  # a gigabyte
                await response.write(member)
        except ConnectionError:
            pass
        return response

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    yield server
    server.close()


PEAK = """\
import resource, sys
from abreast.cli import main
code = main(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000)
sys.exit(code)
"""


def test_a_response_that_decompresses_to_a_gigabyte_costs_little_memory_and_one_request(
    folder: Folder, provider: Provider
) -> None:
    target = f"{{target: openai, model: m, base_url: 'http://127.0.0.1:{provider.port}/v1'}}"
    experiment(folder, target, cases=3, size="64MB")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, "run", "experiment.yaml", "--yes"], cwd=folder.path, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert int(done.stdout.split("peak ")[1]) < 1_000  # MB; all of it would take 3,000
    rows = trials(folder)
    kinds = {case: (row["status"], row["error_kind"], row["error_blame"]) for case, row in rows.items()}
    assert kinds == {
        "c0": ("ok", None, None),
        "c1": ("error", "too_big", "variant"),
        "c2": ("error", "rejected", "infrastructure"),
    }
    assert rows["c1"]["raw_response"].startswith('{"error": "eee')
    assert len(rows["c1"]["raw_response"]) < 2_000_000
    assert len(rows["c2"]["error"]) < 1_000
    assert sorted(provider.requests) == ["question 0", "question 1", "question 2"]


# -- looking at it -----------------------------------------------------------------------------------------------------


@pytest.fixture
def long_answer(folder: Folder) -> Folder:
    folder.write(
        "mine.py", "def answer(case):\n    return 'head ' + '\\x1b[31m\\u00e9 word\\n' * 2_000_000 + ' tail'\n"
    )
    folder.cases(1)
    folder.write(
        "experiment.yaml",
        "name: long\ncases: cases.jsonl\nvariants: {one: {target: 'python:mine:answer'}}\nscorers: [contains]\n",
    )
    assert folder.abreast("run", "experiment.yaml", "--quiet").code == 0
    return folder


@pytest.mark.parametrize("command", ["show latest c0", "logs latest"])
def test_a_long_answer_is_shown_by_head_and_tail_and_complete_in_json(long_answer: Folder, command: str) -> None:
    done = long_answer.abreast(*command.split())
    assert done.code == 0
    assert len(done.out) < 200_000
    assert "head " in done.out
    assert " tail" in done.out
    assert "characters left out; --json prints all" in done.out
    assert "\x1b" not in done.out
    (row,) = json.loads(long_answer.abreast(*command.split(), "--json").out)
    assert len(row["answer"]) == 10 + 2_000_000 * len("\x1b[31mé word\n")


def test_statistics_of_long_texts_take_no_longer_than_those_of_short_ones(long_answer: Folder) -> None:
    """The width of a text was once measured again for every character cut off: hours for this one."""
    done = long_answer.abreast("stats", "results.db", "describe", "answer")
    assert done.code == 0
    assert len(done.out) < 2_000
