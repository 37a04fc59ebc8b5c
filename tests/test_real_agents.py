"""The suite `coding-agents` with the real Claude Code CLI and the real codex, whose fake providers make them work."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from abreast.fake import FakeProvider, Reply, Rule
from clis import real_cli
from conftest import Folder
from repositories import Project

FUNCTIONS = {
    "double": ("number", "2 * number", "(4) == 8"),
    "triple": ("number", "3 * number", "(4) == 12"),
    "negate": ("number", "-number", "(4) == -4"),
    "add": ("one, other", "one + other", "(4, 5) == 9"),
    "half": ("number", "number / 2", "(4) == 2"),
    "square": ("number", "number * number", "(4) == 16"),
}
"""What each pull request adds: its arguments, what it returns, and what its test says."""

CODEX_CAN = ("double", "add", "half")


class Calculator(Project):
    """Six pull requests, two of each merge style; each adds a function and its test."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.put("calc.py", '"""Numbers."""\n')
        self.put("conftest.py", "")
        self.commit("Begin")
        for number, name in enumerate(FUNCTIONS, 1):
            (self._merged, self._squashed, self._rebased)[number % 3](number, name)

    def _add(self, name: str) -> None:
        arguments, result, _ = FUNCTIONS[name]
        before = (self.path / "calc.py").read_text()
        self.put("calc.py", f"{before}\n\ndef {name}({arguments}):\n    return {result}\n")

    def _test(self, name: str) -> None:
        assertion = FUNCTIONS[name][2]
        self.put(f"tests/test_{name}.py", f"import calc\n\n\ndef test_{name}():\n    assert calc.{name}{assertion}\n")

    def _merged(self, number: int, name: str) -> None:
        self.branch(name)
        self._add(name)
        self._test(name)
        self.commit("wip")
        self.main()
        self.merge(f"Merge pull request #{number} from ann/{name}\n\nAdd the function {name} to calc.py", name)

    def _squashed(self, number: int, name: str) -> None:
        self._add(name)
        self._test(name)
        self.commit(f"Add the function {name} to calc.py (#{number})")

    def _rebased(self, number: int, name: str) -> None:
        self._add(name)
        self.commit(f"Add the function {name} to calc.py", author="bob")
        self._test(name)
        self.commit(f"Say what {name} shall give", after=0, author="bob")


def written(name: str) -> str:
    """A command that writes the function differently than its author did."""
    arguments, result, _ = FUNCTIONS[name]
    return f"printf 'def {name}({arguments}):\\n    found = {result}\\n    return found\\n' >> calc.py"


def works(tool: str, argument: str, commands: dict[str, str]) -> list[Rule]:
    """Rules of a model that runs the command for a known prompt and otherwise replies that the task is hard."""
    rules = [
        Rule(prompt, [Reply(tool=tool, args={argument: command}), Reply(say=f"I ran {shlex.split(command)[0]}.")])
        for prompt, command in commands.items()
    ]
    return [*rules, Rule("", [Reply(say="That is hard.")])]


@pytest.fixture
def agents(folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both CLIs on the path, each with its own provider and home. Claude solves every task, codex only some."""
    everything = {f"function {name} ": written(name) for name in FUNCTIONS} | STARTER | CHEAT
    codex_commands = {f"function {name} ": written(name) for name in CODEX_CAN} | CHEAT
    codex_commands |= {"a square with sides of 9": STARTER["a square with sides of 9"]}
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with (
        FakeProvider.in_thread(works("Bash", "command", everything)) as claude,
        FakeProvider.in_thread(works("exec_command", "cmd", codex_commands)) as codex,
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
        address = codex.environment["OPENAI_BASE_URL"]
        (home / "codex").mkdir()
        (home / "codex" / "config.toml").write_text(
            'model_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{address}"\nenv_key = "CODEX_TEST"\nwire_api = "responses"\n'
            "request_max_retries = 0\nstream_max_retries = 0\n"
        )
        monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
        monkeypatch.setenv("CODEX_TEST", "any")
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        yield


STARTER = {
    "a square with sides of 9": "sed -i 's/side . 4/side * side/' shapes.py",
    "perimeter_of_rectangle": (
        "printf 'def perimeter_of_rectangle(width, height):\\n    return 2 * (width + height)\\n' >> shapes.py"
    ),
    "settings.ini to `most`": "sed -i 's/limit/most/' settings.ini && sed -i 's/\"limit\"/\"most\"/' report.py",
    "prints a bare number": "sed -i 's/^print(\\(.*\\))$/print(\\1, \"cm2\")/' report.py",
}
"""What solves each prompt of the starter."""

CHEAT = {"the test of add fails": "printf 'def test_add():\\n    pass\\n' > test_calc.py"}
"""What an agent does that rewrites the test instead of the code."""


@pytest.mark.heavy
def test_pull_requests_of_all_styles_are_recreated_and_scored_by_their_own_tests(folder: Folder, agents: None) -> None:
    Calculator(folder.path / "calculator")
    folder.write(
        "settings.json",
        json.dumps(
            {
                "mode": "PR_Recreate",
                "agents": ["Claude Code", "Codex CLI"],
                "repo_path": "calculator",
                "branch": "main",
                "PR_Recreate": {"num_prs": 6},
                "parallel_runs": 2,
                "output_filename": "benchmark_results",
            }
        ),
    )
    done = folder.abreast("run", "settings.json")
    assert done.code == 0, done.output
    rows = folder.sql(
        "select case_id, variant, status, score, score_tests, score_change_similarity as similar, score_success, "
        "tag_style, files_changed, turns, input_tokens, exit_code, cpu_s, peak_memory_mb from predictions"
    )
    assert len(rows) == 12
    assert {row["status"] for row in rows} == {"ok"}, done.output
    assert sorted(row["tag_style"] for row in rows) == sorted(["merge", "squash", "rebase"] * 4)
    solved = {
        name: sum(row["score"] for row in rows if row["variant"] == name) for name in ("Claude Code", "Codex CLI")
    }
    assert solved == {"Claude Code": 6, "Codex CLI": 3}
    for row in rows:
        is_right = row["score_tests"] == 1.0
        assert 0.2 < row["similar"] < 0.9 if is_right else row["similar"] == 0, "doing nothing is like nothing"
        assert row["files_changed"] == row["score_success"] == float(is_right)
        assert (row["exit_code"], row["input_tokens"] > 0, row["cpu_s"] > 0) == (0, True, True)
    results = json.loads((folder.path / "benchmark_results.json").read_text())
    assert results["metadata"]["totalRuns"] == 12
    assert {(result["assistant"], len(result["runs"])) for result in results["results"]} == {
        ("Claude Code", 1),
        ("Codex CLI", 1),
    }
    assert "SIMULATED" in done.out
    assert not list(Path.home().glob(".claude/projects/**/*.jsonl")), "no conversation is left among those of the user"
    before = folder.sql("select count(*) as n from trials where reused_from is null")
    assert folder.abreast("run", "settings.json").code == 0
    assert folder.sql("select count(*) as n from trials where reused_from is null") == before, "nothing is paid twice"


def test_the_starter_runs_unchanged_and_its_checks_tell_right_from_wrong(folder: Folder, agents: None) -> None:
    assert folder.abreast("init", "agents").code == 0
    done = folder.abreast("check", "settings.json")
    assert done.code == 0, done.output
    assert "claude 2." in done.err
    assert "codex codex-cli 0." in done.err
    done = folder.abreast("run", "settings.json", "--repeats", "1")
    assert done.code == 0, done.output
    rows = folder.sql("select case_id, variant, score from predictions where status = 'ok'")
    right = {(row["variant"], row["case_id"]) for row in rows if row["score"] == 1.0}
    prompts = ("fix-area.md", "add-perimeter.md", "rename-setting.md", "report-units.md")
    assert right == {("Codex CLI", "fix-area.md"), *(("Claude Code", name) for name in prompts)}
    assert len(rows) == 8
    assert all(row["score"] is not None for row in rows), "every check fails on what agents begin with"


@pytest.mark.heavy
def test_real_agents_that_rewrite_the_tests_fail(folder: Folder, agents: None) -> None:
    """With presets in a settings file and with `target: claude-code` in a spec."""
    project = Project(folder.path / "project")
    project.put("calc.py", "def add(one, other):\n    return one\n")
    project.put("test_calc.py", "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n")
    project.commit("Begin")
    folder.write("prompts/fix.md", "Make it green: the test of add fails.")
    check = f"{sys.executable} -m pytest -q"
    settings = {"agents": ["Claude Code", "Codex CLI"], "repo_path": "project", "check": check}
    folder.write("settings.json", json.dumps(settings))
    done = folder.abreast("run", "settings.json")
    assert done.code == 0, done.output
    spec = {
        "cases": [{"id": "fix", "input": "Make it green: the test of add fails."}],
        "target": "claude-code",
        "variants": {
            "claude": {"model": "haiku", "tools": ["Bash"], "workspace": {"git": "project", "commit": "HEAD"}}
        },
        "scorers": [{"tests": {"command": check}}],
    }
    folder.write("spec.yaml", json.dumps(spec))
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 0, done.output
    rows = folder.sql("select variant, status, score, tests_changed, outside_changes from predictions")
    actual = {
        row["variant"]: (row["status"], row["score"], row["tests_changed"], row["outside_changes"]) for row in rows
    }
    assert actual == dict.fromkeys(["Claude Code", "Codex CLI", "claude"], ("ok", 0, 1, 0))
