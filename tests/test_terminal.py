"""Output of the real command: broken pipes, full disks, unusual terminals and control sequences in text."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.conftest import ABREAST, Folder

import abreast

SOURCE = Path(abreast.__file__).parent

# Clear the screen, set the clipboard, a link, C1 controls, backspace, carriage return, bidi override, rich markup.
HOSTILE = "\x1b[2J\x1b]52;c;eA==\x07\x1b]8;;http://x\x1b\\ \x9b31m \b\r \u202e \u2066 \u200b [red]markup[/red]"
RAW = ("\x1b[2J", "\x1b]", "\x1b\\", "\x07", "\x9b", "\b", "\u202e", "\u2066", "\u200b", "\ud800")

MODULE = f"""
HOSTILE = {HOSTILE!r} + "\\ud800"

def good(case):
    print("a line of the user's own")
    return "yes"

def bad(case):
    print("another line")
    return "no"

def hostile(case):
    return HOSTILE

def crash(case):
    raise ValueError(HOSTILE)
"""
SPEC = """
name: {name}
cases: cases.jsonl
baseline: good
variants:
  good: {{target: "python:predict:good"}}
  other: {{target: "python:predict:{other}", executor: {executor}}}
scorers: [exact]
"""


def write_experiment(path: Path, other: str, executor: str = "thread", cases: int = 20) -> None:
    """Write an experiment whose variant `other` is this function of MODULE."""
    lines = [{"id": f"c{n}", "input": f"question {n}", "expected": "yes"} for n in range(cases)]
    (path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "predict.py").write_text(MODULE)
    (path / f"{other}.yaml").write_text(SPEC.format(name=other, other=other, executor=executor))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs in a store; `other` is worse in the second."""
    path = tmp_path_factory.mktemp("stored")
    write_experiment(path, "bad")
    for other in ("good", "bad"):
        spec = SPEC.format(name="bad", other=other, executor="thread")
        (path / "bad.yaml").write_text(spec)
        subprocess.run([*ABREAST, "run", "bad.yaml", "--quiet"], cwd=path, check=True, capture_output=True)
    return path


# -- streams that cannot be written ------------------------------------------------------------------------------------

STREAMS = {
    "a pipe without a reader": "2>&1 | true",
    "a pipe whose reader leaves after a line": "2>&1 | head -n 1",
    "standard error broken": "2>&1 >/dev/null | true",
    "both on a full disk": ">/dev/full 2>&1",
    "standard output closed": ">&-",
    "all streams closed": ">&- 2>&- <&-",
}


def shell(path: Path, words: Sequence[str], redirection: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell; the exit code is that of the command, not of the pipe's reader."""
    script = f'"$@" {redirection}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", script, "bash", *ABREAST, *words], cwd=path, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("redirection", STREAMS.values(), ids=STREAMS.keys())
def test_no_stream_changes_the_outcome_of_a_run(tmp_path: Path, redirection: str) -> None:
    write_experiment(tmp_path, "bad", executor="process")
    done = shell(tmp_path, ["run", "bad.yaml", "--verbose", "--fail-if", "worse"], redirection)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    with contextlib.closing(sqlite3.connect(tmp_path / "results.db")) as store:
        assert store.execute("SELECT status FROM runs").fetchall() == [("complete",)]
        assert store.execute("SELECT status, COUNT(*) FROM trials GROUP BY 1").fetchall() == [("ok", 40)]
    assert list(tmp_path.glob("runs/*/report.html")), "the report is written"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that stopped because a variant fails in every trial."""
    path = tmp_path_factory.mktemp("stopped")
    write_experiment(path, "crash")
    done = subprocess.run([*ABREAST, "run", "crash.yaml", "--quiet"], cwd=path, capture_output=True)
    assert done.returncode == 3
    return path


@pytest.mark.parametrize("redirection", STREAMS.values(), ids=STREAMS.keys())
def test_no_stream_changes_the_outcome_of_resume(stopped: Path, tmp_path: Path, redirection: str) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    done = shell(tmp_path, ["resume", "--allow-failing", "--fail-if", "errors > 10%"], redirection)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    with contextlib.closing(sqlite3.connect(tmp_path / "results.db")) as store:
        assert store.execute("SELECT COUNT(*) FROM trials").fetchall() == [(40,)]


@pytest.mark.parametrize("redirection", STREAMS.values(), ids=STREAMS.keys())
def test_no_stream_changes_the_outcome_of_compare(stored: Path, redirection: str) -> None:
    done = shell(stored, ["compare", "previous", "latest", "--fail-if", "worse"], redirection)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr


READERS = [
    ["runs"],
    ["report"],
    ["show", "latest", "c1"],
    ["logs"],
    ["head"],
    ["sql", "results.db", "select * from predictions"],
    ["export"],
    ["cases", "list", "bad.yaml"],
    ["--help"],
    ["check", "--help"],
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_read_only_command_ends_quietly_when_its_pipe_is_closed(stored: Path, words: list[str]) -> None:
    for redirection in ("| true", ">&-"):
        done = shell(stored, words, redirection)
        assert done.returncode == 0, done.stderr
        assert not re.search("Traceback|^error|Broken pipe", done.stderr, re.MULTILINE)


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_full_disk_is_an_error_for_a_read_only_command(stored: Path, words: list[str]) -> None:
    done = shell(stored, words, ">/dev/full")
    assert done.returncode == 2
    assert done.stderr.endswith("error: cannot write to standard output: No space left on device\n")
    assert "Traceback" not in done.stderr


def test_a_run_whose_output_is_lost_says_so_and_keeps_its_exit_code(tmp_path: Path) -> None:
    write_experiment(tmp_path, "good")
    done = shell(tmp_path, ["run", "good.yaml", "--quiet"], ">/dev/full")
    assert done.returncode == 0
    assert done.stderr == "warning: cannot write to standard output: No space left on device\n"


# -- text from outside -------------------------------------------------------------------------------------------------


def in_terminal(path: Path, words: Sequence[str], columns: int = 100, **environment: str) -> tuple[int, str]:
    """Run the real command in a terminal of this width; return its exit code and everything it wrote, in bytes."""
    code, text = program_in_terminal(path, [*ABREAST, *words], columns, **environment)
    assert "Traceback" not in text, text
    return code, text


def program_in_terminal(path: Path, program: Sequence[str], columns: int, **environment: str) -> tuple[int, str]:
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(
        program,
        cwd=path,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**inherited, "TERM": "xterm-256color", **environment},
        start_new_session=True,
    ) as process:
        os.close(inside)
        written = b""
        with contextlib.suppress(OSError):  # its end
            while chunk := os.read(terminal, 65536):
                written += chunk
        os.close(terminal)
        process.wait()
    return process.returncode, written.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def all_in_terminal(path: Path, commands: Sequence[Sequence[str]], columns: int = 100) -> list[tuple[int, str]]:
    """Like `in_terminal`, for many commands in one process, because starting each takes long."""
    driver = """
import json, sys, traceback
from abreast.cli import main
for words in json.loads(sys.argv[1]):
    code = -1
    try:
        code = main(words)
    except Exception:
        traceback.print_exc()
    print(f"@exit {code}@", end="", flush=True)
"""
    program = [sys.executable, "-c", driver, json.dumps(commands)]
    parts = re.split(r"@exit (-?\d+)@", program_in_terminal(path, program, columns)[1])
    assert len(parts) == 2 * len(commands) + 1, parts[-1]
    return [(int(code), text) for text, code in zip(parts[::2], parts[1::2], strict=False)]


def raw_text(text: str) -> list[str]:
    return [sequence for sequence in RAW if sequence in text]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a foreign store in which every text that a user can set is hostile."""
    path = tmp_path_factory.mktemp("hostile")
    write_experiment(path, "hostile", cases=4)
    subprocess.run([*ABREAST, "run", "hostile.yaml", "--quiet"], cwd=path, check=True, capture_output=True)
    (path / f"{HOSTILE.replace('/', '')}.yaml").write_text("nonsense: [")
    with contextlib.closing(sqlite3.connect(path / "results.db")) as store, store:
        for table, column in (
            *(("runs", "label"), ("runs", "experiment"), ("variants", "name"), ("cases", "id"), ("trials", "error")),
            *(("trials", "error_detail"), ("trials", "model"), ("payloads", "prompt"), ("payloads", "raw_response")),
            *(("scores", "explanation"), ("runs", "reason")),
        ):
            store.execute(f"UPDATE {table} SET {column} = ? || rowid", (HOSTILE,))
        store.execute("UPDATE runs SET baseline = (SELECT name FROM variants LIMIT 1)")
        store.execute(
            "UPDATE trials SET status = 'error', error_kind = 'crash', error_blame = 'variant' WHERE repeat % 2"
        )
    return path


SHOWING_HOSTILE_TEXT = [
    ["runs"],
    ["report"],
    ["report", "--format", "markdown"],
    ["report", "--format", "json"],
    ["report", "--format", "junit"],
    ["report", "--format", "csv"],
    ["show"],
    ["show", "latest", f"{HOSTILE}1"],
    ["show", "latest", f"{HOSTILE}1", "--json"],
    ["show", "latest", "--events"],
    ["logs"],
    ["logs", "--json"],
    ["logs", "--case", HOSTILE],
    ["validate"],
    ["history", "--all"],
    ["history", f"no {HOSTILE}"],
    ["compare", "latest", "latest"],
    ["head"],
    ["tail", "-n", "2"],
    ["stats"],
    ["ls", "answer"],
    ["plot", "bar", "case_id"],
    ["sql", "results.db", "select * from predictions"],
    ["sql", "results.db", f"select '{HOSTILE}' as \"{HOSTILE}\""],
    ["sql", "results.db", f"select {HOSTILE}"],
    ["export"],
    ["export", "--format", "jsonl"],
    ["run", f"no {HOSTILE}.yaml"],
    ["run", f"{HOSTILE.replace('/', '')}.yaml"],
    ["run", "hostile.yaml", "--parallel", HOSTILE],
    ["tag", "latest"],
    [HOSTILE],
]


@pytest.fixture(scope="module")
def screens(hostile: Path) -> list[tuple[int, str]]:
    return all_in_terminal(hostile, SHOWING_HOSTILE_TEXT)


@pytest.mark.parametrize(
    "number",
    range(len(SHOWING_HOSTILE_TEXT)),
    ids=[ascii(" ".join(words))[1:40] for words in SHOWING_HOSTILE_TEXT],
)
def test_foreign_text_cannot_control_the_terminal(screens: list[tuple[int, str]], number: int) -> None:
    code, text = screens[number]
    assert text.strip()
    assert code in (0, 1, 2)
    assert "Traceback" not in text
    assert raw_text(text) == []


def test_foreign_text_is_otherwise_shown_unchanged(hostile: Path) -> None:
    _, text = in_terminal(hostile, ["show", "latest", f"{HOSTILE}1"])
    assert "␛[2J␛]52;c;eA==␇" in text
    assert "‹U+009B›31m" in text
    assert "‹U+202E›" in text
    assert "[red]markup[/red]" in text, "rich markup in it has no effect"


@pytest.mark.parametrize("words", [["--verbose"], [], ["--dry-run"]], ids=["verbose", "live", "dry run"])
def test_an_error_of_a_trial_cannot_control_the_terminal_of_a_run(tmp_path: Path, words: list[str]) -> None:
    write_experiment(tmp_path, "crash")
    (tmp_path / "cases.jsonl").write_text(
        "".join(json.dumps({"id": f"c{n}", "input": f"{n} {HOSTILE}", "expected": "yes"}) + "\n" for n in range(20))
    )
    code, text = in_terminal(tmp_path, ["run", "crash.yaml", *words])
    assert code == (0 if "--dry-run" in words else 3)
    assert raw_text(text) == []
    assert "[red]markup[/red]" in text


def test_our_own_styles_are_kept(stored: Path) -> None:
    _, text = in_terminal(stored, ["report"])
    assert "\x1b[1;31mother is worse than good" in text
    assert "\x1b" not in in_terminal(stored, ["report"], TERM="dumb")[1]


def test_no_color_turns_colors_off(stored: Path) -> None:
    _, text = in_terminal(stored, ["report"], NO_COLOR="1")
    assert "other is worse than good" in text
    assert not re.search(r"\x1b\[[0-9;]*[34][0-7]", text)


def test_data_in_a_pipe_is_exact(hostile: Path) -> None:
    def output(*words: str) -> bytes:
        environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
        return subprocess.run([*ABREAST, *words], cwd=hostile, check=True, capture_output=True, env=environment).stdout

    assert HOSTILE.encode() in output("export")
    assert HOSTILE.encode() in output("report", "--format", "csv")
    for words in (
        ["export", "--format", "jsonl"],
        ["sql", "results.db", "--json", "select * from predictions limit 1"],
    ):
        text = output(*words).decode()
        assert raw_text(text) == [], "JSON escapes it"
        row = json.loads(text.splitlines()[0]) if "export" in words else json.loads(text)[0]
        assert row["prompt"].startswith(HOSTILE)


# -- invalid text and unusual terminals --------------------------------------------------------------------------------


@contextlib.contextmanager
def provider(status: int, body: bytes) -> Iterator[str]:
    """The address of a server that always gives the same response."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("status", "form"), [(401, r"\ud800"), (400, "\ud800"), (200, r"\ud800")])
def test_a_lone_surrogate_in_the_error_of_a_provider_stops_the_run_like_any_error(
    folder: Folder, status: int, form: str
) -> None:
    body = f'{{"type": "error", "error": {{"type": "authentication_error", "message": "no {form} entry"}}}}'
    folder.cases(20)
    with provider(status, body.encode("utf-8", "surrogatepass")) as address:
        variant = f"{{target: anthropic, model: m, base_url: {address}}}"
        folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {variant}, b: {variant}}}\nscorers: [exact]\n")
        done = folder.command("run", "spec.yaml", "--verbose", "--events", "events.jsonl")
    assert done.code == 3, done.err
    assert "Traceback" not in done.output
    assert re.search("stopped: .*no [?\ufffd]+ entry", done.err)
    assert "abreast resume" in done.err or "run again" in done.err
    for line in (folder.path / "events.jsonl").read_text().splitlines():
        json.loads(line)
    assert folder.abreast("logs").code == folder.abreast("report").code == 0


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "", "LANG": "", "TERM": "dumb"},
        {"COLUMNS": "1"},
    ],
    ids=lambda environment: " ".join(f"{key}={value}" for key, value in environment.items()),
)
def test_every_terminal_gets_a_verdict(tmp_path: Path, environment: dict[str, str]) -> None:
    write_experiment(tmp_path, "hostile")
    code, text = in_terminal(tmp_path, ["run", "hostile.yaml", "--fail-if", "worse"], **environment)
    assert code == 1
    assert raw_text(text) == []
    words = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\s", "", text)
    assert "otherisworsethangood" in words
    if "PYTHONIOENCODING" in environment:
        assert "-100.0 points" in text, "a minus stays a minus"


def test_a_terminal_of_one_column_is_wide_enough(stored: Path) -> None:
    commands = [*READERS[:-2], ["stats"], ["plot", "hist", "service_s"], ["plot", "line", "service_s", "repeat"]]
    for words, (code, text) in zip(commands, all_in_terminal(stored, commands, columns=1), strict=True):
        assert code == 0, (words, text)


def test_names_that_are_not_utf8_are_refused_with_the_reason(stored: Path) -> None:
    broken = os.fsdecode(b"a\xff")
    for words, message in (
        (["run", f"{broken}.yaml"], "no such file"),
        (["run", "bad.yaml", "--store", f"{broken}.db"], "not valid UTF-8"),
        (["sql", "results.db", f"select '{broken}'"], "sql: "),
        (["show", "latest", broken], "no stored trial of case"),
        (["report", broken], "no run"),
    ):
        done = subprocess.run([*ABREAST, *words], cwd=stored, capture_output=True)
        assert (done.returncode, b"Traceback" in done.stderr) == (2, False), done.stderr
        assert message in done.stderr.decode()


# -- one place ---------------------------------------------------------------------------------------------------------

# Programs of their own that speak a protocol over standard output.
PROTOCOLS = ("regex_timeout.py",)


def writes(source: str) -> list[int]:
    """Lines that write to the terminal, or could."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="print" | "input" | "Console")):
                lines.append(node.lineno)
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr" | "__stdout__" | "__stderr__"):
                lines.append(node.lineno)
            case ast.ImportFrom(module="sys", names=names) if {"stdout", "stderr"} & {alias.name for alias in names}:
                lines.append(node.lineno)
            case ast.Call(func=ast.Attribute(attr="write"), args=[ast.Constant(value=1 | 2), *_]):
                lines.append(node.lineno)
    return lines


def test_only_the_output_package_writes_to_the_terminal() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).as_posix() not in PROTOCOLS]
    product = [path for path in files if not {"output", "starters"} & set(path.relative_to(SOURCE).parts)]
    lines = [f"{path.relative_to(SOURCE)}:{line}" for path in product for line in writes(path.read_text())]
    assert not lines, f"use abreast.output instead: {', '.join(lines)}"


def test_the_search_for_writes_finds_them() -> None:
    source = (
        "import sys, os\nprint(1)\nsys.stderr.write('')\nos.write(2, b'')\nfrom sys import stdout\nConsole()\ninput()"
    )
    assert sorted(writes(source)) == [2, 3, 4, 5, 6, 7]
