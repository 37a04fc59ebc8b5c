"""A real MCP server over stdio, in plain Python, for tests. Environment variables make it misbehave.

MCP_FAIL=text       ends at once with exit code 3 and this text on stderr
MCP_HANG=1          never answers initialize
MCP_GARBAGE=text    prints this line on stdout first
MCP_ENDLESS=1       prints garbage on stdout for ever; with `line`, without any line break
MCP_EXIT=1          ends with exit code 5 after it answered initialize
MCP_PAGES=1         lists its tools in two pages; with `endless`, in pages without an end
MCP_ASK=1           asks the client for ping and roots/list before it lists tools, and describes one by the root
MCP_EMPTY=1         offers no tools; with `undeclared`, does not declare them either
MCP_CHILD=FILE      starts a process that ignores signals, and writes its id to this file; with MCP_DETACH=1
                    in a new session
MCP_DEAF=1          does not end when its input ends
MCP_SAY=NAME        prints the value of this environment variable on stderr, and then ends with exit code 4
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SECRETS = {"door": "xyzzy-4711", "safe": "plugh-0815"}
TOOLS = [
    {
        "name": "lookup",
        "description": "The secret that belongs to a key.\nKeys are words.",
        "inputSchema": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    },
    {
        "name": "add",
        "description": "The sum of two numbers. \x1b[31mred\x1b[0m",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
]


def setting(name: str) -> str:
    return os.environ.get(name, "")


def say(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method: str) -> Any:
    """Send a request to the client, whose answer is the next line."""
    say({"id": f"ours-{method}", "method": method})
    return json.loads(sys.stdin.readline())["result"]


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "lookup":
        text = SECRETS.get(str(arguments.get("key")), "")
        return {"content": [{"type": "text", "text": text or "there is no such key"}], "isError": not text}
    if name == "add":
        return {"content": [{"type": "text", "text": f"{arguments['a'] + arguments['b']:g}"}]}
    return {"content": [{"type": "text", "text": f"there is no tool {name}"}], "isError": True}


def listed(params: dict[str, Any]) -> dict[str, Any]:
    if setting("MCP_EMPTY"):
        return {"tools": []}
    if setting("MCP_ASK"):
        assert ask("ping") == {}
        (root,) = ask("roots/list")["roots"]
        return {"tools": [{**TOOLS[0], "description": root["uri"]}]}
    if setting("MCP_PAGES") == "endless":
        return {"tools": TOOLS[:1], "nextCursor": str(int(params.get("cursor", "0")) + 1)}
    if setting("MCP_PAGES"):
        return (
            {"tools": TOOLS[1:]} if params.get("cursor") == "second" else {"tools": TOOLS[:1], "nextCursor": "second"}
        )
    return {"tools": TOOLS}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a method, or None if it is unknown."""
    if method == "initialize":
        capabilities = {} if setting("MCP_EMPTY") == "undeclared" else {"tools": {}}
        server = {"name": "secrets", "version": "1.2.3"}
        return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": server}
    if method == "tools/list":
        return listed(params)
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return {} if method == "ping" else None


def start_a_child(file: str) -> None:
    stubborn = "import signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(600)"
    child = subprocess.Popen(
        [sys.executable, "-c", stubborn], stdin=subprocess.DEVNULL, start_new_session=bool(setting("MCP_DETACH"))
    )
    Path(file).write_text(str(child.pid), encoding="utf-8")


def misbehave() -> None:
    if setting("MCP_CHILD"):
        start_a_child(setting("MCP_CHILD"))
    if setting("MCP_FAIL"):
        print(setting("MCP_FAIL"), file=sys.stderr)
        sys.exit(3)
    if setting("MCP_SAY"):
        print("x" * 195 + os.environ[setting("MCP_SAY")] + " is refused", file=sys.stderr)
        print("error: bad key " + os.environ[setting("MCP_SAY")], file=sys.stderr)
        sys.exit(4)
    if setting("MCP_GARBAGE"):
        print(setting("MCP_GARBAGE"), flush=True)
    while setting("MCP_ENDLESS"):
        print("garbage " * 1000, end="" if setting("MCP_ENDLESS") == "line" else "\n", flush=True)


def main() -> None:
    misbehave()
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method is None or "id" not in message or (method == "initialize" and setting("MCP_HANG")):
            continue
        result = answer(method, message.get("params") or {})
        say({"method": "notifications/message", "params": {"level": "info", "data": f"asked {method}"}})
        if result is None:
            say({"id": message["id"], "error": {"code": -32601, "message": f"no method {method}"}})
        else:
            say({"id": message["id"], "result": result})
        if method == "initialize" and setting("MCP_EXIT"):
            sys.exit(5)
    while setting("MCP_DEAF"):
        time.sleep(600)


if __name__ == "__main__":
    main()
