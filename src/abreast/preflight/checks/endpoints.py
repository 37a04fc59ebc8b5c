"""Check that the providers and the MCP servers can be reached."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed
from abreast.text import many

if TYPE_CHECKING:
    from abreast.targets.mcp import Inspection, Server

Value = TypeVar("Value")

CONNECT_S = 5.0
ANSWER_S = 10.0  # seconds until the first bytes of a response
SLOW_S = 2.0  # slower replies are reported
REST_S, LONGEST_REST = 0.5, 1_000_000  # seconds and bytes for the rest of a response
AT_ONCE = 8
PORTS = {"http": 80, "https": 443}
DOWN = (502, 503, 504)
TOOLS = 6  # tools named before the rest is counted


def check_endpoints(context: Context) -> Finding | None:
    """Request the front page of every provider needed, without a key, so that nothing is billed."""
    if not context.settings.online:
        return None
    addresses: dict[str, list[str]] = {}
    variants = ((name, target) for _, name, target in context.open_variants())
    for user, target in (*variants, *context.open_judges()):
        address = _address(target.endpoint)
        if address is not None:
            addresses.setdefault(address, []).append(user)
    if not addresses:
        return None
    with ThreadPoolExecutor(AT_ONCE) as threads:
        replies = dict(zip(addresses, threads.map(probe, addresses), strict=True))
    failed = [
        f"cannot reach {address} ({replies[address].problem}), which {listed(users)} need{'s' * (len(users) == 1)}"
        for address, users in addresses.items()
        if replies[address].problem
    ]
    if failed:
        fix = "check the address and that the server is up, or run anyway with --force"
        return Finding("endpoints", "fail", failed[0], fix, tuple(failed) if len(failed) > 1 else ())
    doubts = [f"{address} {doubt}" for address, reply in replies.items() if (doubt := reply.doubt)]
    if doubts:
        return Finding("endpoints", "warn", "; ".join(doubts), "check the server, or continue")
    return Finding("endpoints", "pass", f"{listed(list(addresses))} can be reached", is_check_only=True)


@dataclass(frozen=True, slots=True)
class ProbeReply:
    problem: str = ""  # why there was no answer
    status: int | None = None
    seconds: float = 0.0

    @property
    def doubt(self) -> str:
        if self.status in DOWN:
            return f"answers HTTP {self.status}, like a gateway whose server is down"
        return f"took {self.seconds:.1f} s to answer an empty request" if self.seconds > SLOW_S else ""


def probe(address: str) -> ProbeReply:
    """Request the front page. Any answer will do; behind a proxy nothing is requested."""
    import ssl
    from http import client
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return ProbeReply()
    begin, is_connected = time.monotonic(), False
    if parts.scheme == "https":  # nothing secret is sent, and the target may trust other authorities
        unverified = ssl._create_unverified_context()
        connection: client.HTTPConnection = client.HTTPSConnection(host, port, timeout=CONNECT_S, context=unverified)
    else:
        connection = client.HTTPConnection(host, port, timeout=CONNECT_S)
    try:
        with contextlib.closing(connection):
            connection.connect()
            is_connected, stream = True, connection.sock
            stream.settimeout(ANSWER_S)
            connection.request("GET", "/", headers={"Connection": "close"})
            response = connection.getresponse()
            seconds = time.monotonic() - begin
            stream.settimeout(REST_S)
            with contextlib.suppress(OSError, client.HTTPException):
                response.read(LONGEST_REST)  # or the server might log an error
    except TimeoutError:
        return ProbeReply(
            f"it accepts connections but does not answer within {ANSWER_S:g} s"
            if is_connected
            else f"no connection within {CONNECT_S:g} s"
        )
    except client.RemoteDisconnected:
        return ProbeReply("it closes connections without an answer")
    except OSError as error:
        return ProbeReply(str(error.strerror or error).lower())
    except client.HTTPException:
        return ProbeReply("it does not speak HTTP")
    return ProbeReply(status=response.status, seconds=seconds)


def _address(endpoint: str | None) -> str | None:
    """Scheme, host and port of an address: the rest may contain a secret.

    >>> _address("https://name:password@models.example.com/v1?key=1"), _address("http://127.0.0.1:8000/v1")
    ('https://models.example.com', 'http://127.0.0.1:8000')
    >>> _address("not an address"), _address(None)
    (None, None)
    """
    try:
        parts = urlsplit(endpoint or "")
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}"


@dataclass(frozen=True, slots=True)
class McpServerUse:
    server: Server
    folder: Path
    variants: list[str]


def check_mcp(context: Context) -> Finding | None:
    """Start each MCP server once and list its tools, because clients continue silently without them."""
    users = _used_servers(context)
    if not users:
        return None
    results = [result for folder in dict.fromkeys(user.folder for user in users) for result in _start(users, folder)]
    broken = [(user, server) for user, server in results if server.problem]
    details = tuple(line for _, server in results if not server.problem for line in _tools(server))
    if broken:
        problems = [f"{listed(user.variants)}: {server.server}: {server.problem}" for user, server in broken]
        return Finding("mcp", "fail", "; ".join(problems[:2]), broken[0][1].fix, (*problems[2:], *details))
    return Finding("mcp", "pass", "; ".join(_tool_sentence(server) for _, server in results), "", details)


def _used_servers(context: Context) -> list[McpServerUse]:
    users: list[McpServerUse] = []
    for _, variant, target in context.open_variants():
        folder = Path(target.mcp_folder or context.environment.base)
        for server in target.mcp_servers:
            same = next((user for user in users if (user.server, user.folder) == (server, folder)), None)
            if same is None:
                users.append(McpServerUse(server, folder, [variant]))
            else:
                same.variants.append(variant)
    return users


def _start(users: Iterable[McpServerUse], folder: Path) -> list[tuple[McpServerUse, Inspection]]:
    from abreast.targets.mcp import inspect_servers  # late: most experiments have no such server

    in_folder = [user for user in users if user.folder == folder]
    servers = [user.server for user in in_folder]
    return list(zip(in_folder, run_sync(lambda: inspect_servers(servers, folder)), strict=True))


def _tool_sentence(server: Inspection) -> str:
    names = [tool.name for tool in server.tools]
    rest = len(names) - TOOLS
    first = ", ".join(names[:TOOLS]) + (f" and {many(rest, 'other')}" if rest > 0 else "")
    return f"{server.server}: {many(len(names), 'tool')} ({first}) in {server.seconds:.1f} s"


def _tools(server: Inspection) -> list[str]:
    from abreast.targets.mcp.text import first_line

    title = f" ({server.title})" if server.title else ""
    tools = (f"  {tool.name}: {first_line(tool.description)}".rstrip(": ") for tool in server.tools)
    return [f"{server.server}{title}", *tools]


def run_sync(work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
    """Run a coroutine synchronously, also where a loop is running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as thread:  # a running loop cannot wait for another in its own thread
        return thread.submit(lambda: asyncio.run(work())).result()
