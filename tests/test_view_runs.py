"""The list of runs, their comparison and their deletion, as the server of the live page answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from abreast import Experiment
from conftest import Folder
from view_server import LivePage, live_page

SPEC = """\
name: {name}
cases: cases.jsonl
variants:
  plain: {{target: simulated, accuracy: 0.3}}
  better: {{target: simulated, accuracy: {accuracy}}}
scorers: [exact]
"""


@pytest.fixture
def runs(folder: Folder) -> Folder:
    """Three runs of two experiments: `old` and `new` of prompts, and one of `models`, which is the newest."""
    folder.cases(40)
    for label, name, accuracy in (("old", "prompts", 0.9), ("new", "prompts", 0.4), ("other", "models", 0.35)):
        folder.write("spec.yaml", SPEC.format(name=name, accuracy=accuracy))
        assert folder.abreast("run", "spec.yaml", "--label", label, "--fresh").code == 0
    return folder


@pytest.fixture
def page(runs: Folder) -> Iterator[LivePage]:
    with live_page(runs.path / "results.db") as page:
        yield page


def labels(html: str) -> list[str]:
    """The labels of the listed runs, in order."""
    return re.findall(r'<span class="tag">(\w+)</span>', html)


def listing(page: LivePage, query: str = "") -> str:
    """The list when all of its verdicts are known."""
    with page.stream(f"/stream{query}") as events:
        return next(sections["listing"] for _, sections in events if "…</span>" not in sections["listing"])


def names(folder: Folder) -> dict[str, str]:
    return {run["label"]: run["run"] for run in folder.abreast("runs", "--json").json}


def test_the_address_filters_and_sorts_the_list(page: LivePage) -> None:
    for query, listed in (
        ("", ["other", "new", "old"]),
        ("?sort=started", ["old", "new", "other"]),
        ("?sort=-run&text=old", ["old"]),
        ("?text=PROMPTS+new", ["new"]),
        ("?experiment=models", ["other"]),
        ("?experiment=prompts&sort=started", ["old", "new"]),
        ("?status=complete&sort=experiment", ["other", "old", "new"]),
        ("?status=running", []),
        ("?text=%3Cscript%3E", []),
        ("?page=99", ["other", "new", "old"]),
    ):
        answer = page.get(f"/{query}")
        assert answer.status == 200
        assert labels(answer.text) == listed, query
        assert "<script>" not in answer.text


def test_verdicts_are_added_when_they_are_known_and_can_be_filtered_and_sorted(page: LivePage) -> None:
    assert "better</b>" not in page.get("/").text, "the page does not wait for an analysis"
    assert 'class="word better">better</b> better' in listing(page)
    assert labels(listing(page, "?verdict=better")) == ["old"]
    assert labels(listing(page, "?sort=-verdict"))[0] == "old"
    assert 'class="word better">better</b> better' in page.get("/").text, "they are kept"


def test_an_address_that_makes_no_sense_is_explained(page: LivePage) -> None:
    for query in ("?sort=password", "?page=0", "?page=x", "?page=-1", "?page=1e3"):
        answer = page.get(f"/{query}")
        assert answer.status == 404
        assert "choose run, experiment" in answer.text or "the first page is 1" in answer.text


def test_an_empty_list_says_what_to_do(folder: Folder) -> None:
    with live_page(folder.path / "new.db") as page:
        assert "abreast run SPEC" in page.get("/").text
        assert "<code>abreast ls</code> lists them" in page.get("/").text
    assert not (folder.path / "new.db").exists()


def test_a_store_that_cannot_be_read_is_no_missing_page(runs: Folder, tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    path.write_bytes((runs.path / "results.db").read_bytes())
    with live_page(path) as page:
        assert page.get("/runs/nothing").status == 404
        path.write_bytes(b"no store" * 1000)
        answer = page.get("/runs/latest")
        assert answer.status == 503
        assert "The store cannot be read" in answer.text


def test_the_page_compares_as_the_command_does(runs: Folder, page: LivePage) -> None:
    run = names(runs)
    printed = runs.abreast("compare", run["old"], run["new"], "--margin", "0.05").out
    html = page.get(f"/compare/result?runs={run['old']}&runs={run['new']}&margin=0.05").text
    for line in printed.splitlines():
        assert line.strip().replace("&", "&amp;") in html
    text = page.get(f"/compare?runs={run['old']}:better&runs={run['new']}").text
    assert "use as baseline" in text
    assert f'<a href="/runs/{run["old"]}">{run["old"]}:better</a>' in text


def test_a_comparison_shows_the_answers_of_both_runs_to_a_case(runs: Folder, page: LivePage) -> None:
    run = names(runs)
    result = page.get(f"/compare/result?runs={run['old']}&runs={run['new']}").text
    address = re.findall(r'data-load="([^"]+variant=better[^"]+)"', result)[0].replace("&amp;", "&")
    answers = page.get(address)
    assert answers.status == 200
    assert "yes" in answers.text
    assert "a wrong answer" in answers.text


def test_an_impossible_comparison_is_explained(page: LivePage) -> None:
    for query, message in (
        ("", "a comparison needs two runs"),
        ("?runs=old", "a comparison needs two runs"),
        ("?runs=old&runs=old", "a comparison needs two runs"),
        ("?runs=old&runs=nothing", "nothing"),
        ("?runs=old&runs=new&margin=2", "from 0 to 1"),
        ("?runs=old&runs=new&margin=nan", "from 0 to 1"),
        ("?runs=old&runs=new&margin=x", "from 0 to 1"),
        ("?" + "&".join(f"runs=r{number}" for number in range(30)), "too many"),
    ):
        answer = page.get(f"/compare/result{query}")
        assert answer.status == 404
        assert message in answer.text


def test_deletion_names_what_goes_and_deletes_it(runs: Folder, page: LivePage) -> None:
    run = names(runs)
    question = page.get(f"/deletion?runs={run['old']}&runs={run['other']}").text
    assert f"{run['old']}</b> (prompts) with 80 trials and its report" in question
    assert run["new"] not in question
    answer = page.post("/deletion", {"runs": [run["old"], run["other"]]})
    assert answer.json["lines"][0] == f"deleted {run['old']}, {run['other']}: 160 trials"
    assert labels(page.get("/").text) == ["new"]
    assert list(names(runs)) == ["new"]
    assert not (runs.path / "runs" / run["old"]).exists()
    assert (runs.path / "runs" / run["new"]).exists()


def test_deletion_takes_full_names_of_stored_runs_only(runs: Folder, page: LivePage) -> None:
    for body in ({}, {"runs": []}, {"runs": "latest"}, {"runs": [1]}, {"runs": ["latest"]}, {"runs": ["x"]}):
        assert page.post("/deletion", body).status == 400
    assert len(names(runs)) == 3


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_every_engine_lists_compares_and_deletes(engine: str, folder: Folder, request: pytest.FixtureRequest) -> None:
    store = request.getfixturevalue("postgres") if engine == "postgres" else folder.path / "results.duckdb"
    cases = [{"id": f"c{number}", "input": "x", "expected": "yes"} for number in range(20)]
    results = [
        Experiment(
            name="runs", cases=cases, variants={"a": {"accuracy": accuracy}}, target="simulated", scorers=["exact"]
        ).run(store=store, fresh=True, label=f"label{number}")
        for number, accuracy in enumerate((0.2, 0.9))
    ]
    first, second = (result.run for result in results)
    with live_page(store) as page:
        assert labels(listing(page)) == ["label1", "label0"]
        assert "improvement" in page.get(f"/compare/result?runs={first}&runs={second}").text
        assert page.post("/deletion", {"runs": [first]}).status == 200
        assert labels(listing(page)) == ["label1"]


def test_names_from_files_are_text(folder: Folder) -> None:
    hostile = "<script>alert(1)</script>"
    folder.cases(4)
    spec = {
        "name": hostile,
        "cases": "cases.jsonl",
        "variants": {hostile: {"target": "simulated"}, "b": {"target": "simulated"}},
        "scorers": ["exact"],
    }
    folder.write("spec.json", json.dumps(spec))
    for label in ('"><img src=x>', hostile):
        assert folder.abreast("run", "spec.json", "--fresh", "--label", label).code in (0, 1)
    runs = [run["run"] for run in folder.abreast("runs", "--json").json]
    query = "&".join(f"runs={quote(run)}" for run in runs)
    with live_page(folder.path / "results.db") as page:
        for path in (f"/compare/result?{query}", f"/deletion?{query}", f"/compare?{query}"):
            text = page.get(path).text
            assert "<script>alert" not in text
            assert "<img" not in text
        assert "<script>alert" not in listing(page)
        assert "&lt;script&gt;" in listing(page)


def test_a_long_list_has_pages(page: LivePage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abreast.view.pages.runs.PAGE", 2)
    assert labels(page.get("/").text) == ["other", "new"]
    assert 'href="/?page=2" rel="next"' in page.get("/").text
    assert labels(listing(page, "?page=2")) == ["old"]
    assert labels(listing(page, "?page=2&experiment=models")) == ["other"], "the last page, if there are fewer"
