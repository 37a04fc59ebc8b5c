"""Followers of runs that are being viewed. They render changed parts of the page once for all viewers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import NamedTuple

from markupsafe import Markup

from abreast.errors import AbreastError
from abreast.store import Store, open_store
from abreast.store.queries.changes import Revision
from abreast.view.live import sections
from abreast.view.live.run_progress import RunProgress
from abreast.view.reading import StoreReader

REFRESH_S = 0.25  # between two refreshes of the progress
CHECK_S = 1.0  # between two checks without changes
ANALYSIS_SHARE = 0.2  # of a follower's time
RETRY_S = 5.0  # after an analysis that failed
MOST_KEPT = 8  # followers of runs without viewers
KEPT_S = 30.0  # how long results of a run without viewers are kept


class Fragment(NamedTuple):
    """A rendered part of the page, and the revision of the rows that it shows."""

    html: Markup
    revision: Revision


class Update(NamedTuple):
    """Changed parts of the page. After them, the page shows everything up to the revision."""

    fragments: dict[str, Markup]
    revision: str


class RunFollower:
    """Follows one run in a thread until it is closed."""

    def __init__(self, reader: StoreReader, analyst: StoreReader, run: str, read_only: bool) -> None:
        self.run = run
        self._reader, self._analyst, self._read_only = reader, analyst, read_only
        self._fragments: dict[str, Fragment] = {}
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._analysis: Future[None] | None = None
        self._analysed = Revision()
        self._analysis_due = 0.0
        self._must_retry = False  # the last analysis failed
        self._was_running: bool | None = None
        self._listeners: set[Callable[[], object]] = set()
        self._thread = threading.Thread(target=self._work, name=f"abreast-follow-{run}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._closing.set()

    def close(self) -> None:
        self.stop()
        self._thread.join()

    @contextmanager
    def notifying(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call the listener, from another thread, whenever fragments change."""
        with self._changed:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._changed:
                self._listeners.discard(listener)

    def fragments(self) -> dict[str, Fragment]:
        with self._changed:
            return dict(self._fragments)

    def wait_for_first(self, seconds: float) -> None:
        """Wait until the first fragments are rendered."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._fragments), seconds)

    def _publish(self, fragments: dict[str, Markup], revision: Revision) -> None:
        with self._changed:
            changed = False
            for name, html in fragments.items():
                old = self._fragments.get(name)
                changed = changed or old is None or old.html != html
                self._fragments[name] = Fragment(html, revision)
            self._changed.notify_all()
            listeners = list(self._listeners) if changed else []
        for listener in listeners:
            listener()

    def _work(self) -> None:
        store = open_store(self._reader.address, self._reader.engine)
        progress: RunProgress | None = None
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                progress = self._refresh(store, progress)
                took = time.monotonic() - began
                self._closing.wait(max(REFRESH_S, 3 * took) - took)
                store.wait_for_change(CHECK_S)
            except Exception as error:  # noqa: BLE001 - such as a store that cannot be reached: look again
                progress = None
                self._publish({"problem": sections.problem(error)}, Revision())
                self._closing.wait(CHECK_S)
        with suppress(AbreastError):
            store.close()

    def _refresh(self, store: Store, progress: RunProgress | None) -> RunProgress:
        run = store.run(self.run)
        now = time.monotonic()
        progress = progress or RunProgress(store, int(run["run_id"]), int(run["planned_trials"]))
        progress.update(store, now)
        self._publish(sections.progress_sections(store, run, progress, self._read_only), progress.revision)
        is_running = run["status"] == "running"
        is_outdated = progress.revision != self._analysed or self._was_running is not is_running
        is_outdated = is_outdated or self._must_retry
        is_patient = is_running or self._must_retry
        is_due = (self._analysis is None or self._analysis.done()) and (now >= self._analysis_due or not is_patient)
        if is_outdated and is_due:
            self._analysed, self._was_running = progress.revision, is_running
            self._analysis = self._analyst.submit(self._analyse, progress.revision)
        return progress

    def _analyse(self, store: Store, revision: Revision) -> None:
        began = time.monotonic()
        try:
            fragments = sections.result_sections(store, self.run)
        except Exception as error:  # noqa: BLE001 - whatever it is, the page must not wait for a result forever
            fragments = {"verdict": sections.problem(error)}
        self._must_retry = "facts" not in fragments
        took = time.monotonic() - began
        self._analysis_due = time.monotonic() + max(RETRY_S if self._must_retry else REFRESH_S, took / ANALYSIS_SHARE)
        self._publish(fragments, revision)

    def update_since(self, seen: dict[str, Markup], since: Revision) -> Update:
        """Return the fragments that a page lacks; `since` is the revision it had before it connected.

        A page whose revision is not that of a fragment gets it: usually an older one, after the restoration of a
        backup a newer one.
        """
        fragments = self.fragments()
        changed = {}
        for name, fragment in fragments.items():
            has_seen = seen.get(name) == fragment.html
            is_timed = name in sections.TIMED or (name in sections.RESULTS and not self._was_running)
            is_known = name not in seen and not is_timed and fragment.revision == since != Revision()
            if not has_seen and not is_known:
                changed[name] = fragment.html
            seen[name] = fragment.html
        if len(fragments) < len(sections.NAMES):
            return Update(changed, str(Revision()))
        revisions = (fragment.revision for fragment in fragments.values())
        return Update(changed, str(Revision(*map(min, zip(*revisions, strict=True)))))


class Followers:
    """The followers of runs with viewers, and for a while of those that had some."""

    def __init__(self, reader: StoreReader, read_only: bool) -> None:
        self._reader, self._read_only = reader, read_only
        self._analyst = StoreReader(reader.address, reader.engine, threads=1, name="abreast-analyst")
        self._active: dict[str, RunFollower] = {}
        self._watchers: dict[str, int] = {}
        self._expiry: dict[str, asyncio.TimerHandle] = {}

    def of(self, run: str) -> RunFollower:
        """Return the follower of a run, which is kept for a while."""
        if run not in self._active:
            self._active[run] = RunFollower(self._reader, self._analyst, run, self._read_only)
            unwatched = [name for name in self._active if name not in self._watchers and name != run]
            for name in unwatched[: max(0, len(unwatched) - MOST_KEPT)]:
                self._expire(name)
        self._expire_later(run)
        return self._active[run]

    async def updates(self, run: str, since: Revision) -> AsyncGenerator[Update | None]:
        """Yield changed fragments as they change; None if nothing has changed for a while."""
        follower, loop, changed = self.of(run), asyncio.get_running_loop(), asyncio.Event()
        self._watchers[run] = self._watchers.get(run, 0) + 1
        seen: dict[str, Markup] = {}
        try:
            with follower.notifying(lambda: loop.call_soon_threadsafe(changed.set)):
                changed.set()
                while True:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), 10.0)
                    if not changed.is_set():
                        yield None
                        continue
                    changed.clear()
                    if (update := follower.update_since(seen, since)).fragments:
                        yield update
        finally:
            self._watchers[run] -= 1
            if not self._watchers[run]:
                del self._watchers[run]
            self._expire_later(run)

    def _expire_later(self, run: str) -> None:
        if run in self._expiry:
            self._expiry.pop(run).cancel()
        self._expiry[run] = asyncio.get_running_loop().call_later(KEPT_S, self._expire, run)

    def _expire(self, run: str) -> None:
        if run in self._watchers:
            return
        follower = self._active.pop(run)
        self._expiry.pop(run).cancel()
        asyncio.get_running_loop().run_in_executor(None, follower.close)

    def close(self) -> None:
        for handle in self._expiry.values():
            handle.cancel()
        for follower in self._active.values():
            follower.stop()
        for follower in self._active.values():
            follower.close()
        self._analyst.close()
