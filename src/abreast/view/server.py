"""The server of the live page."""

from __future__ import annotations

import asyncio
import errno
import secrets
from dataclasses import dataclass
from functools import cache

from aiohttp import web

from abreast.errors import AbreastError, BadInput
from abreast.store import Store
from abreast.store.address import display_address
from abreast.view import rendering
from abreast.view.cases.window import CaseGrids
from abreast.view.context import CASE_GRIDS, CONTROLLER, FOLLOWERS, READ_ONLY, READER, RUN_LIST, STORE_NAME, html
from abreast.view.live import stream
from abreast.view.live.follower import Followers
from abreast.view.live.run_list import RunList
from abreast.view.pages import cases, comparison, deletion, exports, labels, run, runs, trial
from abreast.view.reading import StoreReader
from abreast.view.security import AccessPolicy, Handler, is_loopback, protect

PORT = 8420
PORTS_TRIED = 20
LARGEST_REQUEST = 1_000_000  # bytes
_TYPES = {".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    host: str = "127.0.0.1"
    port: int | None = None  # None: the first free one
    needs_token: bool = False  # always if other machines can connect
    read_only: bool = False


class ViewServer:
    """Serves the pages of one store until it is closed."""

    def __init__(self, store: Store, options: ViewOptions) -> None:
        self._options = options
        needs_token = options.needs_token or not is_loopback(options.host)
        self._token = secrets.token_urlsafe(24) if needs_token else ""
        self._reader = StoreReader(store.address, store.engine)
        self._controller = StoreReader(store.address, store.engine, threads=2, name="abreast-controls")
        self._followers = Followers(self._reader, options.read_only)
        self._run_list = RunList(self._reader)
        policy = AccessPolicy(options.host, self._token, options.read_only)
        self._app = web.Application(middlewares=[policy.middleware, _explain_errors], client_max_size=LARGEST_REQUEST)
        self._app.on_response_prepare.append(protect)
        self._app[READER], self._app[CONTROLLER] = self._reader, self._controller
        self._app[FOLLOWERS] = self._followers
        self._app[RUN_LIST], self._app[CASE_GRIDS] = self._run_list, CaseGrids()
        self._app[READ_ONLY], self._app[STORE_NAME] = options.read_only, display_address(store.address)
        for module in (runs, comparison, deletion, run, stream, cases, trial, labels, exports):
            self._app.add_routes(module.routes)
        self._app.router.add_get("/static/{name}", _static)
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=0.5)
        self.port = 0

    async def start(self, run: str | None = None) -> str:
        """Start listening; return the address of a run's page or of the list of runs."""
        await self._runner.setup()
        self.port = await self._listen()
        host = "localhost" if self._options.host in ("0.0.0.0", "::") else self._options.host
        host = f"[{host}]" if ":" in host else host
        path = rendering.run_path(run) if run else "/"
        return f"http://{host}:{self.port}{path}" + (f"?token={self._token}" if self._token else "")

    async def _listen(self) -> int:
        requested = self._options.port
        if requested is not None and not 0 <= requested < 1 << 16:
            raise BadInput(f"--port {requested}: must be from 0 to 65535")
        for port in range(PORT, PORT + PORTS_TRIED) if requested is None else [requested]:
            try:
                site = web.TCPSite(self._runner, self._options.host, port)
                await site.start()
            except OSError as error:
                if error.errno == errno.EADDRINUSE and requested is None:
                    continue
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    raise BadInput(f"--port {port}: {error.strerror}", "choose another with --port") from None
                raise BadInput(
                    f"--host {self._options.host}: {error.strerror}", "use an address of this machine"
                ) from None
            port = self._runner.addresses[-1][1]
            return int(port)
        raise BadInput(f"the ports {PORT} to {PORT + PORTS_TRIED - 1} are in use", "choose one with --port")

    async def close(self) -> None:
        await self._runner.cleanup()
        await asyncio.to_thread(self._close_stores)

    def _close_stores(self) -> None:
        self._followers.close()
        self._run_list.close()
        self._reader.close()
        self._controller.close()


@web.middleware
async def _explain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer an `AbreastError` with its message, as a page or, to scripts, as JSON."""
    try:
        return await handler(request)
    except AbreastError as error:
        is_bad = isinstance(error, BadInput)
        if request.method == "POST" or request.headers.get("Sec-Fetch-Dest") == "empty":
            body = {"message": error.message, "fix": error.fix}
            return web.json_response(body, status=400 if is_bad else 409)
        title, status = ("Not found", 404) if is_bad else ("The store cannot be read", 503)
        return html(request, "problem.html.j2", status, title=title, message=error.message, fix=error.fix)


@cache
def _static_file(name: str) -> tuple[str, str] | None:
    path = rendering.STATIC / name
    if path.parent != rendering.STATIC or path.suffix not in _TYPES or not path.is_file():
        return None
    return path.read_text(encoding="utf-8"), _TYPES[path.suffix]


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name == "style.css":
        return web.Response(text=rendering.style_sheet(), content_type="text/css")
    file = _static_file(name)
    if file is None:
        raise web.HTTPNotFound
    return web.Response(text=file[0], content_type=file[1])
