"""abreast-demo-mcp: the protocol, what its tools find and refuse, and its robustness."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.fake import FakeProvider
from abreast.globs import matcher
from abreast.suites.code_search.server import McpServer, build_tools
from abreast.targets.mcp import inspect_server, parse_servers
from clis import real_cli
from conftest import Folder

COMMAND = [
    *(sys.executable, "-c"),
    "import sys; from abreast.suites.code_search.server import main; sys.exit(main())",
]
NAMES = ["search_code", "find_symbol", "find_references", "outline_file"]
SOURCES = {
    "python/store.py": '''
        """Keeps values."""

        LIMIT = 10


        class Store:
            """A store."""

            def get(self, key: str) -> int:
                # get is not called here
                return self.values[key]

            def put(self, key, value):
                self.values[key] = value


        def open_store(path):
            return Store()
        ''',
    "python/app.py": """
        from store import LIMIT, Store, open_store


        def main():
            store = open_store("get")
            print(store.get("a"), LIMIT)
        """,
    "go/cache.go": """
        package cache

        // Cache keeps values.
        type Cache struct{ values map[string]int }

        func (c *Cache) Get(key string) int { return c.values[key] }

        func NewCache() *Cache { return &Cache{} }

        func use() int { return NewCache().Get("a") }
        """,
    "java/Shop.java": """
        package shop;

        public class Shop {
            static final int LARGEST = 3;

            public int price(String name) { return LARGEST; }

            int total() { return price("a") + price("b"); }
        }
        """,
    "rust/lib.rs": """
        pub struct Queue { items: Vec<u32> }

        impl Queue {
            pub fn push(&mut self, item: u32) { self.items.push(item); }
        }

        pub fn filled() -> Queue {
            let mut queue = Queue { items: vec![] };
            queue.push(1);
            queue
        }
        """,
    "web/panel.ts": """
        export interface Panel { title: string }

        export class SidePanel implements Panel {
            title = "side";
            render(): string { return draw(this.title); }
        }

        export function draw(text: string): string { return text; }
        export const show = (panel: SidePanel) => panel.render();
        """,
    "web/[id]/page.tsx": """
        export function Page() { return <p>{draw("größe")}</p>; }
        """,
    "docs/notes with spaces.md": "# Notes\n\nThe store gets a größe.\n",
    ".gitignore": "ignored/\n",
    "ignored/secret.py": "def get_ignored(): pass\n",
    ".abreast/cases/one.jsonl": '{"ground_truth": "open_store"}\n',
}


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True, text=True).stdout


def filled(folder: Path) -> Path:
    for name, content in SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content).lstrip(), encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with sources in five languages; tests must not change it."""
    return filled(tmp_path_factory.mktemp("repository"))


def server_of(root: Path, patience_s: float = 10.0) -> McpServer:
    return McpServer("demo", "1", build_tools(root.resolve(), patience_s))


def ask(server: McpServer, method: str, params: Any = None) -> Any:
    reply = server.answer(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode())
    assert reply is not None
    return json.loads(reply)


def call(root: Path | McpServer, tool: str, **arguments: Any) -> str:
    """Call a tool; return its text."""
    text, failed = call_tool(root, tool, **arguments)
    assert not failed, text
    return text


def refused(root: Path | McpServer, tool: str, **arguments: Any) -> str:
    text, failed = call_tool(root, tool, **arguments)
    assert failed, text
    return text


def call_tool(root: Path | McpServer, tool: str, **arguments: Any) -> tuple[str, bool]:
    server = server_of(root) if isinstance(root, Path) else root
    result = ask(server, "tools/call", {"name": tool, "arguments": arguments})["result"]
    (content,) = result["content"]
    return content["text"], result.get("isError", False)


def hits(text: str) -> list[str]:
    """The locations in a result, as `path:line`."""
    return [match[1] for line in text.splitlines() if (match := re.match(r"(?:defined at )?(\S[^:]*:\d+):", line))]


# -- the process ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(root: Path, *words: str, **extra: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **extra
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run_server(root: Path, content: bytes, *words: str, **extra: Any) -> tuple[list[Any], str, int]:
    """Run the server on this input; return its answers, stderr and exit code."""
    done = subprocess.run([*COMMAND, *words], cwd=root, input=content, capture_output=True, timeout=30, **extra)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode(), done.returncode


def line(method: str, number: Any = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def test_our_own_client_lists_the_tools_with_descriptions(repository: Path) -> None:
    (server,) = parse_servers("test", {"demo": {"command": COMMAND[0], "args": COMMAND[1:]}}, repository)
    result = asyncio.run(inspect_server(server, repository))
    assert result.problem == ""
    assert [tool.name for tool in result.tools] == NAMES
    assert result.title.startswith("abreast-demo-mcp 0.")
    assert all(len(tool.description) > 100 for tool in result.tools)


def test_the_real_claude_code_calls_the_tools(
    folder: Folder, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
    variant = {
        "target": "claude-code",
        "model": "sonnet",
        "workspace": {"git": str(repository)},
        "mcp": {"demo": {"command": COMMAND[0], "args": COMMAND[1:]}},
    }
    prompt = '[[fake: tool=mcp__demo__find_symbol args={"name": "Store.get"}]] Where is it?'
    cases = [{"id": "c", "input": prompt, "expected": "python/store.py:9"}]
    content = {"name": "demo", "cases": cases, "variants": {"only": variant}, "scorers": ["contains"]}
    folder.write("experiment.yaml", json.dumps(content))
    with FakeProvider.in_thread() as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        done = folder.abreast("run", "experiment.yaml")
    assert done.code == 0, done.err
    assert "mcp: demo: 4 tools" in done.err
    (row,) = folder.sql("select answer, score, tools, error from predictions")
    assert row["error"] is None
    assert json.loads(row["tools"]) == {"mcp__demo__find_symbol": 1}
    assert row["score"] == 1.0, row["answer"]


def test_the_process_answers_lines_and_ends_with_its_input(repository: Path) -> None:
    talk = [
        line("initialize", protocolVersion="2024-11-05"),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n',
        line("tools/call", "two", name="find_symbol", arguments={"name": "Store.get"}),
        b"this is no JSON\n",
        line("ping", 3.5).strip(),  # the last line has no line break
    ]
    (hello, result, wrong, pong), errors, code = run_server(repository, b"".join(talk))
    assert hello["result"]["protocolVersion"] == "2024-11-05"
    assert "python/store.py:9: method Store.get" in result["result"]["content"][0]["text"]
    assert result["id"] == "two"
    assert wrong["error"]["code"] == -32700
    assert pong == {"jsonrpc": "2.0", "id": 3.5, "result": {}}
    assert (errors, code) == ("", 0)


def test_the_root_can_be_set_and_must_exist(repository: Path, tmp_path: Path) -> None:
    request = line("tools/call", name="search_code", arguments={"pattern": "open_store(path)"})
    (result,), _, code = run_server(tmp_path, request, "--root", str(repository))
    assert "python/store.py:17: def open_store(path):" in result["result"]["content"][0]["text"]
    assert code == 0
    assert run_server(tmp_path, b"", "--root", "nowhere")[1:] == (
        "error: --root nowhere: no such folder\nhelp: use the folder to search\n",
        2,
    )
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("abreast-demo-mcp 0.")
    assert "--root PATH" in subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_quietly(repository: Path, number: signal.Signals) -> None:
    with running(repository) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line("ping"))
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.communicate() == (b"", b"")


def busy_child(pid: int) -> psutil.Process:
    """A child of the server that has been busy for a while."""
    until = time.monotonic() + 8
    while time.monotonic() < until:
        for child in psutil.Process(pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cpu_times().user > 0.2:
                    return child
    raise AssertionError("no process is searching")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_during_a_search_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "evil.txt").write_text("a" * 40 + "!\n")
    with running(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write(line("tools/call", name="search_code", arguments={"pattern": "(a+)+$", "regex": True}))
        process.stdin.flush()
        searching = busy_child(process.pid)
        process.send_signal(number)
        assert process.wait(10) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
        psutil.wait_procs([searching], timeout=3)
        assert not searching.is_running() or searching.status() == psutil.STATUS_ZOMBIE


def test_a_disconnected_client_ends_the_server_quietly(repository: Path) -> None:
    with running(repository) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        process.stdin.write(line("ping") * 3)
        process.stdin.flush()
        assert process.wait(10) == 0


def test_the_server_starts_without_the_rest_of_the_product(repository: Path) -> None:
    """And without anything else that is slow to load."""
    code = "import sys; import abreast.suites.code_search.server; print(*sys.modules)"
    modules = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    assert not modules & {
        "pandas",
        "numpy",
        "pydantic",
        "duckdb",
        "rich",
        "asyncio",
        "abreast.experiment",
        "tree_sitter",
    }


def test_without_tree_sitter_search_works_and_other_tools_say_what_to_install(repository: Path) -> None:
    hidden = "import sys; sys.modules['tree_sitter'] = None; "
    command = [sys.executable, "-c", hidden + COMMAND[-1]]
    request = line("tools/list") + line("tools/call", name="search_code", arguments={"pattern": "class Store"})
    done = subprocess.run(command, cwd=repository, input=request, capture_output=True, check=True)
    listed, result = map(json.loads, done.stdout.splitlines())
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["search_code"]
    assert "python/store.py:6: class Store:" in result["result"]["content"][0]["text"]
    assert "find_symbol" not in json.dumps(listed)
    assert 'pip install "abreast[code]"' in done.stderr.decode()


# -- the protocol -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "version"),
    [("2025-11-25", "2025-11-25"), ("2025-03-26", "2025-03-26"), ("2099-01-01", "2025-11-25"), (7, "2025-11-25")],
)
def test_a_known_protocol_version_of_the_client_is_used(repository: Path, requested: Any, version: str) -> None:
    hello = ask(server_of(repository), "initialize", {"protocolVersion": requested})["result"]
    assert hello["protocolVersion"] == version
    assert hello["capabilities"] == {"tools": {}}
    assert all(name in hello["instructions"] for name in NAMES)


def test_tools_have_schemas_and_are_read_only(repository: Path) -> None:
    for tool in ask(server_of(repository), "tools/list")["result"]["tools"]:
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["inputSchema"]["type"] == "object"
        assert all(parameter["description"] for parameter in tool["inputSchema"]["properties"].values())
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])


@pytest.mark.parametrize("number", [0, -1, "", "a", None, 1.5, True, [1], {"a": "\ud800"}, 10**30])
def test_ids_of_any_type_are_returned(repository: Path, number: Any) -> None:
    reply = server_of(repository).answer(line("ping", number))
    assert json.loads(reply or b"") == {"jsonrpc": "2.0", "id": number, "result": {}}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b'{"id": NaN}', -32700),
        (b'{"id": 1e999}', -32700),
        (b"[" * 100_000, -32700),
        (b"1" * 10_000, -32700),
        (b"[]", -32600),
        (b"17", -32600),
        (b"null", -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600),
        (line("resources/list"), -32601),
        (line(""), -32601),
    ],
)
def test_an_invalid_request_is_answered_with_an_error(repository: Path, content: bytes, code: int) -> None:
    assert json.loads(server_of(repository).answer(content) or b"")["error"]["code"] == code


@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"  \r\n",
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}',
        b'{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "search_code"}}',
        b'{"jsonrpc": "2.0", "id": 4, "result": {}}',
        b'[{"jsonrpc": "2.0", "method": "notifications/initialized"}]',
    ],
)
def test_notifications_are_not_answered(repository: Path, content: bytes) -> None:
    assert server_of(repository).answer(content) is None


def test_a_batch_gets_a_batch_of_answers(repository: Path) -> None:
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "nothing"},
        3,
    ]
    first, second, third = json.loads(server_of(repository).answer(json.dumps(requests).encode()) or b"")
    assert first["result"] == {}
    assert (second["id"], second["error"]["code"]) == (2, -32601)
    assert (third["id"], third["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({}, "There is no tool null. The tools are: search_code, find_symbol, find_references, outline_file."),
        ({"name": "grep"}, 'There is no tool "grep".'),
        ([], "There is no tool null"),
        ({"name": "search_code"}, "The argument pattern is missing: The text to find"),
        ({"name": "search_code", "arguments": []}, "must be an object with pattern, regex"),
        ({"name": "search_code", "arguments": {"pattern": 7}}, "pattern: invalid value 7. Use text"),
        ({"name": "search_code", "arguments": {"pattern": ""}}, "Use text of 1 to 4,000 characters"),
        ({"name": "search_code", "arguments": {"pattern": "a", "file": "b"}}, "There is no argument 'file'. There are"),
        ({"name": "search_code", "arguments": {"pattern": "a", "regex": 3}}, "Use true or false"),
        ({"name": "search_code", "arguments": {"pattern": "a", "limit": "all"}}, "an integer from 1 to 500"),
        ({"name": "search_code", "arguments": {"pattern": "a\nb"}}, "Search for one of its lines"),
        ({"name": "search_code", "arguments": {"pattern": "(", "regex": True}}, "missing ), unterminated subpattern"),
        ({"name": "search_code", "arguments": {"pattern": "a", "path": "nowhere"}}, "No file matches path"),
        ({"name": "search_code", "arguments": {"pattern": "a", "path": "lib/app.py"}}, "these: python/app.py?"),
        ({"name": "find_symbol", "arguments": {"name": "a b"}}, "is not a name such as get or Store.get"),
        ({"name": "find_symbol", "arguments": {"name": "a", "kind": "struct"}}, "Use one of function, method, class"),
        ({"name": "find_symbol", "arguments": {"name": "a", "language": "cobol"}}, "Use one of python, go"),
        (
            {"name": "outline_file", "arguments": {"path": "python"}},
            "is not a single file. Use one, such as python/app.py.",
        ),
        ({"name": "outline_file", "arguments": {"path": ".gitignore"}}, "is not in a supported language"),
    ],
)
def test_a_bad_call_is_answered_with_a_fix(repository: Path, params: Any, sentence: str) -> None:
    result = ask(server_of(repository), "tools/call", params)["result"]
    assert result["isError"] is True
    assert sentence in result["content"][0]["text"]


def test_numbers_and_flags_may_be_strings_and_large_limits_are_capped(repository: Path) -> None:
    result = call(repository, "search_code", pattern="STORE", ignore_case="true", limit="2", context=None)
    assert len(hits(result)) == 2
    assert call(repository, "search_code", pattern="store", limit=10**9)


# -- search -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "store"}, ["-F", "-e", "store"]),
        ({"pattern": "(c *Cache)"}, ["-F", "-e", "(c *Cache)"]),
        ({"pattern": "STORE", "ignore_case": True}, ["-F", "-i", "-e", "STORE"]),
        ({"pattern": "get", "whole_word": True}, ["-F", "-w", "-e", "get"]),
        ({"pattern": r"(get|put)\(", "regex": True}, ["-E", "-e", r"(get|put)\("]),
        ({"pattern": r"^(export|pub) ", "regex": True}, ["-E", "-e", "^(export|pub) "]),
        ({"pattern": "größe"}, ["-F", "-e", "größe"]),
        ({"pattern": "GRÖSSE|größe", "regex": True}, ["-E", "-e", "GRÖSSE|größe"]),
        ({"pattern": "e", "path": "web"}, ["-F", "-e", "e", "--", "web"]),
        ({"pattern": "e", "path": "*.{go,rs}"}, ["-F", "-e", "e", "--", "*.go", "*.rs"]),
        ({"pattern": "e", "path": "**/*.ts*"}, ["-F", "-e", "e", "--", "*.ts*"]),
        ({"pattern": "e", "path": "docs/notes with spaces.md"}, ["-F", "-e", "e", "--", "docs/notes with spaces.md"]),
        ({"pattern": "e", "path": "web/[id]"}, ["-F", "-e", "e", "--", ":(literal)web/[id]"]),
        ({"pattern": "e", "path": "web/[id]/*.tsx"}, ["-F", "-e", "e", "--", ":(literal)web/[id]/page.tsx"]),
    ],
)
def test_hits_are_those_of_git_grep(repository: Path, arguments: dict[str, Any], words: list[str]) -> None:
    message = git(repository, "-c", "core.quotepath=off", "grep", "-n", *words, *([] if "--" in words else ["--"]))
    expected = [re.sub(r"^([^:]*:\d+):(.*)", r"\1: \2", line) for line in message.splitlines()]
    expected = [line for line in expected if not line.startswith(".abreast/")]
    *result, last = call(repository, "search_code", **arguments, limit=500).splitlines()
    assert result == expected
    assert result
    files = len({hit.partition(":")[0] for hit in result})
    assert last == f"[{len(result)} hit{'s'[: len(result) > 1]} in {files} file{'s'[: files > 1]}]"


def test_more_hits_than_the_limit_are_counted(repository: Path) -> None:
    total = len(hits(call(repository, "search_code", pattern="e", limit=500)))
    *result, last = call(repository, "search_code", pattern="e", limit=5).splitlines()
    assert len(result) == 5
    assert last.startswith(f"[5 shown, {total - 5} more; {total} hits in ")


def test_context_is_shown_as_rg_shows_it(repository: Path) -> None:
    result = call(repository, "search_code", pattern="def put", context=1)
    assert result.splitlines() == [
        "python/store.py-12- ",
        "python/store.py:13:     def put(self, key, value):",
        "python/store.py-14-         self.values[key] = value",
        "--",
        "[1 hit in 1 file]",
    ]


def test_ignored_files_and_cases_are_not_searched(repository: Path) -> None:
    assert call(repository, "search_code", pattern="get_ignored").startswith("No line has it.")
    assert ".abreast" not in call(repository, "search_code", pattern="open_store")


def test_new_files_are_found_at_once_and_deleted_ones_are_not(tmp_path: Path) -> None:
    server = server_of(filled(tmp_path))
    (tmp_path / "new.py").write_text("def brand_new(): pass\n")
    assert hits(call(server, "search_code", pattern="brand_new")) == ["new.py:1"]
    assert hits(call(server, "find_symbol", name="brand_new")) == ["new.py:1"]
    (tmp_path / "new.py").write_text("\n\ndef brand_new(): pass\n")
    assert hits(call(server, "find_symbol", name="brand_new")) == ["new.py:3"]
    (tmp_path / "new.py").unlink()
    assert call(server, "find_symbol", name="brand_new").startswith("Nothing is called 'brand_new' or similar.")


def test_without_git_hidden_and_build_folders_are_skipped(tmp_path: Path) -> None:
    for name in ("src/a.py", "node_modules/b.py", ".hidden/c.py", "target/d.py", "e.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("needle = 1\n")
    assert hits(call(tmp_path, "search_code", pattern="needle")) == ["e.py:1", "src/a.py:1"]


def test_binary_huge_and_special_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"needle\0")
    (tmp_path / "huge.py").write_bytes(b"needle\n" * 300_000)
    (tmp_path / "latin.py").write_bytes(b"needle = '\xe4'\r\nother\r\n")
    (tmp_path / "na\nme.py").write_text("needle\n")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py")).write_text("needle\n")
    os.mkfifo(tmp_path / "pipe.py")
    result = call(tmp_path, "search_code", pattern="needle")
    assert result.splitlines() == [
        "latin.py:1: needle = '�'",
        "na\\nme.py:1: needle",
        "?.py:1: needle",
        "[3 hits in 3 files]",
    ]
    assert call(tmp_path, "find_symbol", name="needle")


def test_a_long_line_is_cut_around_the_hit(tmp_path: Path) -> None:
    (tmp_path / "wide.js").write_text("x" * 50_000 + "needle" + "y" * 50_000 + "\n")
    first, _ = call(tmp_path, "search_code", pattern="needle").splitlines()
    assert len(first) < 300
    assert "xneedley" in first
    assert first.endswith("…")


def test_long_answers_are_truncated(tmp_path: Path) -> None:
    (tmp_path / "wide.txt").write_text(("needle " * 50 + "\n") * 1_000)
    result = call(tmp_path, "search_code", pattern="needle", limit=500)
    assert len(result) < 45_000
    count = len(hits(result))
    assert f"[{count} shown, {1_000 - count} more; 1,000 hits in 1 file" in result


def test_an_endless_regular_expression_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "evil.txt").write_text("a" * 60 + "!\n")
    server = server_of(tmp_path, patience_s=0.5)
    began = time.monotonic()
    message = refused(server, "search_code", pattern="(a+)+$", regex=True)
    assert "took longer than 0.5 s. Avoid nested repeats" in message
    assert time.monotonic() - began < 5
    assert hits(call(server, "search_code", pattern="a!")) == ["evil.txt:1"]


def test_a_glob_of_many_stars_is_fast(tmp_path: Path) -> None:
    (tmp_path / ("a" * 200)).write_text("a\n")
    began = time.monotonic()
    assert "No file matches" in refused(tmp_path, "search_code", pattern="a", path="*a" * 60 + "b")
    assert "No file matches" in refused(tmp_path, "search_code", pattern="a", path="{a,b}" * 60 + "*")
    assert "No file matches" in refused(tmp_path, "search_code", pattern="a", path="**/" * 500 + "b*")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a/b/c.py", True),
        ("*.py", "a/b/c.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/b/c/a.py", True),
        ("**/test_*", "test_a.go", True),
        ("src/**", "src/a/b", True),
        ("src/**", "lib/a", False),
        ("*.{ts,tsx}", "web/a.tsx", True),
        ("{a,b/{c,d}}/*.go", "b/d/x.go", True),
        ("{a,b/{c,d}}/*.go", "b/x.go", False),
        ("[ab].c", "x/a.c", True),
    ],
)
def test_globs_have_their_usual_meaning(glob: str, path: str, fits: bool) -> None:
    assert matcher(glob)(path) is fits


# -- nothing leads out of the root -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository next to a secret file, with links of every kind to it."""
    outer = tmp_path_factory.mktemp("outer")
    (outer / "secret.py").write_text("def secret(): pass\n")
    (outer / "folder").mkdir()
    (outer / "folder/inner.py").write_text("def secret(): pass\n")
    root = outer / "root"
    (root / "moved").mkdir(parents=True)
    (root / "moved/inner.py").write_text("def fine(): pass\n")
    (root / "link.py").symlink_to(outer / "secret.py")
    (root / "folder").symlink_to(outer / "folder")
    (root / "circle").symlink_to("circle")
    (root / "alias.py").symlink_to("moved/inner.py")
    git(root, "init", "-q")
    git(root, "add", "-A")
    (root / "moved").rename(root / "kept")
    (root / "moved").symlink_to(outer / "folder")  # a tracked folder that became a link
    return root


@pytest.mark.parametrize(
    "path",
    [
        *("../secret.py", "..", "a/../../secret.py", "/etc/passwd", "/", "link.py", "folder", "folder/inner.py"),
        *(
            "../*.py",
            "folder/*.py",
            "moved/inner.py",
            "circle",
            "circle/x",
            "x" * 3_000,
            "a\0b",
            "\ud800",
            "~/x",
            "/etc/*",
        ),
    ],
)
@pytest.mark.parametrize("tool", ["search_code", "find_references", "outline_file"])
def test_a_path_outside_the_root_is_refused(guarded: Path, path: str, tool: str) -> None:
    own = {"search_code": {"pattern": "secret"}, "find_references": {"name": "secret"}}.get(tool, {})
    message = refused(guarded, tool, path=path, **own)
    assert "def secret" not in message
    assert "root:" not in message
    assert len(message) < 400
    assert str(guarded) not in message


def test_link_targets_are_not_searched(guarded: Path) -> None:
    assert call(guarded, "search_code", pattern="def secret").startswith("No line has it.")
    assert call(guarded, "find_symbol", name="secret").startswith("Nothing is called")
    assert hits(call(guarded, "search_code", pattern="def fine")) == ["kept/inner.py:1"]


def test_paths_that_stay_inside_the_root_are_allowed(guarded: Path, repository: Path) -> None:
    for path in ("kept/../kept/inner.py", "./kept/", str(guarded / "kept"), str(guarded), ".", "kept//inner.py"):
        assert hits(call(guarded, "search_code", pattern="fine", path=path)) == ["kept/inner.py:1"]
    link = guarded.parent / "way"
    if not link.exists():
        link.symlink_to(guarded)
    assert hits(call(link, "search_code", pattern="fine", path=str(link / "kept"))) == ["kept/inner.py:1"]


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "Store"}, "python/store.py:6: class Store  class Store:"),
        ({"name": "Store.get"}, "python/store.py:9: method Store.get  def get(self, key: str) -> int:"),
        ({"name": "LIMIT"}, "python/store.py:3: constant LIMIT  LIMIT = 10"),
        ({"name": "Cache::Get()"}, "go/cache.go:6: method Cache.Get  func (c *Cache) Get(key string) int"),
        ({"name": "NewCache", "language": "go"}, "go/cache.go:8: function NewCache  func NewCache() *Cache"),
        ({"name": "price"}, "java/Shop.java:6: method Shop.price  public int price(String name)"),
        ({"name": "LARGEST"}, "java/Shop.java:4: constant Shop.LARGEST  static final int LARGEST = 3;"),
        ({"name": "Queue", "kind": "type"}, "rust/lib.rs:1: type Queue  pub struct Queue"),
        ({"name": "Queue#push"}, "rust/lib.rs:4: method Queue.push  pub fn push"),
        ({"name": "Panel"}, "web/panel.ts:1: interface Panel  export interface Panel"),
        ({"name": "SidePanel.render"}, "web/panel.ts:5: method SidePanel.render  render(): string"),
        ({"name": "show"}, "web/panel.ts:9: function show  export const show = "),
        ({"name": "Page"}, "web/[id]/page.tsx:1: function Page  export function Page()"),
    ],
)
def test_a_definition_is_found_in_each_language(repository: Path, arguments: dict[str, Any], expected: str) -> None:
    result = call(repository, "find_symbol", **arguments).splitlines()
    assert result[0].startswith(expected)
    assert result[1:] == ["[1 definition]"]


def test_without_an_exact_match_similar_names_are_listed_as_such(repository: Path) -> None:
    result = call(repository, "find_symbol", name="STORE").splitlines()
    assert result[0] == "Nothing is called 'STORE'. Similar names:"
    assert hits("\n".join(result)) == ["python/store.py:6"]
    assert hits(call(repository, "find_symbol", name="_store")) == ["python/store.py:17"]
    assert hits(call(repository, "find_symbol", name="panel.draw")) == ["web/panel.ts:8"]
    assert call(repository, "find_symbol", name="nonesuch").startswith("Nothing is called 'nonesuch' or similar.")


def test_a_definition_of_another_kind_is_still_found(repository: Path) -> None:
    first, second, _ = call(repository, "find_symbol", name="open_store", kind="method").splitlines()
    assert first == "None of them is a method, but a function:"
    assert second.startswith("python/store.py:17:")


def test_references_are_calls_then_imports_then_others_with_context(repository: Path) -> None:
    assert call(repository, "find_references", name="open_store").splitlines() == [
        "defined at python/store.py:17: function open_store  def open_store(path):",
        'python/app.py:5: call in main: store = open_store("get")',
        "python/app.py:1: import: from store import LIMIT, Store, open_store",
        "[1 call, 1 import in 1 file]",
    ]


def test_comments_and_strings_are_not_references(repository: Path) -> None:
    result = call(repository, "find_references", name="Store.get")
    assert hits(result) == ["python/store.py:9", "python/app.py:6"]


@pytest.mark.parametrize(
    ("name", "location"),
    [
        ("Cache.Get", "go/cache.go:10: call in use: "),
        ("price", "java/Shop.java:8: call in Shop.total: "),
        ("push", "rust/lib.rs:9: call in filled: "),
        ("render", "web/panel.ts:9: call in show: "),
        ("draw", "web/[id]/page.tsx:1: call in Page: "),
    ],
)
def test_calls_are_found_in_each_language(repository: Path, name: str, location: str) -> None:
    assert any(line.startswith(location) for line in call(repository, "find_references", name=name).splitlines())


def test_references_can_be_limited_by_kind_path_and_number(repository: Path) -> None:
    assert hits(call(repository, "find_references", name="open_store", kind="import"))[1:] == ["python/app.py:1"]
    assert hits(call(repository, "find_references", name="draw", path="*.tsx"))[1:] == ["web/[id]/page.tsx:1"]
    assert "; 1 shown, 1 more" in call(repository, "find_references", name="draw", limit=1)
    assert call(repository, "find_references", name="nonesuch").startswith("Nothing here uses or defines 'nonesuch'.")


def test_ambiguous_names_are_mentioned(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A:\n    def go(self): pass\nclass B:\n    def go(self): pass\nA().go()\n")
    result = call(tmp_path, "find_references", name="A.go").splitlines()
    assert result[0].startswith("defined at a.py:2: method A.go")
    assert result[1] == "(2 definitions are called go; these are the uses of all.)"
    assert result[2] == "a.py:5: call: A().go()"


def test_outline_of_a_file(repository: Path) -> None:
    assert call(repository, "outline_file", path="python/store.py").splitlines() == [
        "python/store.py: python, 18 lines, 5 definitions",
        "3-3: constant LIMIT  LIMIT = 10",
        "6-14: class Store  class Store:",
        "9-11: method Store.get  def get(self, key: str) -> int:",
        "13-14: method Store.put  def put(self, key, value):",
        "17-18: function open_store  def open_store(path):",
    ]


def test_broken_empty_and_deeply_nested_sources_are_read(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def fine(): pass\ndef (((\nclass\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "deep.py").write_text("def fine(): return " + "(" * 30_000 + "\n")
    (tmp_path / "deep.ts").write_text("function fine() { return " + "[" * 30_000 + "]" * 30_000 + " }\n")
    result = call(tmp_path, "find_symbol", name="fine")
    assert "broken.py:1" in hits(result)
    assert "[parts of the file could not be parsed" in call(tmp_path, "outline_file", path="broken.py")
    assert "is empty" in refused(tmp_path, "outline_file", path="empty.py")


def test_many_files_are_parsed_by_several_processes_and_cached(tmp_path: Path) -> None:
    for number in range(40):
        body = "".join(f"def f{number}_{n}(x):\n    return shared(x, {n})\n\n" for n in range(250))
        (tmp_path / f"m{number:02}.py").write_text(body)
    server = server_of(tmp_path)
    assert "[10,000 calls in 40 files; 50 shown, 9,950 more" in call(server, "find_references", name="shared")
    began = time.process_time()
    assert "[10,000 calls in 40 files" in call(server, "find_references", name="shared")
    assert time.process_time() - began < 2


def test_files_not_parsed_in_time_are_reported_and_parsed_on_the_next_call(tmp_path: Path) -> None:
    from abreast.suites.code_search.server.files import Files
    from abreast.suites.code_search.server.symbols import Symbols

    for number in range(5):
        (tmp_path / f"m{number}.py").write_text("def shared(): pass\n" * 5_000)
    symbols = Symbols(Files(tmp_path.resolve()), patience_s=0.0)
    assert "(5 files could not be read in time; call again to read the rest.)" in symbols.find_symbol("shared")


# -- nothing ends it --------------------------------------------------------------------------------------------------


def test_a_line_of_many_megabytes_is_answered(repository: Path) -> None:
    large = "x" * 8_000_000
    request = (
        line("tools/call", name="search_code", arguments={"pattern": large}) + line("ping", large) + line("ping", 3)
    )
    (refusal, pong, last), _, code = run_server(repository, request)
    assert refusal["result"]["isError"] is True
    assert len(json.dumps(refusal)) < 1_000
    assert pong["id"] == large
    assert last["id"] == 3
    assert code == 0


def test_a_missing_root_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    server = server_of(root)
    root.rmdir()
    for tool, arguments in (("search_code", {"pattern": "a"}), ("find_symbol", {"name": "a"})):
        assert "is gone" in refused(server, tool, **arguments)


def test_foreign_output_on_stdout_is_not_a_message(repository: Path) -> None:
    noisy = "import os, sys; from abreast.suites.code_search import server; real = server.McpServer.answer; "
    noisy += "server.McpServer.answer = lambda *a: (print('noise', flush=True), os.write(1, b'more'), real(*a))[-1]; "
    done = subprocess.run(
        [sys.executable, "-c", noisy + "sys.exit(server.main())"],
        cwd=repository,
        input=line("ping"),
        capture_output=True,
    )
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert b"noise" in done.stderr


def test_requests_are_answered_while_the_input_stays_open(repository: Path) -> None:
    with running(repository) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(line("ping", number))
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 10)[0]
            assert json.loads(process.stdout.readline())["id"] == number


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(["get", "Store.get", "*.py", "../x", "web/[id]", "(", ".*", "a{1,9}", "\0", "größe", "python"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["pattern", "regex", "ignore_case", "whole_word", "path", "context", "limit", "name", "language"]),
    WORDS | st.text(max_size=12) | st.booleans() | st.integers(-3, 600) | JSON,
    max_size=5,
)
METHODS = st.sampled_from(["initialize", "ping", "tools/list", "tools/call", "notifications/x"]) | st.text(max_size=10)


@st.composite
def requests(draw: Callable[[Any], Any]) -> Any:
    """Almost valid requests of a client."""
    params = draw(st.fixed_dictionaries({"name": st.sampled_from(NAMES) | JSON, "arguments": ARGUMENTS | JSON}) | JSON)
    request = {"jsonrpc": "2.0", "id": draw(JSON), "method": draw(METHODS), "params": params}
    for key in draw(st.sets(st.sampled_from(sorted(request)), max_size=2)):
        del request[key]
    return request


LINES = (
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | (requests() | st.lists(requests(), max_size=3) | JSON).map(lambda request: json.dumps(request).encode())
)


@pytest.fixture(scope="module")
def answering(repository: Path) -> McpServer:
    return server_of(repository, patience_s=1.0)


@settings(max_examples=200, deadline=None)
@given(content=LINES)
def test_every_line_is_answered_by_json_rpc(answering: McpServer, content: bytes) -> None:
    reply = answering.answer(content)
    if reply is None:
        return
    assert b"\n" not in reply
    replies = json.loads(reply, parse_constant=pytest.fail)
    for item in replies if isinstance(replies, list) else [replies]:
        assert item["jsonrpc"] == "2.0"
        assert ("result" in item) != ("error" in item)
        assert item.get("error", {}).get("code") != -32603
        assert "The tool failed" not in json.dumps(item)
        assert set(item) <= {"jsonrpc", "id", "result", "error"}


@settings(max_examples=100, deadline=None)
@given(path=st.text(alphabet="abpy/.*?[]{},!\\~\0 é\ud800", min_size=1, max_size=30) | st.text(min_size=1, max_size=30))
@pytest.mark.parametrize(
    ("tool", "own"),
    [("search_code", {"pattern": "a"}), ("find_references", {"name": "get"}), ("outline_file", {})],
)
def test_no_path_makes_a_tool_fail(answering: McpServer, tool: str, own: dict[str, str], path: str) -> None:
    text, failed = call_tool(answering, tool, path=path, **own)
    assert not failed or "failed" not in text


REQUIRED = {
    "search_code": {"pattern": "a"},
    "find_symbol": {"name": "get"},
    "find_references": {"name": "get"},
    "outline_file": {"path": "a.py"},
}


@pytest.mark.parametrize("text", ["\ud800", "/\ud800", "/\udc80/..", "a\udfff*", "/" + "a" * 3_000])
@pytest.mark.parametrize("tool", REQUIRED)
def test_text_that_no_file_system_accepts_makes_no_tool_fail(answering: McpServer, tool: str, text: str) -> None:
    for parameter in ("path", "name", "pattern", "language"):
        message, _ = call_tool(answering, tool, **REQUIRED[tool] | {parameter: text})
        assert "failed" not in message
