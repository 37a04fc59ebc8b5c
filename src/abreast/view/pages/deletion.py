"""Deletion of runs: the dialog, and the deletion."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from abreast.analyse.decision.interim import RUNNING
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.report import folder
from abreast.store import Store
from abreast.view.context import READER, html, json_body

routes = web.RouteTableDef()


@routes.get("/deletion")
async def ask(request: web.Request) -> web.Response:
    """Show the question of the dialog."""
    runs = await request.app[READER].read(_described, request.query.getall("runs", []))
    return html(request, "deletion.html.j2", runs=runs, active=[run["run"] for run in runs if run["is_active"]])


@routes.post("/deletion")
async def delete(request: web.Request) -> web.Response:
    names = (await json_body(request)).get("runs")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise BadInput("no runs to delete", "select runs in the list")
    return web.json_response({"lines": await request.app[READER].read(_delete, names)})


def _stored(store: Store, names: list[str]) -> list[dict[str, Any]]:
    runs = {run["run"]: run for run in store.run_states()}
    if missing := [name for name in names if name not in runs]:
        raise BadInput(f"no run {', '.join(missing)}", "it was deleted in the meantime; reload the page")
    return [runs[name] for name in dict.fromkeys(names)]


def _described(store: Store, names: list[str]) -> list[dict[str, Any]]:
    described = []
    for run in _stored(store, names):
        trials, _ = store.queries.trial_state(run["run_id"])
        reports = folder.home(store, run["run"])
        described.append(
            {
                "run": run["run"],
                "experiment": run["experiment"],
                "trials": trials,
                "reports": relative_path(reports) if reports.is_dir() else "",
                "is_active": run["status"] == RUNNING,
            }
        )
    return described


def _delete(store: Store, names: list[str]) -> list[str]:
    from abreast.targets.processes.cleanup import clean

    clean()
    lines = folder.delete_runs(store, [run["run"] for run in _stored(store, names)])
    store.materialise()
    return lines
