"""Files written by `abreast init` work unchanged: with the real CLIs, against the fake provider."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from abreast.fake import FakeProvider, Reply, Rule
from abreast.suites.starters import KINDS
from clis import real_cli
from conftest import Folder


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProvider]:
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    rules = [
        Rule("kitchen of our house", [Reply(tool="mcp__house__room", args={"name": "kitchen"})]),
    ]
    answers = {"Norway": "Oslo", "times": "The product is 12.", "+": "1234"}
    with FakeProvider.in_thread(rules, answers, keys=None) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody")
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_a_starter_is_written_once_and_never_over_other_files(folder: Folder, kind: str) -> None:
    done = folder.abreast("init", kind)
    assert done.code == 0, done.err
    runs = {"code-search": "code-search --repo shop", "agents": "settings.json"}.get(kind, "experiment.yaml")
    assert f"next: abreast run {runs}" in done.out
    first = folder.path / done.out.removeprefix("wrote ").split(",")[0]
    first.write_text("mine")
    second = folder.abreast("init", kind)
    assert second.code == 2
    assert "already exists" in second.err
    assert first.read_text() == "mine"


def test_the_ground_truths_of_the_shop_exist_and_are_asked_for(folder: Folder) -> None:
    folder.abreast("init", "code-search")
    shop = folder.path / "shop"
    lines = (shop / "evals/cases/shop.jsonl").read_text().splitlines()
    cases = [json.loads(line) for line in lines if not line.startswith("//")]
    assert len(cases) == 10
    for case in cases:
        question, right = case["prompt"].lower(), case["ground_truth"]
        texts = [
            path.read_text() for name in right["files"] for path in sorted((shop / name).rglob("*.py")) or [shop / name]
        ]
        assert "file" in question or "folder" in question, case["id"]  # agents omit what is not asked for
        assert "line" in question or "lines" not in right, case["id"]
        assert all(any(name.rpartition(".")[2] in text for text in texts) for name in right.get("symbols", ())), case[
            "id"
        ]
        assert all(any(quote in text for text in texts) for quote in right.get("content", ())), case["id"]
        for name, numbers in right.get("lines", {}).items():
            assert all((shop / name).read_text().splitlines()[number - 1].strip() for number in numbers), case["id"]


def test_the_api_starter_runs_to_a_verdict(folder: Folder, provider: FakeProvider) -> None:
    folder.abreast("init", "api")
    done = folder.abreast("run", "experiment.yaml")
    assert done.code == 0, done.err
    assert "SIMULATED" in done.out
    assert folder.sql("select count(*) n, count(cost_usd) paid from predictions where status = 'ok'") == [
        {"n": 48, "paid": 48}
    ]


def test_the_claude_code_starter_runs(folder: Folder, provider: FakeProvider) -> None:
    folder.abreast("init", "claude-code")
    done = folder.abreast("run", "experiment.yaml", "--case", "capital-1")
    assert done.code == 0, done.err
    assert folder.sql("select distinct answer, score from predictions") == [{"answer": "Oslo", "score": 1.0}]


def test_the_mcp_starter_starts_its_server_and_the_agent_calls_it(folder: Folder, provider: FakeProvider) -> None:
    folder.abreast("init", "mcp")
    done = folder.abreast("run", "experiment.yaml", "--case", "one-1")
    assert done.code == 0, done.err
    assert "mcp: house: 2 tools (room, rooms)" in done.err
    rows = {row["variant"]: row for row in folder.sql("select variant, answer, score, tools from predictions")}
    assert (rows["with_mcp"]["answer"], rows["with_mcp"]["score"]) == ("214", 1.0)
    assert json.loads(rows["with_mcp"]["tools"]) == {"mcp__house__room": 1}
    assert rows["without_mcp"]["score"] == 0.0
