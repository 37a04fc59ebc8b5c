"""Downloads: the filtered grid as CSV, and each chart as SVG."""

from __future__ import annotations

import io
from typing import Any

from aiohttp import web

from abreast.analyse.run import analyse
from abreast.errors import BadInput
from abreast.filenames import safe_file_name
from abreast.report import charts
from abreast.report.formats.row_files import CsvFile
from abreast.store import Store
from abreast.view.cases.selection import CaseSelection
from abreast.view.cases.window import CaseGrids, CaseRow, case_rows
from abreast.view.context import CASE_GRIDS, READER
from abreast.view.live import sections

_BATCH = 2_000  # rows
_FIGURES = ("difference", "winner", "cost_usd", "latency_s")

routes = web.RouteTableDef()


@routes.get("/runs/{run}/cases.csv")
async def grid_as_csv(request: web.Request) -> web.Response:
    """Send all rows that the filters select, in the order of the page."""
    run = request.match_info["run"]
    text = await request.app[READER].read(as_csv, request.app[CASE_GRIDS], run, dict(request.query))
    return _file(text, "text/csv", f"{run}-cases.csv")


@routes.get("/runs/{run}/charts/{name}.svg")
async def chart(request: web.Request) -> web.Response:
    run, name = request.match_info["run"], request.match_info["name"]
    svg = await request.app[READER].read(as_svg, run, name)
    return _file(svg, "image/svg+xml", f"{run}-{name}.svg")


def _file(text: str, content_type: str, name: str) -> web.Response:
    headers = {"Content-Disposition": f'attachment; filename="{safe_file_name(name)}"'}
    return web.Response(text=text, content_type=content_type, charset="utf-8", headers=headers)


def as_csv(store: Store, grids: CaseGrids, run: str, query: dict[str, str]) -> str:
    file = io.StringIO()
    table = CsvFile(file, escape_formulas=True)
    with grids.updated(store, run) as grid:
        selection = CaseSelection.parse(query, grid)
        order = selection.order(store, grid).tolist()
        tags = list(grid.known_tags())
        variants = [f"{name} {column}" for name in grid.variants for column in ("score", "note")]
    table.write_row(["case_id", *(f"tag_{key}" for key in tags), *variants, *_FIGURES])
    for begin in range(0, len(order), _BATCH):
        with grid.lock:  # pages get their turn between two batches
            for row in case_rows(grid, selection, order[begin : begin + _BATCH]):
                table.write_row(_csv_row(row, [grid.tags_of(row.case).get(key) for key in tags]))
    return file.getvalue()


def _csv_row(row: CaseRow, tags: list[str | None]) -> list[Any]:
    cells = [value for cell in row.cells for value in (cell.score, cell.note if cell.score is not None else cell.words)]
    return [row.id, *tags, *cells, row.difference, row.winner, row.cost_usd, row.service_s]


def as_svg(store: Store, run: str, name: str) -> str:
    analysis = analyse(store, run)
    pictures = sections.shown_pictures(store, analysis)
    for picture in pictures:
        if picture.name == name:
            return charts.as_file(analysis, picture).svg
    names = ", ".join(picture.name for picture in pictures)
    raise BadInput(f"the page shows no chart named {name[:100]!r}", f"choose one of {names}" if names else "")
