"""A provider that cannot be reached, or does not answer: what is reported before and during a run."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from pathlib import Path

import pytest

from abreast.execute import run as execution
from abreast.execute.job import Job
from abreast.fake import FakeProvider
from abreast.model import Case, Outcome, Trial, Variant
from abreast.preflight.checks import endpoints
from abreast.progress import displays as progress
from clis import real_cli
from conftest import Folder


@pytest.fixture
def dead() -> str:
    """An address on which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def write_spec(folder: Folder, variant: str, more: str = "") -> None:
    folder.cases(3)
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {variant}}}\nscorers: [exact]\n{more}")


def test_a_dead_endpoint_is_found_before_anything_is_executed(folder: Folder, dead: str) -> None:
    write_spec(folder, f"{{target: openai, model: any, base_url: '{dead}/v1'}}")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 4
    assert f"cannot reach {dead} (connection refused)" in done.err
    assert "check the address and that the server is up" in done.err
    assert not (folder.path / "results.db").exists(), "nothing was begun"


def test_check_connects_only_with_online(folder: Folder, dead: str) -> None:
    write_spec(folder, f"{{target: openai, model: any, base_url: '{dead}/v1'}}")
    assert folder.abreast("check", "spec.yaml").code == 0
    assert folder.abreast("run", "spec.yaml", "--dry-run").code == 0
    done = folder.abreast("check", "spec.yaml", "--online")
    assert done.code == 4
    assert f"cannot reach {dead} (connection refused)" in done.err


def test_a_live_endpoint_passes_without_a_model_request(folder: Folder) -> None:
    with FakeProvider.in_thread(keys=None) as provider:
        write_spec(folder, f"{{target: openai, model: any, base_url: '{provider.url}/v1'}}")
        done = folder.abreast("check", "spec.yaml", "--online")
        assert done.code == 0, done.err
        assert f"{provider.url} can be reached" in done.err
        assert [request for request in provider.requests if request.method != "GET"] == []


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (None, 4, "it accepts connections but does not answer within 1 s"),
        (b"", 4, "it closes connections without an answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", 4, "it does not speak HTTP"),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", 0, "answers HTTP 503"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", 0, "can be reached"),
    ],
)
def test_a_server_that_accepts_connections_must_answer(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, reply: bytes | None, code: int, message: str
) -> None:
    monkeypatch.setattr(endpoints, "ANSWER_S", 1.0)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1_000)
            if reply is None:
                time.sleep(2.0)
            else:
                self.request.sendall(reply)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        write_spec(folder, f"{{target: openai, model: any, base_url: 'http://127.0.0.1:{server.server_address[1]}'}}")
        done = folder.abreast("check", "spec.yaml", "--online")
        server.shutdown()
    assert done.code == code, done.err
    assert message in done.err


def test_simulators_and_functions_need_no_endpoint(folder: Folder) -> None:
    write_spec(folder, "{target: simulated}")
    done = folder.abreast("check", "spec.yaml", "--online", "--verbose")
    assert done.code == 0
    assert "reach" not in done.output


@pytest.mark.parametrize("variant", ["{target: claude-code, tools: [Bash]}", "{target: command, preset: claude-code}"])
def test_an_agent_is_not_started_if_its_provider_is_dead(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dead: str, variant: str
) -> None:
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", dead)
    write_spec(folder, variant)
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 4
    assert f"cannot reach {dead} (connection refused)" in done.err


def test_a_proxy_is_not_bypassed(folder: Folder, monkeypatch: pytest.MonkeyPatch, dead: str) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    write_spec(folder, f"{{target: openai, model: any, base_url: '{dead}/v1'}}")
    assert folder.abreast("check", "spec.yaml", "--online").code == 0


# -- waiting for the first answer --------------------------------------------------------------------------------------


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def ended(display: progress.Counts, outcome: Outcome) -> None:
    job = Job(Trial(0, Case("a", "?"), Variant("v"), 0), 0, 0, 0, 0, 0.0)
    display.started(job, 1)
    display.finished(job, outcome)


def test_progress_lines_show_the_wait_for_the_first_answer(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    display = progress.PlainProgress(4, 0, ["agent"], clock)
    for _ in range(100):
        clock.now += 1.0
        display.tick()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("waiting for the first answer, ")[2].partition(" s")[0] for line in lines] == [
        *("10", "20", "40", "80")
    ]
    from abreast.errors import Transient, classify

    ended(display, Outcome("error", failure=classify(Transient("no connection"))))
    assert "waiting for the first answer, 100 s" in display.sentence(), "a failed connection is not an answer"
    ended(display, Outcome("ok"))
    clock.now += 1_000.0
    display.tick()
    assert "waiting" not in display.sentence()
    assert capsys.readouterr().err == ""


def test_a_run_reports_that_it_is_waiting(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "WAITING_S", 0.05)
    monkeypatch.setattr(execution, "TICK_S", 0.05)
    with FakeProvider.in_thread(keys=None, latency=1.0) as provider:
        write_spec(folder, f"{{target: openai, model: any, base_url: '{provider.url}/v1'}}")
        done = folder.abreast("run", "spec.yaml", "--limit", "1")
    assert done.code == 0, done.err
    assert "waiting for the first answer" in done.err
