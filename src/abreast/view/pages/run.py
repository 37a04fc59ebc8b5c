"""The page of one run, which stays current while it is open."""

from __future__ import annotations

import asyncio

from aiohttp import web

from abreast.store import Store
from abreast.store.queries.changes import Revision
from abreast.view.context import FOLLOWERS, READER, html
from abreast.view.pages import cases
from abreast.view.rendering import run_path

FIRST_S = 0.4  # how long the page waits for its first sections

routes = web.RouteTableDef()


@routes.get("/runs/{run}")
async def show(request: web.Request) -> web.StreamResponse:
    run = await request.app[READER].read(Store.run, request.match_info["run"])
    if run["run"] != request.match_info["run"]:  # a label, `latest` or a prefix
        raise web.HTTPFound(run_path(run["run"], **dict(request.query)))
    follower = request.app[FOLLOWERS].of(run["run"])
    window, _ = await asyncio.gather(
        cases.first_window(request, run["run"]), asyncio.to_thread(follower.wait_for_first, FIRST_S)
    )
    update = follower.update_since({}, Revision())
    return html(
        request,
        "run.html.j2",
        run=run,
        sections=update.fragments,
        revision=update.revision,
        cases=window,
        page_size=cases.PAGE_SIZE,
    )
