"""Labelling of answers, one case after the other."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from abreast.errors import AbreastError, BadInput
from abreast.report.words.verdict_sentence import SIMULATED
from abreast.store import Store
from abreast.view.context import READ_ONLY, READER, html, json_body
from abreast.view.labelling import LabelSource, open_source
from abreast.view.pages.trial import author
from abreast.view.rendering import render, run_path

routes = web.RouteTableDef()


@routes.get("/runs/{run}/labels")
async def show(request: web.Request) -> web.Response:
    """A case, by default the next one without all its labels; with `?part=1` only the case."""
    item = request.query.get("item")
    if item is not None and not (item.isascii() and item.isdigit() and len(item) < 10):
        raise BadInput(f"item: {item[:40]!r} is not the number of a case")
    by, with_names = author(request.query.get("by")), request.query.get("names") == "1"
    values = await request.app[READER].read(
        _values, request.match_info["run"], by, with_names, None if item is None else int(item)
    )
    return html(request, "labels/item.html.j2" if "part" in request.query else "labels.html.j2", **values)


def _values(store: Store, name: str, by: str, with_names: bool, item: int | None) -> dict[str, Any]:
    run = store.run(name)
    values = {"run": run, "by": by, "banner": SIMULATED if run["simulated"] else "", "item": None, "problem": None}
    try:
        source = open_source(store, run["run"], by)
    except AbreastError as error:
        return {**values, "problem": error, "with_names": with_names, "source": None}
    return {**values, **_of_case(source, with_names, item)}


def _of_case(source: LabelSource, with_names: bool, item: int | None) -> dict[str, Any]:
    """Return the template's values for a case; `item` counts from 1."""
    with_names = with_names and not source.is_sample
    index = source.next_open(-1) if item is None else min(item, source.total) - 1
    if index is None and source.total:
        index = 0

    def path(number: int | None) -> str:
        query = {"item": number} if number is not None else {}
        names = {"names": 1} if with_names else {}
        return run_path(source.run, "labels", **query, **names, by=source.by)

    is_item = index is not None and index >= 0
    following = source.next_open(index) if index is not None else None
    return {
        "source": source,
        "with_names": with_names,
        "item": source.item(index, with_names) if index is not None and is_item else None,
        "number": 0 if index is None else index + 1,
        "total": source.total,
        "done": source.done(),
        "path": path((index or 0) + 1),
        "previous": path(index) if index else None,
        "following": path(index + 2) if index is not None and index + 1 < source.total else None,
        "next_open": None if following is None else path(following + 1),
        "other_mode": run_path(
            source.run, "labels", item=(index or 0) + 1, **({} if with_names else {"names": 1}), by=source.by
        ),
    }


@routes.post("/runs/{run}/labels")
async def label(request: web.Request) -> web.Response:
    """Store a label; answer with the updated case, and the next one if it is complete."""
    body = await json_body(request)
    item, note = body.get("item"), body.get("note")
    if not isinstance(item, int) or isinstance(item, bool) or item < 1:
        raise BadInput("item: the number of a case is missing")
    values = await request.app[READER].read(
        _label,
        request.match_info["run"],
        author(body.get("by")),
        body.get("names") is True,
        item,
        str(body.get("token", "")),
        str(body.get("dimension", "")),
        str(body.get("value", "")),
        note if isinstance(note, str) else None,
    )
    is_complete = values["item"] is not None and not values["item"].open_questions
    return web.json_response(
        {
            "html": render("labels/item.html.j2", read_only=request.app[READ_ONLY], **values),
            "next": values["next_open"] if is_complete else None,
            "is_complete": is_complete,
        }
    )


def _label(
    store: Store,
    name: str,
    by: str,
    with_names: bool,
    item: int,
    token: str,
    dimension: str,
    value: str,
    note: str | None,
) -> dict[str, Any]:
    source = open_source(store, store.run(name)["run"], by)
    if item > source.total:
        raise BadInput(f"no case {item}: there are {source.total} cases to label")
    with_names = with_names and not source.is_sample
    answers = source.item(item - 1, with_names).answers
    answer = next((answer for answer in answers if answer.token == token), None)
    if answer is None:
        raise BadInput("this answer is not part of the case", "reload the page")
    source.record(item - 1, answer, dimension, value, note, with_names)
    return _values(store, name, by, with_names, item)
