"""`sandbox: bubblewrap`: an agent works in its own folder and can neither read nor write anything else."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from abreast.fake import FakeProvider
from clis import bubblewrap_folder, real_cli
from conftest import Done, Folder

LOOK_AROUND = """
import json, os, pathlib, socket, sys

def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError as error:
        return type(error).__name__

def write(path):
    try:
        pathlib.Path(path).write_text("x")
        return True
    except OSError:
        return False

def listing(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return None
"""


@pytest.fixture
def home(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a secret in it, and bubblewrap on the path."""
    home = folder.path / "home"
    folder.write("home/.ssh/id_ed25519", "PRIVATE")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{bubblewrap_folder()}:{os.environ['PATH']}")
    return home


def agent(folder: Folder, content: str, name: str = "spec/agent") -> None:
    """Write a program next to the spec, in Python. What it prints as JSON is its answer."""
    folder.write(name, f"#!{sys.executable}\n{LOOK_AROUND}{textwrap.dedent(content)}").chmod(0o755)


def run(
    folder: Folder, sandbox: Any = "bubblewrap", command: str = "run", program: Any = ("agent",), **variant: Any
) -> Done:
    """Run an experiment in a separate folder whose answers must stay hidden."""
    spec = {
        "cases": [{"id": "one", "input": "?", "expected": "THE ANSWER"}],
        "variants": {"v": {"target": "command", "command": program, "sandbox": sandbox, **variant}},
        "scorers": ["exact"],
        "limits": {"retries": 0, "timeout": 30},
    }
    folder.write("spec/spec.json", json.dumps(spec))
    return folder.abreast(command, "spec/spec.json", *(["--quiet"] if command == "run" else []))


def agent_view(folder: Folder, sandbox: Any = "bubblewrap", **variant: Any) -> Any:
    """The report of the agent."""
    done = run(folder, sandbox, **variant)
    assert done.code == 0, done.output
    row = folder.sql("select * from predictions order by started_at", "spec/results.db")[-1]
    assert row["status"] == "ok", row["error"]
    return json.loads(row["answer"])


def test_an_agent_sees_neither_home_nor_spec_nor_store_nor_other_processes(folder: Folder, home: Path) -> None:
    content = f"""
        print(json.dumps({{
            "key": read({str(home / ".ssh/id_ed25519")!r}),
            "spec": read({str(folder.path / "spec/spec.json")!r}),
            "store": read({str(folder.path / "spec/results.db")!r}),
            "beside": listing({str(folder.path)!r}),
            "trials": [listing(path) for path in ("../..", "../../..")],
            "processes": sum(name.isdigit() for name in listing("/proc")),
        }}))
    """
    agent(folder, content)
    view = agent_view(folder)
    assert view["key"] == view["spec"] == view["store"] == "FileNotFoundError"
    assert set(view["beside"]) <= {"home", "spec"}
    assert len(view["trials"][0]) == 1, "only its own"
    assert view["processes"] <= 3
    assert "PRIVATE" in agent_view(folder, "none")["key"], "without a sandbox it reads what you can read"


def test_an_agent_writes_only_to_its_workspace_and_temporary_folders(folder: Folder, home: Path) -> None:
    agent(
        folder,
        f"""
        places = ["work.txt", os.environ["TMPDIR"] + "/x", "/tmp/abreast-sandbox-x", os.environ["HOME"] + "/x"]
        places += ["/etc/x", "/usr/x", "/x", {str(folder.path / "spec/agent")!r}]
        print(json.dumps([write(place) for place in places]))
        """,
    )
    assert agent_view(folder) == [True] * 4 + [False] * 4
    assert not Path("/tmp/abreast-sandbox-x").exists()
    assert not (home / "x").exists()
    assert folder.sql("select files_changed from predictions", "spec/results.db") == [{"files_changed": 1}]


def test_listed_paths_can_be_read_or_written(folder: Folder, home: Path) -> None:
    folder.write("spec/data/read.txt", "data")
    folder.write("cache/old.txt", "old")
    paths = [str(folder.path / "spec/data/read.txt"), str(folder.path / "cache")]
    agent(folder, f"print(json.dumps([read({paths[0]!r}), write({paths[0]!r}), write({paths[1]!r} + '/new.txt')]))")
    assert agent_view(folder, {"read": ["data"], "write": ["../cache"]}) == ["data", False, True]
    assert (folder.path / "cache" / "new.txt").read_text() == "x"


@pytest.mark.parametrize("network", ["on", "off"])
def test_the_network_is_on_unless_it_is_off(folder: Folder, home: Path, network: str) -> None:
    with FakeProvider.in_thread() as provider:
        port = int(provider.url.rpartition(":")[2])
        agent(folder, f"print(json.dumps(socket.socket().connect_ex(('127.0.0.1', {port})) == 0))")
        assert agent_view(folder, {"network": network}) is (network == "on")


def test_an_agent_cannot_fill_memory_or_disk_with_temporary_files_or_one_large_file(folder: Folder, home: Path) -> None:
    agent(
        folder,
        """
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        def fill(path):
            try:
                pathlib.Path(path).write_bytes(bytes(3_000_000))
                return True
            except OSError:
                return False

        print(json.dumps([fill(os.environ["TMPDIR"] + "/x"), fill("/tmp/x"), fill("work.bin")]))
        """,
    )
    assert agent_view(folder) == [True, True, True]
    assert agent_view(folder, {"disk_mb": 2}) == [False, False, False]


def test_an_agent_cannot_start_unlimited_processes(folder: Folder, home: Path) -> None:
    agent(
        folder,
        """
        def started():
            try:
                return os.fork() or os._exit(0)
            except BlockingIOError:
                return None

        print(json.dumps([started() is not None for _ in range(40)][-1]))
        """,
    )
    if os.getuid() == 0:
        done = run(folder, {"processes": 20})
        assert (done.code, "Linux sets no such limit for root" in done.err) == (4, True)
    else:
        assert agent_view(folder, {"processes": 20}) is False


def test_checks_run_in_the_sandbox_too_because_they_execute_the_agents_code(folder: Folder, home: Path) -> None:
    key = home / ".ssh/id_ed25519"
    agent(folder, f"pathlib.Path('test.sh').write_text('cat {key}; cat $ABREAST_FOLDER/rule.txt')\nprint(1)")
    folder.write("spec/rule.txt", "a rule")
    run(folder)
    spec = json.loads((folder.path / "spec/spec.json").read_text())
    spec["scorers"] = [{"tests": {"command": "sh test.sh; ls $ABREAST_FOLDER", "shell": True}}]
    folder.write("spec/spec.json", json.dumps(spec))
    assert folder.abreast("run", "spec/spec.json", "--quiet").code == 0
    (printed,) = folder.sql("select content from artifacts where name = 'tests'", "spec/results.db")
    assert "PRIVATE" not in printed["content"]
    assert "a rule" in printed["content"]


def test_daemons_end_with_their_sandbox(folder: Folder, home: Path) -> None:
    agent(
        folder,
        """
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.execve(sys.executable, ["a-daemon-in-a-sandbox", "-c", "import time; time.sleep(600)"], {})
            os._exit(0)
        os.wait()
        print(json.dumps("yes"))
        """,
    )
    assert agent_view(folder) == "yes"
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"a-daemon-in-a-sandbox" in line for line in lines)


def test_a_program_ended_by_a_signal_is_reported_as_such(folder: Folder, home: Path) -> None:
    agent(folder, "os.kill(os.getpid(), 15)")
    run(folder)
    (row,) = folder.sql("select error from predictions", "spec/results.db")
    assert "SIGTERM" in row["error"]


def test_an_exit_code_above_128_is_not_always_a_signal(folder: Folder, home: Path) -> None:
    agent(folder, "sys.exit(150)")
    run(folder)
    (row,) = folder.sql("select error from predictions", "spec/results.db")
    assert "exit code 150" in row["error"]


def test_settings_next_to_programs_on_the_path_stay_hidden(
    folder: Folder, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installers put `~/.fly/bin` on the path, and tokens into `~/.fly`."""
    secrets = [
        ".fly/config.yml",
        ".docker/config.json",
        "project/.env",
        "project/src/key.py",
        ".venvs/.env",
        "tool/.env",
    ]
    programs = [".fly/bin/fly", ".docker/bin/docker", "project/bin/serve", ".venvs/bin/tool", "tool/run"]
    loaded = ["project/lib/code.py", ".pyenv/versions/3.9/lib/code.py", "node-20/lib/code.js", "node-20/extra/data"]
    for name in (*secrets, *programs, *loaded, "node-20/bin/node", ".pyenv/shims/python", ".venvs/lib/code.py"):
        folder.write(f"home/{name}", "CONTENT").chmod(0o755)
    folder.write("home/.venvs/pyvenv.cfg", "home = /usr/bin")
    on_path = [".fly/bin", ".docker/bin", "project/bin", ".venvs/bin", "tool", "node-20/bin", ".pyenv/shims"]
    monkeypatch.setenv("PATH", ":".join([*(str(home / name) for name in on_path), os.environ["PATH"]]))
    names = [*secrets, *programs, *loaded]
    agent(folder, f"print(json.dumps(['CONTENT' in read(f'{home}/{{name}}') for name in {names!r}]))")
    assert dict(zip(names, agent_view(folder), strict=True)) == {name: name not in secrets for name in names}


# -- before anything is paid for ---------------------------------------------------------------------------------------


def test_a_missing_tool_stops_the_run_before_it_begins(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    agent(folder, "print(1)")
    monkeypatch.setenv("PATH", str(folder.path))
    done = run(folder)
    assert done.code == 4
    assert "bubblewrap (bwrap) is not installed" in done.err
    assert "apt install bubblewrap" in done.err


def test_a_tool_that_does_not_work_stops_the_run_before_it_begins(
    folder: Folder, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent(folder, "print(1)")
    folder.write("bin/bwrap", "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n").chmod(
        0o755
    )
    os.environ["PATH"] = f"{folder.path / 'bin'}:{os.environ['PATH']}"
    done = run(folder)
    assert done.code == 4
    assert "bubblewrap does not work here: bwrap: No permissions to create new namespace" in done.err


@pytest.mark.parametrize(
    ("sandbox", "message"),
    [
        ("docker", "sandbox must be none, bubblewrap or a mapping, got 'docker'"),
        ({"network": "maybe"}, "network must be on or off"),
        ({"netwrok": "off"}, 'unknown setting "netwrok" (did you mean "network"?)'),
        ({"disk_mb": 0}, "disk_mb must be megabytes"),
        ({"processes": "many"}, "processes must be an integer"),
        ({"read": "/data"}, "read must be a list of paths"),
        ({"tool": "docker"}, "tool must be bubblewrap"),
        (3, "sandbox must be none"),
    ],
)
def test_an_invalid_sandbox_setting_is_refused(folder: Folder, sandbox: Any, message: str) -> None:
    agent(folder, "print(1)")
    done = run(folder, sandbox)
    assert done.code == 2
    assert message in done.err


def test_an_agent_that_needs_its_provider_is_refused_without_a_network(folder: Folder, home: Path) -> None:
    agent(folder, "print(1)")
    done = run(folder, {"network": "off"}, preset="codex", program="./agent")
    assert done.code == 4
    assert "codex cannot reach its API" in done.err


def test_a_missing_path_is_refused(folder: Folder, home: Path) -> None:
    agent(folder, "print(1)")
    done = run(folder, {"read": ["no-such-folder"]})
    assert (done.code, "does not exist" in done.err, "no-such-folder" in done.err) == (4, True, True)


def test_check_says_how_processes_are_contained_and_recommends_the_sandbox(folder: Folder, home: Path) -> None:
    agent(folder, "print(1)")
    without = run(folder, "none", "check").output
    assert "child subreaper" in without
    assert "sandbox: bubblewrap" in without
    inside = run(folder, "bubblewrap", "check").output
    assert "PID namespace of bubblewrap" in inside
    assert "can read and change whatever you can" not in inside


# -- real agents -------------------------------------------------------------------------------------------------------


def test_claude_code_works_in_a_sandbox_with_its_mcp_servers(
    folder: Folder, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"command": sys.executable, "args": [str(Path(__file__).parent / "mcp_server.py")]}
    variant = {"target": "claude-code", "model": "sonnet", "tools": ["Bash"], "sandbox": "bubblewrap"}
    call = {"command": f"cat {home}/.ssh/id_ed25519 > key.txt; cat {folder.path}/spec.json > spec.txt; ls > ls.txt"}
    prompts = ['[[fake: tool=mcp__sums__add args={"a": 1, "b": 3}]] ?', f"[[fake: tool=Bash args={json.dumps(call)}]]"]
    spec = {
        "cases": [{"id": f"c{n}", "input": prompt, "expected": "SECRET"} for n, prompt in enumerate(prompts)],
        "variants": {"v": {**variant, "mcp": {"sums": server}}},
        "scorers": ["exact"],
    }
    folder.write("spec.json", json.dumps(spec))
    with FakeProvider.in_thread() as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
        monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{os.environ['PATH']}")
        done = folder.abreast("run", "spec.json", "--quiet")
    assert done.code == 0, done.output
    rows = folder.sql("select status, error, tool_calls from predictions")
    assert rows == [{"status": "ok", "error": None, "tool_calls": 1}] * 2
    (diff,) = folder.sql("select content from artifacts where name = 'diff'")
    assert "ls.txt" in diff["content"]
    assert "PRIVATE" not in diff["content"]
    assert "SECRET" not in diff["content"]


def test_codex_works_in_a_sandbox_with_its_settings(folder: Folder, home: Path) -> None:
    with FakeProvider.in_thread() as provider:
        address = provider.environment["OPENAI_BASE_URL"]
        folder.write(
            "home/.codex/config.toml",
            f"""
            model_provider = "fake"
            [model_providers.fake]
            name = "fake"
            base_url = "{address}"
            env_key = "CODEX_TEST"
            wire_api = "responses"
            """,
        )
        folder.write("home/.codex/auth.json", "{}")
        environment = {"CODEX_TEST": "any", "OPENAI_BASE_URL": address}
        call = {"cmd": f"echo new > made.txt; cat {home}/.ssh/id_ed25519 >> made.txt"}
        prompt = f'[[fake: tool=exec_command args={json.dumps(call)} then="yes"]]'
        spec = {
            "cases": [{"id": "one", "input": prompt, "expected": "yes"}],
            "limits": {"timeout": 60},
            "variants": {"v": {"preset": "codex", "command": str(real_cli("codex")), "env": environment}},
            "params": {"sandbox": "bubblewrap", "model": "gpt-5"},
            "target": "command",
            "scorers": ["exact"],
        }
        folder.write("spec.json", json.dumps(spec))
        done = folder.abreast("run", "spec.json", "--quiet")
    assert done.code == 0, done.output
    assert folder.sql("select score, error from predictions") == [{"score": 1.0, "error": None}]
    (diff,) = folder.sql("select content from artifacts where name = 'diff'")
    assert "+new" in diff["content"]
    assert "PRIVATE" not in diff["content"]
    assert [path.name for path in sorted((home / ".codex").iterdir())] == ["auth.json", "config.toml"], (
        "what it wrote there is gone"
    )
