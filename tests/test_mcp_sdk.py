"""Our MCP client and demo server, tested against the official SDK."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from abreast.mcp_protocol import VERSIONS
from abreast.targets.mcp import Inspection, inspect_server, parse_servers

DEMO = ["-c", "import sys; from abreast.suites.code_search.server import main; sys.exit(main())"]
SDK_SERVER = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums", version="3.1")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

if len(sys.argv) > 1:
    server.run(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run()
"""


def test_protocol_versions_match_the_sdk() -> None:
    assert set(VERSIONS) == set(HANDSHAKE_PROTOCOL_VERSIONS)
    assert VERSIONS[0] == LATEST_HANDSHAKE_VERSION


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdk_client_can_use_the_demo_server(tmp_path: Path, mode: str) -> None:
    (tmp_path / "app.py").write_text("def greet():\n    return 'hello'\n")

    async def use() -> None:
        started = StdioServerParameters(command=sys.executable, args=[*DEMO, "--root", str(tmp_path)])
        async with Client(started, mode=mode) as client:
            assert client.protocol_version == LATEST_HANDSHAKE_VERSION
            assert client.server_info is not None
            assert client.server_info.name == "abreast-demo-mcp"
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools][:2] == ["search_code", "find_symbol"]
            result = await client.call_tool("search_code", {"pattern": "hello"})
            assert not result.is_error
            assert "app.py:2" in result.content[0].text  # type: ignore[union-attr]
            refused = await client.call_tool("find_symbol", {"names": "greet"})
            assert refused.is_error

    asyncio.run(asyncio.wait_for(use(), 120))


def check_sums(inspection: Inspection) -> None:
    assert (inspection.problem, inspection.title) == ("", "sums 3.1")
    assert [(tool.name, tool.description) for tool in inspection.tools] == [("add", "Add two numbers.")]


def test_our_client_reaches_an_sdk_server_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SDK_SERVER)
    (server,) = parse_servers("v", {"sums": {"command": sys.executable, "args": [str(tmp_path / "sums.py")]}}, tmp_path)
    check_sums(asyncio.run(inspect_server(server, tmp_path, 120.0)))


@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "mcp"), ("sse", "sse")])
def test_our_client_reaches_an_sdk_server_over_http(tmp_path: Path, transport: str, path: str) -> None:
    (tmp_path / "sums.py").write_text(SDK_SERVER)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(tmp_path / "sums.py"), transport, str(port)])
    try:
        wait_for(port)
        address = {"type": transport, "url": f"http://127.0.0.1:{port}/{path}"}
        (server,) = parse_servers("v", {"sums": address}, tmp_path)
        check_sums(asyncio.run(inspect_server(server, tmp_path, 120.0)))
    finally:
        process.kill()
        process.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
