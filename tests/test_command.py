"""`target: command`: any program can be a target, whatever it prints, leaves behind or fails to do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast import Experiment, Options
from abreast.errors import RateLimited, Rejected, TooLong, Transient, TrialError, Unauthenticated
from abreast.fake import FakeProvider
from abreast.model import Usage
from abreast.targets.agents.presets import PRESETS, AgentOutput, JsonPaths, custom
from clis import real_cli
from conftest import Done, Folder

PYTHON = f"#!{sys.executable}\n"


def program(folder: Folder, content: str, name: str = "agent") -> Path:
    """Write a Python program beside the spec."""
    path = folder.write(name, PYTHON + textwrap.dedent(content))
    path.chmod(0o755)
    return path


def run(folder: Folder, variant: dict[str, Any], *words: str, prompt: Any = "yes", **more: Any) -> Done:
    """Run an experiment with one variant and one case that expects `yes`."""
    cases = more.pop("cases", [{"id": "one", "input": prompt, "expected": "yes"}])
    spec = {
        "cases": cases,
        "variants": {"v": {"target": "command", **variant}},
        "scorers": ["exact"],
        "limits": {"retries": 0, **more.pop("limits", {})},
        **more,
    }
    folder.write("spec.json", json.dumps(spec))
    return folder.abreast("run", "spec.json", "--quiet", *words)


def row(folder: Folder) -> dict[str, Any]:
    rows = folder.sql("select * from predictions")
    assert len(rows) == 1
    return rows[0]


def artifacts(folder: Folder) -> dict[str, str]:
    return {record["name"]: record["content"] for record in folder.sql("select name, content from artifacts")}


def answer(folder: Folder, variant: dict[str, Any], prompt: Any = "yes", **more: Any) -> str:
    done = run(folder, variant, prompt=prompt, **more)
    assert done.code in (0, 3), done.output
    trial = row(folder)
    assert trial["status"] == "ok", (done.output, trial["error"])
    return str(trial["answer"])


def processes_with(word: str) -> list[psutil.Process]:
    """Processes that have this word in their command line."""
    actual = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if word in " ".join(process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE:
            actual.append(process)
    return actual


def test_no_trial_sees_files_of_another_in_its_folders(folder: Folder) -> None:
    """Folders are reused, but emptied and under another name."""
    program(
        folder,
        """
        import os, pathlib, sys
        temporary, work = pathlib.Path(os.environ["TMPDIR"]), pathlib.Path.cwd()
        scratch = temporary.parent
        left = sorted(path.name for place in (scratch, temporary, work) for path in place.iterdir())
        prompt = sys.stdin.read()
        print(left, prompt, pathlib.Path(os.environ["ABREAST_PROMPT_FILE"]).read_text(), scratch.name)
        print("complaint", file=sys.stderr)
        (temporary / "deep" / "er").mkdir(parents=True)
        (temporary / "deep" / "er" / "file").write_text("x")
        (scratch / "folder").mkdir()
        (scratch / "link").symlink_to("/etc/passwd")
        os.link(scratch / "stdout", scratch / "another name of stdout")
        os.unlink(scratch / "prompt.txt")
        os.symlink(work / "target", scratch / "prompt.txt")
        (temporary / "deep").chmod(0)
        """,
    )
    prompts = ["a long first prompt", "second", "3", ""]
    cases = [{"id": f"c{number}", "input": prompt, "expected": "x"} for number, prompt in enumerate(prompts)]
    done = run(folder, {"command": ["agent"]}, cases=cases, limits={"parallel": 1})
    assert done.code in (0, 3), done.output
    rows = folder.sql("select case_id, status, answer from predictions order by case_id")
    assert [row["status"] for row in rows] == ["ok"] * 4
    parts = [row["answer"].rpartition(" ") for row in rows]
    content = ["prompt.txt", "stderr", "stdout", "tmp"]
    assert [text.strip() for text, _, _ in parts] == [f"{content} {prompt} {prompt}".strip() for prompt in prompts]
    assert len({name for _, _, name in parts}) == 4


# -- how a program is called -------------------------------------------------------------------------------------------


def test_the_prompt_is_passed_unchanged_as_an_argument(folder: Folder) -> None:
    program(folder, "import sys; print(sys.argv[1])")
    prompt = 'it\'s $HOME `x` {braces} "quoted" * ; rm -rf'
    assert answer(folder, {"command": ["agent", "{prompt}"]}, prompt) == prompt


def test_the_prompt_is_a_file_or_standard_input(folder: Folder) -> None:
    program(folder, "import sys; print(open(sys.argv[1]).read() + '|' + sys.stdin.read())")
    assert answer(folder, {"command": ["agent", "{prompt_file}"]}) == "yes|"
    program(folder, "import sys; print(len(sys.argv), sys.stdin.read())", "other")
    folder.path.joinpath("results.db").unlink()
    assert answer(folder, {"command": ["./other"]}) == "1 yes"


def test_standard_input_can_accompany_an_argument_or_stay_empty(folder: Folder) -> None:
    program(folder, "import sys; print(repr(sys.stdin.read()))")
    assert answer(folder, {"command": ["agent", "{prompt}"], "stdin": "prompt"}) == "'yes'"
    folder.path.joinpath("results.db").unlink()
    assert answer(folder, {"command": ["agent"], "stdin": "none"}) == "''"


def test_the_program_runs_in_its_workspace_with_its_arguments(folder: Folder) -> None:
    program(folder, "import json, os, sys; print(json.dumps([os.getcwd(), os.environ['PWD'], *sys.argv[1:]]))")
    variant = {
        "command": ["agent", "{workspace}", "--model={model}", "{{literal}}", "{folder}"],
        "args": ["more", "{prompt_file}"],
        "model": "m1",
    }
    cwd, pwd, workspace, model, literal, base, more, file = json.loads(answer(folder, variant))
    assert cwd == pwd == workspace != str(folder.path)
    assert (model, literal, more) == ("--model=m1", "{literal}", "more")
    assert Path(base) == folder.path
    assert file.endswith("prompt.txt")
    assert not file.startswith(workspace)
    assert row(folder)["model"] == "m1"


def test_the_temporary_folder_of_a_program_is_removed_with_the_trial(folder: Folder) -> None:
    program(folder, "import tempfile; print(tempfile.mkdtemp())")
    temporary_folder = Path(answer(folder, {"command": ["agent"]}))
    assert "abreast" in str(temporary_folder)
    assert not temporary_folder.parent.exists()


def test_a_shell_gets_variables_and_never_the_prompt_as_text(folder: Folder) -> None:
    text = 'cat "$ABREAST_PROMPT_FILE"; cd "$ABREAST_WORKSPACE" && echo "/$ABREAST_MODEL" | tr m M; cat'
    prompt = "$(touch /tmp/never) `id`"
    variant = {"command": text, "shell": True, "model": "m1"}
    assert answer(folder, variant, prompt) == f"{prompt}/M1"  # and standard input is empty


def test_a_shell_without_the_file_has_the_prompt_on_standard_input(folder: Folder) -> None:
    assert answer(folder, {"command": "tr a-z A-Z | sed 's/Y/y/'", "shell": True}, "yes") == "yES"


def test_a_program_on_the_path_is_found_before_one_beside_the_spec(folder: Folder) -> None:
    program(folder, "print('beside')", "tr")
    program(folder, "print('on the path')", "bin/agent")
    program(folder, "print('beside')", "agent")
    env = {"PATH": f"{folder.path}/bin:{os.environ['PATH']}"}
    assert answer(folder, {"command": ["tr", "a", "b"]}, "aaa") == "bbb"
    folder.path.joinpath("results.db").unlink()
    assert answer(folder, {"command": ["agent"], "env": env}) == "on the path"


def test_invalid_commands_are_refused_with_a_fix(folder: Folder) -> None:
    program(folder, "print('yes')")
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            {"command": ["agent", "{promt}"]},
            r'unknown placeholder \{promt\} \(did you mean "prompt"\?\).*\{prompt_file\}',
        ),
        ({"command": ["agent", '{"a": 1}']}, r"unknown placeholder .*literal braces as \{\{ and \}\}"),
        ({"command": "agent {prompt}"}, r'must be a list of words, .*\["agent", "\{prompt\}"\], or add shell: true'),
        ({"command": "echo {prompt}", "shell": True}, r"\{prompt\} is not available in .*write \$ABREAST_PROMPT_FILE"),
        ({"command": ["echo"], "shell": True}, "shell: true requires a command that is one text"),
        ({"command": ["agent", "{model}"]}, "there is no model"),
        ({}, "no command.*codex"),
        ({"preset": "codecs"}, "preset must be one of claude-code, codex"),
        ({"preset": "codex", "command": ["a", "b"]}, "with preset:, command must be the name or path"),
        ({"command": ["agent"], "output": "json"}, "output: json needs answer:"),
        ({"command": ["agent"], "answer": "a"}, "answer is for output: json or jsonl"),
        ({"command": ["agent"], "output": "xml"}, "output must be one of text, json, jsonl"),
        ({"command": ["agent"], "stdin": "both"}, "stdin must be prompt or none"),
        ({"command": ["agent"], "comand": 1}, r'unknown parameter "comand" \(did you mean "command"\?\)'),
        ({"command": ["agent"], "env": {"API_KEY": "abc"}}, "API_KEY would store a secret"),
    ]
    for variant, message in wrong:
        done = run(folder, variant)
        assert done.code == 2, variant
        assert re.search(message, done.err, re.S), (variant, done.err)


def test_a_missing_program_is_reported_before_the_run(folder: Folder) -> None:
    done = run(folder, {"preset": "codex", "command": "no-such-codex"})
    assert done.code == 4
    assert "no-such-codex not found" in done.err
    assert "npm install -g @openai/codex" in done.err
    folder.write("agent", "print('yes')")
    done = run(folder, {"command": ["agent"]})
    assert done.code == 4
    assert "is not executable" in done.err
    assert "chmod +x" in done.err


def test_a_program_that_cannot_be_started_is_not_the_fault_of_the_variant(folder: Folder) -> None:
    folder.write("agent", "#!/no/such/interpreter\n").chmod(0o755)
    run(folder, {"command": ["agent"]})
    assert (row(folder)["error_kind"], row(folder)["error_blame"]) == ("rejected", "infrastructure")


def test_a_prompt_too_long_for_an_argument_is_reported(folder: Folder) -> None:
    program(folder, "import sys; print(len(sys.stdin.read()))")
    run(folder, {"command": ["agent", "{prompt}"]}, prompt="x" * 200_000)
    trial = row(folder)
    assert trial["error_kind"] == "rejected"
    assert "too long for an argument (200,000 bytes)" in trial["error"]
    folder.path.joinpath("results.db").unlink()
    run(folder, {"command": ["agent", "{prompt}"]}, prompt="a\0b")
    assert "NUL" in row(folder)["error"]
    folder.path.joinpath("results.db").unlink()
    assert answer(folder, {"command": ["agent"]}, "x" * 200_000) == "200000"


def test_changing_the_program_changes_the_target(folder: Folder) -> None:
    program(folder, "print('no')")
    script = folder.write("script.py", "print('no')")
    run(folder, {"command": ["agent"]})
    run(folder, {"command": ["agent"]})
    program(folder, "print('yes')")
    run(folder, {"command": ["agent"]})
    assert [record["answer"] for record in folder.sql("select answer from predictions where reused_from is null")] == [
        "no",
        "yes",
    ]
    folder.path.joinpath("results.db").unlink()
    run(folder, {"command": [sys.executable, "{folder}/script.py"]})
    script.write_text("print('yes')")
    run(folder, {"command": [sys.executable, "{folder}/script.py"]})
    assert [record["answer"] for record in folder.sql("select answer from predictions")] == ["no", "yes"]


def test_a_script_beside_the_spec_that_is_missing_in_the_workspace_gives_a_warning(folder: Folder) -> None:
    folder.write("script.py", "print('yes')")
    folder.write("cases.jsonl", '{"id": "one", "input": "?", "expected": "yes"}\n')
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {v: {target: command, command: [python, script.py]}}\nscorers: [exact]\n",
    )
    assert "write {folder}/script.py" in folder.abreast("check", "spec.yaml").output


# -- what it prints ----------------------------------------------------------------------------------------------------


def test_answer_tokens_and_cost_are_read_at_paths_of_a_json_document(folder: Folder) -> None:
    document = {"choices": [{"text": "yes"}], "u": {"prompt_tokens": 9, "completion_tokens": 2}, "paid": 0.5}
    program(folder, f"print('a warning'); print({json.dumps(document)!r})")
    paths = {"answer": "choices.0.text", "usage": "u", "cost": "paid"}
    assert answer(folder, {"command": ["agent"], "output": "json", **paths}) == "yes"
    trial = row(folder)
    assert (trial["input_tokens"], trial["output_tokens"], trial["cost_usd"], trial["cost_basis"]) == (
        *(9, 2, 0.5),
        "reported",
    )


def test_in_json_lines_the_last_line_with_the_path_counts(folder: Folder) -> None:
    program(
        folder,
        """
        print('{"a": {"b": "no"}}'); print('no json'); print('{"u": {"input_tokens": 1000000, "output_tokens": 0}}')
        print('{"a": {"b": ["yes", 1]}}'); print('{"a": {}}'); print('{"a": nul')
        """,
    )
    variant = {"command": ["agent"], "output": "jsonl", "answer": "a.b", "usage": "u", "model": "gpt-5"}
    assert answer(folder, variant) == '["yes", 1]'
    trial = row(folder)
    assert trial["input_tokens"] == 1_000_000
    assert (trial["cost_usd"] > 0, trial["cost_basis"]) == (True, "estimated")  # by its tokens, as its model is known


@pytest.mark.parametrize(
    ("stdout", "output", "message"),
    [
        ("print()", {}, "an empty answer"),
        ("print('{\"b\": 1}')", {"output": "json", "answer": "a"}, 'no "a" in the output'),
        ("print('oops')", {"output": "json", "answer": "a"}, "the output is not valid JSON: oops"),
        ("print('oops')", {"output": "jsonl", "answer": "a"}, 'no "a" in the lines'),
        ("pass", {"preset": "codex"}, "an empty answer"),
    ],
)
def test_output_without_an_answer_is_an_error(
    folder: Folder, stdout: str, output: dict[str, Any], message: str
) -> None:
    program(folder, stdout)
    run(folder, {"command": str(folder.path / "agent") if "preset" in output else ["agent"], **output})
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"]) == ("no_answer", "variant")
    assert message in trial["error"]


def test_a_nonzero_exit_code_is_a_crash_with_the_last_line_of_output(folder: Folder) -> None:
    program(folder, "import sys; print('half'); sys.stderr.write('first\\nlast words\\n'); sys.exit(3)")
    run(folder, {"command": ["agent"]})
    trial = row(folder)
    assert (trial["error_kind"], trial["error"]) == ("crash", "exit code 3: last words")
    assert (trial["answer"], trial["raw_response"], trial["exit_code"]) == ("half", "half\n", 3)
    assert artifacts(folder)["stderr"] == "first\nlast words"


def test_a_signal_is_a_crash(folder: Folder) -> None:
    program(folder, "import os; os.kill(os.getpid(), 9)")
    run(folder, {"command": ["agent"]})
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"]) == ("crash", "variant")
    assert trial["error"].startswith("killed by SIGKILL")


def test_whatever_is_printed_is_stored(folder: Folder) -> None:
    program(
        folder,
        r"""
        import sys
        sys.stdout.buffer.write(b"\x1b[31mred\x07 \x00 \xff\xfe \xed\xa0\x80 end\r\n")
        sys.stderr.buffer.write(b"\x00\xff\x1b]0;title\x07")
        """,
    )
    done = run(folder, {"command": ["agent"]})
    trial = row(folder)
    assert trial["status"] == "ok"
    assert trial["answer"].startswith("\x1b[31mred")
    assert trial["answer"].endswith("end")
    assert "\x1b" not in done.output
    folder.path.joinpath("results.db").unlink()
    program(folder, r"""print('{"a": "\\ud800 \\u0000 x", "u": {"input_tokens": 1e999}, "c": -1}')""")
    variant = {"command": ["agent"], "output": "json", "answer": "a", "usage": "u", "cost": "c"}
    assert answer(folder, variant).endswith(" x")
    assert (row(folder)["input_tokens"], row(folder)["cost_usd"]) == (None, None)
    folder.path.joinpath("results.db").unlink()
    program(
        folder,
        r"""print('{"a": {"\\ud800": [NaN, 1e999, ' + "9" * 40 + ']}, "u": {"input_tokens": ' + "9" * 40 + "}}")""",
    )
    assert "NaN" in answer(folder, {"command": ["agent"], "output": "json", "answer": "a", "usage": "u"})


def test_a_program_may_print_50_megabytes(folder: Folder) -> None:
    program(
        folder,
        """
        import sys
        line = b'{"type": "noise", "text": "' + b"x" * 10_000 + b'"}\\n'
        for _ in range(5_000):
            sys.stdout.buffer.write(line)
        print('{"answer": "yes"}')
        """,
    )
    assert answer(folder, {"command": ["agent"], "output": "jsonl", "answer": "answer"}) == "yes"
    size = folder.sql("select length(raw_response) as size from predictions")[0]["size"]
    assert 1_900_000 < size < 2_100_000
    assert folder.path.joinpath("results.db").stat().st_size < 10_000_000
    logs = folder.abreast("logs").out
    assert len(logs) < 10_000, "only the head and tail of long output"
    assert '"type": "noise"' in logs
    assert f"{size - 4_000:,} characters left out; --json prints all" in logs
    assert '{"answer": "yes"}' in logs


def test_large_output_is_read_without_holding_it_in_memory(tmp_path: Path) -> None:
    text, lines = tmp_path / "text", tmp_path / "lines"
    with text.open("wb") as file:
        file.truncate(200_000_000)  # zeros that take no disk space
    with lines.open("wb") as file:
        line = b'{"type": "noise", "text": "' + b"x" * 10_000 + b'"}\n'
        for _ in range(50):
            file.write(line * 100)
        file.write(b"[" * 40_000_000 + b'\n{"answer": "yes"}\n')
    code = f"""
        import resource
        from pathlib import Path
        from abreast.targets.agents.presets import PRESETS, JsonPaths, custom
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        text, lines, nothing = Path({str(text)!r}), Path({str(lines)!r}), Path("nothing")
        JsonPaths("answer").of_lines(nothing, nothing)
        before = peak()
        assert len(custom.WholeText(2_000_000).read(text, nothing).text) < 2_100_000
        assert JsonPaths("answer").of_lines(lines, nothing).text == "yes"
        for preset in PRESETS.values():
            preset.reads(lines, nothing)
        print(peak() - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 90_000  # kB: less than a document and one inspected line


# -- what it does ------------------------------------------------------------------------------------------------------


def test_what_an_agent_edits_deletes_and_commits_is_in_the_diff(folder: Folder) -> None:
    folder.write("start/kept.txt", "one\ntwo\n")
    folder.write("start/gone.txt", "bye\n")
    program(
        folder,
        """
        import os, pathlib, subprocess
        pathlib.Path("kept.txt").write_text("one\\n2\\n")
        os.unlink("gone.txt")
        pathlib.Path("new.txt").write_text("hello\\n")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "x"], check=True)
        print("yes")
        """,
    )
    assert answer(folder, {"command": ["agent"], "workspace": {"copy": "start"}}) == "yes"
    diff = artifacts(folder)["diff"]
    assert "-two\n+2\n" in diff
    assert "deleted file" in diff
    assert "+hello" in diff
    assert row(folder)["files_changed"] == 3
    assert folder.path.joinpath("start/gone.txt").exists()


def test_a_daemon_does_not_outlive_its_trial(folder: Folder) -> None:
    program(
        folder,
        """
        import os, subprocess, sys
        code = "import time; 'a-daemon-of-a-command-test'; time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        print("yes")
        """,
    )
    assert answer(folder, {"command": ["agent"]}) == "yes"
    assert processes_with("a-daemon-of-a-command-test") == []


def test_an_agent_may_remove_its_own_workspace(folder: Folder) -> None:
    program(folder, "import os, shutil; shutil.rmtree(os.getcwd()); print('yes')")
    assert answer(folder, {"command": ["agent"]}) == "yes"


@pytest.mark.parametrize(("variant", "gets_folder"), [({}, True), ({"preset": "codex"}, False)])
def test_a_known_agent_gets_no_path_to_the_folder_of_the_spec(
    folder: Folder, variant: dict[str, str], gets_folder: bool
) -> None:
    file = program(folder, "import os; open('seen.txt', 'w').write(' '.join(os.environ)); print('yes')")
    run(folder, {"command": str(file), **variant} if variant else {"command": ["agent"]})
    assert ("ABREAST_FOLDER" in artifacts(folder)["diff"]) is gets_folder
    assert "ABREAST_WORKSPACE" in artifacts(folder)["diff"]


@pytest.mark.parametrize("output", [{}, {"output": "json", "answer": "x"}, {"output": "jsonl", "answer": "x"}])
def test_an_agent_that_replaces_its_output_files_by_pipes_has_no_output(folder: Folder, output: dict[str, str]) -> None:
    program(
        folder,
        """
        import os, pathlib
        for name in ("stdout", "stderr"):
            file = pathlib.Path(os.environ["TMPDIR"]).parent / name
            file.unlink()
            os.mkfifo(file)
        """,
    )
    run(folder, {"command": ["agent"], **output}, limits={"timeout": 5})
    assert row(folder)["error_kind"] == "no_answer"


def test_an_agent_that_ignores_sigterm_is_killed(folder: Folder) -> None:
    program(
        folder,
        """
        import pathlib, signal, sys, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        pathlib.Path("begun.txt").write_text("begun\\n")
        print("half", flush=True)
        'a-stubborn-one'
        time.sleep(600)
        """,
        "a-stubborn-agent-of-a-test",
    )
    run(folder, {"command": ["a-stubborn-agent-of-a-test"]}, limits={"timeout": 2})
    trial = row(folder)
    assert (trial["error_kind"], trial["answer"]) == ("timeout", "half")
    assert "+begun" in artifacts(folder)["diff"]
    assert processes_with("a-stubborn-agent-of-a-test") == []


def test_eight_parallel_agents_have_separate_folders(folder: Folder) -> None:
    program(
        folder,
        """
        import os, pathlib, sys
        assert not os.listdir(".")
        pathlib.Path("mine.txt").write_text(sys.stdin.read() + "\\n")
        print(pathlib.Path("mine.txt").read_text())
        """,
    )
    cases = [{"id": f"c{n}", "input": f"p{n}", "expected": f"p{n}"} for n in range(8)]
    done = run(folder, {"command": ["agent"]}, "--parallel", "8", cases=cases)
    rows = folder.sql("select status, score, error from predictions")
    assert [record["score"] for record in rows] == [1.0] * 8, (done.output, rows)
    diffs = {record["content"] for record in folder.sql("select content from artifacts where name = 'diff'")}
    assert len(diffs) == 8


def test_the_workspace_of_a_failed_trial_can_be_kept(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABREAST_WORKSPACES", tempfile.mkdtemp(dir=folder.path))
    program(folder, "open('left.txt', 'w').write('x'); raise SystemExit(1)")
    folder.write(
        "spec.json",
        json.dumps(
            {
                "cases": [{"id": "one", "input": "?", "expected": "yes"}],
                "variants": {"v": {"target": "command", "command": ["agent"]}},
                "scorers": ["exact"],
            }
        ),
    )
    experiment = Experiment.load(folder.path / "spec.json")
    experiment.run(Options(keep_workspaces=True))
    workspace = folder.sql("select workspace from predictions")[0]["workspace"]
    assert Path(workspace, "left.txt").read_text() == "x"


# -- presets -----------------------------------------------------------------------------------------------------------


def read(preset: str, out: str | bytes = "", err: str | bytes = "") -> AgentOutput:
    with tempfile.TemporaryDirectory() as directory:
        files = Path(directory, "out"), Path(directory, "err")
        for file, content in zip(files, (out, err), strict=True):
            file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return PRESETS[preset].reads(*files)


CODEX = """\
{"type":"thread.started","thread_id":"01a1"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata for `gpt-5` not found."}}
{"type":"turn.started"}
{"type":"error","message":"Reconnecting... 1/5 (We’re currently experiencing high demand)"}
{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"ls","exit_code":0}}
{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"done"}}
{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":50,"cache_write_input_tokens":0,\
"output_tokens":20,"reasoning_output_tokens":3}}
"""
GEMINI = {
    "session_id": "14b5",
    "response": "hello",
    "stats": {
        "models": {
            "gemini-2.5-flash": {
                "api": {"totalRequests": 2, "totalErrors": 1},
                "tokens": {"input": 60, "prompt": 100, "candidates": 7, "total": 110, "cached": 40, "thoughts": 3},
            }
        },
        "tools": {"totalCalls": 1, "byName": {"write_file": {"count": 1, "success": 1}}},
    },
}
QWEN = """\
{"type":"system","subtype":"init","model":"gpt-5","qwen_code_version":"0.15.10","mcp_servers":[]}
{"type":"assistant","message":{"id":"a","model":"gpt-5","content":[{"type":"tool_use","name":"write_file"}],"usage":{}}}
{"type":"result","subtype":"success","is_error":false,"num_turns":2,"duration_api_ms":96,"result":"RESULT",\
"usage":{"input_tokens":100,"output_tokens":20,"cache_read_input_tokens":50},"permission_denials":[]}
"""
CLAUDE = """\
{"type":"system","subtype":"init","apiKeySource":"ANTHROPIC_API_KEY","mcp_servers":[],"claude_code_version":"2.1.325"}
{"type":"system","subtype":"api_retry","attempt":1}
{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"Bash"}],"usage":{"input_tokens":1}}}
{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"hello","total_cost_usd":0.25,\
"usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":3},\
"modelUsage":{"claude-sonnet-4-5":{"costUSD":0.25}},"permission_denials":[]}
"""
OPENCODE = """\
{"type":"step_start","part":{"type":"step-start"}}
{"type":"text","part":{"messageID":"m1","type":"text","text":"let me see"}}
{"type":"tool_use","part":{"type":"tool","tool":"bash","state":{"status":"completed"}}}
{"type":"step_finish","part":{"tokens":{"input":50,"output":20,"reasoning":2,"cache":{"write":1,"read":30}},"cost":0.5}}
{"type":"text","part":{"messageID":"m2","type":"text","text":"hello"}}
{"type":"step_finish","part":{"tokens":{"input":10,"output":1,"reasoning":0,"cache":{"write":0,"read":40}},"cost":0.25}}
"""
AUGGIE = '{"type":"result","result":"hello","is_error":false,"num_turns":3}'
AIDER = """\
Aider v0.86.2
Main model: openai/gpt-5 with diff edit format
Git repo: none
Repo-map: disabled

https://aider.chat/HISTORY.html#release-notes

Added a.txt to the chat.

litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached for
requests. Please try again later.
Retrying in 0.2 seconds...
hello

Tokens: 2.3k sent, 20 received. Cost: $0.0029 message, $0.25 session.
"""


def test_codex_is_read() -> None:
    output = read("codex", CODEX)
    assert (output.text, output.usage, output.error) == ("done", Usage(50, 20, 50, 0, 3), None)
    assert (output.tools, output.api_retries) == ({"command_execution": 1}, 1)


def test_gemini_is_read() -> None:
    output = read("gemini", json.dumps(GEMINI, indent=2))
    assert (output.text, output.usage, output.model) == ("hello", Usage(60, 10, 40, None, 3), "gemini-2.5-flash")
    assert (output.turns, output.tools, output.api_retries) == (2, {"write_file": 1}, 1)


def test_qwen_is_read() -> None:
    output = read("qwen", QWEN.replace("RESULT", "hello"))
    assert (output.text, output.usage, output.model) == ("hello", Usage(50, 20, 50), "gpt-5")
    assert (output.turns, output.tools, output.error) == (2, {"write_file": 1}, None)


def test_claude_code_is_read() -> None:
    output = read("claude-code", CLAUDE)
    assert (output.text, output.usage, output.cost_usd, output.is_included) == (
        "hello",
        Usage(10, 5, 7, 3),
        0.25,
        False,
    )
    assert (output.model, output.turns, output.api_retries, output.tools) == ("claude-sonnet-4-5", 2, 1, {"Bash": 1})
    assert read("claude-code", CLAUDE.replace('"ANTHROPIC_API_KEY"', '"none"')).is_included


def test_opencode_is_read() -> None:
    output = read("opencode", OPENCODE)
    assert (output.text, output.usage, output.cost_usd) == ("hello", Usage(60, 23, 70, 1, 2), 0.75)
    assert (output.turns, output.tools) == (2, {"bash": 1})
    assert (
        read("opencode", OPENCODE.replace("0.5", "0").replace("0.25", "0")).cost_usd is None
    )  # OpenCode knows no price


def test_auggie_and_cursor_are_read() -> None:
    for preset in ("auggie", "cursor-agent"):
        output = read(preset, AUGGIE)
        assert (output.text, output.turns, output.usage, output.cost_usd) == ("hello", 3, Usage(), None)


def test_aider_is_read() -> None:
    output = read("aider", AIDER)
    assert (output.text, output.usage, output.cost_usd) == ("hello", Usage(2300, 20), 0.25)
    assert (output.model, output.api_retries, output.error) == ("openai/gpt-5", 1, None)


def test_cache_tokens_of_aider_do_not_count_as_plain_input() -> None:
    tokens = "Tokens: 12k sent, 2k cache write, 9k cache hit, 100 received. Cost: $0.01 message, $0.01 session."
    assert read("aider", f"{AIDER.split('hello')[0]}hello\n\n{tokens}\n").usage == Usage(1000, 100, 9000, 2000)


def claude_failed(status: int, message: str) -> str:
    end = {"type": "result", "is_error": True, "api_error_status": status, "result": message, "num_turns": 1}
    return json.dumps(end) + "\n"


@pytest.mark.parametrize(
    ("status", "message", "kind", "fix"),
    [
        (400, "Credit balance is too low", Unauthenticated, "add credit"),
        (413, "Request too large", TooLong, ""),
        (400, "API Error: 400 input length and max_tokens exceed context limit: 200000", TooLong, ""),
        (404, "There is no such model", Rejected, "check the name of the model"),
        (400, "A parameter that is none", Rejected, "does not accept this request"),
        (401, "Wrong", Unauthenticated, "log in"),
        (500, "Fell over", Transient, ""),
    ],
)
def test_api_errors_of_claude_code_have_a_kind_and_a_fix(
    status: int, message: str, kind: type[TrialError], fix: str
) -> None:
    trouble = read("claude-code", claude_failed(status, message)).error
    assert type(trouble) is kind
    assert fix in trouble.fix
    assert bool(fix) == bool(trouble.fix)


def codex_failed(message: str) -> str:
    event = {"type": "turn.failed", "error": {"message": message}}
    return json.dumps({"type": "error", "message": message}) + "\n" + json.dumps(event) + "\n"


def gemini_failed(code: int, message: str) -> str:
    return "Warning: colours\n" + json.dumps({"error": {"type": "Error", "message": message, "code": code}}, indent=2)


OPENAI_LONG = '{"error":{"message":"This model\'s maximum context length is 1","code":"context_length_exceeded"}}'
OPENCODE_401 = {"type": "error", "error": {"name": "APIError", "data": {"message": "Wrong.", "statusCode": 401}}}
OPENCODE_LONG = {"type": "error", "error": {"name": "ContextOverflowError", "data": {"message": "too much"}}}
AIDER_401 = AIDER.split("hello")[0] + "litellm.AuthenticationError: Incorrect \nAPI key provided.\n"


@pytest.mark.parametrize(
    ("preset", "out", "err", "kind"),
    [
        ("codex", codex_failed("exceeded retry limit, last status: 429 Too Many Requests"), "", RateLimited),
        ("codex", codex_failed("unexpected status 401 Unauthorized: Incorrect API key provided."), "", Unauthenticated),
        ("codex", codex_failed("Missing environment variable: `OPENAI_API_KEY`."), "", Unauthenticated),
        ("codex", codex_failed("We’re currently experiencing high demand"), "", Transient),
        ("codex", codex_failed("stream disconnected before completion: error sending request"), "", Transient),
        ("codex", codex_failed(OPENAI_LONG), "", TooLong),
        ("codex", codex_failed("The model does not exist or you do not have access to it."), "", Rejected),
        ("gemini", "", gemini_failed(41, "Invalid auth method selected."), Unauthenticated),
        ("gemini", "", gemini_failed(401, '{"error":{"code":401,"message":"trouble"}}'), Unauthenticated),
        ("gemini", "", gemini_failed(429, '{"error":{"code":429,"message":"trouble"}}'), RateLimited),
        ("gemini", "", gemini_failed(500, '{"error":{"code":500,"message":"trouble"}}'), Transient),
        ("qwen", QWEN.replace("RESULT", "[API Error: 401 Incorrect API key provided.]"), "", Unauthenticated),
        ("qwen", QWEN.replace("RESULT", "[API Error: 400 This model's maximum context length is 1]"), "", TooLong),
        ("qwen", QWEN.replace("RESULT", "[API Error: Connection error.]"), "", Transient),
        ("claude-code", CLAUDE.replace('"is_error":false', '"is_error":true,"api_error_status":429'), "", RateLimited),
        ("opencode", json.dumps(OPENCODE_401), "", Unauthenticated),
        ("opencode", json.dumps(OPENCODE_LONG), "", TooLong),
        ("auggie", AUGGIE.replace("false", "true").replace("hello", "Too many requests"), "", RateLimited),
        ("aider", AIDER_401, "", Unauthenticated),
        ("aider", AIDER + "\nModel openai/gpt-5 has hit a token limit!\n", "", TooLong),
    ],
)
def test_errors_reported_by_an_agent_are_classified(preset: str, out: str, err: str, kind: type[TrialError]) -> None:
    output = read(preset, out, err)
    assert type(output.error) is kind, output.error
    if kind is Unauthenticated:
        assert output.error.fix


def test_an_error_as_the_answer_of_qwen_is_no_answer() -> None:
    assert read("qwen", QWEN.replace("RESULT", "[API Error: 401 no]")).text is None


LINES = [
    line for text in (CODEX, QWEN, CLAUDE, OPENCODE, json.dumps(GEMINI), AUGGIE, AIDER) for line in text.splitlines()
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Lines as agents print them, with some values replaced by ones of another type."""
    actual = []
    for line in draw(st.lists(st.sampled_from(LINES), max_size=6)):
        try:
            event = json.loads(line)
        except ValueError:
            actual.append(line)
            continue
        node = event
        while isinstance(node, dict) and node:
            key = draw(st.sampled_from(sorted(node)))
            if draw(st.booleans()) or not isinstance(node[key], dict):
                node[key] = draw(JSON)
                break
            node = node[key]
        actual.append(json.dumps(event))
    return "\n".join(actual)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(out=damaged() | st.text() | st.binary(), err=st.text(max_size=50) | st.binary(max_size=50))
def test_any_output_of_a_program_can_be_read(out: str | bytes, err: str | bytes) -> None:
    for name in PRESETS:
        output = read(name, out, err)
        assert output.text is None or isinstance(output.text, str)
        assert output.error is None or isinstance(output.error, TrialError)
        output.columns()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "out")
        file.write_bytes(out if isinstance(out, bytes) else out.encode("utf-8", "surrogatepass"))
        for reader in (
            custom.WholeText(10_000).read,
            JsonPaths("result", "usage", "c").of_lines,
            JsonPaths("stats.models", "usage").of_document,
        ):
            reader(file, file)


def test_limits_can_name_a_preset(folder: Folder) -> None:
    program(folder, f"print({AUGGIE!r})")
    limits = {"targets": {"auggie": {"parallel": 1}}}
    assert answer(folder, {"preset": "auggie", "command": "./agent"}, limits=limits) == "hello"


def test_a_preset_with_empty_output_is_classified_by_its_errors(folder: Folder) -> None:
    program(folder, "import sys; sys.exit('No auth provided. Please log in with `auggie login`')")
    run(folder, {"preset": "auggie", "command": "./agent"})
    assert row(folder)["error_kind"] == "auth"
    folder.path.joinpath("results.db").unlink()
    program(folder, "import sys; sys.exit('unknown option --print')")
    run(folder, {"preset": "auggie", "command": "./agent"})
    assert (row(folder)["error_kind"], row(folder)["error_blame"]) == ("rejected", "infrastructure")


# -- the real codex ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider.in_thread() as server:
        yield server


@pytest.fixture
def codex(folder: Folder, provider: FakeProvider) -> dict[str, Any]:
    """Parameters of a variant with the real codex, which talks to the fake provider."""
    address = provider.environment["OPENAI_BASE_URL"]
    folder.write(
        "codex-home/config.toml",
        f"""
        model_provider = "fake"
        [model_providers.fake]
        name = "fake"
        base_url = "{address}"
        env_key = "CODEX_TEST"
        wire_api = "responses"
        request_max_retries = 0
        stream_max_retries = 0
        """,
    )
    home = str(folder.path / "codex-home")
    env = {"CODEX_HOME": home, "CODEX_TEST": "any", "OPENAI_BASE_URL": address}
    return {"preset": "codex", "command": str(real_cli("codex")), "model": "gpt-5", "env": env}


def test_codex_answers_and_reports_its_usage(folder: Folder, codex: dict[str, Any]) -> None:
    assert answer(folder, codex, '[[fake: say="yes" input=100 output=20 cached=50]]') == "yes"
    trial = row(folder)
    tokens = (trial["input_tokens"], trial["cache_read_tokens"], trial["output_tokens"])
    assert (tokens, trial["score"], trial["simulated"]) == ((50, 50, 20), 1.0, 1)
    assert (trial["model"], trial["cost_basis"]) == ("gpt-5", "estimated")
    assert re.search('"codex": "codex-cli', folder.abreast("report", "--json").out)


def test_codex_edits_files_of_its_workspace(folder: Folder, codex: dict[str, Any]) -> None:
    folder.write("start/a.txt", "old\n")
    call = {"cmd": "(echo x > /tmp/$$) 2>&- || cat > a.txt <<'END'\nnew\nEND\necho x > $TMPDIR/x"}  # /tmp is shared
    prompt = f'[[fake: tool=exec_command args={json.dumps(call)} then="yes"]]'
    assert answer(folder, {**codex, "workspace": {"copy": "start"}}, prompt) == "yes"
    assert "-old\n+new\n" in artifacts(folder)["diff"]
    assert (row(folder)["tool_calls"], row(folder)["files_changed"]) == (1, 1)


def test_rate_limits_and_refused_logins_of_codex_are_not_the_fault_of_the_variant(
    folder: Folder, codex: dict[str, Any]
) -> None:
    for status, kind in ((429, "rate_limit"), (401, "auth")):
        done = run(folder, codex, prompt=f"[[fake: status={status}]]", limits={"breaker": 1})
        trial = row(folder)
        assert (trial["error_kind"], trial["error_blame"]) == (kind, "infrastructure")
        assert ("codex login" in done.output) == (kind == "auth")
        folder.path.joinpath("results.db").unlink()


def test_a_hanging_codex_is_ended_with_all_its_processes(folder: Folder, codex: dict[str, Any]) -> None:
    run(folder, codex, prompt="[[fake: hang]]", limits={"timeout": 6})
    assert row(folder)["error_kind"] == "timeout"
    assert '"thread.started"' in row(folder)["raw_response"]
    home = codex["env"]["CODEX_HOME"]
    for process in psutil.process_iter():
        try:
            assert process.environ().get("CODEX_HOME") != home, process
        except psutil.Error:
            continue


def test_three_parallel_codex_trials_work_in_separate_folders(folder: Folder, codex: dict[str, Any]) -> None:
    def prompt(number: int) -> str:
        call = {"cmd": f"echo {number} > mine.txt"}
        return f'[[fake: tool=exec_command args={json.dumps(call)} then="yes"]]'

    cases = [{"id": f"c{n}", "input": prompt(n), "expected": "yes"} for n in range(3)]
    run(folder, codex, "--parallel", "3", cases=cases)
    assert [record["score"] for record in folder.sql("select score from predictions")] == [1.0] * 3
    diffs = [record["content"] for record in folder.sql("select content from artifacts where name = 'diff'")]
    assert sorted(re.findall(r"^\+(\d)$", "\n".join(diffs), re.M)) == ["0", "1", "2"]
    assert all(len(re.findall(r"^\+\d$", diff, re.M)) == 1 for diff in diffs)
