"""Can the providers and the MCP servers be reached?"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
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
ANSWER_S = 10.0  # until the first bytes of a response
SLOW_S = 2.0  # is worth mentioning
REST_S = 0.5  # for the rest of a response
AT_ONCE = 8
PORTS = {"http": 80, "https": 443}
DOWN = (502, 503, 504)
_STATUS = re.compile(rb"HTTP/\d\S* (\d{3})")


TOOLS = 6  # named before the rest is counted


def check_endpoints(context: Context) -> Finding | None:
    """Request the front page of every provider that is still needed, without a key, so that nothing is billed."""
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
        fix = "check the address and that the server is up; to run all the same, add --force"
        return Finding("endpoints", "fail", failed[0], fix, tuple(failed) if len(failed) > 1 else ())
    doubts = [f"{address} {doubt}" for address, reply in replies.items() if (doubt := reply.doubt)]
    if doubts:
        return Finding("endpoints", "warn", "; ".join(doubts), "check that the server is well, or go on")
    return Finding("endpoints", "pass", f"{listed(list(addresses))} can be reached", aside=True)


@dataclass(frozen=True, slots=True)
class ProbeReply:
    problem: str = ""  # why there was no answer
    status: int | None = None
    seconds: float = 0.0

    @property
    def doubt(self) -> str:
        if self.status in DOWN:
            return f"answers HTTP {self.status}: a gateway whose server is down answers so"
        return f"took {self.seconds:.1f} s to answer a request for nothing" if self.seconds > SLOW_S else ""


def probe(address: str) -> ProbeReply:
    """Request the front page. Any answer will do; behind a proxy nothing is requested."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return ProbeReply()
    begin, connected = time.monotonic(), False
    try:
        with socket.create_connection((host, port), CONNECT_S) as plain:
            connected = True
            plain.settimeout(ANSWER_S)
            with _secured(plain, host) if parts.scheme == "https" else plain as connection:
                connection.sendall(f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
                reply = connection.recv(100)
                _read_rest(connection)
    except TimeoutError:
        return ProbeReply(
            f"it accepts connections and does not answer within {ANSWER_S:g} s"
            if connected
            else f"no connection within {CONNECT_S:g} s"
        )
    except OSError as error:
        return ProbeReply(str(error.strerror or error).lower())
    status = _STATUS.match(reply)
    if status is None:
        return ProbeReply("it does not speak HTTP" if reply else "it closes connections without an answer")
    return ProbeReply(status=int(status[1]), seconds=time.monotonic() - begin)


def _read_rest(connection: socket.socket) -> None:
    """Read the rest of a reply that comes soon: if closed earlier, the server would log an error."""
    connection.settimeout(REST_S)
    with contextlib.suppress(OSError):
        for _ in range(16):
            if not connection.recv(65_536):
                return


def _secured(plain: socket.socket, host: str) -> socket.socket:
    """Add TLS. Nothing secret is sent, so the certificate is left to the target, which may know other authorities."""
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain, server_hostname=host)


def _address(endpoint: str | None) -> str | None:
    """The part of an address that says where to connect to: the rest may hold a secret.

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
class _UsedServer:
    server: Server
    folder: Path
    variants: list[str]


def check_mcp(context: Context) -> Finding | None:
    """Start each MCP server once and list its tools: without them, clients continue silently."""
    users = _used_servers(context)
    if not users:
        return None
    looks = [look for folder in dict.fromkeys(user.folder for user in users) for look in _look(users, folder)]
    broken = [(user, server) for user, server in looks if server.problem]
    details = tuple(line for _, server in looks if not server.problem for line in _tools(server))
    if broken:
        problems = [f"{listed(user.variants)}: {server.server}: {server.problem}" for user, server in broken]
        return Finding("mcp", "fail", "; ".join(problems[:2]), broken[0][1].fix, (*problems[2:], *details))
    return Finding("mcp", "pass", "; ".join(_tool_sentence(server) for _, server in looks), "", details)


def _used_servers(context: Context) -> list[_UsedServer]:
    users: list[_UsedServer] = []
    for _, variant, target in context.open_variants():
        folder = Path(target.mcp_folder or context.environment.base)
        for server in target.mcp_servers:
            same = next((user for user in users if (user.server, user.folder) == (server, folder)), None)
            if same is None:
                users.append(_UsedServer(server, folder, [variant]))
            else:
                same.variants.append(variant)
    return users


def _look(users: Iterable[_UsedServer], folder: Path) -> list[tuple[_UsedServer, Inspection]]:
    from abreast.targets.mcp import inspect_servers  # late: most experiments have no such server

    mine = [user for user in users if user.folder == folder]
    servers = [user.server for user in mine]
    return list(zip(mine, run_sync(lambda: inspect_servers(servers, folder)), strict=True))


def _tool_sentence(found: Inspection) -> str:
    names = [tool.name for tool in found.tools]
    rest = len(names) - TOOLS
    first = ", ".join(names[:TOOLS]) + (f" and {many(rest, 'other')}" if rest > 0 else "")
    return f"{found.server}: {many(len(names), 'tool')} ({first}) in {found.seconds:.1f} s"


def _tools(found: Inspection) -> list[str]:
    from abreast.targets.mcp.text import first_line

    title = f" ({found.title})" if found.title else ""
    tools = (f"  {tool.name}: {first_line(tool.description)}".rstrip(": ") for tool in found.tools)
    return [f"{found.server}{title}", *tools]


def run_sync(work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
    """Run a coroutine to its end, also where a loop is running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as thread:  # a running loop cannot wait for another in its own thread
        return thread.submit(lambda: asyncio.run(work())).result()
