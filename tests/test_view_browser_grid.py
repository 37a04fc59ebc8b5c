"""The grid of cases in a real browser: rows near the visible ones, filters in the address, keys, the panel."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from abreast import Case, Experiment
from abreast.model import Answer, Outcome
from abreast.model import Case as ModelCase
from abreast.store import open_store
from browser import PHONE, Browser, ViewProcess, overflow, picture
from conftest import Folder
from test_view_cases import RunWriter

View = Callable[..., ViewProcess]
CASES = 400
SCRIPT = "<script>document.title = 'hacked'</script><img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of simulated answers, whose prompts contain HTML."""
    path = tmp_path_factory.mktemp("grid") / "results.db"
    cases = [
        Case(f"c{index}", f"{index}? {SCRIPT}", "yes", {"kind": ("read", "search")[index % 2]})
        for index in range(CASES)
    ]
    variants = {"plain": {"accuracy": 0.5}, "steps": {"accuracy": 0.7, "errors": {"timeout": 0.1}}}
    Experiment(name="grid", cases=cases, variants=variants, target="simulated", scorers=["exact"], store=path).run(
        parallel=50
    )
    return path


@pytest.fixture
def page(stored: Path, view: View, browser: Browser) -> Page:
    page = browser.open(view(str(stored)).url("/runs/latest"))
    expect(page.locator("#cases.live [aria-rowindex='2']")).to_be_visible()
    return page


def row(page: Page, number: int) -> str:
    """The id of the case in a row, from 1."""
    found = page.locator(f".grid-rows [aria-rowindex='{number + 1}'] [role=rowheader]")
    return str(found.inner_text())


def summary(page: Page) -> str:
    return str(page.locator("[data-part=summary]").inner_text())


def test_the_page_holds_only_the_rows_near_the_visible_ones(page: Page) -> None:
    grid, rows = page.locator(".case-grid"), page.locator(".grid-rows .grid-row")
    assert rows.count() < 100
    grid.evaluate("grid => { grid.scrollTop = grid.scrollHeight }")
    expect(page.locator(f"[aria-rowindex='{CASES + 1}']")).to_be_visible()
    assert row(page, CASES) == f"c{CASES - 1}"
    assert rows.count() < 100
    expect(grid).to_have_attribute("aria-rowcount", str(CASES + 1))
    grid.evaluate("grid => { grid.scrollTop = 0 }")
    expect(page.locator("[aria-rowindex='2']")).to_be_visible()
    assert row(page, 1) == "c0"


def test_filters_and_order_are_in_the_address_and_go_back(page: Page, browser: Browser) -> None:
    page.get_by_role("columnheader", name="difference").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="difference")).to_have_attribute("aria-sort", "descending")
    expect(page).to_have_url(re.compile(r"\?sort=-difference$"))
    page.get_by_label("Winner").select_option("steps")
    expect(page.locator(".grid-rows .winner").first).to_have_text("steps")
    expect(page.locator("[data-part=summary]")).to_have_text(re.compile(rf"^\d+ of {CASES} cases$"))
    some = summary(page)
    page.get_by_label("Tag").select_option("kind=read")
    expect(page.locator("[data-part=summary]")).not_to_have_text(some)
    expect(page).to_have_url(re.compile("tag=kind%3Dread.*sort=-difference|sort=-difference.*tag=kind%3Dread"))
    expect(page.locator("[data-part=summary]")).to_have_text(re.compile(rf"^\d+ of {CASES} cases$"))
    few = summary(page)
    page.locator("#cases").evaluate("section => section.scrollIntoView()")
    picture(page, "cases")
    again = browser.open(page.url)
    expect(again.locator("[data-part=summary]")).to_have_text(few)
    expect(again.get_by_label("Winner")).to_have_value("1")
    page.go_back()
    expect(page.get_by_label("Tag")).to_have_value("")
    expect(page.locator("[data-part=summary]")).not_to_have_text(few)
    page.get_by_role("link", name="Clear filters").click()
    expect(page.locator("[data-part=summary]")).to_have_text(f"{CASES} cases")


def test_typing_searches_and_an_empty_result_says_what_to_do(page: Page) -> None:
    page.get_by_role("searchbox").fill("c39")
    expect(page.locator("[data-part=summary]")).to_have_text(f"11 of {CASES} cases")
    page.get_by_role("searchbox").fill("nothing like that")
    expect(page.locator("[data-part=empty]")).to_contain_text("No case matches these filters")
    page.locator("[data-part=empty]").get_by_role("link", name="Clear the filters").click()
    expect(page.locator("[data-part=summary]")).to_have_text(f"{CASES} cases")
    assert row(page, 1) == "c0"


def test_keys_move_through_the_grid_and_open_a_trial(page: Page) -> None:
    page.locator(".grid-rows a").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    focused = page.locator(".grid-rows :focus")
    expect(focused.locator("xpath=ancestor-or-self::*[@role='gridcell']")).to_have_attribute("aria-colindex", "2")
    expect(focused.locator("xpath=ancestor::*[@role='row']")).to_have_attribute("aria-rowindex", "4")
    page.keyboard.press("Control+End")
    expect(page.locator(".grid-rows :focus").locator("xpath=ancestor-or-self::*[@role='row']")).to_have_attribute(
        "aria-rowindex", str(CASES + 1)
    )
    page.keyboard.press("Control+Home")
    expect(page.locator(".grid-rows a:focus")).to_have_text("c0")
    page.keyboard.press("Enter")
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("c0")
    expect(page).to_have_url(re.compile("trial=0$"))
    page.keyboard.press("j")
    expect(panel).to_contain_text("c1")
    expect(page).to_have_url(re.compile("trial=2$"))
    panel.get_by_role("link", name="next trial").focus()
    for key, case in (("k", "c0"), ("j", "c1")):
        page.keyboard.press(key)
        expect(panel.get_by_role("heading", level=1)).to_contain_text(case)
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page).not_to_have_url(re.compile("trial="))


def test_a_link_with_an_open_trial_can_be_shared_and_back_closes_it(page: Page, browser: Browser) -> None:
    page.locator(".grid-rows [aria-rowindex='3'] .cell a").nth(1).click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("c1")
    expect(page).to_have_url(re.compile("trial=3$"))
    shared = browser.open(page.url)
    expect(shared.get_by_role("dialog")).to_contain_text("c1")
    shared.get_by_role("button", name="Close").click()
    expect(shared.get_by_role("dialog")).to_be_hidden()
    expect(shared).not_to_have_url(re.compile("trial="))
    page.go_back()
    expect(panel).to_be_hidden()
    assert "hacked" not in (page.title(), shared.title())


def test_a_phone_shows_the_grid_without_scrolling_the_page_sideways(stored: Path, view: View, browser: Browser) -> None:
    page = browser.open(view(str(stored)).url("/runs/latest"), width=PHONE)
    expect(page.locator("#cases.live [aria-rowindex='2']")).to_be_visible()
    page.locator("#cases").scroll_into_view_if_needed()
    assert overflow(page) <= 0
    page.locator(".grid-rows a").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("c0")
    assert overflow(page) <= 0


def test_long_names_of_many_variants_leave_room_for_every_score(tmp_path: Path, view: View, browser: Browser) -> None:
    path = tmp_path / "results.db"
    variants: dict[str, dict[str, object]] = {f"{number}-{'a-long-name-' * 5}": {} for number in range(8)}
    Experiment(cases=[{"id": "c" * 90, "input": "q", "expected": "a"}], variants=variants, target="simulated").run(
        store=path
    )
    server = view(str(path))
    for width in (PHONE, 1280):
        page = browser.open(server.url("/runs/latest"), width=width)
        expect(page.locator("#cases.live [aria-rowindex='2']")).to_be_visible()
        assert overflow(page) <= 0
        page.locator(".grid-rows a").first.focus()
        for column in range(2, 10):
            page.keyboard.press("ArrowRight")
            cell = page.locator(f"[aria-rowindex='2'] [aria-colindex='{column}'] a")
            expect(cell).to_be_focused()
            assert is_in_sight(cell), f"column {column} at a width of {width}"
    page.goto(server.url("/"))
    expect(page.locator("tbody tr")).to_have_count(1)
    assert overflow(page) <= 0


def is_in_sight(cell: Locator) -> bool:
    """Whether the middle of a cell is neither scrolled away nor covered by the first column."""
    return bool(
        cell.evaluate(
            """cell => {
              const { left, right, top, bottom } = cell.getBoundingClientRect();
              return document.elementFromPoint((left + right) / 2, (top + bottom) / 2) === cell;
            }"""
        )
    )


def test_the_grid_can_be_saved_as_it_is_shown(page: Page) -> None:
    page.get_by_label("Tag").select_option("kind=read")
    expect(page.locator("[data-part=summary]")).to_have_text(f"{CASES // 2} of {CASES} cases")
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == CASES // 2 + 1
    assert download.value.suggested_filename.endswith("-cases.csv")


def test_rows_appear_while_a_run_is_executed_and_nothing_moves(folder: Folder, view: View, browser: Browser) -> None:
    with open_store(folder.path / "results.db") as store:
        run = RunWriter(store, "calm-1", ["one", "two"], 1, 10)

        def write(index: int, *scores: float) -> None:
            for variant, score in enumerate(scores):
                case, answer = ModelCase(f"c{index}", index, "yes"), Outcome("ok", Answer("yes"))
                run.write(2 * index + variant, case, answer, {"exact": score}, "question")

        write(5, 0.0, 1.0)
        page = browser.open(view().url("/runs/calm-1?sort=-difference"))
        expect(page.locator(".grid-rows .grid-row")).to_have_count(1)
        page.locator(".grid-rows a").first.focus()
        write(3, 0.0, 0.5)
        expect(page.locator(".grid-rows .grid-row")).to_have_count(2)
        write(3, 0.0, 1.0)
        write(5, 0.5, 0.5)
        expect(page.locator("[aria-rowindex='2'] .difference")).to_have_text("+0.0")
        expect(page.locator("[aria-rowindex='3'] .difference")).to_have_text("+100.0")
        assert [row(page, 1), row(page, 2)] == ["c5", "c3"], "rows moved under the reader"
        expect(page.locator(".grid-rows a:focus")).to_have_text("c5")
        page.get_by_role("button", name="sort again").click()
        expect(page.locator("[aria-rowindex='2'] [role=rowheader]")).to_have_text("c3")
        run.finish()
    expect(page.locator(".pill")).to_have_text("complete")


def test_a_server_that_was_restarted_is_found_again(stored: Path, view: View, browser: Browser) -> None:
    server = view(str(stored))
    page = browser.open(server.url("/runs/latest?sort=case"))
    expect(page.get_by_label("Tag")).to_be_visible()
    browser.expect_problem("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY")
    server.kill()
    page.get_by_label("Tag").select_option("kind=search")
    expect(page.locator("[data-part=summary]")).to_contain_text("no connection to `abreast view`")
    server.restart()
    page.get_by_label("Tag").select_option("kind=read")
    expect(page.locator("[data-part=summary]")).to_have_text(f"{CASES // 2} of {CASES} cases")
