"""`abreast view` in a real browser: the list of runs, a run in progress, faults, and hostile pages."""

from __future__ import annotations

import functools
import http.server
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect

from browser import DESKTOP, PHONE, REBOUND, Browser, ViewProcess, overflow, picture
from conftest import Folder

View = Callable[..., ViewProcess]

# A target whose calls wait, in the order in which they start, until the test lets so many of them pass.
TARGET = """\
import asyncio, itertools
from pathlib import Path
from abreast.errors import Transient

calls = itertools.count()

async def answer(case, wrong=0, text="yes"):
    number = next(calls)
    while number >= int(Path("passes").read_text()):
        await asyncio.sleep(0.02)
    if Path("outage").exists() and case.id == "c1":
        raise Transient("no connection")
    return "no" if int(case.id[1:]) % 10 < wrong else text
"""
SPEC = """\
name: {name}
cases: cases.jsonl
variants:
  short: {{target: "python:target:answer", wrong: 5}}
  steps: {{target: "python:target:answer", wrong: 1, text: {text}}}
scorers: [{scorer}]
limits: {{parallel: 4, retries: 0}}
"""
ALL = 1_000_000


class ActiveRun:
    """A run in a process of its own, whose trials pass when the test says so."""

    def __init__(self, folder: Folder, process: subprocess.Popen[str]) -> None:
        self._folder, self._process = folder, process

    def let_pass(self, trials: int) -> None:
        let_pass(self._folder, trials)

    def end(self) -> int:
        self.let_pass(ALL)
        self._process.communicate(timeout=60)
        return self._process.returncode


def let_pass(folder: Folder, trials: int) -> None:
    new = folder.write("passes.new", str(trials))
    new.replace(folder.path / "passes")


def prepare(folder: Folder, cases: int = 80, name: str = "prompts", text: str = "yes", scorer: str = "exact") -> None:
    folder.cases(cases)
    folder.write("target.py", TARGET)
    folder.write(f"{name}.yaml", SPEC.format(name=name, text=json.dumps(text), scorer=scorer))


@contextmanager
def active_run(folder: Folder, name: str = "prompts", passes: int = 0) -> Iterator[ActiveRun]:
    let_pass(folder, passes)
    process = folder.start("run", f"{name}.yaml", "--yes", "--quiet", "--fresh")
    run = ActiveRun(folder, process)
    try:
        while process.poll() is None and not (folder.path / "results.db").exists():
            time.sleep(0.05)
        yield run
    finally:
        let_pass(folder, ALL)  # trials in flight are waited for
        process.terminate()
        process.communicate(timeout=60)


def finish_run(folder: Folder, *options: str, name: str = "prompts") -> None:
    let_pass(folder, ALL)
    assert folder.abreast("run", f"{name}.yaml", "--yes", "--fresh", *options).code == 0


def figure(page: Page, title: str) -> object:
    """The value of a figure of the page of a run."""
    return page.locator(".figures div", has=page.locator("dt", has_text=title)).locator("dd").first


def open_only_run(page: Page) -> None:
    page.locator("tbody th a").click()


# -- a run in progress -------------------------------------------------------------------------------------------------


def test_a_run_in_progress_is_followed(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder)
    with active_run(folder) as run:
        page = browser.open(view().address)
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody .pill")).to_have_text("running")
        expect(page.locator("tbody td[data-title=progress]")).to_contain_text("0 of 160")
        run.let_pass(20)
        expect(page.locator("tbody td[data-title=progress]")).to_contain_text("20 of 160")
        open_only_run(page)
        expect(page.locator(".sentence")).to_contain_text("steps")
        expect(page.locator(".sentence")).to_contain_text("inconclusive")
        expect(figure(page, "trials")).to_have_text("20 of 160")
        expect(figure(page, "in flight")).to_have_text("4")
        run.let_pass(130)
        expect(figure(page, "trials")).to_have_text("130 of 160")
        expect(page.get_by_text("this verdict is valid however often you look")).to_be_visible()
        expect(page.locator(".sentence")).to_contain_text("steps is better than short")
        expect(page.locator("figcaption", has_text="The interval as cases were added")).to_be_visible()
        picture(page, "run")
        assert run.end() == 0
        expect(page.locator(".pill")).to_have_text("complete")
        expect(page.locator(".sentence")).to_contain_text("steps is better than short: +40.0 points")
        expect(page.locator("#announcer")).to_contain_text("steps is better than short")


def test_controls_act_on_the_run(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder)
    folder.write("outage", "")
    with active_run(folder) as run:
        page = browser.open(view("results.db", "--run", "latest").address)
        expect(figure(page, "in flight")).to_have_text("4")
        page.locator("[data-controls] [name=value]").fill("12")
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".controls .answer")).to_contain_text("parallel")
        expect(figure(page, "in flight")).to_have_text("12")

        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".pill")).to_have_text("paused")
        run.let_pass(40)
        expect(figure(page, "in flight")).to_have_text("0")
        expect(figure(page, "trials")).to_have_text("12 of 160")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".pill")).to_have_text("running")
        expect(figure(page, "trials")).to_have_text("40 of 160")

        run.let_pass(100)
        errors = page.locator("[data-section=errors]")
        expect(errors).to_contain_text("network")
        (folder.path / "outage").unlink()
        page.get_by_role("button", name="Retry infrastructure failures").click()
        expect(page.locator(".controls .answer")).to_contain_text("executing 2 failed trials again")
        run.let_pass(130)
        expect(errors).not_to_contain_text("network")

        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".controls .answer")).to_contain_text("stop")
        run.let_pass(ALL)
        expect(page.locator(".pill")).to_have_text("incomplete")
        expect(page.get_by_text("abreast resume")).to_be_visible()
        assert run.end() == 3
    controls = folder.sql("select action from controls order by requested_at")
    assert [row["action"] for row in controls] == ["set", "pause", "resume", "retry", "stop"]


def test_two_runs_at_once_are_listed_and_followed_apart(folder: Folder, view: View, browser: Browser) -> None:
    for name in ("first", "second"):
        prepare(folder, name=name)
    finish_run(folder, name="first")
    assert folder.abreast("delete", folder.abreast("runs", "--json").json[0]["run"], "--yes").code == 0
    page = browser.open(view().address)
    expect(page.get_by_text("No runs yet")).to_be_visible()
    with active_run(folder, "first", 20) as one, active_run(folder, "second", 20) as two:
        for name in ("first", "second"):
            expect(page.get_by_role("row", name=name)).to_contain_text("20 of 160")
        page.get_by_role("row", name="first").get_by_role("checkbox").check()
        page.get_by_role("button", name="Delete").click()
        expect(page.get_by_role("dialog")).to_contain_text("is running. Stop it first")
        expect(page.get_by_role("dialog").get_by_role("button", name="Delete")).to_have_count(0)
        page.keyboard.press("Escape")
        page.get_by_role("row", name="second").get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("second")
        one.let_pass(60)
        expect(figure(page, "trials")).to_have_text("60 of 160")
        page.go_back()
        assert one.end() == 0
        assert two.end() == 0
        expect(page.locator(".pill", has_text="complete")).to_have_count(2)
        expect(page.locator(".word.better")).to_have_count(2)


def test_a_page_recovers_when_the_server_comes_back_and_has_missed_nothing(
    folder: Folder, view: View, browser: Browser
) -> None:
    prepare(folder)
    browser.expect_problem("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET")
    with active_run(folder, passes=30) as run:
        server = view()
        runs = browser.open(server.address)
        expect(runs.locator("tbody td[data-title=progress]")).to_contain_text("30 of 160")
        page = browser.open(server.url("/runs/latest"))
        expect(figure(page, "trials")).to_have_text("30 of 160")
        server.kill()
        for lost in (page, runs):
            expect(lost.locator(".connection")).to_be_visible()
        assert run.end() == 0
        server.restart()
        for back in (page, runs):
            expect(back.locator(".connection")).to_be_hidden()
            expect(back.locator(".pill")).to_have_text("complete")
        expect(figure(page, "trials")).to_have_text("160 of 160")
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        expect(page.locator(".sentence")).to_contain_text("steps is better than short")
        expect(runs.locator("tbody td[data-title=verdict]")).to_contain_text("better steps")


def test_hidden_tabs_hold_no_connection_and_miss_nothing(folder: Folder, view: View, browser: Browser) -> None:
    def set_hidden(page: Page, is_hidden: bool) -> None:
        page.evaluate(
            """isHidden => {
              Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
              document.dispatchEvent(new Event("visibilitychange"));
            }""",
            is_hidden,
        )

    prepare(folder)
    with active_run(folder, passes=20) as run:
        server = view()
        first = browser.open(server.url("/runs/latest"))
        for path in ["/", "/runs/latest"] * 4:  # a browser has six connections to a server, for all tabs
            set_hidden(first, True)
            tab = first.context.new_page()
            tab.goto(server.url(path))
            expect(tab.get_by_text("20 of 160").first).to_be_visible()
            set_hidden(tab, True)
        run.let_pass(40)
        set_hidden(first, False)
        expect(figure(first, "trials")).to_have_text("40 of 160")


# -- the list of runs --------------------------------------------------------------------------------------------------


def test_runs_are_filtered_sorted_compared_and_deleted(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder, 40)
    finish_run(folder, "--label", "e1.0")
    folder.write("prompts.yaml", SPEC.format(name="prompts", text='"yes"', scorer="exact").replace("5", "3"))
    finish_run(folder, "--label", "e1.1")
    prepare(folder, 40, name="models")
    finish_run(folder, name="models")
    names = [run["run"] for run in folder.abreast("runs", "--json").json]
    page = browser.open(view().address)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(page.locator(".word")).to_have_count(3)
    page.set_viewport_size({"width": DESKTOP, "height": 500})
    picture(page, "runs")
    page.set_viewport_size({"width": DESKTOP, "height": 800})

    page.get_by_label("Search").fill("e1")
    expect(rows).to_have_count(2)
    expect(page).to_have_url(re.compile(r"/\?text=e1$"))
    page.get_by_label("Verdict").select_option("better")
    expect(rows).to_have_count(2)
    page.get_by_role("link", name="started").click()
    expect(rows.first).to_contain_text("e1.0")
    page.reload()
    expect(rows.first).to_contain_text("e1.0")
    expect(page.get_by_label("Search")).to_have_value("e1")
    page.go_back()
    expect(rows.first).to_contain_text("e1.1")
    page.get_by_label("Status").select_option("running")
    expect(page.get_by_text("No run matches these filters")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(rows).to_have_count(3)

    expect(page.get_by_role("button", name="Compare")).to_be_disabled()
    for name in names[:2]:
        page.get_by_label(f"select {name}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".sentence")).to_have_count(2)
    expect(page.locator(".sentence").first).to_contain_text(f"{names[1]}:short is better than {names[0]}:short")
    picture(page, "comparison")
    page.locator("details.case").first.click()
    expect(page.locator("details.case").first.locator("pre").first).to_have_text("question 3")
    page.get_by_role("link", name="use as baseline").click()
    expect(page.locator(".sentence").first).to_contain_text(f"{names[0]}:short is worse than {names[1]}:short")

    page.get_by_role("link", name="abreast").click()
    page.get_by_label(f"select {names[0]}").check()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete 1 run?")
    expect(dialog).to_contain_text(f"{names[0]} (prompts) with 80 trials and its report")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name="Cancel").click()
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(rows).to_have_count(2)
    expect(page.locator("#announcer")).to_contain_text(f"deleted {names[0]}: 80 trials")
    assert names[0] not in folder.abreast("runs").out


def test_a_message_about_the_deletion_of_runs_stays(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder, 10)
    finish_run(folder)
    finish_run(folder)
    names = [run["run"] for run in folder.abreast("runs", "--json").json]
    page = browser.open(view().address)
    rows, message = page.locator("tbody tr"), page.locator("#chosen")
    page.get_by_label(f"select {names[0]}").check()
    assert folder.abreast("delete", names[0], "--yes").code == 0
    expect(rows).to_have_count(1)
    browser.expect_problem("400")
    page.get_by_role("button", name="Delete").click()
    expect(message).to_contain_text(f"no run {names[0]}; it was deleted in the meantime")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("button", name="Clear selection").click()
    page.get_by_label(f"select {names[1]}").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(rows).to_have_count(0)
    expect(message).to_contain_text(f"deleted {names[1]}: 20 trials")


def test_a_new_run_leaves_selection_and_focus_alone(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder, 10)
    finish_run(folder)
    page = browser.open(view().address)
    box = page.locator("tbody").get_by_role("checkbox")
    box.check()
    box.focus()
    box.evaluate("element => { window.kept = element }")
    finish_run(folder)
    expect(page.locator("tbody tr")).to_have_count(2)
    assert page.evaluate("window.kept.checked && window.kept === document.activeElement")
    expect(page.locator("tbody").get_by_role("checkbox").first).not_to_be_checked()


# -- for everybody -----------------------------------------------------------------------------------------------------


def test_everything_can_be_done_with_the_keyboard(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder)
    finish_run(folder)
    with active_run(folder, passes=10):
        page = browser.open(view().address)
        expect(page.locator("tbody tr")).to_have_count(2)

        def tab_to(name: str) -> None:
            """Move the focus forward to an element by its name or text."""
            for _ in range(60):
                page.keyboard.press("Tab")
                current = page.evaluate(
                    "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText"
                )
                if current.strip().startswith(name):
                    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                    assert outline != "none", f"the focus on {name} is not visible"
                    return
            raise AssertionError(f"{name} cannot be reached")

        tab_to("Skip to the content")
        for _ in range(2):
            tab_to("select ")
            page.keyboard.press("Space")
        tab_to("Compare")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Comparison of 2 runs")
        expect(page.locator(".sentence").first).to_be_visible()
        page.go_back()
        page.get_by_label("Search").focus()
        page.keyboard.type("running no such run")
        expect(page.get_by_text("No run matches")).to_be_visible()
        tab_to("Show all runs")
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(2)
        run = page.locator("tbody tr", has_text="running").locator("th a")
        tab_to(run.inner_text())
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        tab_to("Pause")
        page.keyboard.press("Enter")
        expect(page.locator(".pill")).to_have_text("paused")


def test_pages_fit_a_phone_and_follow_the_colour_scheme(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder)
    finish_run(folder, "--label", "before-the-change-of-the-prompt")
    finish_run(folder)
    names = [run["run"] for run in folder.abreast("runs", "--json").json]
    server = view()
    for scheme in ("light", "dark"):
        for path in ("/", f"/runs/{names[1]}", f"/compare?runs={names[0]}&runs={names[1]}"):
            page = browser.open(server.url(path), width=PHONE, scheme=scheme, height=800)
            expect(page.locator(".sentence, .word").first).to_be_visible()
            assert overflow(page) <= 0, path
            assert contrast(page, "main") >= 7
            assert contrast(page, ".soft:visible") >= 4.5
            if scheme == "dark":
                picture(page, "phone") if path.startswith("/runs") else None


def contrast(page: Page, selector: str) -> float:
    """The contrast of text with the page, as WCAG defines it."""
    return float(
        page.locator(selector).first.evaluate(
            """element => {
              const light = (colour) => {
                const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
                  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
              };
              const colours = [getComputedStyle(element).color, getComputedStyle(document.body).backgroundColor];
              const [low, high] = colours.map(light).sort((a, b) => a - b);
              return high / low;
            }"""
        )
    )


# -- safety ------------------------------------------------------------------------------------------------------------


def test_answers_are_text(folder: Folder, view: View, browser: Browser) -> None:
    hostile = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    prepare(folder, 20, text=hostile, scorer="contains")
    finish_run(folder)
    finish_run(folder, "--label", hostile)
    names = [run["run"] for run in folder.abreast("runs", "--json").json]
    server = view()
    page = browser.open(server.url(f"/compare?runs={names[0]}:short&runs={names[1]}:steps"))
    page.locator("details.case").first.click()
    expect(page.locator("details.case pre", has_text="window.hacked").first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    for path in ("/", f"/runs/{names[1]}"):
        page.goto(server.url(path))
        expect(page.locator(".sentence, .word").first).to_be_visible()
        assert page.evaluate("window.hacked") is None


def test_a_read_only_page_changes_nothing(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder)
    with active_run(folder, passes=10):
        page = browser.open(view("results.db", "--read-only").address)
        page.locator("tbody").get_by_role("checkbox").check()
        expect(page.get_by_role("button", name="Clear selection")).to_be_visible()
        expect(page.get_by_role("button", name="Delete")).to_have_count(0)
        open_only_run(page)
        expect(page.get_by_text("This page is read-only")).to_be_visible()
        expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        browser.expect_problem("403")
        for path, body in (("/runs/latest/controls", {"action": "stop"}), ("/deletion", {"runs": ["latest"]})):
            post = "([path, body]) => import('/static/requests.js').then(({ post }) => post(path, body))"
            with pytest.raises(Error, match="the page is read-only"):
                page.evaluate(post, [path, body])
    assert folder.sql("select * from controls") == []


HOSTILE = """\
<!doctype html><title>hostile</title>
<iframe src="{origin}/runs/latest"></iframe>
<img id="image" src="{origin}/static/icon.svg">
<script src="{origin}/static/requests.js"></script>
<form method="post" enctype="text/plain" action="{origin}/runs/latest/controls" target="sink">
<input name='{{"action": "stop", "x": "' value='"}}'></form><iframe name="sink"></iframe>
<script>
const target = "{origin}";
const outcome = (promise) => promise.then((value) => value, (error) => "failed: " + error.message);
const source = () => new Promise((resolve) => {{
  const events = new EventSource(target + "/stream");
  events.onmessage = events.onopen = () => resolve("opened");
  events.onerror = () => {{ events.close(); resolve("failed"); }};
}});
const stop = {{ method: "POST", body: '{{"action": "stop"}}' }};
const json = {{ ...stop, headers: {{ "Content-Type": "application/json" }} }};
window.outcomes = async () => ({{
  read: await outcome(fetch(target + "/").then((r) => r.text())),
  blind: await outcome(fetch(target + "/runs/latest/controls", {{ ...stop, mode: "no-cors" }}).then((r) => r.type)),
  json: await outcome(fetch(target + "/runs/latest/controls", json).then((r) => r.text())),
  events: await source(),
  image: document.getElementById("image").naturalWidth,
  frame: (() => {{ try {{ return frames[0].document.body.innerText; }} catch (error) {{ return error.name; }} }})(),
}});
document.forms[0].submit();
</script>
"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """Serve the files of a folder at another origin."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_hostile_pages_can_neither_read_nor_change_anything(folder: Folder, view: View, browser: Browser) -> None:
    prepare(folder)
    with active_run(folder, passes=10):
        server = view()
        page = browser.open(server.url("/runs/latest"))
        expect(figure(page, "trials")).to_have_text("10 of 160")

        # A page of another origin: requests, forms, events, pictures, scripts, frames.
        browser.expect_problem("another origin|ERR_BLOCKED_BY|ERR_FAILED|CORS|403|frame-ancestors|Cross-Origin-Opener")
        evil = folder.path / "evil"
        evil.mkdir()
        (evil / "favicon.ico").write_bytes(b"")
        (evil / "index.html").write_text(HOSTILE.format(origin=server.origin))
        with web_server(evil) as origin:
            hostile = browser.open(origin)
            outcomes = hostile.evaluate("window.outcomes()")
        assert outcomes["read"].startswith("failed")
        assert outcomes["json"].startswith("failed")
        assert outcomes["events"] == "failed"
        assert outcomes["image"] == 0
        assert outcomes["frame"] == "SecurityError"
        assert hostile.evaluate("typeof announce") == "undefined"

        # A name of the attacker that was made to point to this machine, so that the page is of the same origin.
        rebound = browser.open(f"http://{REBOUND}:{server.port}/runs/latest")
        assert "refused" in rebound.locator("body").inner_text()
        assert "is not this machine" in rebound.locator("body").inner_text()

        expect(page.locator(".pill")).to_have_text("running")
    assert folder.sql("select * from controls") == []
