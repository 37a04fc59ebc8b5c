"""The grid of cases: its rows, filters and order equal a plain computation from the stored rows, on every engine."""

from __future__ import annotations

import csv
import io
import random
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.model import Answer, Case, Failure, Outcome, Score, Trial, Variant
from abreast.store import NewRun, Store, open_store, rows, schema
from view_server import LivePage, Response, live_page

HOSTILE = "<script>alert(1)</script>"


@dataclass
class RunWriter:
    """A run whose rows tests write."""

    store: Store
    name: str
    variants: list[str]
    repeats: int
    cases: int
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        new = NewRun(
            run=self.name,
            experiment="x",
            debug=False,
            simulated=False,
            label=None,
            fingerprint=self.name,
            planned_trials=self.cases * self.repeats * len(self.variants),
            primary_score="exact",
            baseline=self.variants[0],
            seed=0,
            spec={"options": {}, "repeats": self.repeats},
            provenance={},
            variants=[(index, name, "t", "{}", f"d{index}", 0) for index, name in enumerate(self.variants)],
            columns=[
                *(schema.Column("score", name, "real") for name in ("exact", "other")),
                *(schema.Column("tag", name, "text") for name in ("kind", "level")),
            ],
        )
        self.lease = self.store.begin(new)
        self.writer = self.store.writer(self.lease, lambda tokens: self.done.set(), print, print)

    def write(
        self, position: int, case: Case, outcome: Outcome, scores: Mapping[str, float | None], prompt: str
    ) -> None:
        """Store a trial, and wait until it is durable."""
        run_id, variant = self.lease.run_id, position % len(self.variants)
        repeat = position // len(self.variants) % self.repeats
        trial = Trial(position, case, Variant(self.variants[variant]), repeat)
        digest = f"{self.name} {case.id}"
        values = [Score(name, value) for name, value in scores.items()]
        self.done.clear()
        self.writer.put_together(
            [
                ("cases", rows.case_row(digest, digest, case)),
                ("trials", rows.trial_row(run_id, trial, variant, 0, digest, outcome, rows.Timing(1.0, attempts=1))),
                ("payloads", rows.payload_row(run_id, position, prompt, outcome.answer)),
                *(("scores", row) for row in rows.score_rows(run_id, position, "1", values)),
            ],
            position,
        )
        assert self.done.wait(60)

    def finish(self) -> None:
        self.writer.close()
        self.store.finish(self.lease, "complete", None)


def random_outcome(chance: random.Random) -> tuple[Outcome, dict[str, float | None]]:
    seconds = round(chance.uniform(0.01, 3), 3)
    times = {"started_at": 1.0, "finished_at": 1.0 + seconds, "service_s": seconds}
    kind = chance.choice(["ok"] * 6 + ["timeout", "crash", "network", "skipped", "cancelled"])
    if kind == "ok":
        cost = chance.choice([None, 0.5, 0.25, 2.0])
        basis = chance.choice(["reported", "included"])
        answer = Answer(f"the Answer is {chance.randrange(30)}", cost_usd=cost, cost_basis=basis)  # type: ignore[arg-type]
        values = {"exact": chance.choice([0.0, 0.5, 1.0, 1.0, None, 7.0]), "other": chance.random()}
        return Outcome("ok", answer, **times), values
    if kind in ("skipped", "cancelled"):
        return Outcome(kind, None, Failure(kind, "infrastructure", "not done"), **times), {}  # type: ignore[arg-type]
    blame = "infrastructure" if kind == "network" else "variant"
    return Outcome("error", None, Failure(kind, blame, "it failed"), **times), {}


def write_random_run(
    store: Store, name: str, variants: list[str], seed: int, cases: int = 40, repeats: int = 2
) -> None:
    """A run in which some trials are missing."""
    chance = random.Random(seed)
    run = RunWriter(store, name, variants, repeats, cases)
    positions = list(range(cases * repeats * len(variants)))
    chance.shuffle(positions)
    for position in positions[: len(positions) * 9 // 10]:
        index = position // (repeats * len(variants))
        tags = {"kind": ("read", "search")[index % 2], "level": str(index % 12)} if index % 3 else {}
        case = Case(f"case {index * 7 % 50}{HOSTILE if index == 5 else ''}", f"in {index}", "out", tags)
        outcome, scores = random_outcome(chance)
        run.write(position, case, outcome, scores, f"What IS {index}?")
    run.finish()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, postgres_server: Any) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("grid")
    url = postgres_server.create_database()
    addresses = {"sqlite": str(folder / "results.db"), "duckdb": str(folder / "results.duckdb"), "postgres": url}
    for address in addresses.values():
        with open_store(address) as store:
            write_random_run(store, "two-1", ["one", "two"], 1)
            write_random_run(store, "three-1", ["a", "b b", "c"], 2)
    yield addresses
    postgres_server.drop_database(url.rpartition("/")[2])


@pytest.fixture(scope="module", params=["sqlite", "duckdb", "postgres"])
def page(request: pytest.FixtureRequest, stores: dict[str, str]) -> Iterator[LivePage]:
    with live_page(stores[request.param]) as page:
        yield page


@pytest.fixture(scope="module")
def sqlite_page(stores: dict[str, str]) -> Iterator[LivePage]:
    with live_page(stores["sqlite"]) as page:
        yield page


class GridParser(HTMLParser):
    """The texts of the cells, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.keys: list[int] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        assert tag in ("div", "a", "small"), f"the page has an element {tag} from a case"
        if values.get("role") == "row":
            self.rows.append([])
            self.keys.append(int(values["data-key"] or ""))
        elif values.get("role") in ("gridcell", "rowheader"):
            self.rows[-1].append("")
        elif tag == "small":
            self.rows[-1][-1] += " "

    def handle_data(self, data: str) -> None:
        if data.strip() and self.rows:
            self.rows[-1][-1] += data


def parsed(answer: Response) -> GridParser:
    assert answer.status == 200, answer.text
    parser = GridParser()
    parser.feed(answer.json["parts"]["rows"])
    return parser


def window(page: LivePage, run: str, **query: object) -> Response:
    return page.get(f"/runs/{run}/cases?{urlencode({'count': 500} | query)}", Sec_Fetch_Dest="empty")


# -- the same, computed plainly ----------------------------------------------------------------------------------------


@dataclass
class PlainCase:
    index: int
    trials: list[dict[str, Any]]
    variants: list[str]

    @property
    def id(self) -> str:
        return str(self.trials[0]["case_id"])

    def tags(self) -> dict[str, str]:
        return {key: self.trials[0][f"tag_{key}"] for key in ("kind", "level") if self.trials[0][f"tag_{key}"]}

    def score(self, variant: str, name: str) -> float | None:
        values = []
        for trial in self.trials:
            if trial["variant"] == variant:
                value = trial[f"score_{name}"]
                if trial["status"] == "ok" and value is not None and 0 <= value <= 1:
                    values.append(value)
                elif trial["status"] == "error" and trial["error_blame"] == "variant":
                    values.append(0.0)
        return fmean(values) if values else None

    def scores(self, name: str) -> list[float | None]:
        return [self.score(variant, name) for variant in self.variants]

    def difference(self, name: str) -> float | None:
        known = [score for score in self.scores(name) if score is not None]
        if len(self.variants) > 2:
            return max(known) - min(known) if len(known) > 1 else None
        return known[1] - known[0] if len(known) == 2 else None

    def winner(self, name: str) -> str:
        scores = self.scores(name)
        if None in scores:
            return "none"
        best = max(scores)  # type: ignore[type-var]
        first = [index for index, score in enumerate(scores) if score == best]
        return str(first[0]) if len(first) == 1 else "tie"

    def cost(self) -> float | None:
        billed = [t["cost_usd"] for t in self.trials if t["cost_usd"] is not None and t["cost_basis"] != "included"]
        return sum(billed) if billed else None

    def seconds(self) -> float | None:
        known = [trial["service_s"] for trial in self.trials if trial["status"] == "ok"]
        return fmean(known) if known else None

    def statuses(self, planned: int) -> set[str]:
        words = {"skipped": "skipped", "cancelled": "unfinished"}
        found = {words[trial["status"]] for trial in self.trials if trial["status"] in words}
        for trial in self.trials:
            if trial["status"] == "error":
                found.add("failed" if trial["error_blame"] == "variant" else "infrastructure")
        return found | ({"unfinished"} if len(self.trials) < planned else set()) or {"ok"}


def plain_cases(address: str, run: str, variants: list[str]) -> list[PlainCase]:
    """The cases with a row, in plan order."""
    by_input: dict[int, list[dict[str, Any]]] = {}
    with open_store(address) as store:
        names, values = store.sql("SELECT * FROM predictions")
        for row in values:
            trial = dict(zip(names, row, strict=True))
            if trial["run"] == run:
                by_input.setdefault(int(trial["prompt"].split()[-1].rstrip("?")), []).append(trial)
    return [PlainCase(index, by_input[index], variants) for index in sorted(by_input)]


def natural(text: str) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def plain_selection(cases: list[PlainCase], query: Mapping[str, str], repeats: int = 2) -> list[int]:
    score = query.get("score") or "exact"

    def is_shown(case: PlainCase) -> bool:
        key, _, value = query.get("tag", "").partition("=")
        texts = [case.id, *(trial[name] or "" for trial in case.trials for name in ("prompt", "answer"))]
        return (
            (not key or case.tags().get(key) == value)
            and (not query.get("status") or query["status"] in case.statuses(repeats * len(case.variants)))
            and (not query.get("winner") or query["winner"] == case.winner(score))
            and (not query.get("error") or any(trial["error_kind"] == query["error"] for trial in case.trials))
            and (not query.get("q") or any(query["q"].strip().lower() in text.lower() for text in texts))
        )

    def key(case: PlainCase) -> Any:
        column = query.get("sort", "").removeprefix("-")
        if column.startswith("variant-"):
            return case.score(case.variants[int(column[8:])], score)
        winner = case.winner(score)
        return {
            "": 0,
            "case": natural(case.id),
            "difference": case.difference(score),
            "winner": {"tie": -1, "none": None}.get(winner) if winner in ("tie", "none") else int(winner),
            "tags": natural(", ".join(f"{key}={value}" for key, value in sorted(case.tags().items()))),
            "cost": case.cost(),
            "latency": case.seconds(),
        }[column]

    shown = [case for case in cases if is_shown(case)]
    known = [case for case in shown if key(case) is not None]
    known.sort(key=lambda case: _rounded(key(case)), reverse=query.get("sort", "").startswith("-"))  # is stable
    return [case.index for case in [*known, *(case for case in shown if key(case) is None)]]


def _rounded(value: Any) -> Any:
    return round(value, 9) if isinstance(value, float) else value


COLUMNS = ("case", "difference", "winner", "tags", "cost", "latency", "variant-0", "variant-1")
SORTS = ["", *COLUMNS, *(f"-{name}" for name in COLUMNS)]
QUERIES = st.fixed_dictionaries(
    {
        "sort": st.sampled_from(SORTS),
        "tag": st.sampled_from(["", "", "kind=read", "level=11", "level=1", "kind=nothing"]),
        "status": st.sampled_from(["", "", "ok", "failed", "infrastructure", "skipped", "unfinished"]),
        "winner": st.sampled_from(["", "", "0", "1", "tie", "none"]),
        "error": st.sampled_from(["", "", "timeout", "network", "nothing"]),
        "q": st.sampled_from(["", "", "ANSWER IS 1", "what is 3", "case 1", "%", "_", "'", "\\", "nowhere"]),
        "score": st.sampled_from(["", "exact", "other"]),
    }
)
RUNS = {"two-1": ["one", "two"], "three-1": ["a", "b b", "c"]}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=st.sampled_from(sorted(RUNS)), query=QUERIES)
def test_every_filter_and_order_equals_a_plain_computation(
    sqlite_page: LivePage, stores: dict[str, str], run: str, query: dict[str, str]
) -> None:
    cases = _plain_cases_once(stores["sqlite"], run)
    answer = window(sqlite_page, run, **query)
    assert parsed(answer).keys == plain_selection(cases, query)
    assert answer.json["total"] == len(parsed(answer).keys)


_PLAIN: dict[tuple[str, str], list[PlainCase]] = {}


def _plain_cases_once(address: str, run: str) -> list[PlainCase]:
    if (address, run) not in _PLAIN:
        _PLAIN[address, run] = plain_cases(address, run, RUNS[run])
    return _PLAIN[address, run]


@pytest.mark.parametrize("run", sorted(RUNS))
@pytest.mark.parametrize(
    "query", [{}, {"q": "answer is 1", "sort": "-difference"}, {"tag": "kind=read", "sort": "tags"}]
)
def test_every_engine_shows_the_same_rows(
    page: LivePage, sqlite_page: LivePage, run: str, query: dict[str, str]
) -> None:
    assert parsed(window(page, run, **query)).rows == parsed(window(sqlite_page, run, **query)).rows


def test_a_cell_shows_the_mean_score_and_failures(tmp_path: Path) -> None:
    with open_store(tmp_path / "results.db") as store:
        run = RunWriter(store, "calm-1", ["one", "two"], 2, 2)
        ok = Outcome("ok", Answer("yes", cost_usd=0.5, cost_basis="reported"), service_s=2.0)
        late = Outcome("error", None, Failure("timeout", "variant", "too late"))
        lost = Outcome("error", None, Failure("rate_limit", "infrastructure", "429"))
        case = Case("first", "question", "yes", {"level": "easy"})
        for position, outcome, scores in [(0, ok, {"exact": 1.0}), (1, late, {}), (2, late, {}), (3, late, {})]:
            run.write(position, case, outcome, scores, "question")
        run.write(4, Case("second", "q", "yes"), lost, {}, "q")
        run.finish()
    with live_page(tmp_path / "results.db") as page:
        first, second = parsed(window(page, "calm-1")).rows
    assert first == ["first", "0.5 timeout", "0 timeout × 2", "−50.0", "one", "level=easy", "$0.50", "2.00 s"]
    assert second[:5] == ["second", " rate limit, 1 of 2", "not run", "", ""]


def test_an_open_page_keeps_its_order_while_results_arrive(tmp_path: Path) -> None:
    store_path = tmp_path / "results.db"
    with open_store(store_path) as store, live_page(store_path) as page:
        run = RunWriter(store, "calm-1", ["one", "two"], 1, 10)

        def write(index: int, *scores: float) -> None:
            for variant, score in enumerate(scores):
                outcome, case = Outcome("ok", Answer("yes")), Case(f"c{index}", index, "yes")
                run.write(2 * index + variant, case, outcome, {"exact": score}, "question")

        for index, score in [(3, 1.0), (5, 0.5), (7, 0.0)]:
            write(index, 0.0, score)
        first = window(page, "calm-1", sort="-difference")
        assert parsed(first).keys == [3, 5, 7]
        write(7, 0.0, 1.0)
        write(0, 0.0, 0.75)
        later = window(page, "calm-1", sort="-difference", order=first.json["order"])
        assert parsed(later).keys == [3, 5, 7, 0], "rows moved under the reader"
        assert parsed(later).rows[2][3] == "+100.0", "values change in place"
        assert later.json["is_outdated"]
        assert "4 of 10 cases" in later.json["summary"]
        again = window(page, "calm-1", sort="-difference")
        assert parsed(again).keys == [3, 7, 0, 5]
        assert not again.json["is_outdated"]
        run.finish()


def test_scores_that_were_replaced_later_are_shown_anew(tmp_path: Path) -> None:
    with open_store(tmp_path / "results.db") as store:
        run = RunWriter(store, "calm-1", ["one"], 1, 2)
        for position in range(2):
            run.write(
                position, Case(f"c{position}", position, "yes"), Outcome("ok", Answer("yes")), {"exact": 1.0}, "q"
            )
        run.finish()
        with live_page(tmp_path / "results.db") as page:
            assert [row[1] for row in parsed(window(page, "calm-1")).rows] == ["1", "1"]
            fresh = list(rows.score_rows(run.lease.run_id, 0, "2", [Score("exact", 0.25)]))
            store.replace_scores(run.lease.run_id, {"exact": "2"}, fresh, "exact", {"scorers": ["exact: stricter"]})
            assert [row[1] for row in parsed(window(page, "calm-1")).rows] == ["0.25", "no score"]


def test_an_order_that_the_server_forgot_begins_again(sqlite_page: LivePage) -> None:
    answer = window(sqlite_page, "two-1", sort="case", order="0" * 12)
    assert answer.json["order"] != "0" * 12
    assert parsed(answer).keys == parsed(window(sqlite_page, "two-1", sort="case")).keys


def test_a_window_holds_only_the_rows_that_were_asked_for(sqlite_page: LivePage) -> None:
    every = parsed(window(sqlite_page, "two-1", sort="case")).keys
    part = window(sqlite_page, "two-1", sort="case", **{"from": 10, "count": 5})
    assert parsed(part).keys == every[10:15]
    assert part.json["first"] == 10
    beyond = window(sqlite_page, "two-1", sort="case", **{"from": 10_000})
    assert parsed(beyond).keys == every[-1:]


def test_texts_of_cases_are_escaped(sqlite_page: LivePage) -> None:
    for path in ("/runs/two-1", "/runs/two-1/cases?q=script"):
        text = sqlite_page.get(path).text
        assert HOSTILE not in text
        assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("sort=size", "sort: unknown value 'size'"),
        ("sort=variant-9", "sort: unknown value"),
        ("status=fine", "choose one of ok, failed"),
        ("winner=9", "winner: unknown value '9'"),
        ("tag=level", "use KEY=VALUE"),
        ("score=nothing", "choose one of exact, other"),
        ("from=-1", "not a number of rows"),
        ("count=x", "not a number of rows"),
        ("from=9999999999999999999", "not a number of rows"),
    ],
)
def test_an_address_that_selects_nothing_sensible_is_explained(sqlite_page: LivePage, query: str, message: str) -> None:
    answer = sqlite_page.get(f"/runs/two-1/cases?{query}", Sec_Fetch_Dest="empty")
    assert answer.status == 400
    assert message in f"{answer.json['message']}; {answer.json['fix']}"


def test_the_page_of_a_run_shows_the_selected_rows_without_javascript(sqlite_page: LivePage) -> None:
    text = sqlite_page.get("/runs/two-1?sort=-cost&tag=kind%3Dread").text
    wanted = parsed(window(sqlite_page, "two-1", sort="-cost", tag="kind=read")).keys
    assert [int(key) for key in re.findall(r'aria-rowindex="\d+" data-key="(\d+)"', text)] == wanted
    assert 'href="/runs/two-1/trials/' in text
    assert '<option value="kind=read" selected>' in text
    assert 'aria-sort="descending"' in text


def test_links_of_the_head_sort_by_each_column_in_both_directions(sqlite_page: LivePage) -> None:
    head = window(sqlite_page, "two-1", tag="kind=read").json["parts"]["head"]
    links = re.findall(r'href="\?([^#"]+)#cases"', head)
    assert len(links) == len(re.findall('role="columnheader"', head)) == 8
    for link in links:
        there = sqlite_page.get(f"/runs/two-1/cases?{link.replace('&amp;', '&')}")
        assert there.status == 200
        assert "kind=read" in there.text
        assert len(re.findall('aria-sort="(ascending|descending)"', there.json["parts"]["head"])) == 1


@pytest.mark.parametrize(
    ("query", "words"), [("?q=nowhere", "No case matches these filters"), ("", "No trial has ended yet")]
)
def test_an_empty_grid_says_what_to_do(tmp_path: Path, query: str, words: str) -> None:
    with open_store(tmp_path / "results.db") as store, live_page(tmp_path / "results.db") as page:
        run = RunWriter(store, "calm-1", ["one"], 1, 1)
        if query:
            run.write(0, Case("c", "q", "yes"), Outcome("ok", Answer("yes")), {"exact": 1.0}, "q")
        assert words in page.get(f"/runs/calm-1{query}").text
        run.finish()


# -- exports -----------------------------------------------------------------------------------------------------------


def test_the_csv_has_the_rows_of_the_page_in_its_order(sqlite_page: LivePage) -> None:
    query = "sort=-difference&status=failed&tag=kind%3Dsearch"
    answer = sqlite_page.get(f"/runs/two-1/cases.csv?{query}")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="two-1-cases.csv"'
    table = list(csv.DictReader(io.StringIO(answer.text)))
    shown = parsed(sqlite_page.get(f"/runs/two-1/cases?{query}&count=500"))
    assert [row["case_id"] for row in table] == [row[0] for row in shown.rows] != []
    assert {row["tag_kind"] for row in table} == {"search"}
    for row, cells in zip(table, shown.rows, strict=True):
        difference = cells[3].replace("−", "-").replace("+", "")
        assert (f"{float(row['difference']) * 100:.1f}" if row["difference"] else "") == difference
        assert row["winner"] == cells[4]


def test_the_csv_cannot_run_formulas_in_a_spreadsheet(tmp_path: Path) -> None:
    with open_store(tmp_path / "results.db") as store:
        run = RunWriter(store, "calm-1", ["one"], 1, 1)
        run.write(0, Case("=1+1", "q", "yes", {"t": "@x"}), Outcome("ok", Answer("yes")), {"exact": 1.0}, "q")
        run.finish()
    with live_page(tmp_path / "results.db") as page:
        (row,) = csv.DictReader(io.StringIO(page.get("/runs/calm-1/cases.csv").text))
    assert row["case_id"] == "'=1+1"
    assert row["tag_t"] == "'@x"


def test_each_chart_of_the_page_can_be_saved_as_svg(sqlite_page: LivePage) -> None:
    text = _page_with_charts(sqlite_page, "two-1")
    links = sorted(set(re.findall(r'href="(/runs/two-1/charts/[^"]+\.svg)"', text)))
    assert links
    for link in links:
        answer = sqlite_page.get(link)
        assert answer.headers["Content-Type"].startswith("image/svg+xml")
        assert ElementTree.fromstring(answer.text).tag.endswith("svg")
        assert "two-1" in answer.text


def _page_with_charts(page: LivePage, run: str) -> str:
    """The page once its results are computed."""
    with page.stream(f"/runs/{run}/stream") as events:
        sections: dict[str, str] = {}
        for _, changed in events:
            sections |= changed
            if "charts" in sections:
                return "".join(sections.values())
    raise AssertionError("the page has no charts")


def test_a_chart_that_the_page_does_not_show_is_explained(sqlite_page: LivePage) -> None:
    answer = sqlite_page.get(f"/runs/two-1/charts/{quote('../x')}.svg")
    assert answer.status == 404
    answer = sqlite_page.get("/runs/two-1/charts/nothing.svg")
    assert answer.status == 404
    assert "the page shows no chart named" in answer.text
