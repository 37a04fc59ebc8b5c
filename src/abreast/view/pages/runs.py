"""The list of all runs of the store."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from abreast.store import Store
from abreast.text import moment
from abreast.view.context import READER, html

routes = web.RouteTableDef()


@routes.get("/")
async def show(request: web.Request) -> web.Response:
    runs = await request.app[READER].read(listed)
    return html(request, "runs.html.j2", runs=runs)


def listed(store: Store) -> list[dict[str, Any]]:
    """The runs, the newest first."""
    if store.is_missing() or not store.exists():
        return []
    return [{**run, "started": moment(run["created_at"])} for run in reversed(store.runs())]
