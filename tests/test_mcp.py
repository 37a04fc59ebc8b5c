"""MCP servers of a variant: declarations, digests, and the tools that real servers offer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from abreast.errors import BadInput
from abreast.targets.mcp import (
    Inspection,
    Server,
    client_config,
    inspect_server,
    inspect_servers,
    parse_servers,
    version,
)
from abreast.targets.mcp.declaration import Variables
from abreast.targets.mcp.stdio import StdioChannel
from conftest import Done, Folder
from mcp_server import TOOLS, answer

SCRIPT = Path(__file__).with_name("mcp_server.py")
LITTLE_S = 3.0  # enough for a process to start on a busy machine


def declared(setting: Any, base: Path = Path()) -> tuple[Server, ...]:
    return parse_servers('variant "v"', setting, base)


def declared_server(base: Path = Path(), **declaration: Any) -> Server:
    (server,) = declared({"secrets": declaration}, base)
    return server


def secrets_server(**env: str) -> Server:
    """The server in `SCRIPT` with these environment variables."""
    return declared_server(command=sys.executable, args=[str(SCRIPT)], env=env)


def inspected(server: Server, cwd: Path, timeout_s: float = 20.0, marks: dict[str, str] | None = None) -> Inspection:
    return asyncio.run(inspect_server(server, cwd, timeout_s, marks or {}))


def processes_with(mark: str) -> list[psutil.Process]:
    """Live processes whose environment contains this mark."""
    actual = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("MCP_TEST_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                actual.append(process)
    return actual


# -- what is declared ----------------------------------------------------------------------------------------------


def test_servers_are_declared_by_name_in_files_or_in_a_list_of_both(folder: Folder) -> None:
    folder.write("tools/.mcp.json", '{"mcpServers": {"far": {"type": "http", "url": "https://example.com/mcp"}}}')
    near = {"near": {"command": "codetect", "args": ["mcp"], "env": {"LEVEL": "1"}, "cwd": "work"}}
    assert declared(None) == declared([]) == declared({}) == ()
    (far,) = declared("tools/.mcp.json", folder.path)
    assert (far.name, far.kind, far.url) == ("far", "http", "https://example.com/mcp")
    (server,) = declared(near)
    assert (server.command, server.env, server.cwd) == (("codetect", "mcp"), {"LEVEL": "1"}, "work")
    assert [server.name for server in declared([near, "tools/.mcp.json"], folder.path)] == ["near", "far"]
    assert declared({"mcpServers": near}) == declared(near), "a file's content may be pasted"
    assert declared([near, near]) == declared(near)
    assert declared_server(url="https://example.com/").kind == "http"
    assert declared_server(type="sse", url="https://example.com/", headers={"X-Team": "a"}).kind == "sse"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (7, 'variant "v": mcp declares no servers: 7'),
        ({"a b": {"command": "x"}}, 'mcp: "a b" is not a valid server name'),
        ({1: {"command": "x"}}, "mcp: 1 is not a valid server name"),
        ({"a": "x"}, 'mcp.a must be a mapping, got "x"'),
        ({"a": {}}, "mcp.a has no command and no url"),
        ({"a": {"args": ["x"]}}, "mcp.a has no command and no url"),
        ({"a": {"command": "x", "url": "http://x"}}, "mcp.a has both a command and a url"),
        ({"a": {"type": "http", "command": "x"}}, "mcp.a has the type http and no url"),
        ({"a": {"type": "htp", "url": "http://x"}}, r'mcp.a.type: unknown transport "htp" \(did you mean "http"\?\)'),
        ({"a": {"command": "x", "arg": []}}, r'mcp.a: unknown key "arg" \(did you mean "args"\?\)'),
        ({"a": {"command": "x", "headers": {}}}, '"headers" is only for servers with a url'),
        ({"a": {"url": "http://x", "env": {}}}, '"env" is only for servers with a command'),
        ({"a": {"command": ["x"]}}, r"mcp.a.command must be text, got \['x'\]"),
        ({"a": {"command": ""}}, "mcp.a.command is empty"),
        ({"a": {"command": "x", "args": "y"}}, 'mcp.a.args must be a list, got "y"'),
        ({"a": {"command": "x", "args": ["--port", 80]}}, r"mcp.a.args\[1\] must be text, got 80"),
        ({"a": {"command": "x", "env": {"N": 1}}}, "mcp.a.env.N must be text, got 1"),
        ({"a": {"command": "x\0"}}, "mcp.a.command contains a NUL character"),
        ({"a": {"url": "example.com"}}, 'mcp.a.url: "example.com" is not an address'),
        ({"a": {"url": "https://me:secret@example.com"}}, "mcp.a.url contains a secret"),
        ({"a": {"url": "https://example.com/?api_key=abc"}}, "mcp.a.url contains a secret"),
        ("nowhere.json", 'mcp: "nowhere.json": no such file'),
        ("broken.json", '"broken.json", line 3: invalid JSON'),
        ("bare.json", 'bare.json": no servers under "mcpServers"'),
        ("deep.json", r'deep.json": mcpServers.a: unknown key "comand" \(did you mean "command"\?\)'),
        (".", "cannot be read"),
        ([["x"]], r"mcp\[0\] is a list in a list"),
        ([{"a": {"command": "x"}}, {"a": {"command": "y"}}], 'two servers are named "a"'),
    ],
)
def test_an_invalid_declaration_is_refused_with_its_location(folder: Folder, setting: Any, message: str) -> None:
    folder.write("broken.json", '{\n"mcpServers": {\n"a": oops}}')
    folder.write("bare.json", '{"a": {"command": "x"}}')
    folder.write("deep.json", '{"mcpServers": {"a": {"comand": "x"}}}')
    with pytest.raises(BadInput, match=message) as refused:
        declared(setting, folder.path)
    assert refused.value.fix


@pytest.mark.parametrize(
    "declaration",
    [
        {"command": "x", "env": {"GITHUB_TOKEN": "ghp_123"}},
        {"command": "x", "env": {"API_KEY": "${API_KEY:-sk-123}"}},
        {"url": "https://x", "headers": {"Authorization": "Bearer abc"}},
        {"url": "https://x", "headers": {"x-api-key": "abc"}},
    ],
)
def test_a_secret_in_plain_text_is_refused_with_the_right_syntax(declaration: Any) -> None:
    with pytest.raises(BadInput, match="is a secret in plain text") as refused:
        declared_server(**declaration)
    assert re.search(r"write \$\{[A-Z_]+\} and set", refused.value.fix)
    assert "abc" not in refused.value.message
    assert "123" not in refused.value.message


def test_references_to_variables_are_stored_unexpanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "abcdef")
    monkeypatch.delenv("SOME_LEVEL", raising=False)
    local_server = declared_server(
        command="x", args=["--level=${SOME_LEVEL:-7}"], env={"API_TOKEN": "${SOME_TOKEN}", "MAX_TOKENS": "9"}
    )
    remote_server = declared_server(
        url="https://x/${SOME_LEVEL:-mcp}", headers={"Authorization": "Bearer ${SOME_TOKEN}"}
    )
    assert "abcdef" not in repr((local_server, remote_server))
    before = version([local_server], Path())
    written, values = client_config([local_server], {"MARK": "m"})
    assert "abcdef" not in json.dumps(written)
    assert Variables(values).fill("", json.dumps(written)) == json.dumps(
        {
            "mcpServers": {
                "secrets": {
                    "type": "stdio",
                    "command": "x",
                    "args": ["--level=7"],
                    "env": {"API_TOKEN": "abcdef", "MAX_TOKENS": "9", "MARK": "m"},
                }
            }
        }
    )
    written, values = client_config([remote_server], {"MARK": "m"})
    assert "abcdef" not in json.dumps(written)
    assert json.loads(Variables(values).fill("", json.dumps(written)))["mcpServers"]["secrets"] == {
        "type": "http",
        "url": "https://x/mcp",
        "headers": {"Authorization": "Bearer abcdef"},
    }
    monkeypatch.setenv("SOME_TOKEN", "another")
    assert version([local_server], Path()) == before
    monkeypatch.delenv("SOME_TOKEN")
    with pytest.raises(BadInput, match="MCP server secrets: the environment variable SOME_TOKEN is not set"):
        client_config([local_server], {})


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(
    ["x", "", "${A}", "http://x", "http://[", "https://u:p@h", "stdio", "sse", "http", "\0", "\ud800"]
)
ALMOST = st.dictionaries(
    st.sampled_from(["a", "a-b", "mcpServers", ""]),
    st.dictionaries(
        st.sampled_from(["command", "args", "env", "cwd", "url", "type", "headers", "comand"]),
        WORDS
        | ANY_JSON
        | st.lists(WORDS)
        | st.dictionaries(st.sampled_from(["TOKEN", "N", "a=b", "a b"]), WORDS | ANY_JSON),
    )
    | ANY_JSON,
)


@given(st.one_of(ANY_JSON, ALMOST, st.lists(ALMOST, max_size=3)))
def test_any_value_either_declares_servers_or_is_refused(setting: Any) -> None:
    try:
        actual = declared(setting, Path(__file__).parent)
    except BadInput:
        return
    assert len({server.name for server in actual}) == len(actual)
    assert version(actual, Path()) == version(actual[::-1], Path())


# -- what they are made of -----------------------------------------------------------------------------------------


@pytest.fixture
def project(folder: Folder) -> Folder:
    """A server that consists of a few files."""
    folder.write("serve.py", "import helper\nfrom parts import one\nimport json\n")
    folder.write("helper.py", "WORD = 'a'\n")
    folder.write("parts/__init__.py", "")
    folder.write("parts/one.py", "from . import two\n")
    folder.write("parts/two.py", "from . import one\nX = 1\n")
    folder.write("parts/__main__.py", "from parts import one\n")
    folder.write("unrelated.py", "")
    folder.write("settings.json", "{}")
    folder.write("serve.js", "console.log(1)")
    return folder


PYTHON = {"command": "python3", "args": ["serve.py", "--config=settings.json"]}
MODULE = {"command": "python3", "args": ["-m", "parts"]}
NODE = {"command": "node", "args": ["serve.js"]}
BINARY = {"command": "./serve.bin"}
FOLDER = {"command": "uv", "args": ["--directory", "parts", "run", "one.py"]}


@pytest.mark.parametrize(
    ("declaration", "file", "text", "changes"),
    [
        (PYTHON, "serve.py", "import helper\nfrom parts import one\nprint(1)\n", True),
        (PYTHON, "serve.py", "import helper  # a word\nfrom parts import (one)\nimport json\n", False),
        (PYTHON, "helper.py", "WORD = 'b'\n", True),
        (PYTHON, "parts/two.py", "X = 2\n", True),
        (PYTHON, "settings.json", "{'a': 1}", True),
        (PYTHON, "unrelated.py", "x = 1", False),
        (PYTHON, "json.py", "x = 1", True),
        (MODULE, "parts/two.py", "X = 2\n", True),
        (MODULE, "parts/__main__.py", "x = 1\n", True),
        (MODULE, "helper.py", "x = 1\n", False),
        (NODE, "serve.js", "console.log(2)", True),
        (BINARY, "serve.bin", b"\x7fELF 2", True),
        (FOLDER, "parts/one.py", "x = 2", True),
        ({"command": "npx", "args": ["serve.js"]}, "serve.js", "console.log(2)", False),
    ],
)
def test_a_digest_changes_only_with_the_code_a_server_executes(
    project: Folder, declaration: Any, file: str, text: str | bytes, changes: bool
) -> None:
    project.write("serve.bin", b"\x7fELF 1")
    server = declared_server(project.path, **declaration)
    before = version([server], project.path)
    assert version([server], project.path) == before
    project.write(file, text)
    assert (version([server], project.path) != before) is changes


def test_a_digest_changes_with_the_declaration_but_not_with_its_folder(project: Folder, tmp_path: Path) -> None:
    def digest(**more: Any) -> str:
        return version([declared_server(project.path, **{**PYTHON, **more})], project.path)

    other = project.path / "moved"
    for file in [*project.path.rglob("*.*")]:
        if file.is_file():
            project.write(str(Path("moved") / file.relative_to(project.path)), file.read_bytes())
    assert version([declared_server(other, **PYTHON)], other) == digest()
    different = {digest(), digest(args=["serve.py"]), digest(env={"A": "1"}), digest(cwd="parts")}
    assert len(different) == 4
    assert digest(start_timeout=60) == digest(), "how long it may take changes no answer"
    assert version([], project.path) != digest()
    assert version([declared_server(url="http://x/a")], tmp_path) != version(
        [declared_server(url="http://x/b")], tmp_path
    )


def test_the_digest_of_an_installed_command_is_its_version_and_of_an_editable_one_its_files(folder: Folder) -> None:
    """As pip installs them: a few lines in `bin`, a package beside, or a link to the folder of a project."""
    site = "venv/lib/python3.12/site-packages"
    folder.write("venv/bin/detect", "#!/somewhere/bin/python\nfrom detect_server import main\nmain()\n")
    server = declared_server(folder.path, command="venv/bin/detect", args=["mcp"])

    def install(version: str) -> None:
        folder.write(
            f"{site}/detect-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: detect\nVersion: {version}\n"
        )
        folder.write(f"{site}/detect-1.dist-info/RECORD", "detect_server/__init__.py,sha256=x,1\n")

    install("1.0")
    first = version([server], folder.path)
    install("1.1")
    second = version([server], folder.path)
    folder.write(f"{site}/detect.pth", f"{folder.path / 'source'}\n")
    folder.write("source/detect_server/__init__.py", "def main(): pass\n")
    third = version([server], folder.path)
    folder.write("source/detect_server/__init__.py", "def main(): return 1\n")
    assert len({first, second, third, version([server], folder.path)}) == 4


# -- started for real ----------------------------------------------------------------------------------------------


def test_a_working_server_is_reported_with_its_tools(tmp_path: Path) -> None:
    actual = inspected(secrets_server(), tmp_path)
    assert (actual.problem, actual.title) == ("", "secrets 1.2.3")
    assert [tool.name for tool in actual.tools] == ["lookup", "add"]
    assert actual.tools[0].description == "The secret that belongs to a key.\nKeys are words."
    assert actual.tools[1].description == "The sum of two numbers. red", "nothing commands the terminal"
    assert 0 < actual.seconds < 20


def test_tools_on_several_pages_are_all_found(tmp_path: Path) -> None:
    assert [tool.name for tool in inspected(secrets_server(MCP_PAGES="1"), tmp_path).tools] == ["lookup", "add"]


def test_a_server_may_ping_its_client_and_ask_for_its_roots(tmp_path: Path) -> None:
    (tool,) = inspected(secrets_server(MCP_ASK="1"), tmp_path).tools
    assert tool.description == tmp_path.resolve().as_uri()


def test_a_banner_before_the_first_message_is_skipped(tmp_path: Path) -> None:
    assert len(inspected(secrets_server(MCP_GARBAGE="*** welcome ***"), tmp_path).tools) == 2


@pytest.mark.parametrize(
    ("env", "problem", "fix"),
    [
        ({"MCP_FAIL": "no index here"}, "exited with code 3: no index here", "terminal"),
        ({"MCP_EXIT": "1"}, "exited with code 5", "terminal"),
        ({"MCP_HANG": "1"}, "no answer to initialize within 3 s", "terminal"),
        (
            {"MCP_GARBAGE": "usage: x", "MCP_HANG": "1"},
            'does not speak MCP: its first output was "usage: x"',
            "check that the command",
        ),
        ({"MCP_ENDLESS": "1"}, 'does not speak MCP: its first output was "garbage garbage', "the command"),
        (
            {"MCP_ENDLESS": "line"},
            'does not speak MCP: its first output was "garbage garbage',
            "check that the command",
        ),
        ({"MCP_PAGES": "endless"}, "its list of tools never ends", "report this to the authors"),
        ({"MCP_EMPTY": "1"}, "offers no tools", "right server"),
        ({"MCP_EMPTY": "undeclared"}, "offers no tools: it does not declare the capability `tools`", "right server"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_broken_server_is_reported_in_one_sentence_with_a_fix(
    tmp_path: Path, env: dict[str, str], problem: str, fix: str
) -> None:
    actual = inspected(
        secrets_server(**env), tmp_path, LITTLE_S if "MCP_HANG" in env else 20.0, {"MCP_TEST_MARK": str(tmp_path)}
    )
    assert actual.problem.startswith(problem)
    assert fix in actual.fix
    assert len(actual.problem) < 300
    assert actual.tools == ()
    assert not processes_with(str(tmp_path))


@pytest.mark.parametrize(
    ("declaration", "problem", "fix"),
    [
        ({"command": "no-such-program"}, "command not found: no-such-program", "install it, or write its full"),
        ({"command": "npx -y thing"}, "command not found: npx -y thing", "write command: npx and the other"),
        ({"command": "./plain.txt"}, "plain.txt is not executable", "chmod"),
        ({"command": "./orphan.sh"}, "orphan.sh does not exist", "#!"),
        ({"command": "true", "cwd": "gone"}, "no folder", "correct its cwd"),
        ({"command": "echo"}, "exited with code 0", "terminal"),
        (
            {"command": "echo", "args": ["usage: x"]},
            'does not speak MCP: its first output was "usage: x"',
            "check that the command",
        ),
        ({"command": "sh", "args": ["-c", "kill -9 $$"]}, "was killed by SIGKILL", "terminal"),
        ({"command": "x", "env": {"A": "${NOT_SET_HERE}"}}, "the environment variable NOT_SET_HERE is not", "export"),
    ],
)
def test_a_command_that_cannot_be_started_is_reported_with_a_fix(
    folder: Folder, declaration: Any, problem: str, fix: str
) -> None:
    folder.write("plain.txt", "x")
    folder.write("orphan.sh", "#!/no/such/interpreter\n").chmod(0o755)
    actual = inspected(declared_server(folder.path, **declaration), folder.path)
    assert problem in actual.problem
    assert fix in actual.fix


def test_a_server_starts_in_the_folder_of_its_client_and_finds_files_beside_the_spec(folder: Folder) -> None:
    folder.write("spec/serve.py", SCRIPT.read_bytes())
    work = folder.path / "work"
    work.mkdir()
    server = declared_server(folder.path / "spec", command=sys.executable, args=["serve.py"], env={"MCP_ASK": "1"})
    (tool,) = inspected(server, work).tools
    assert tool.description == work.resolve().as_uri()
    own = declared_server(folder.path, command=sys.executable, args=["serve.py"], env={"MCP_ASK": "1"}, cwd="spec")
    (tool,) = inspected(own, work).tools
    assert tool.description == (folder.path / "spec").resolve().as_uri()


def test_claude_starts_a_server_in_its_own_folder_with_the_same_config(folder: Folder) -> None:
    """Claude's format has no `cwd`; the generated command changes the folder instead."""
    folder.write("spec/serve.py", SCRIPT.read_bytes())
    server = declared_server(
        folder.path, command=sys.executable, args=["-c", "import os; print(os.getcwd())"], cwd="spec"
    )
    entry = client_config([server], {})[0]["mcpServers"]["secrets"]
    actual = inspected(declared_server(**entry), folder.path, 20.0)
    assert actual.problem == f'does not speak MCP: its first output was "{(folder.path / "spec").resolve()}"'


def test_secrets_are_redacted_from_quoted_server_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "abcdefghijklmnop")
    monkeypatch.setenv("SOME_WORD", "xxxxhunter2xxxx")
    actual = inspected(secrets_server(API_TOKEN="${SOME_TOKEN}", MCP_SAY="API_TOKEN"), tmp_path)
    assert actual.problem == "exited with code 4: error: bad key [SOME_TOKEN]"
    report = inspected(declared_server(command="echo", args=["${SOME_WORD}"]), tmp_path)
    assert report.problem == 'does not speak MCP: its first output was "[SOME_WORD]"'
    cut = inspected(secrets_server(MCP_FAIL="y" * 195 + "${SOME_TOKEN}"), tmp_path)
    assert "abc" not in cut.problem, "half of a secret is one"


@pytest.mark.parametrize("env", [{}, {"MCP_HANG": "1"}, {"MCP_DEAF": "1"}, {"MCP_FAIL": "x"}])
@pytest.mark.parametrize("detached", ["", "1"], ids=["in its group", "in a session of its own"])
def test_no_process_outlives_an_inspection(tmp_path: Path, env: dict[str, str], detached: str) -> None:
    child = tmp_path / "child"
    server = secrets_server(MCP_CHILD=str(child), MCP_DETACH=detached, **env)
    inspected(server, tmp_path, LITTLE_S if "MCP_HANG" in env else 20.0, {"MCP_TEST_MARK": str(tmp_path)})
    assert child.read_text()
    assert not processes_with(str(tmp_path))


def test_no_process_outlives_a_cancelled_inspection(tmp_path: Path) -> None:
    child = tmp_path / "child"
    os.mkfifo(child)

    async def cancelled() -> None:
        server = secrets_server(MCP_CHILD=str(child), MCP_DETACH="1", MCP_HANG="1")
        inspection = asyncio.create_task(inspect_servers([server], tmp_path, marks={"MCP_TEST_MARK": str(tmp_path)}))
        assert await asyncio.to_thread(child.read_text), "it has started its child"
        assert processes_with(str(tmp_path))
        inspection.cancel()
        with pytest.raises(asyncio.CancelledError):
            await inspection

    asyncio.run(cancelled())
    assert not processes_with(str(tmp_path))


def test_endless_output_does_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    read = StdioChannel._read

    async def watched(self: StdioChannel) -> None:
        try:
            await read(self)
        finally:
            sizes.append(self._size)

    monkeypatch.setattr(StdioChannel, "_read", watched)
    assert "does not speak MCP" in inspected(secrets_server(MCP_ENDLESS="line"), tmp_path).problem
    assert max(sizes) < 2_000_000


def test_a_server_may_have_its_own_startup_timeout(tmp_path: Path) -> None:
    (hanging,) = declared(
        {"slow": {"command": PYTHON["command"], "args": ["-c", "import time; time.sleep(60)"], "start_timeout": 0.5}}
    )
    actual = asyncio.run(inspect_server(hanging, tmp_path))
    assert "within 0.5 s" in actual.problem
    assert "start_timeout" in actual.fix
    for value in (0, -1, "soon", True, 10**9):
        with pytest.raises(BadInput, match="start_timeout"):
            declared({"slow": {"command": "x", "start_timeout": value}})


def test_several_servers_are_inspected_together_and_reported_in_order(tmp_path: Path) -> None:
    names = [f"s{n}" for n in range(12)]
    setting = {name: {"command": sys.executable, "args": [str(SCRIPT)]} for name in names}
    setting["s5"]["command"] = "no-such-program"
    actual = asyncio.run(inspect_servers(declared(setting), tmp_path))
    assert [server.server for server in actual] == names
    assert [server.server for server in actual if server.problem] == ["s5"]


# -- reached over HTTP ---------------------------------------------------------------------------------------------

Handler = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(*routes: tuple[str, str, Handler]) -> AsyncIterator[str]:
    """Run an HTTP server on this machine; yield its address."""
    app = web.Application()
    for method, path, handler in routes:
        app.router.add_route(method, path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Streamable:
    """MCP over streamable HTTP: replies as JSON or as events, wants its session back, and may ask in between."""

    def __init__(self, events: bool = False) -> None:
        self.events, self.headers, self.deleted = events, list[dict[str, str]](), False
        self._pong = asyncio.Event()

    async def post(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        message = await request.json()
        if message.get("method") != "initialize" and request.headers.get("Mcp-Session-Id") != "s-1":
            return web.json_response({"error": "no session"}, status=400)
        if message.get("id") == "ours" and message.get("result") == {}:
            self._pong.set()
        if "method" not in message or "id" not in message:
            return web.Response(status=202)
        result = answer(message["method"], message.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if not self.events:
            return web.json_response(reply, headers={"Mcp-Session-Id": "s-1"})
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Mcp-Session-Id": "s-1"})
        await stream.prepare(request)
        await stream.write(b"id: 1\ndata:\n\n: a comment\n\n")
        if message["method"] == "tools/list":
            await stream.write(b'event: message\ndata: {"jsonrpc": "2.0", "id": "ours", "method": "ping"}\n\n')
            await self._pong.wait()
        await stream.write(f"event: message\ndata: {json.dumps(reply)}\n\n".encode())
        return stream

    async def delete(self, request: web.Request) -> web.StreamResponse:
        self.deleted = True
        return web.Response()


def inspected_over_http(
    *routes: tuple[str, str, Handler], path: str = "/mcp", timeout_s: float = 20.0, **more: Any
) -> Inspection:
    async def reach() -> Inspection:
        async with serving(*routes) as address:
            return await inspect_server(
                declared_server(**{"type": "http", "url": address + path, **more}), Path(), timeout_s
            )

    return asyncio.run(reach())


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
def test_a_server_is_reached_over_streamable_http(monkeypatch: pytest.MonkeyPatch, events: bool) -> None:
    monkeypatch.setenv("SOME_TOKEN", "abcdef")

    async def reach() -> tuple[Inspection, Streamable]:
        server = Streamable(events)
        async with serving(("POST", "/mcp", server.post), ("DELETE", "/mcp", server.delete)) as address:
            declaration = declared_server(url=f"{address}/mcp", headers={"Authorization": "Bearer ${SOME_TOKEN}"})
            return await inspect_server(declaration, Path()), server

    actual, server = asyncio.run(reach())
    assert (actual.problem, actual.title) == ("", "secrets 1.2.3")
    assert [tool.name for tool in actual.tools] == [tool["name"] for tool in TOOLS]
    assert {server["Authorization"] for server in server.headers} == {"Bearer abcdef"}
    assert server.headers[0]["Accept"] == "application/json, text/event-stream"
    assert server.headers[-1]["MCP-Protocol-Version"] == "2025-06-18"
    assert server.deleted, "its session is over"


def sse(endpoint: str = "/messages?session=1") -> list[tuple[str, str, Handler]]:
    """MCP over server-sent events, the older transport."""
    replies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"event: endpoint\r\ndata: {endpoint}\r\n\r\n".encode())
        while True:
            await response.write(f"event: message\ndata: {json.dumps(await replies.get())}\n\n".encode())

    async def post(request: web.Request) -> web.StreamResponse:
        message = await request.json()
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            replies.put_nowait({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return web.Response(status=202, text="Accepted")

    return [("GET", "/sse", stream), ("POST", "/messages", post)]


def test_a_server_is_reached_over_server_sent_events() -> None:
    actual = inspected_over_http(*sse(), path="/sse", type="sse")
    assert (actual.problem, [tool.name for tool in actual.tools]) == ("", ["lookup", "add"])


def test_a_server_may_not_send_our_headers_to_another_host() -> None:
    actual = inspected_over_http(*sse("https://example.com/steal"), path="/sse", type="sse")
    assert actual.problem == "wants messages at another host: https://example.com/steal"


def status(code: int, **headers: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, headers=headers)

    return handle


async def page(request: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>welcome", content_type="text/html")


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def breaks_off(request: web.Request) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    return stream


@pytest.mark.parametrize(
    ("handler", "problem", "fix"),
    [
        (status(401), r"requires authentication \(401\)", r"Authorization: Bearer \$\{NAME\}"),
        (status(403), r"denies access \(403\)", "headers"),
        (status(404), r"http://\S+/mcp does not exist \(404\)", "correct its path"),
        (status(405), r"uses another transport \(405\)", "write type: sse"),
        (status(500), "answers with status 500", "logs"),
        (status(307, Location="/elsewhere"), r"redirects to /elsewhere \(307\)", "write the final address"),
        (page, 'does not speak MCP: it answers with text/html: "<html>welcome"', "check the address"),
        (never, "no answer to initialize within 0.5 s", "check that http"),
        (breaks_off, "ends its event stream without an answer", "logs"),
    ],
)
def test_an_http_problem_is_reported_in_one_sentence_with_a_fix(handler: Handler, problem: str, fix: str) -> None:
    actual = inspected_over_http(("POST", "/mcp", handler), timeout_s=0.5 if handler is never else 20.0)
    assert re.search(problem, actual.problem)
    assert re.search(fix, actual.fix)


def test_a_refused_token_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "abcdef")
    actual = inspected_over_http(("POST", "/mcp", status(401)), headers={"Authorization": "Bearer ${SOME_TOKEN}"})
    assert actual.fix == "check the value of SOME_TOKEN"
    assert "abcdef" not in actual.problem + actual.fix


@pytest.mark.parametrize("through_it", [True, False])
def test_a_proxy_from_the_environment_is_used_except_for_localhost(
    monkeypatch: pytest.MonkeyPatch, through_it: bool
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def reach() -> Inspection:
        server = Streamable()
        async with serving(("POST", "/mcp", server.post), ("DELETE", "/mcp", server.delete)) as address:
            monkeypatch.setenv("http_proxy", address if through_it else "http://127.0.0.1:9")
            host_url = "http://mcp.invalid" if through_it else address
            return await inspect_server(declared_server(url=f"{host_url}/mcp"), Path())

    assert len(asyncio.run(reach()).tools) == 2


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_an_address_where_nothing_listens_is_reported(kind: str) -> None:
    async def reach() -> Inspection:
        async with serving() as address:
            pass
        return await inspect_server(declared_server(type=kind, url=f"{address}/mcp"), Path())

    actual = asyncio.run(reach())
    assert re.fullmatch(r"nothing listens at 127\.0\.0\.1:\d+", actual.problem)
    assert actual.fix == "start the server, or correct its url"


# -- before a run --------------------------------------------------------------------------------------------------

TARGET = '''\
"""A target that answers yes and has MCP servers."""
from pathlib import Path

from abreast.model import Answer, Request
from abreast.targets.mcp import parse_servers, version


class Agent:
    name, simulated, sees, transforms, place = "agent", False, "input", False, "loop"
    is_service = False

    def __init__(self, variant):
        self.mcp_servers = parse_servers(f'variant "{variant.name}"', variant.params.get("mcp"), Path.cwd())
        self.version = version(self.mcp_servers, Path.cwd())

    def request(self, trial):
        return Request(trial.case.input, trial.case.input, {})

    async def answer(self, trial, request, attempt, workers):
        return Answer("yes")

    async def close(self):
        pass


def build(variant, seed, shared):
    return Agent(variant)
'''
SPEC = """\
name: tools
cases: cases.jsonl
variants:
  without: {target: agent}
  with: {target: agent, mcp: {secrets: {command: %s, args: [serve.py], env: {STARTS: starts, MCP_FAIL: "${FAIL:-}"}}}}
  again: {target: agent, mcp: {secrets: {command: %s, args: [serve.py], env: {STARTS: starts, MCP_FAIL: "${FAIL:-}"}}}}
scorers: [exact]
"""
COUNTED = "import os\nopen(os.environ['STARTS'], 'a').write('x')\n"


@pytest.fixture
def agent(folder: Folder) -> Folder:
    """An experiment with a target from a package: one variant without a server and two with one."""
    folder.write("bring-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: bring\nVersion: 1.0\n")
    folder.write("bring-1.0.dist-info/entry_points.txt", "[abreast.targets]\nagent = bring:build\n")
    folder.write("bring.py", TARGET)
    folder.write("spec.yaml", SPEC % (sys.executable, sys.executable))
    source = SCRIPT.read_text(encoding="utf-8")
    folder.write("serve.py", source.replace("import json\n", f"import json\n{COUNTED}", 1))
    folder.cases(12)
    return folder


def environment(folder: Folder) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder.path), *sys.path])}


def abreast(folder: Folder, *words: str, **env: str) -> Done:
    """Run the command line with the package of the folder installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(folder.path), *sys.path])
        for name, value in env.items():
            patch.setenv(name, value)
        return folder.rerun(*words)


def test_check_starts_each_server_once_and_names_its_tools(agent: Folder) -> None:
    done = abreast(agent, "check", "spec.yaml", "--json")
    assert done.code == 0, done.output
    (row,) = [row for row in done.json if row["check"] == "mcp"]
    assert row["level"] == "pass"
    assert re.fullmatch(r"secrets: 2 tools \(lookup, add\) in \d+\.\d s", row["message"])
    assert (agent.path / "starts").read_text() == "x"
    stderr = abreast(agent, "check", "spec.yaml", "--verbose").err
    assert "secrets (secrets 1.2.3)" in stderr
    assert "lookup: The secret that belongs to a key." in stderr
    assert "Keys are words" not in stderr
    assert "\x1b[31m" not in stderr


def test_nothing_is_executed_if_a_server_does_not_start(agent: Folder) -> None:
    message = "mcp: with and again: secrets: exited with code 3: [FAIL]"
    done = abreast(agent, "run", "spec.yaml", FAIL="no index here")
    assert (done.code, message in done.err) == (4, True), done.output
    assert message in abreast(agent, "run", "spec.yaml", "--dry-run", FAIL="no index here").err
    assert not (agent.path / "results.db").exists()


def test_no_server_is_started_if_there_is_nothing_to_execute(agent: Folder) -> None:
    assert abreast(agent, "run", "spec.yaml").code == 0
    (agent.path / "starts").unlink()
    done = abreast(agent, "run", "spec.yaml", FAIL="no index here")
    assert done.code == 0, done.output
    assert "36 already done" in done.err
    assert not (agent.path / "starts").exists()


def test_a_changed_server_invalidates_stored_answers(agent: Folder) -> None:
    abreast(agent, "run", "spec.yaml")
    agent.write("serve.py", (agent.path / "serve.py").read_text().replace("xyzzy", "other"))
    assert "12 already done" in abreast(agent, "run", "spec.yaml").err, "those without a server stand"


def test_check_works_inside_a_running_event_loop(agent: Folder) -> None:
    agent.write(
        "notebook.py",
        """\
        import asyncio
        from abreast import Experiment

        async def cell():
            return Experiment.load("spec.yaml").check()

        (found,) = [each for each in asyncio.run(cell()) if each.check == "mcp"]
        print(found.level)
        """,
    )
    done = subprocess.run(
        [sys.executable, "notebook.py"], cwd=agent.path, env=environment(agent), capture_output=True, text=True
    )
    assert done.stdout.strip() == "pass", done.stderr
