"""Can the providers be reached, and do they answer? Each gets one request for its front page, without a key: nothing is
billed."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed
from abreast.targets import Target

NAME = "endpoints"
CONNECT_S = 5.0
ANSWER_S = 10.0  # until the first bytes of a response
SLOW_S = 2.0  # is worth mentioning
REST_S = 0.5  # for the rest of a response
AT_ONCE = 8
PORTS = {"http": 80, "https": 443}
DOWN = (502, 503, 504)
_STATUS = re.compile(rb"HTTP/\d\S* (\d{3})")


def check(context: Context) -> Finding | None:
    """Connect to the provider of every target that has something left to do; only if that was asked for."""
    if not context.online:
        return None
    addresses: dict[str, list[str]] = {}
    for user, target in _needed(context):
        address = _address(target.endpoint)
        if address is not None:
            addresses.setdefault(address, []).append(user)
    if not addresses:
        return None
    from concurrent.futures import ThreadPoolExecutor  # late: most runs have no provider to reach

    with ThreadPoolExecutor(AT_ONCE) as threads:
        replies = dict(zip(addresses, threads.map(probe, addresses), strict=True))
    failed = [
        f"cannot reach {address} ({reply.problem}), which {listed(addresses[address])} {_needs(addresses[address])}"
        for address, reply in replies.items()
        if reply.problem
    ]
    if failed:
        fix = "check the address and that the server is up; to run all the same, add --force"
        return Finding(NAME, "fail", failed[0], fix, tuple(failed) if len(failed) > 1 else ())
    doubts = [f"{address} {doubt}" for address, reply in replies.items() if (doubt := reply.doubt)]
    if doubts:
        return Finding(NAME, "warn", "; ".join(doubts), "check that the server is well, or go on")
    return Finding(NAME, "pass", f"{listed(list(addresses))} can be reached", aside=True)


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """How a provider answered the request for its front page."""

    problem: str = ""  # why there was no answer
    status: int | None = None
    seconds: float = 0.0

    @property
    def doubt(self) -> str:
        if self.status in DOWN:
            return f"answers HTTP {self.status}: a gateway whose server is down answers so"
        return f"took {self.seconds:.1f} s to answer a request for nothing" if self.seconds > SLOW_S else ""


def probe(address: str) -> ProbeReply:
    """Ask for the front page. Any answer will do; if a proxy is in between, nothing is asked."""
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
    """Read the rest of a reply, as far as it comes soon: closed earlier, the server would see an error."""
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


def _needed(context: Context) -> Iterator[tuple[str, Target]]:
    """The targets that will be called, by variant or scorer."""
    left = {one.variant for one in context.estimate.variants}
    for variant, target in zip(context.plan.variants, context.targets, strict=True):
        if variant.name in left:
            yield variant.name, target
    asked = {one.scorer for one in context.estimate.judges}
    yield from ((name, target) for name, target in context.judges.items() if name in asked)


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


def _needs(users: list[str]) -> str:
    return "needs" if len(users) == 1 else "need"
