"""The comparison of runs, as `abreast compare` makes it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web
from markupsafe import Markup

from abreast.analyse.compare import AcrossRuns, Contender, compare
from abreast.analyse.decision.interim import RUNNING
from abreast.analyse.variants import VariantSummary
from abreast.errors import BadInput
from abreast.report.charts import difference
from abreast.report.charts.drawing import Picture
from abreast.report.page import tables
from abreast.report.page.answers import LARGE, Answered, CaseAnswers, side_by_side
from abreast.report.page.trial_artifacts import cut
from abreast.report.words import run_comparison
from abreast.report.words.verdict_sentence import SIMULATED, failure
from abreast.store import Store
from abreast.view.context import READER, STORE_NAME, html

MOST_RUNS = 20

routes = web.RouteTableDef()


def _request(request: web.Request) -> tuple[list[str], float]:
    """Return the runs to compare, the baseline first, and the margin."""
    names = list(dict.fromkeys(name for name in request.query.getall("runs", []) if name))
    if len(names) < 2:
        raise BadInput("a comparison needs two runs", "select them in the list of runs")
    if len(names) > MOST_RUNS:
        raise BadInput(f"{len(names)} runs are too many to compare", f"select at most {MOST_RUNS}")
    text = request.query.get("margin") or "0"
    try:
        margin = float(text)
    except ValueError:
        margin = -1.0
    if not 0 <= margin <= 1:
        raise BadInput(f'margin "{text[:20]}": must be from 0 to 1', "use 0.05 for five points")
    return names, margin


@routes.get("/compare")
async def show(request: web.Request) -> web.Response:
    """Show the page, which then loads the result: reading large runs takes seconds."""
    names, margin = _request(request)
    command = ["abreast", "compare", *names, "--store", request.app[STORE_NAME]]
    command += ["--margin", f"{margin:g}"] if margin else []
    return html(request, "comparison.html.j2", names=names, margin=f"{margin:g}", command=shlex.join(command))


@routes.get("/compare/result")
async def result(request: web.Request) -> web.Response:
    names, margin = _request(request)
    return html(request, "comparison_result.html.j2", **await request.app[READER].read(_compared, names, margin))


def _compared(store: Store, names: Sequence[str], margin: float) -> dict[str, Any]:
    states = {run["run"]: run["status"] for run in store.run_states()}
    items = compare([store], names, None, margin)
    sides = {side.name: side for item in items for side in (item.first, item.second)}
    picture = _picture(items, margin)
    mark = SIMULATED if any(item.simulated for item in items) else ""
    return {
        "mark": mark,
        "items": [
            {
                "word": item.comparison.verdict.word,
                "lines": run_comparison.lines(item),
                "first": item.first,
                "second": item.second,
                "cases": item.comparison.differences,
            }
            for item in items
        ],
        "cautions": run_comparison.cautions(items),
        "running": sorted({side.run for side in sides.values() if states.get(side.run) == RUNNING}),
        "figure": picture and {"picture": picture, "svg": Markup(picture.inline(mark))},
        "table": tables.contenders({name: _summary(side, states) for name, side in sides.items()}),
    }


def _summary(side: Contender, states: Mapping[str, str]) -> VariantSummary:
    """Return the figures of a contender, without the scores of a running run: their intervals allow only one look."""
    return replace(side.summary, scores={}) if states.get(side.run) == RUNNING else side.summary


def _picture(items: Sequence[AcrossRuns], margin: float) -> Picture | None:
    drawn = [item for item in items if item.comparison.verdict.interval is not None][: difference.MOST]
    if not drawn:
        return None
    later = {item.second.run for item in items}
    labels = [item.second.variant if len(later) == 1 else item.second.name for item in drawn]
    title = f"Difference in score, in points, against {drawn[0].first.run}"
    sides = (
        f"{drawn[0].first.run} is better",
        f"{next(iter(later)) if len(later) == 1 else 'the other run'} is better",
    )
    return difference.picture([item.comparison for item in drawn], title, labels, sides, margin, len(items))


@routes.get("/compare/answers")
async def answers(request: web.Request) -> web.Response:
    """Show the answers of two runs to one case."""
    runs, variants = request.query.getall("runs", []), request.query.getall("variant", [])
    if len(runs) != 2 or len(variants) != 2:
        raise BadInput("two runs, each with a variant, are needed")
    read = await request.app[READER].read(
        _answers, list(zip(runs, variants, strict=True)), request.query.get("case", "")
    )
    return html(request, "comparison_answers.html.j2", answers=read)


def _answers(store: Store, contenders: Sequence[tuple[str, str]], case: str) -> CaseAnswers:
    trials = [
        {
            row["repeat"]: row
            for row in store.queries.predictions(store.run(run)["run"], case)
            if row["variant"] == variant
        }
        for run, variant in contenders
    ]
    repeats = sorted(trials[0].keys() & trials[1].keys())
    if not repeats:
        raise BadInput(f"{case[:200]}: no trial in both runs", "reload the page")
    gaps = {repeat: abs((trials[0][repeat]["score"] or 0) - (trials[1][repeat]["score"] or 0)) for repeat in repeats}
    repeat = max(repeats, key=gaps.__getitem__)
    sides = [
        _answered(f"{run} · {variant}", rows[repeat]) for (run, variant), rows in zip(contenders, trials, strict=True)
    ]
    expected = cut(trials[0][repeat]["expected"] or "", LARGE.expected)
    return side_by_side(sides, expected, repeat, len(repeats))


def _answered(name: str, row: dict[str, Any]) -> Answered:
    is_ok = row["status"] == "ok"
    text = str(row["answer"] or "") if is_ok else failure(row)
    return Answered(name, cut(text, LARGE.answer), is_ok, row["score"], cut(row["prompt"] or "", LARGE.prompt))
