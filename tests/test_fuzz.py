"""Hostile bytes in every field that a provider, an agent, a case file, a label, a spec or a foreign store can set.

Whatever they contain: no traceback, nothing printed raw, nothing written outside of the folder, no secret stored, and
an exit code that fits. `make test` tries a few examples; ABREAST_FUZZ=200, or `make test-full`, tries more.
"""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import os
import re
import socketserver
import sqlite3
import stat
import subprocess
import sys
import threading
import traceback
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from abreast.cli import main
from conftest import ABREAST, forget

EXAMPLES = int(os.environ.get("ABREAST_FUZZ", "2"))
FUZZ = settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 100,  # the same examples on every machine
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # a smaller example costs a run for every attempt
    suppress_health_check=list(HealthCheck),
)

SECRET = "sk-fuzz+9f/8e7d6c5b4a3f2e1d0c"
FORMS = (SECRET, urllib.parse.quote(SECRET, safe=""), base64.b64encode(SECRET.encode()).decode())
BIDIRECTIONAL = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
RAW = re.compile(f"[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff{BIDIRECTIONAL}]")
"""Characters that control a terminal."""

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # of large examples

# -- what is fed ---------------------------------------------------------------

FRAGMENTS = [
    "",
    " ",
    "\0",
    "a\0b",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "\x7f\x08\x08",
    "line\nline\r\nline\rline",
    "\ud800",
    "lone \udfff surrogate",
    "\u202egnp.exe\u202c",
    "\u2066bidi\u2069\u200f",
    "\u2028\u2029\x85",
    "../../../outside",
    "/etc/passwd",
    "..\\..\\outside",
    "$(touch executed)",
    "`touch executed`",
    "; touch executed",
    "${HOME}",
    "--help",
    "-rf",
    "=cmd|' /C calc'!A0",
    "+1",
    "@SUM(1)",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "]]>",
    "&amp;",
    "'; drop table runs; --",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "${jndi:ldap://x}",
    "\ufeff",
    "\ufffe\uffff",
    "a" * 5_000,
    "é" * 300,
    "🙂" * 50,
    "[" * 2_000,
    '{"a":' * 1_000,
    "NaN",
    "1e999",
    "9" * 400,
    "null",
    "true",
    SECRET,
    f"key: {SECRET}, again {FORMS[1]} and {FORMS[2]}",
]
TEXT = st.one_of(
    st.sampled_from(FRAGMENTS),
    st.lists(st.sampled_from(FRAGMENTS), min_size=2, max_size=4).map("".join),
    st.text(st.characters(exclude_categories=()), max_size=40),
)
NUMBERS = st.sampled_from([0, -1, 10**30, -(10**400), float("nan"), float("inf"), -0.0, 1e308, 2**63, True])
VALUE = st.recursive(
    st.one_of(TEXT, NUMBERS, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=5,
)
BYTES = st.one_of(TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=60))


def dumps(value: Any) -> bytes:
    """JSON of a hostile server: NaN, huge numbers, lone surrogates."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def paths_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of a JSON value, including the value itself."""
    yield above
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_in(item, (*above, key))


def replaced(value: Any, path: Sequence[Any], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], new)
    return copied


def mutated(template: Any) -> st.SearchStrategy[Any]:
    """A valid value with one of its parts replaced."""
    paths = list(paths_in(template))
    return st.builds(lambda path, new: replaced(template, path, new), st.sampled_from(paths), VALUE)


# -- how it is run and what is asserted ---------------------------------------------------------------


@dataclass
class Box:
    """The folder of an example, inside another folder in which nothing may change."""

    outer: Path
    is_own: bool = False  # the input belongs to the user, including any secret in it
    may_be_damaged: bool = False  # a store modified by another program

    @property
    def path(self) -> Path:
        return self.outer / "work"

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def abreast(self, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command in this process, check what every command guarantees, and return its standard output."""
        streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        try:
            with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
                code: Any = main(list(words))
        except SystemExit as end:
            code = end.code
        except BaseException:
            pytest.fail(f"abreast {words!r}: traceback\n{traceback.format_exc()[-3000:]}")
        out, err = (stream.buffer.getvalue().decode("utf-8") for stream in streams)
        self.check(words, code, out, err, codes)
        return out

    def check(self, words: Sequence[str], code: Any, out: str, err: str, codes: tuple[int, ...]) -> None:
        where = f"abreast {' '.join(map(repr, words))}"
        assert "Traceback (most recent call last)" not in out + err, f"{where}: traceback\n{err[-3000:]}"
        assert self.may_be_damaged or "error: unexpected " not in err, f"{where}: a bug\n{err[-3000:]}"
        for name, text in (("stdout", out), ("stderr", err)):
            raw = RAW.search(text)
            context = repr(text[max(0, raw.start() - 80) : raw.end() + 40]) if raw else ""
            assert raw is None, f"{where}: {name} has {raw[0]!r} in {context}"
            assert self.is_own or not any(form in text for form in FORMS), f"{where}: {name} shows the secret"
        assert code in codes, f"{where}: exit {code}, not one of {codes}\n{out[-500:]}{err[-1500:]}"

    def check_files(self) -> None:
        """Check that nothing changed outside, nothing was executed and no secret was written."""
        assert sorted(path.name for path in self.outer.iterdir()) == ["home", "work"], "written outside of the folder"
        assert not list(self.outer.rglob("executed")), "a name was executed"
        outside_paths = [path for path in self.outer.rglob("outside*") if path.parent != self.outer / "work" / "runs"]
        assert not outside_paths, "written outside the folder"
        for path in () if self.is_own else self.path.rglob("*"):
            if path.is_file() and (
                path.suffix in (".db", ".html", ".csv", ".jsonl") or path.name.startswith("results.db")
            ):
                content = path.read_bytes()
                assert not any(form.encode() in content for form in FORMS), f"the secret is stored in {path.name}"


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Iterator[Box]]:
    """A new folder for each example; the key is in the environment."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.delenv("ABREAST_STORE", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    before = Path.cwd()

    def make() -> Iterator[Box]:
        for number in itertools.count():
            box = Box(tmp_path / str(number))
            (box.outer / "home").mkdir(parents=True)
            box.path.mkdir()
            monkeypatch.setenv("HOME", str(box.outer / "home"))
            os.chdir(box.path)
            forget(tmp_path, set())
            yield box

    yield make()
    os.chdir(before)


LIMITS = {"retries": 0, "breaker": 0, "allow_failing": True, "timeout": 20, "parallel": 8, "free_cores": 0}


def read_everything(box: Box, codes: tuple[int, ...] = (0,), case: str = "c0", run: str = "latest") -> None:
    """Run every command that prints stored data."""
    for words in (
        ["runs"],
        ["runs", "--json"],
        ["show", run],
        ["show", run, case],
        ["logs", run],
        ["logs", run, "--json"],
        ["ls"],
        ["ls", "case_id", "--unique"],
        ["head"],
        ["tail", "--json"],
        ["columns"],
        ["stats"],
        ["history", "--all"],
        ["report", run],
        ["report", run, "--format", "markdown"],
        ["report", run, "--format", "json"],
        ["report", run, "--format", "junit"],
        ["report", run, "--format", "html", "--output", "page"],
        ["export", run, "--output", "rows.csv"],
        ["export", run, "--format", "jsonl", "--output", "rows.jsonl"],
        ["sql", "select * from predictions"],
        ["sql", "--json", "select * from predictions"],
    ):
        box.abreast(*words, codes=codes)
    for words in (["validate", run], ["compare", f"{run}:a", f"{run}:b"]):
        box.abreast(*words, codes=(*codes, 1, 2))
    box.check_files()


def run_and_read(box: Box, spec: dict[str, Any], codes: tuple[int, ...] = (0, 1, 3), case: str = "c0") -> None:
    box.write("spec.yaml", yaml.safe_dump({"limits": LIMITS, "scorers": ["exact"], **spec}, sort_keys=False))
    box.abreast("run", "spec.yaml", "--yes", "--force", "--verbose", "--fail-if", "errors > 200%", codes=codes)
    box.check_files()
    read_everything(box, case=case)
    box.abreast("resume", "latest", "--yes", "--force", codes=(*codes, 2))
    (name,) = {row["run"] for row in json.loads(box.abreast("runs", "--json"))}
    box.abreast("delete", name, "--yes")
    box.check_files()


# -- providers ---------------------------------------------------------------

USAGE = {"input_tokens": 3, "output_tokens": 1}
MESSAGES = {
    "id": "m",
    "model": "claude",
    "content": [{"type": "text", "text": "yes"}],
    "stop_reason": "end_turn",
    "stop_details": {"explanation": "no"},
    "usage": {**USAGE, "cache_read_input_tokens": 0, "output_tokens_details": {"thinking_tokens": 0}},
}
CHAT = {
    "id": "m",
    "model": "gpt",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "yes", "refusal": None}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "cost": 0.1, "prompt_tokens_details": {"cached_tokens": 0}},
}
RESPONSES = {
    "id": "m",
    "model": "gpt",
    "status": "completed",
    "incomplete_details": None,
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "yes"}]}],
    "usage": USAGE,
}
ERROR = {"type": "error", "error": {"type": "overloaded_error", "message": "busy", "code": "x"}, "request_id": "r"}
HEADERS = (
    "request-id",
    "x-request-id",
    "retry-after",
    "content-type",
    "anthropic-ratelimit-requests-remaining",
    "x-odd",
)


@dataclass(frozen=True)
class Reply:
    status: int
    reason: bytes
    headers: tuple[tuple[str, bytes], ...]
    body: bytes

    def raw(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} ".encode() + self.reason]
        lines += [name.encode() + b": " + value for name, value in self.headers]
        lines += [f"Content-Length: {len(self.body)}".encode(), b"Connection: close", b"", self.body]
        return b"\r\n".join(lines)


def header_value(content: bytes) -> bytes:
    return re.sub(rb"[\r\n\0]", b" ", content)[:200]


def replies(template: dict[str, Any]) -> st.SearchStrategy[Reply]:
    good = mutated(template).map(dumps)
    events = st.lists(BYTES, max_size=3).map(lambda parts: b"".join(b"data: " + part + b"\n\n" for part in parts))
    bodies = st.one_of(good, good, mutated(ERROR).map(dumps), BYTES, events)
    statuses = st.sampled_from([200, 200, 200, 400, 401, 404, 413, 429, 500, 529, 299, 999])
    headers = st.lists(st.tuples(st.sampled_from(HEADERS), BYTES.map(header_value)), max_size=3).map(tuple)
    return st.builds(Reply, statuses, BYTES.map(header_value), headers, bodies)


@contextlib.contextmanager
def serving(chosen: dict[str, list[Reply]]) -> Iterator[str]:
    """A local server that sends the reply for the path and the number N in the prompt, `case-N`."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            path, length = self.rfile.readline().split()[1].decode(), 0
            while (line := self.rfile.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            number = re.search(rb"case-(\d+)", self.rfile.read(length))
            form = next(name for name in chosen if path.endswith(name))
            with contextlib.suppress(OSError):
                self.wfile.write(chosen[form][int(number[1]) if number else 0].raw())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = allow_reuse_address = True

        def handle_error(self, *_: Any) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def ask_providers(box: Box, replied: dict[str, list[Reply]]) -> None:
    number = len(next(iter(replied.values())))
    cases = [{"id": f"c{n}", "input": f"case-{n}", "expected": "yes"} for n in range(number)]
    with serving(replied) as url:
        variants = {
            "a": {"target": "anthropic", "model": "claude", "base_url": url},
            "b": {"target": "openai", "model": "gpt", "base_url": url},
            "c": {"target": "openai", "model": "gpt", "base_url": url, "api": "responses"},
        }
        run_and_read(box, {"cases": cases, "variants": variants})


FORMATS = {"messages": MESSAGES, "completions": CHAT, "responses": RESPONSES}


@FUZZ
@given(st.fixed_dictionaries({name: st.lists(replies(form), min_size=8, max_size=8) for name, form in FORMATS.items()}))
def test_any_reply_of_a_provider_is_handled(boxes: Iterator[Box], replied: dict[str, list[Reply]]) -> None:
    ask_providers(next(boxes), replied)


def test_every_fragment_as_the_text_and_as_the_error_of_a_provider(boxes: Iterator[Box]) -> None:
    """A fixed list, so that no failure depends on chance."""

    def of(template: dict[str, Any], path: tuple[Any, ...]) -> list[Reply]:
        good = [Reply(200, b"OK", (), dumps(replaced(template, path, text))) for text in FRAGMENTS]
        message = ("error", "message")
        bad = [Reply(429, b"No", (), dumps(replaced(ERROR, message, text))) for text in FRAGMENTS]
        return [*good, *bad]

    ask_providers(
        next(boxes),
        {
            "messages": of(MESSAGES, ("content", 0, "text")),
            "completions": of(CHAT, ("choices", 0, "message", "content")),
            "responses": of(RESPONSES, ("output", 0, "content", 0, "text")),
        },
    )


@pytest.mark.heavy
def test_answers_of_ten_megabytes(boxes: Iterator[Box]) -> None:
    long = ["\x1b[31m" + "a" * 10_000_000, "[" * 10_000_000]
    text = replaced(MESSAGES, ("content", 0, "text"), long[0])
    good_replies = [Reply(200, b"OK", (), dumps(CHAT))] * 3
    messages = [
        Reply(200, b"OK", (), dumps(text)),
        Reply(200, b"OK", (), long[1].encode()),
        Reply(500, b"No", (), long[1].encode()),
    ]
    ask_providers(
        next(boxes),
        {"messages": messages, "completions": good_replies, "responses": [Reply(200, b"OK", (), dumps(RESPONSES))] * 3},
    )


# -- agents ---------------------------------------------------------------

AGENT = """\
import base64, json, os, sys
number = int(sys.argv[1].split("-")[1])
with open(os.environ["PLAN"]) as file:
    plan = json.load(file)[number]
for name, content in plan["files"]:
    name = os.fsdecode(base64.b64decode(name).replace(b"\\0", b"").replace(b"/", b"_"))[:80]
    if name not in ("", ".", ".."):
        try:
            with open(name, "wb") as file:
                file.write(base64.b64decode(content))
        except OSError:
            pass
sys.stderr.buffer.write(base64.b64decode(plan["err"]))
sys.stdout.buffer.write(base64.b64decode(plan["out"]))
sys.exit(plan["code"])
"""
CODEX = [
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.completed", "item": {"type": "command_execution", "command": "ls"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "yes"}},
    {"type": "error", "message": "Reconnecting"},
    {"type": "turn.completed", "usage": {"input_tokens": 3, "output_tokens": 1}},
]
CLAUDE = [
    {
        "type": "system",
        "subtype": "init",
        "model": "m",
        "tools": ["Bash"],
        "mcp_servers": [{"name": "x", "status": "connected"}],
    },
    {
        "type": "assistant",
        "request_id": "r",
        "message": {
            "id": "m",
            "usage": USAGE,
            "content": [{"type": "text", "text": "yes"}, {"type": "tool_use", "name": "Bash"}],
        },
    },
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "yes",
        "num_turns": 1,
        "total_cost_usd": 0.1,
        "usage": USAGE,
        "modelUsage": {"m": {"costUSD": 0.1}},
        "permission_denials": [],
        "errors": [],
    },
]


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def lines_of(events: list[Any]) -> bytes:
    return b"\n".join(map(dumps, events)) + b"\n"


def behaviours(out: st.SearchStrategy[bytes]) -> st.SearchStrategy[dict[str, Any]]:
    files = st.lists(st.tuples(BYTES.map(encoded), BYTES.map(encoded)), max_size=2)
    return st.fixed_dictionaries(
        {"out": out.map(encoded), "err": BYTES.map(encoded), "files": files, "code": st.sampled_from([0, 0, 1, 137])}
    )


def run_agents(box: Box, plans: dict[str, list[dict[str, Any]]]) -> None:
    box.write("agent.py", AGENT)
    for name in plans:
        box.write(f"plan-{name}.json", json.dumps(plans[name]))
        program = '#!/bin/sh\nfor last; do :; done\ncase "$1" in --version) echo 1.0; exit;; esac\n'
        program += 'if [ ! -t 0 ]; then read -r line; last="${line:-$last}"; fi\n'
        program += f'PLAN="{box.path}/plan-{name}.json" exec "{sys.executable}" "{box.path}/agent.py" "$last"\n'
        box.write(f"bin/{name}", program).chmod(stat.S_IRWXU)
    number = len(next(iter(plans.values())))
    cases = [{"id": f"c{n}", "input": f"case-{n}", "expected": "yes"} for n in range(number)]
    variants: dict[str, Any] = {
        "a": {"target": "command", "command": [f"{box.path}/bin/plain", "{prompt}"]},
        "b": {"target": "command", "command": [f"{box.path}/bin/codex", "{prompt}"], "output": "codex"},
        "c": {"target": "claude-code", "command": f"{box.path}/bin/claude"},
    }
    run_and_read(box, {"cases": cases, "variants": variants})


@FUZZ
@given(
    st.fixed_dictionaries(
        {
            "plain": st.lists(behaviours(BYTES), min_size=4, max_size=4),
            "codex": st.lists(
                behaviours(
                    mutated(CODEX).map(lambda value: lines_of(value) if isinstance(value, list) else dumps(value))
                ),
                min_size=4,
                max_size=4,
            ),
            "claude": st.lists(
                behaviours(
                    mutated(CLAUDE).map(lambda value: lines_of(value) if isinstance(value, list) else dumps(value))
                ),
                min_size=4,
                max_size=4,
            ),
        }
    )
)
def test_any_output_of_an_agent_is_handled(boxes: Iterator[Box], plans: dict[str, list[dict[str, Any]]]) -> None:
    run_agents(next(boxes), plans)


# -- case files, labels, specs ---------------------------------------------------------------

CASE = {"id": "c0", "input": "?", "expected": "yes", "tags": {"kind": "easy"}, "group": "g"}
VARIANTS = {"a": {"target": "simulated"}, "b": {"target": "simulated", "accuracy": 0.5}}


def case_file(suffix: str, rows: list[Any]) -> bytes:
    if suffix == "jsonl":
        return lines_of(rows)
    if suffix in ("json", "yaml"):  # JSON is YAML
        return dumps(rows)
    cells = [[str(row.get(name, "")) for name in CASE] if isinstance(row, dict) else [str(row)] for row in rows]
    lines = [",".join(CASE), *(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells)]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


@settings(FUZZ, max_examples=2 * EXAMPLES)
@given(
    st.sampled_from(["jsonl", "json", "yaml", "csv"]), st.lists(mutated(CASE), min_size=1, max_size=4), st.booleans()
)
def test_any_case_file_is_handled(boxes: Iterator[Box], suffix: str, rows: list[Any], numbered: bool) -> None:
    box = next(boxes)
    box.is_own = True
    if numbered:  # so that bad ids do not cause the whole file to be refused
        rows = [{**row, "id": f"c{n}"} if isinstance(row, dict) else row for n, row in enumerate(rows)]
    box.write(f"cases.{suffix}", case_file(suffix, rows))
    spec = {"cases": f"cases.{suffix}", "variants": VARIANTS, "scorers": ["exact"], "limits": LIMITS}
    box.write("spec.yaml", yaml.safe_dump(spec))
    box.abreast("cases", "list", "spec.yaml", codes=(0, 2))
    box.abreast("check", "spec.yaml", codes=(0, 2, 4))
    box.abreast("run", "spec.yaml", "--yes", "--force", "--verbose", codes=(0, 1, 2))
    if (box.path / "results.db").exists():
        (first, *_) = json.loads(box.abreast("sql", "--json", "select case_id from predictions order by 1"))
        if not first["case_id"].startswith("-"):
            read_everything(box, case=first["case_id"])
    box.check_files()


@FUZZ
@given(TEXT.filter(lambda text: not text.startswith("-")))
def test_any_label_is_handled(boxes: Iterator[Box], label: str) -> None:
    box = next(boxes)
    box.is_own = True
    box.write("spec.yaml", yaml.safe_dump({"cases": [CASE], "variants": VARIANTS, "scorers": ["exact"]}))
    box.abreast("run", "spec.yaml", "--yes", "--quiet", codes=(0, 1))
    (run,) = json.loads(box.abreast("runs", "--json"))
    box.abreast("tag", run["run"], label, codes=(0, 2))
    box.abreast("run", "spec.yaml", "--yes", "--fresh", "--quiet", "--label", label, codes=(0, 1, 2))
    for command in ("show", "report", "logs", "export", "validate", "resume"):
        box.abreast(command, label, codes=(0, 1, 2))
    box.abreast("delete", label, "--yes", codes=(2,))
    box.abreast("history", codes=(0, 2))
    box.abreast("runs")
    box.check_files()


SPEC = {
    "name": "n",
    "description": "d",
    "cases": [CASE],
    "variants": {"a": {"target": "simulated", "accuracy": 0.5}, "b": {"target": "simulated", "prompt": "{{ input }}"}},
    "scorers": ["exact", {"contains": {"name": "has"}}],
    "baseline": "a",
    "store": "results.db",
    "limits": {"parallel": 2},
    "repeats": 1,
}


@settings(FUZZ, max_examples=3 * EXAMPLES)
@given(mutated(SPEC), st.sampled_from(["yaml", "json"]), TEXT)
def test_any_spec_is_handled(boxes: Iterator[Box], spec: Any, suffix: str, variant: str) -> None:
    box = next(boxes)
    box.is_own = True
    if isinstance(spec, dict) and isinstance(spec.get("variants"), dict):
        spec = {**spec, "variants": {**spec["variants"], variant: {"target": "simulated"}}}
    if isinstance(spec, dict) and spec.get("store") != "results.db":
        spec = {**spec, "store": "results.db"}  # the user chooses the path
    box.write(f"spec.{suffix}", dumps(spec))
    box.abreast("check", f"spec.{suffix}", codes=(0, 2, 4))
    box.abreast("run", f"spec.{suffix}", "--yes", "--force", "--verbose", codes=(0, 1, 2))
    if (box.path / "results.db").exists():
        read_everything(box)
    box.check_files()


# -- foreign stores ---------------------------------------------------------------


def columns_of(store: Path) -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(store)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return [(table, row[1]) for table in tables for row in connection.execute(f'pragma table_info("{table}")')]


CELLS = st.one_of(BYTES.map(lambda content: ("text", content)), BYTES.map(lambda content: ("blob", content)),
                  VALUE.map(lambda value: ("text", dumps(value))), st.just(("null", b"")))  # fmt: skip
MUTATIONS = st.lists(st.tuples(st.integers(0, 10_000), CELLS), min_size=1, max_size=3)


@pytest.fixture
def foreign(boxes: Iterator[Box]) -> tuple[bytes, list[tuple[str, str]]]:
    """A store with a run, and its columns."""
    box = next(boxes)
    spec = {"cases": [{**CASE, "id": f"c{n}"} for n in range(12)], "variants": VARIANTS, "scorers": ["exact"]}
    box.write("spec.yaml", yaml.safe_dump(spec))
    box.abreast("run", "spec.yaml", "--yes", "--quiet", codes=(0, 1))
    box.abreast("sql", "--write", "update runs set label = 'v1'")
    with contextlib.closing(sqlite3.connect(box.path / "results.db")) as connection:
        connection.execute("pragma journal_mode = delete")
    return (box.path / "results.db").read_bytes(), columns_of(box.path / "results.db")


@settings(FUZZ, max_examples=2 * EXAMPLES)
@given(MUTATIONS)
def test_any_foreign_store_is_handled(
    boxes: Iterator[Box], foreign: tuple[bytes, list[tuple[str, str]]], mutations: list[tuple[int, tuple[str, bytes]]]
) -> None:
    content, columns = foreign
    changes = [(columns[number % len(columns)], cell) for number, cell in mutations]
    read_foreign(next(boxes), content, changes)


@pytest.mark.parametrize("run", ["../../outside", "HERE/outside", "a\x1b[31mb", "$(touch executed)", "a\0b", ""])
def test_the_name_of_a_run_in_a_foreign_store(
    boxes: Iterator[Box], foreign: tuple[bytes, list[tuple[str, str]]], run: str
) -> None:
    box = next(boxes)
    name = run.replace("HERE", str(box.outer))
    read_foreign(box, foreign[0], [(("runs", "run"), ("text", name.encode()))])


def read_foreign(box: Box, content: bytes, changes: list[tuple[tuple[str, str], tuple[str, bytes]]]) -> None:
    box.is_own = box.may_be_damaged = True
    store = box.write("results.db", content)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("pragma foreign_keys = off")
        for (table, column), (kind, cell) in changes:
            value = {"text": "cast(? as text)", "blob": "?", "null": "nullif(?, x'')"}[kind]
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f'update or ignore "{table}" set "{column}" = {value} where rowid = 1', (cell,))
        connection.commit()
    read_everything(box, codes=(0, 1, 2))
    box.abreast("merge", "results.db", "--into", "other.db", codes=(0, 2))
    box.abreast("resume", codes=(0, 1, 2, 3, 4))
    box.abreast("rescore", "--store", "results.db", codes=(0, 1, 2))
    box.check_files()


# -- the real command ---------------------------------------------------------------


def test_the_real_command_with_hostile_arguments(boxes: Iterator[Box]) -> None:
    box = next(boxes)
    box.write("spec.yaml", yaml.safe_dump({"cases": [CASE], "variants": VARIANTS, "scorers": ["exact"]}))
    for words in (
        ["run", "\x1b[31m.yaml"],
        ["show", "\udc80\udcff\x1b[31m"],
        ["\x1b[31m"],
    ):
        done = subprocess.run(
            [*ABREAST, *map(os.fsencode, words)], capture_output=True, timeout=120, stdin=subprocess.DEVNULL
        )
        box.check(words, done.returncode, done.stdout.decode(), done.stderr.decode(), (0, 1, 2))
    box.check_files()
