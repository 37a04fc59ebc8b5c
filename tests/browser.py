"""A real Chromium for tests, and `abreast view` as a process of its own.

The fixtures are in `conftest.py`: `browser` opens pages and fails the test if one of them reports a problem; `view`
starts servers. Wait for conditions (`expect(...)`, `page.wait_for_function`), never for a time.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser as ChromiumProcess
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Playwright, Request, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
REBOUND = "rebound.test"  # a name whose owner lets it point to this machine
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]
PATIENCE_MS = 30_000  # for a busy machine
PICTURES = Path(__file__).parent.parent / "docs" / "images"
PHONE, DESKTOP = 390, 1280  # widths in pixels
expect.set_options(timeout=PATIENCE_MS)


class Chromium:
    """Headless Chromium, which all tests of a worker share. Every test has a profile of its own."""

    def __init__(self) -> None:
        with running_loop(None):
            self._playwright = sync_playwright().start()
            self.process = self._playwright.chromium.launch(executable_path=find_chromium(self._playwright), args=FLAGS)
            self._loop = asyncio.get_running_loop()

    @contextmanager
    def in_use(self) -> Iterator[ChromiumProcess]:
        """Playwright has an event loop in this thread. Other tests must not see it."""
        with running_loop(self._loop):
            yield self.process

    def close(self) -> None:
        with running_loop(self._loop):
            self.process.close()
            self._playwright.stop()


def find_chromium(playwright: Playwright) -> str:
    """The system's browser, else the one that `playwright install chromium` downloads."""
    program = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
    if not Path(program).exists():
        sys.exit("the tests need Chromium; run `apt-get install chromium`, or `.venv/bin/playwright install chromium`")
    return program


@contextmanager
def running_loop(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Set the running event loop of this thread, or none, as for a command that is run within a test of a page."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


class Browser:
    """Opens pages and collects what is wrong with them: errors, violations of the policy, requests to other origins."""

    def __init__(self, process: ChromiumProcess) -> None:
        self._process = process
        self._contexts: list[BrowserContext] = []
        self._problems: list[str] = []
        self._expected: list[str] = []

    def open(self, address: str | Path, *, width: int = DESKTOP, height: int = 900, scheme: str = "light") -> Page:
        """Open an address, or a file, in a new window with cookies of its own."""
        is_phone = width < 600
        context = self._process.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            is_mobile=is_phone,
            has_touch=is_phone,
            reduced_motion="reduce",
            timezone_id="UTC",
            locale="en-US",
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        url = address.as_uri() if isinstance(address, Path) else address
        context.on("console", self._note_console)
        context.on("weberror", lambda error: self._problems.append(f"exception: {error.error}"))
        context.on("request", lambda request: self._note_request(request, url))
        page = context.new_page()
        page.goto(url)
        return page

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            place = message.location
            self._problems.append(f"{message.type}: {message.text} ({place['url']}:{place['lineNumber']})")

    def _note_request(self, request: Request, url: str) -> None:
        origin = urlsplit(request.url)[:2]
        if origin != urlsplit(url)[:2] and origin[0] not in ("data", "blob", "about"):
            self._problems.append(f"request to another origin: {request.url}")

    def expect_problem(self, pattern: str) -> None:
        """Expect problems that match a regular expression. The test fails if there is none."""
        self._expected.append(pattern)

    def problems(self) -> list[str]:
        """Problems so far, without the expected ones."""
        return [problem for problem in self._problems if not any(re.search(p, problem) for p in self._expected)]

    def close(self) -> list[str]:
        """Close all windows; return the problems, and the expected ones that did not occur."""
        for context in self._contexts:
            context.close()
        missing = [p for p in self._expected if not any(re.search(p, problem) for problem in self._problems)]
        return self.problems() + [f"expected, but did not occur: {pattern}" for pattern in missing]


def picture(page: Page, name: str) -> None:
    """Take a picture for the documentation, if ABREAST_PICTURES is set."""
    if os.environ.get("ABREAST_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / f"view-{name}.png", animations="disabled", caret="hide")


def overflow(page: Page) -> int:
    """The number of pixels by which a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


class ViewProcess:
    """`abreast view` in a process of its own, on a free port."""

    def __init__(self, folder: Path, store: str, *options: str) -> None:
        self._folder, self._store, self._options = folder, store, options
        self._errors = folder / f"view-{id(self)}.err"
        self._start("0")

    def _start(self, port: str) -> None:
        command = [sys.executable, "-m", "abreast", "view", self._store, "--no-open", "--port", port, *self._options]
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            self._process.communicate()
            raise AssertionError(self._errors.read_text())
        self.origin = f"http://{urlsplit(self.address).netloc}"
        self.port, self.pid = urlsplit(self.address).port, self._process.pid

    def url(self, path: str) -> str:
        return self.origin + path

    def kill(self) -> None:
        """End the server without a chance to say goodbye."""
        self._process.kill()
        self._process.communicate()

    def restart(self) -> None:
        """Start the server again, on the port that it had."""
        self._start(str(self.port))

    def close(self) -> None:
        """End the server as Ctrl-C does. It must not have reported an error."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.communicate(timeout=30)
            assert self._process.returncode == 0, self._errors.read_text()
        assert not self._errors.read_text(), self._errors.read_text()


if __name__ == "__main__":
    with sync_playwright() as _playwright:
        find_chromium(_playwright)
