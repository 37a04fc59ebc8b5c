"""Server-sent events of a run's page, and its controls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from abreast.errors import BadInput
from abreast.experiment.control import control_run, parse_settings
from abreast.store import Store
from abreast.store.queries.changes import Revision
from abreast.store.runs.controls import ACTIONS, Control
from abreast.view.context import CONTROLLER, FOLLOWERS, READER, json_body
from abreast.view.events import SIGN_OF_LIFE, sections_event, send_events
from abreast.view.live.follower import Update

routes = web.RouteTableDef()


@routes.get("/runs/{run}/stream")
async def stream(request: web.Request) -> web.StreamResponse:
    """Send the sections of the page as they change.

    The id of an event is the store revision up to which the page is complete. A browser that reconnects sends the last
    id and gets everything newer.
    """
    revision = request.headers.get("Last-Event-ID") or request.query.get("since") or str(Revision())
    run = await request.app[READER].read(Store.run, request.match_info["run"])
    updates = request.app[FOLLOWERS].updates(run["run"], Revision.parse(revision))
    return await send_events(request, _events(updates))


async def _events(updates: AsyncGenerator[Update | None]) -> AsyncGenerator[bytes]:
    async with aclosing(updates):
        async for update in updates:
            yield SIGN_OF_LIFE if update is None else sections_event(update.fragments, update.revision)


@routes.post("/runs/{run}/controls")
async def control(request: web.Request) -> web.Response:
    """Send a control to the process that executes the run, and return its answer."""
    body = await json_body(request)
    if body.get("action") not in ACTIONS:
        raise BadInput(f"choose one of {', '.join(ACTIONS)}")
    answered = await request.app[CONTROLLER].read(
        _control, request.match_info["run"], body["action"], body.get("settings")
    )
    return web.json_response({**answered._asdict(), "is_applied": answered.applied_at is not None})


def _control(store: Store, run: str, action: str, settings: object) -> Control:
    if action == "set" and not (isinstance(settings, list) and all(isinstance(word, str) for word in settings)):
        raise BadInput("set: missing setting", "use NAME=VALUE, such as parallel=8")
    return control_run(store, run, action, parse_settings(settings) if isinstance(settings, list) else None)
