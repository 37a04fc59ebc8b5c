"""The page of a trial and labelling, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from abreast import Case, Experiment
from abreast.store import open_store
from browser import PHONE, Browser, overflow
from test_view_trial import IDS, LARGE, NAMES, answer
from view_server import LivePage, live_page


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "results.db"
    cases = [{"id": name, "input": f"question {name}", "expected": "4"} for name in IDS]
    variants = {**{name: {"name": name} for name in NAMES}, "third": {"name": "third"}}
    Experiment(cases=cases, variants=variants, target=answer, scorers=["contains"]).run(store=path)
    return path


@pytest.fixture
def live(store: Path) -> Iterator[LivePage]:
    with live_page(store) as page:
        yield page


def trial(live: LivePage, case: str, variant: str) -> str:
    position = IDS.index(case) * 3 + [*NAMES, "third"].index(variant)
    return f"{live.address.rstrip('/')}/runs/latest/trials/{position}"


def test_hostile_answers_are_harmless_and_fit_on_a_phone(live: LivePage, browser: Browser) -> None:
    for case, width in (("hostile", PHONE), ("fails", PHONE), ("control", 1280)):
        page = browser.open(trial(live, case, "plain"), width=width, scheme="dark")
        page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
        page.locator("details").evaluate_all("each => each.forEach((details) => { details.open = true; })")
        assert overflow(page) <= 0, (case, width)
        assert page.locator("img").count() == 0
    assert browser.problems() == []


def test_a_large_answer_is_shown_as_a_whole_on_demand(live: LivePage, browser: Browser) -> None:
    page = browser.open(trial(live, "large", "plain"))
    text = page.get_by_role("region", name="text of Answer")
    assert len(text.inner_text()) < 20_000
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_text("100 % shown")).to_be_visible()
    assert text.evaluate("element => element.textContent.length") == LARGE // 2
    with page.expect_download() as download:
        page.get_by_role("link", name="download Answer").click()
    assert download.value.suggested_filename.endswith("answer.txt")
    assert Path(download.value.path()).stat().st_size == LARGE


def test_an_answer_is_labelled_and_compared_by_keyboard(store: Path, live: LivePage, browser: Browser) -> None:
    page = browser.open(trial(live, "busy", "better"))
    page.keyboard.press("n")
    page.keyboard.type("1 of 2 reasons is missing")
    page.get_by_role("textbox", name="note").blur()
    page.keyboard.press("2")
    expect(page.get_by_role("button", name="wrong")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("region", name="scores", exact=True)).to_contain_text("1 of 2 reasons is missing")
    page.keyboard.press("1")
    expect(page.get_by_role("button", name="right")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("1 earlier label")).to_be_visible()
    comparison = page.get_by_role("region", name="next to another variant")
    comparison.get_by_role("link", name="third").click()
    expect(comparison).to_contain_text("from better to third")
    page.reload()
    expect(comparison).to_contain_text("from better to third")


def test_all_answers_are_labelled_blind_with_keys_only(store: Path, live: LivePage, browser: Browser) -> None:
    page = browser.open(f"{live.address.rstrip('/')}/runs/latest/labels?by=Ann")
    labelled = 0
    while page.get_by_text("All 5 cases are labelled").count() == 0:
        before = page.locator("#labelling").inner_html()
        current = page.locator(".answer-to-label", has=page.locator("[data-current]"))
        is_better = "the better answer" in current.locator("pre").inner_text()
        page.keyboard.press("1" if is_better else "u")
        expect(page.locator("#labelling")).not_to_have_js_property("innerHTML", before)
        labelled += 1
        assert labelled <= 14
    assert labelled == 14
    with open_store(store) as opened:
        rows = opened.rows("SELECT variant, SUM(score_human) FROM predictions GROUP BY variant ORDER BY variant")
    assert rows == [("better", 2.0), ("plain", None), ("third", None)]
    page.go_back()
    expect(page.locator("article")).to_have_attribute("aria-label", "case 4 of 5")
    page.keyboard.press("k")
    expect(page.locator("article")).to_have_attribute("aria-label", "case 3 of 5")
    assert overflow(browser.open(page.url, width=PHONE, scheme="dark")) <= 0


def test_a_message_says_why_a_label_is_not_stored(tmp_path: Path, browser: Browser) -> None:
    store = tmp_path / "results.db"
    Experiment(cases=[{"id": "a", "input": "q"}], variants={"a": {}, "b": {}}, target=reply).run(store=store)
    with live_page(store) as live:
        page = browser.open(f"{live.address.rstrip('/')}/runs/latest/trials/0")
        labels = browser.open(f"{live.address.rstrip('/')}/runs/latest/labels")
    browser.expect_problem("ERR_CONNECTION_REFUSED")
    page.keyboard.press("1")
    expect(page.get_by_text("no connection to `abreast view`")).to_be_visible()
    labels.keyboard.press("1")
    expect(labels.get_by_role("alert")).to_have_text("no connection to `abreast view`")


def reply(case: Case) -> str:
    return "x"
