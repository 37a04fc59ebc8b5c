"""The list of all runs of the store, which stays current while it is open."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from markupsafe import Markup

from abreast.errors import BadInput, suggestion
from abreast.report.words.variant_figures import dollars
from abreast.view.context import RUN_LIST, html
from abreast.view.events import SIGN_OF_LIFE, sections_event, send_events
from abreast.view.live import sections
from abreast.view.live.run_list import ListedRun, RunList
from abreast.view.rendering import environment

PAGE = 50  # rows
VERDICTS = ("better", "worse", "equivalent", "not worse", "inconclusive", "no comparison")
STATUSES = ("running", "complete", "stopped_early", "incomplete")

Key = Callable[[ListedRun], Any]
_COLUMNS: dict[str, tuple[str, Key]] = {  # title and sort key; None sorts last
    "run": ("run", lambda run: run.name),
    "experiment": ("experiment", lambda run: (run.state["experiment"], run.state["run_id"])),
    "status": ("status", lambda run: STATUSES.index(run.state["status"]) if run.state["status"] in STATUSES else 9),
    "verdict": ("verdict", lambda run: _largest(run)),
    "progress": ("progress", lambda run: run.totals.trials / max(1, run.state["planned_trials"])),
    "cost": ("cost", lambda run: run.totals.cost_usd),
    "commit": ("commit", lambda run: run.totals.commit or None),
    "started": ("started (UTC)", lambda run: run.state["created_at"]),
}
DEFAULT_SORT = "-started"

routes = web.RouteTableDef()


def _largest(run: ListedRun) -> float | None:
    """Return the estimate of the best compared variant."""
    outcomes = run.verdict.outcomes if run.verdict else ()
    return max((item.estimate for item in outcomes if item.word and item.estimate is not None), default=None)


@dataclass(frozen=True, slots=True)
class RunChoice:
    """Filters and order of the list, as contained in the page's address."""

    text: str = ""
    experiment: str = ""
    status: str = ""
    verdict: str = ""
    sort: str = DEFAULT_SORT  # a column, with - for descending
    page: int = 1

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> RunChoice:
        values = {name: query[name] for name in ("text", "experiment", "status", "verdict", "sort") if query.get(name)}
        sort, page = values.get("sort", DEFAULT_SORT), query.get("page", "1")
        if sort.removeprefix("-") not in _COLUMNS:
            raise BadInput(f'cannot sort by "{sort[:60]}"{suggestion(sort, _COLUMNS)}', f"choose {', '.join(_COLUMNS)}")
        if not (page.isascii() and page.isdigit() and 0 < len(page) < 8 and int(page)):
            raise BadInput(f'no page "{page[:60]}"', "the first page is 1")
        return cls(**values, page=int(page))

    def query(self, **changes: object) -> str:
        """Return the query string of this choice with changes, on the first page."""
        values = {name: getattr(self, name) for name in ("text", "experiment", "status", "verdict", "sort")} | changes
        if values["sort"] == DEFAULT_SORT:
            del values["sort"]
        return "?" + urlencode({name: value for name, value in values.items() if value})

    @property
    def is_filter(self) -> bool:
        return bool(self.text or self.experiment or self.status or self.verdict)

    @property
    def needs_verdicts(self) -> bool:
        return bool(self.verdict) or self.sort.removeprefix("-") == "verdict"

    def accepts(self, run: ListedRun) -> bool:
        state, words = run.state, self.text.casefold().split()
        texts = (run.name, state["experiment"], state["label"], run.totals.commit, state["reason"])
        searched = " ".join(filter(None, texts)).casefold()
        return (
            all(word in searched for word in words)
            and self.experiment in ("", state["experiment"])
            and self.status in ("", state["status"])
            and (not self.verdict or self.verdict in run.words)
        )

    def ordered(self, runs: Sequence[ListedRun]) -> list[ListedRun]:
        is_descending, (_, key) = self.sort.startswith("-"), _COLUMNS[self.sort.removeprefix("-")]
        sortable = [run for run in runs if key(run) is not None]
        return sorted(sortable, key=key, reverse=is_descending) + [run for run in runs if key(run) is None]


@routes.get("/")
async def show(request: web.Request) -> web.Response:
    choice, run_list = RunChoice.parse(request.query), request.app[RUN_LIST]
    runs = await run_list.runs()
    return html(
        request,
        "runs.html.j2",
        choice=choice,
        default_sort=DEFAULT_SORT,
        experiments=sorted({run.state["experiment"] for run in runs} | ({choice.experiment} - {""})),
        statuses=STATUSES,
        verdicts=VERDICTS,
        listing=_listing(run_list, choice, runs),
    )


@routes.get("/stream")
async def stream(request: web.Request) -> web.StreamResponse:
    """Send the list whenever it changes. Every event is complete, so a page that reconnects misses nothing."""
    choice, run_list = RunChoice.parse(request.query), request.app[RUN_LIST]
    return await send_events(request, _events(run_list, choice))


async def _events(run_list: RunList, choice: RunChoice) -> AsyncGenerator[bytes]:
    last: dict[str, Markup] = {}
    async with aclosing(run_list.updates()) as updates:
        async for update in updates:
            if isinstance(update, list):
                fragments = {"problem": Markup(), "listing": _listing(run_list, choice, update)}
            else:
                fragments = last if update is None else {"problem": sections.problem(update)}
            yield SIGN_OF_LIFE if fragments == last else sections_event(fragments)
            last = fragments


def _listing(run_list: RunList, choice: RunChoice, runs: list[ListedRun]) -> Markup:
    """Render the rows of one page of the list."""
    chosen = [run for run in runs if choice.accepts(run)]
    ordered = choice.ordered(chosen)
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(choice.page, pages)
    rows = ordered[(page - 1) * PAGE : page * PAGE]
    missing = run_list.request_verdicts([*rows, *runs] if choice.needs_verdicts else rows)
    template = environment().get_template("sections/listing.html.j2")
    return Markup(
        template.render(
            columns=[(name, title) for name, (title, _) in _COLUMNS.items()],
            choice=choice,
            runs=rows,
            costs={run.name: dollars(run.totals.cost_usd) for run in rows if run.totals.cost_usd is not None},
            count=len(runs),
            matching=len(ordered),
            page=page,
            pages=pages,
            missing=missing if choice.needs_verdicts else 0,
        )
    )
