"""Shared by the handlers of all pages: application keys, rendering, request bodies."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from abreast.errors import BadInput
from abreast.view.cases.window import CaseGrids
from abreast.view.live.follower import Followers
from abreast.view.live.run_list import RunList
from abreast.view.reading import StoreReader
from abreast.view.rendering import render

READER = web.AppKey("reader", StoreReader)
CONTROLLER = web.AppKey("controller", StoreReader)  # for calls that take long: answers of drivers, large results
FOLLOWERS = web.AppKey("followers", Followers)
CASE_GRIDS = web.AppKey("case_grids", CaseGrids)
RUN_LIST = web.AppKey("run_list", RunList)
READ_ONLY = web.AppKey("read_only", bool)
STORE_NAME = web.AppKey("store_name", str)


def html(request: web.Request, template: str, status: int = 200, **values: object) -> web.Response:
    """Render a page from a template."""
    app = request.app
    text = render(template, store=app[STORE_NAME], read_only=app[READ_ONLY], **values)
    return web.Response(text=text, content_type="text/html", status=status)


async def json_body(request: web.Request) -> dict[str, Any]:
    """Parse the JSON object in a request."""
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise BadInput("the request is not a JSON object")
    return body
