"""Access to the live page: checks of every request, and the headers of every response.

The page is for the user of this machine. Other web pages in the same browser can also send requests to loopback
addresses, so the host name, origin and kind of each request are checked.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_METHODS = ("GET", "HEAD")


def _host_of(request: web.Request) -> tuple[str, int | None]:
    """Return the host name and port in a request; an empty name if invalid."""
    try:
        parts = urlsplit(f"//{request.host}")
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach this address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AccessPolicy:
    """Decides which requests are answered. `token` is required of every request unless it is empty."""

    def __init__(self, host: str, token: str = "", read_only: bool = False) -> None:
        self._host, self._token, self._read_only = host, token, read_only

    def cookie(self, request: web.Request) -> str:
        """Return the name of the token's cookie, which differs by port because all ports of a host share cookies."""
        _, port = _host_of(request)
        return f"abreast-{port or 80}"

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if reason := self.why_refused(request):
            return web.Response(status=403, text=f"refused: {reason}\n")
        if self._token and "token" in request.query:
            clean = request.rel_url.with_query(_without_token(request))
            response = web.Response(status=303, headers={"Location": str(clean)})
            response.set_cookie(self.cookie(request), self._token, httponly=True, samesite="Strict", path="/")
            return response
        return await handler(request)

    def why_refused(self, request: web.Request) -> str:
        """Return why this request is refused; empty if it is answered."""
        name, _ = _host_of(request)
        if not name or (not self._token and not is_loopback(name) and name != self._host):
            return f"the host {name!r} is not this machine; open the address that `abreast view` printed"
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{request.scheme}://{request.host}":
            return "the request came from another web page"
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        is_page = request.headers.get("Sec-Fetch-Dest") == "document" and request.method in _SAFE_METHODS
        if site not in ("same-origin", "none") and not is_page:
            return "the request came from another web page"
        if request.method not in _SAFE_METHODS:
            if self._read_only:
                return "the page is read-only; start `abreast view` without --read-only"
            if origin is None or request.content_type != "application/json":
                return "changes are accepted only from this page"
        return "" if self._has_token(request) else "the token is missing; open the address that `abreast view` printed"

    def _has_token(self, request: web.Request) -> bool:
        tokens = (request.query.get("token", ""), request.cookies.get(self.cookie(request), ""))
        return not self._token or any(hmac.compare_digest(token.encode(), self._token.encode()) for token in tokens)


async def protect(request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to a response before it is sent."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def _without_token(request: web.Request) -> list[tuple[str, str]]:
    return [(name, value) for name, value in request.query.items() if name != "token"]
