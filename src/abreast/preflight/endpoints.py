"""Can the providers be reached? A connection is opened and closed again; no request is sent, so nothing is billed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed
from abreast.targets import Target

NAME = "endpoints"
TIMEOUT_S = 5.0
AT_ONCE = 8
PORTS = {"http": 80, "https": 443}


def check(context: Context) -> Finding | None:
    """Connect to the provider of every target that has something left to do; only if that was asked for."""
    if not context.online:
        return None
    addresses: dict[str, list[str]] = {}
    for user, target in _needed(context):
        address = _address(getattr(target, "endpoint", None))
        if address is not None:
            addresses.setdefault(address, []).append(user)
    if not addresses:
        return None
    from concurrent.futures import ThreadPoolExecutor  # late: most runs have no provider to reach

    with ThreadPoolExecutor(AT_ONCE) as threads:
        problems = dict(zip(addresses, threads.map(why_unreachable, addresses), strict=True))
    messages = [
        f"cannot reach {address} ({problem}), which {listed(addresses[address])} {_needs(addresses[address])}"
        for address, problem in problems.items()
        if problem
    ]
    if not messages:
        return Finding(NAME, "pass", f"{listed(list(addresses))} can be reached", aside=True)
    fix = "check the address and that the server is up; to run all the same, add --force"
    return Finding(NAME, "fail", messages[0], fix, tuple(messages) if len(messages) > 1 else ())


def why_unreachable(address: str) -> str:
    """Why no connection to this address can be opened; empty if one can, or if a proxy is in between."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return ""
    try:
        socket.create_connection((host, port), TIMEOUT_S).close()
    except TimeoutError:
        return f"no connection within {TIMEOUT_S:g} s"
    except OSError as error:
        return str(error.strerror or error).lower()
    return ""


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
