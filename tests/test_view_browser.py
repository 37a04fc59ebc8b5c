"""`abreast view` in a real browser."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from browser import Browser, ViewProcess
from conftest import Folder

View = Callable[..., ViewProcess]


def test_the_list_leads_to_the_page_of_a_run(simulated: Folder, view: View, browser: Browser) -> None:
    assert simulated.abreast("run", "experiment.yaml").code == 0
    page = browser.open(view().address)
    page.get_by_role("row", name="simulated").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("simulated")
    expect(page.locator(".sentence")).to_contain_text("better is better than plain")
    assert simulated.abreast("runs").code == 0, "commands work while a page is open"
