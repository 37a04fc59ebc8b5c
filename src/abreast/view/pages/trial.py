"""The page of one trial. `?panel=1` returns only its content, for the panel on the page of the run."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from abreast.errors import BadInput
from abreast.experiment.control import account_name
from abreast.experiment.labels.answer_labels import LONGEST_AUTHOR, AnswerLabels
from abreast.filenames import safe_file_name
from abreast.store import Store
from abreast.text import printable
from abreast.view.context import READ_ONLY, READER, html, json_body
from abreast.view.rendering import render
from abreast.view.trial import texts
from abreast.view.trial.details import MOST_PARSED, conversation, details, opinions
from abreast.view.trial.place import TrialPlace

TRIAL = r"/runs/{run}/trials/{position:\d{1,18}}"

routes = web.RouteTableDef()


@routes.get(TRIAL)
async def show(request: web.Request) -> web.Response:
    reader = request.app[READER]
    values = await reader.read(_details, *_place(request), request.query.get("with"))
    return html(request, "trial/content.html.j2" if "panel" in request.query else "trial.html.j2", **values)


def _place(request: web.Request) -> tuple[str, int]:
    return request.match_info["run"], int(request.match_info["position"])


def _details(store: Store, run: str, position: int, opposite: str | None) -> dict[str, Any]:
    return details(TrialPlace.find(store, run, position), opposite)


@routes.get(TRIAL + "/conversation")
async def show_conversation(request: web.Request) -> web.Response:
    """Answer with the conversation of a large response, as a part of the page."""
    turns = await request.app[READER].read(_conversation, *_place(request))
    return html(request, "trial/conversation.html.j2", conversation=turns)


def _conversation(store: Store, run: str, position: int) -> Any:
    return conversation(TrialPlace.find(store, run, position), MOST_PARSED)


# -- texts -------------------------------------------------------------------------------------------------------------


@routes.get(TRIAL + "/texts/{name:.+}")
async def show_text(request: web.Request) -> web.StreamResponse:
    """Send a text: its next piece as JSON, or all of it with `?as=text` or `?as=file`. Browsers never execute it."""
    reader, name = request.app[READER], request.match_info["name"]
    run_id, position, title = await reader.read(_owner, *_place(request))
    form = request.query.get("as")
    if form is None:
        start = request.query.get("from", "0")
        if not start.isascii() or not start.isdigit() or len(start) > 12:
            raise BadInput(f"from: {start[:40]!r} is not a number of bytes")
        part = await reader.read(texts.read_part, run_id, position, name, int(start), texts.PIECE)
        if part is None:
            raise web.HTTPNotFound
        return web.json_response({"text": printable(part.text), "next": part.next, "size": part.size})
    if await reader.read(texts.read_piece, run_id, position, name, 0, 1) is None:
        raise web.HTTPNotFound
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    if form == "file":
        file = f"{safe_file_name(title)}-{safe_file_name(name.removeprefix(texts.ARTIFACT))}.txt"
        response.headers["Content-Disposition"] = f'attachment; filename="{file}"'
    await response.prepare(request)
    async for content in texts.stream(reader, run_id, position, name):
        await response.write(content)
    await response.write_eof()
    return response


def _owner(store: Store, run: str, position: int) -> tuple[int, int, str]:
    """Return the id of the run, the position, and a title for files."""
    place = TrialPlace.find(store, run, position)
    trial = place.trial
    return place.run_id, position, f"{trial['case_id']}-{place.name(trial['variant'], trial['repeat'])}"


# -- labels ------------------------------------------------------------------------------------------------------------


@routes.post(TRIAL + "/label")
async def label(request: web.Request) -> web.Response:
    """Store a label; answer with the updated opinions."""
    body = await json_body(request)
    opinion, note = str(body.get("opinion", "")), str(body.get("note", ""))
    values = await request.app[READER].read(_label, *_place(request), opinion, author(body.get("by")), note)
    text = render("trial/opinions.html.j2", read_only=request.app[READ_ONLY], **values)
    return web.json_response({"html": text})


def _label(store: Store, run: str, position: int, opinion: str, by: str, note: str) -> dict[str, Any]:
    AnswerLabels(store, run).record(position, opinion, by, note, is_blind=False)
    place = TrialPlace.find(store, run, position)
    return {"run": place.run, "trial": place.trial, "path": place.path(), **opinions(place)}


def author(name: object) -> str:
    """Return the name of the labeller, by default the server's account."""
    text = " ".join(printable(name).split())[:LONGEST_AUTHOR] if isinstance(name, str) else ""
    return text or account_name()
