"""The grid of cases and variants on the page of a run, a window of it at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from abreast.errors import BadInput
from abreast.store import Store
from abreast.view.cases.window import CaseGrids, CaseWindow
from abreast.view.context import CASE_GRIDS, READER
from abreast.view.rendering import render

PAGE_SIZE = 50  # initial rows of a page
FIRST_S = 0.3  # how long a page waits for its initial rows
_PARTS = ("filters", "head", "rows", "empty")

routes = web.RouteTableDef()


async def first_window(request: web.Request, run: str) -> CaseWindow | None:
    """Return the initial rows of a run's page; None if reading them takes too long."""
    grids, first = request.app[CASE_GRIDS], _number(request.query, "from", 0)
    reading = request.app[READER].read(read_window, grids, run, dict(request.query), first, PAGE_SIZE)
    task = asyncio.ensure_future(reading)
    await asyncio.wait({task}, timeout=FIRST_S)
    if task.done():
        return task.result()
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return None


@routes.get("/runs/{run}/cases")
async def window(request: web.Request) -> web.Response:
    """Answer with the rows from number `from` on, and the parts of the page that depend on the selection, as HTML."""
    query, run = dict(request.query), request.match_info["run"]
    first, count = _number(query, "from", 0), _number(query, "count", PAGE_SIZE)
    body = await request.app[READER].read(
        render_window, request.app[CASE_GRIDS], run, query, first, count, query.get("order", "")
    )
    return web.json_response(body)


def read_window(
    store: Store, grids: CaseGrids, run: str, query: dict[str, str], first: int, count: int, order: str = ""
) -> CaseWindow:
    return grids.window(store, run, query, first, count, order)


def render_window(
    store: Store, grids: CaseGrids, run: str, query: dict[str, str], first: int, count: int, order: str
) -> dict[str, Any]:
    cases = grids.window(store, run, query, first, count, order)
    return {
        "parts": {name: render(f"cases/{name}.html.j2", cases=cases, run=cases.run) for name in _PARTS},
        "summary": cases.summary,
        "query": cases.selection.query(),
        "first": cases.first,
        "total": cases.total,
        "order": cases.order,
        "is_outdated": cases.is_outdated,
    }


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise BadInput(f"{name}: {text[:100]!r} is not a number of rows")
    return int(text)
