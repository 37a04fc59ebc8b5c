"""People label answers on the live page; `abreast label`, reports and calibration see the same labels."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from abreast import Case, Experiment
from conftest import Folder
from test_label import run_judged, verdict
from test_store_conformance import wait_for
from view_server import LivePage, Response, live_page

VARIANTS = ("alpha", "omega", "gamma")
TRIAL = "/runs/latest/trials/1"


def say(case: Case, word: str = "") -> str:
    if case.id == "c0" and word == "gamma":
        raise ValueError("no idea")
    return f"{word[0]} says {case.input} <script>alert(1)</script>"


@pytest.fixture
def unjudged(folder: Folder) -> Iterator[LivePage]:
    cases = [{"id": f"c{number}", "input": f"question {number}", "expected": "4"} for number in range(12)]
    Experiment(cases=cases, variants={name: {"word": name} for name in VARIANTS}, target=say, scorers=["contains"]).run(
        store=folder.path / "results.db"
    )
    with live_page(folder.path / "results.db") as page:
        yield page


@pytest.fixture
def judged(folder: Folder) -> Iterator[LivePage]:
    run_judged(folder, cases=24)
    with live_page(folder.path / "results.db") as page:
        yield page


class Item:
    """A case to label, as the page shows it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.number = int(re.findall(r'data-item="(\d+)"', text)[0])
        self.tokens = list(dict.fromkeys(re.findall(r'data-token="(\w+)"', text)))
        shown = re.findall(r'aria-label="text of answer \d+">([^<]*)</pre>', text)
        self.answers = [html.unescape(answer) for answer in shown]

    def label(self, page: LivePage, index: int, value: str, **more: Any) -> Response:
        body = {"item": self.number, "token": self.tokens[index], "dimension": "", "value": value, **more}
        return page.post("/runs/latest/labels", body)


def human(folder: Folder) -> list[dict[str, Any]]:
    return folder.sql(
        "select t.position, s.value, s.explanation, s.version from scores s join trials t using (run_id, position) "
        "where s.name = 'human' order by position"
    )


def test_a_label_on_the_page_of_a_trial_is_a_score_row_with_who_and_when(folder: Folder, unjudged: LivePage) -> None:
    note = "the unit is <missing>, at 4 km: see below"
    answer = unjudged.post(f"{TRIAL}/label", {"opinion": "right", "note": note, "by": " Ann\u202e \n B."})
    assert answer.status == 200
    assert "by Ann‹U+202E› B.," in answer.json["html"]
    assert html.escape(note) in answer.json["html"]
    assert "<script" not in answer.json["html"]
    (row,) = human(folder)
    assert (row["position"], row["value"], row["version"]) == (1, 1.0, "label")
    assert re.fullmatch(r"right \(not blind\), by Ann.* at \d{4}-\d\d-\d\dT[\d:]+Z: " + note, row["explanation"])
    (found,) = folder.sql("select variant, score_human from predictions where score_human is not null")
    assert found == {"variant": "omega", "score_human": 1.0}
    page = unjudged.get(TRIAL).text
    assert 'value="right" data-key="1" aria-pressed="true"' in page
    assert 'value="wrong" data-key="2" aria-pressed="false"' in page


def test_unsure_is_no_score_and_every_replaced_label_is_kept(folder: Folder, unjudged: LivePage) -> None:
    for opinion, by in (("wrong", "Ann"), ("unsure", "Bob"), ("right", "Cleo"), ("right", "Dan")):
        assert unjudged.post(f"{TRIAL}/label", {"opinion": opinion, "note": f"by {by}", "by": by}).status == 200
        (row,) = human(folder)
        assert row["value"] == {"right": 1.0, "wrong": 0.0, "unsure": None}[opinion]
    assert folder.sql("select value from old_scores order by replaced_at") == [
        {"value": 0.0}, {"value": None}, {"value": 1.0},
    ]  # fmt: skip
    page = unjudged.get(TRIAL).text
    assert "3 earlier labels" in page
    assert [page.index(f"by {name}, ") for name in ("Dan", "Cleo", "Bob", "Ann")] == sorted(
        page.index(f"by {name}, ") for name in ("Dan", "Cleo", "Bob", "Ann")
    )


def test_scores_and_reports_are_as_before_labels(folder: Folder, unjudged: LivePage) -> None:
    before = folder.abreast("report", "--json").json
    unjudged.post(f"{TRIAL}/label", {"opinion": "wrong"})
    assert folder.abreast("report", "--json").json == before


def test_blind_labelling_shows_neither_names_nor_places_and_stays_the_same_when_reloaded(unjudged: LivePage) -> None:
    orders = set()
    for number in range(1, 13):
        text = unjudged.get(f"/runs/latest/labels?item={number}&by=Ann").text
        item = Item(text)
        assert not any(name in text for name in VARIANTS)
        assert "/trials/" not in text
        assert "<script>" not in text
        assert text == unjudged.get(f"/runs/latest/labels?item={number}&by=Ann").text
        assert len(item.answers) == (2 if "question 0 " in item.answers[0] else 3), "failures have nothing to label"
        orders.add("".join(answer[0] for answer in item.answers))
    assert len(orders) > 3, "the sides are shuffled in each case"
    others = [Item(unjudged.get(f"/runs/latest/labels?item={number}&by=Bob").text) for number in range(1, 13)]
    mine = [Item(unjudged.get(f"/runs/latest/labels?item={number}&by=Ann").text) for number in range(1, 13)]
    assert [item.answers for item in others] != [item.answers for item in mine]
    assert not {token for item in others for token in item.tokens} & {token for item in mine for token in item.tokens}


def test_blind_labels_belong_to_the_answers_that_were_read(folder: Folder, unjudged: LivePage) -> None:
    opinions = {"a": "right", "o": "wrong", "g": "unsure"}
    for _ in range(12):
        item = Item(unjudged.get("/runs/latest/labels?by=Ann").text)
        for index, words in enumerate(item.answers):
            stored = item.label(unjudged, index, opinions[words[0]], by="Ann", note=f"note on {words[0]}")
            assert stored.status == 200
        assert stored.json["is_complete"]
    assert stored.json["next"] is None
    assert "All 12 cases are labelled" in unjudged.get("/runs/latest/labels?by=Ann").text
    rows = folder.sql("select variant, score_human, count(*) as n from predictions group by 1, 2 order by 1")
    assert rows == [
        {"variant": "alpha", "score_human": 1.0, "n": 12},
        {"variant": "gamma", "score_human": None, "n": 12},
        {"variant": "omega", "score_human": 0.0, "n": 12},
    ]
    assert all(": note on " in row["explanation"] and "not blind" not in row["explanation"] for row in human(folder))


def test_names_can_be_shown_and_then_the_label_says_so(folder: Folder, unjudged: LivePage) -> None:
    text = unjudged.get("/runs/latest/labels?item=1&names=1&by=Ann").text
    assert re.search(r'<h3><a href="/runs/[^"]*/trials/\d+">alpha</a></h3>', text)
    Item(text).label(unjudged, 0, "wrong", by="Ann", names=True)
    assert "wrong (not blind), by Ann" in human(folder)[0]["explanation"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (f"{TRIAL}/label", {"opinion": "maybe"}, "a label is right, wrong, unsure, not 'maybe'"),
        (f"{TRIAL}/label", {"opinion": "right", "note": "x" * 5_000}, "more than 4,000 characters"),
        ("/runs/latest/trials/2/label", {"opinion": "right"}, "trial 2 has no answer to label"),
        ("/runs/latest/trials/999/label", {"opinion": "right"}, "trial 999 has no answer to label"),
        ("/runs/latest/labels", {"item": 0}, "the number of a case is missing"),
        ("/runs/latest/labels", {"item": 99}, "12 cases"),
        ("/runs/latest/labels", {"item": 1, "token": "0" * 16, "value": "right"}, "not part of the case"),
        ("/runs/nobody/labels", {"item": 1}, "nobody"),
    ],
)
def test_a_wrong_label_is_refused_and_nothing_is_stored(
    folder: Folder, unjudged: LivePage, path: str, body: dict[str, Any], words: str
) -> None:
    answer = unjudged.post(path, body)
    assert answer.status in (400, 409)
    assert words in answer.json["message"]
    assert human(folder) == []


def test_a_read_only_page_shows_labels_and_takes_none(folder: Folder, unjudged: LivePage) -> None:
    unjudged.post(f"{TRIAL}/label", {"opinion": "wrong", "note": "look again", "by": "Ann"})
    with live_page(folder.path / "results.db", read_only=True) as page:
        assert "look again" in page.get(TRIAL).text
        assert "data-label" not in page.get(TRIAL).text
        labels = page.get("/runs/latest/labels").text
        assert "<form" not in labels
        assert "<textarea" not in labels
        assert page.post(f"{TRIAL}/label", {"opinion": "right"}).status == 403
        assert Item(page.get("/runs/latest/labels").text).answers


def test_a_run_without_answers_says_what_to_do(folder: Folder) -> None:
    Experiment(cases=[{"id": "a", "input": "q"}], variants={"a": {}, "b": {}}, target=fail, scorers=["success"]).run(
        store=folder.path / "results.db"
    )
    with live_page(folder.path / "results.db") as page:
        assert "No answers to label yet" in page.get("/runs/latest/labels").text


def fail(case: Case) -> str:
    raise ValueError("no")


# -- judged runs -------------------------------------------------------------------------------------------------------


def test_labels_of_a_judged_run_correct_its_verdict_as_those_of_the_command_do(
    folder: Folder, judged: LivePage
) -> None:
    for _ in range(24):
        item = Item(judged.get("/runs/latest/labels?by=Ann&names=1").text)
        assert "alpha" not in item.text, "names are never shown, because labels must be blind"
        dimension = re.findall(r'data-dimension="(\w+)"', item.text)[0]
        for index, words in enumerate(item.answers):
            value = "5" if int(words.split()[-1]) % 2 else "1"
            assert item.label(judged, index, value, by="Ann", dimension=dimension).status == 200
    calibration = verdict(folder)["calibration"]
    assert (calibration["labels"], calibration["corrected"]) == (24, True)
    (progress,) = folder.abreast("label", "--json").json
    assert (progress["labelled"], progress["left"]) == (24, 0)
    assert "All 24 cases are labelled" in judged.get("/runs/latest/labels").text


def test_labels_of_the_command_are_on_the_page_and_next_to_the_opinion_of_the_judge(
    folder: Folder, judged: LivePage
) -> None:
    assert folder.abreast("label", "--export", "labels.csv", "--sample", "4").code == 0
    lines = (folder.path / "labels.csv").read_text(encoding="utf-8-sig").splitlines()
    (folder.path / "labels.csv").write_text("\n".join([lines[0], lines[1].rstrip(",") + ",4"]))
    done = folder.abreast("label", "--import", "labels.csv", "--by", "Ann")
    assert "1 labels imported" in done.out
    (row,) = human(folder)
    page = judged.get(f"/runs/latest/trials/{row['position']}").text
    assert re.search(r"<b>4</b> <span class=\"soft\">by Ann,", page)
    assert "so it is" in page, "the justification of the judge"
    assert "labelled blind, to calibrate the judge" in page
    refused = judged.post(f"/runs/latest/trials/{row['position']}/label", {"opinion": "right"})
    assert refused.status == 400
    assert human(folder) == [row]


def test_a_label_by_somebody_who_saw_the_variant_does_not_correct_the_judge(folder: Folder, judged: LivePage) -> None:
    assert folder.abreast("label", "--export", "labels.csv").code == 0
    for position in range(48):
        assert judged.post(f"/runs/latest/trials/{position}/label", {"opinion": "right"}).status == 200
    assert len(human(folder)) == 48
    assert verdict(folder)["calibration"]["labels"] == 0
    (progress,) = folder.abreast("label", "--json").json
    assert progress["left"] == 24, "`abreast label` asks for all of them"


def test_unsure_skips_an_answer_and_a_note_is_kept(folder: Folder, judged: LivePage) -> None:
    item = Item(judged.get("/runs/latest/labels?by=Ann").text)
    dimension = re.findall(r'data-dimension="(\w+)"', item.text)[0]
    for index in range(2):
        item.label(judged, index, "unsure", by="Ann", dimension=dimension, note="both are odd")
    assert [row["value"] for row in human(folder)] == [None, None]
    (progress,) = folder.abreast("label", "--json").json
    assert (progress["labelled"], progress["skipped"]) == (0, 1)
    again = judged.get(f"/runs/latest/labels?item={item.number}&by=Ann").text
    assert again.count("both are odd") == 2


def test_pairs_are_compared_in_the_order_in_which_a_person_sees_them(folder: Folder) -> None:
    run_judged(folder, judge="target: python:mine:prefers, rubric: Which is better, pairwise: true", cases=6)
    with live_page(folder.path / "results.db") as page:
        for by in ("Ann", "Bob"):
            for number in range(1, 7):
                item = Item(page.get(f"/runs/latest/labels?item={number}&by={by}").text)
                better = next(at for at, words in enumerate(item.answers) if "better" in words)
                (form,) = item.tokens
                choices = re.findall(r'<button type="submit" value="(\w+)" data-choice="[12]"', item.text)
                body = {"item": number, "token": form, "dimension": "overall", "value": choices[better], "by": by}
                assert page.post("/runs/latest/labels", body).status == 200
            rows = folder.sql("select variant, avg(score_human) as human from predictions group by 1 order by 1")
            assert rows == [{"variant": "alpha", "human": 0.5}, {"variant": "omega", "human": 1.0}], by


@pytest.mark.parametrize("value", ["6", "0", "best", "nan", "", "right"])
def test_a_mark_outside_the_scale_is_refused(folder: Folder, judged: LivePage, value: str) -> None:
    item = Item(judged.get("/runs/latest/labels").text)
    answer = item.label(judged, 0, value, dimension="overall")
    assert answer.status == 400
    assert "a number from 1 (worst) to 5 (best)" in answer.json["message"]
    assert human(folder) == []


def test_a_page_of_another_engine_stores_labels_too(tmp_path: Path) -> None:
    store = tmp_path / "results.duckdb"
    Experiment(cases=[{"id": "a", "input": "q"}], variants={"a": {}, "b": {}}, target=lambda case: "x").run(store=store)
    with live_page(store) as page:
        assert page.post(f"{TRIAL}/label", {"opinion": "right", "by": "Ann"}).status == 200
        assert "by Ann," in page.get(TRIAL).text
    import duckdb

    with duckdb.connect(str(store), read_only=True) as connection:
        labels = connection.execute("select score_human from predictions order by variant").fetchall()
    assert labels == [(None,), (1.0,)]


def test_answers_are_labelled_while_the_run_goes_on(folder: Folder) -> None:
    """Labels are stored by another connection than the driver's, which goes on and keeps them."""
    store = folder.path / "results.db"
    reached, labelled, calls = threading.Event(), threading.Event(), count()

    def wait(case: Case) -> str:
        if next(calls) == 6:
            reached.set()
            assert labelled.wait(60)
        return "x"

    cases = [{"id": f"c{number}", "input": "q"} for number in range(4)]
    experiment = Experiment(cases=cases, variants={"a": {}, "b": {}}, target=wait)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(experiment.run, store=store)
        try:
            assert reached.wait(60)
            with live_page(store) as page:
                wait_for(lambda: "data-item" in page.get("/runs/latest/labels?by=Ann").text)
                item = Item(page.get("/runs/latest/labels?by=Ann").text)
                assert item.label(page, 0, "wrong", by="Ann").status == 200
        finally:
            labelled.set()
        result.result()
    assert [row["value"] for row in human(folder)] == [0.0]
    assert folder.abreast("runs", "--json").json[0]["status"] == "complete"
