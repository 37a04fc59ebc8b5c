"""The live page of a run: it follows the run, misses nothing after a reconnect, and claims only what is valid."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from abreast import Experiment
from abreast.analyse.decision.interim import why_no_verdict_yet
from abreast.analyse.run import Analysis, analyse
from abreast.errors import StoreError
from abreast.model import Answer, Case, Outcome
from abreast.report.words.verdict_sentence import not_run_line, verdict_lines
from abreast.store import Store, open_store
from abreast.store.queries.changes import Revision
from abreast.store.queries.runs import StoredEvent
from abreast.view.live import follower, sections
from abreast.view.live.run_progress import RunProgress
from abreast.view.live.timeline import limit_events, picture, words
from conftest import Folder
from test_controls import start
from test_view_cases import RunWriter
from view_server import LivePage, live_page

OWNER = {"place": "another machine|1", "pid": 1}  # alive as long as its heartbeat
ENDLESS = """\
cases: cases.jsonl
variants:
  plain: {target: simulated, accuracy: 0.5, latency: 0.1}
  better: {target: simulated, accuracy: 0.95, latency: 0.1}
scorers: [exact]
limits: {parallel: 1}
"""


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


class Watcher:
    """A browser's view of a run: the newest version of each section."""

    def __init__(self, events: Iterator[tuple[str, dict[str, str]]]) -> None:
        self._events = events
        self.sections: dict[str, str] = {}
        self.last_id = ""

    def until(self, name: str, pattern: str) -> str:
        """Read events until a section contains the pattern."""
        deadline = time.monotonic() + 60
        while not re.search(pattern, text := text_of(self.sections.get(name, ""))):
            assert time.monotonic() < deadline, f"{name} does not contain {pattern}: {text}"
            self.last_id, changed = next(self._events)
            self.sections.update(changed)
        return text


@pytest.fixture(params=["results.db", "results.duckdb", "postgres"])
def address(request: pytest.FixtureRequest, folder: Folder) -> str:
    return str(request.getfixturevalue("postgres") if request.param == "postgres" else folder.path / request.param)


@pytest.mark.matrix(quick=1)
def test_a_page_follows_a_run_of_another_process_and_controls_it(folder: Folder, address: str) -> None:
    folder.cases(120)
    folder.write("slow.yaml", ENDLESS)
    process = start(folder, address)
    with live_page(address) as page:
        run = page.get("/runs/latest").headers["Location"]
        with page.stream(f"{run}/stream") as events:
            watcher = Watcher(events)
            assert "running" in watcher.until("status", "running")
            watcher.until("activity", r"in flight 1\b|1 in flight")
            assert "Pause" in watcher.sections["controls"]
            paused = page.post(f"{run}/controls", {"action": "pause"}).json
            assert paused["is_applied"]
            assert paused["outcome"].startswith("paused")
            watcher.until("status", "paused")
            watcher.until("controls", "Resume")
            watcher.until("events", "paused")
            refused = page.post(f"{run}/controls", {"action": "set", "settings": ["parallel=x"]})
            assert refused.status == 200
            assert not refused.json["is_applied"]
            assert "whole number" in refused.json["outcome"]
            assert page.post(f"{run}/controls", {"action": "set", "settings": "x"}).status == 400
            page.post(f"{run}/controls", {"action": "set", "settings": ["parallel=50", "budget_usd=3"]})
            watcher.until("activity", r"of \$3\.00")
            page.post(f"{run}/controls", {"action": "resume"})
            watcher.until("status", "complete")
            watcher.until("activity", "240 of 240")
            watcher.until("facts", "complete")
            sentence = watcher.until("verdict", "better is better than plain")
            output = process.communicate(timeout=60)
            assert process.returncode == 0, output
        with open_store(address) as store:
            final = [line for line in verdict_lines(analyse(store, "latest")) if line.startswith("better is")]
        assert final[0] in sentence
        late = page.post(f"{run}/controls", {"action": "pause"})
        assert late.status == 409
        assert "is complete" in late.json["message"]


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("view") / "results.db"
    run_in(path, 80)
    return path


def run_in(path: Path, cases: int, **options: Any) -> None:
    Experiment(
        cases=[{"id": f"c{number}", "input": f"{number}", "expected": f"{number}"} for number in range(cases)],
        variants={"a": {"accuracy": 0.4}, "b": {"accuracy": 0.9}},
        target="simulated",
        scorers=["exact"],
    ).run(store=path, fresh=True, **options)


def first_event(page: LivePage, run: str, since: str) -> tuple[str, dict[str, str]]:
    with page.stream(f"{run}/stream", Last_Event_ID=since) as events:
        return next(events)


def test_a_page_that_reconnects_gets_what_changed_and_no_old_progress(complete: Path, tmp_path: Path) -> None:
    copy = tmp_path / "results.db"
    copy.write_bytes(complete.read_bytes())
    with live_page(copy) as page:
        run = page.get("/runs/latest").headers["Location"]
        with page.stream(f"{run}/stream") as events:
            watcher = Watcher(events)
            watcher.until("verdict", "better")
            watcher.until("facts", "complete")
            while watcher.last_id == str(Revision()):
                watcher.last_id, _ = next(events)
        with open_store(copy) as store:
            assert watcher.last_id == store.revision(int(store.run("latest")["run_id"]))
        _, nothing_new = first_event(page, run, watcher.last_id)
        assert set(nothing_new) <= {*sections.TIMED, *sections.RESULTS}, "the end of a run is no row"
    with open_store(copy) as store, store.change() as connection:
        connection.execute("UPDATE runs SET reason = 'x'")
        detail = json.dumps({"message": "one more thing"})
        connection.execute(
            "INSERT INTO events (run_id, happened_at, kind, detail) VALUES (1, 1.0, 'warning', ?)", (detail,)
        )
    with live_page(copy) as page, page.stream(f"{run}/stream", Last_Event_ID=watcher.last_id) as events:
        after_restart = Watcher(events)
        assert "one more thing" in after_restart.until("events", "one more thing")


def test_a_page_that_knows_more_than_the_store_gets_everything(complete: Path) -> None:
    """As after the restoration of an older copy of the store."""
    with live_page(complete) as page:
        run = page.get("/runs/latest").headers["Location"]
        with page.stream(f"{run}/stream", Last_Event_ID=str(Revision(*[10**6] * 5))) as events:
            watcher = Watcher(events)
            watcher.until("progress", "80 of 80")
            watcher.until("facts", "complete")


def test_a_revision_that_no_store_wrote_is_refused(complete: Path) -> None:
    with live_page(complete) as page:
        for bad in ("x", "1-2", "1-2-3-4-5-6", "-1-0-0-0-0", "9" * 5000):
            assert page.get("/runs/latest/stream", Last_Event_ID=bad).status in (400, 404)


def test_a_run_that_is_deleted_while_it_is_watched_is_reported(complete: Path, tmp_path: Path) -> None:
    copy = tmp_path / "results.db"
    copy.write_bytes(complete.read_bytes())
    with live_page(copy) as page:
        run = page.get("/runs/latest").headers["Location"]
        with page.stream(f"{run}/stream") as events:
            watcher = Watcher(events)
            watcher.until("status", "complete")
            with open_store(copy) as store:
                store.delete([store.run("latest")["run"]])
            watcher.until("problem", "no run")
        assert page.get(run).status == 404


def test_a_store_that_is_replaced_by_another_file_is_read_anew(tmp_path: Path) -> None:
    store = tmp_path / "results.db"
    run_in(store, 4)
    with live_page(store) as page:
        old = page.get("/runs/latest").headers["Location"]
        assert old.removeprefix("/runs/") in page.get("/").text
        for path in tmp_path.glob("results.db*"):
            path.unlink()
        run_in(store, 4)
        new = page.get("/runs/latest").headers["Location"]
        assert new != old
        listed = page.get("/").text
        assert new.removeprefix("/runs/") in listed
        assert old.removeprefix("/runs/") not in listed
        assert page.post(f"{old}/trials/1/label", {"opinion": "wrong"}).status >= 400
    with open_store(store) as opened:
        assert opened.rows("SELECT COUNT(*) FROM scores WHERE name = 'human'") == [(0,)]


def test_a_store_that_is_replaced_by_an_older_copy_is_read_anew(complete: Path, tmp_path: Path) -> None:
    copy, older = tmp_path / "results.db", tmp_path / "older.db"
    for path in (copy, older):
        path.write_bytes(complete.read_bytes())
    with open_store(older) as store, store.change() as connection:
        for table in ("scores", "payloads", "trials"):
            connection.execute(f"DELETE FROM {table} WHERE position >= 40")
    with live_page(copy) as page:
        run = page.get("/runs/latest").headers["Location"]
        assert page.get(f"{run}/cases").json["summary"] == "80 cases"
        with page.stream(f"{run}/stream") as events:
            watcher = Watcher(events)
            watcher.until("progress", "a 80 of 80")
            older.replace(copy)
            watcher.until("progress", "a 20 of 80")
        assert page.get(f"{run}/cases").json["summary"] == "20 of 80 cases so far"


def test_a_failed_analysis_is_repeated(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def fails_once(store: Store, run: str) -> Analysis:
        calls.append(run)
        if len(calls) == 1:
            raise StoreError("the database is locked")
        return analyse(store, run)

    monkeypatch.setattr(sections, "analyse", fails_once)
    monkeypatch.setattr(follower, "RETRY_S", 0.1)
    with live_page(complete) as page:
        run = page.get("/runs/latest").headers["Location"]
        with page.stream(f"{run}/stream") as events:
            assert "b is better than a" in Watcher(events).until("verdict", "b is better")
    assert len(calls) == 2


def followed() -> int:
    return sum(thread.name.startswith("abreast-follow") for thread in threading.enumerate())


def test_runs_that_nobody_watches_any_more_are_followed_only_for_a_while(tmp_path: Path) -> None:
    store = tmp_path / "results.db"
    for _ in range(follower.MOST_KEPT + 4):
        run_in(store, 1)
    with open_store(store) as opened:
        names = [run["run"] for run in opened.runs()]
    with live_page(store) as page:
        for name in names:
            assert page.get(f"/runs/{name}").status == 200
        deadline = time.monotonic() + 20
        while followed() > follower.MOST_KEPT + 1:
            assert time.monotonic() < deadline


# -- what may be claimed before the end --------------------------------------------------------------------------------


def while_running(store: Path) -> Analysis:
    with open_store(store) as opened:
        analysis = analyse(opened, "latest")
        return replace(analysis, run={**analysis.run, "status": "running"})


def test_a_run_with_few_planned_cases_shows_scores_without_a_verdict_until_it_ends(tmp_path: Path) -> None:
    run_in(tmp_path / "few.db", 59)
    running = while_running(tmp_path / "few.db")
    assert why_no_verdict_yet(running) == "fewer than 60 cases are planned, too few for an interim verdict"
    shown = text_of(sections._verdict(running, why_no_verdict_yet(running)))
    assert "No verdict before the run ends" in shown
    assert re.search(r"\d+\.\d% a", shown) or re.search(r"a \d+\.\d%", shown)
    assert "better" not in shown
    assert not_run_line(replace(running, stored=100)) == "18 of 118 trials are not run yet"
    assert not why_no_verdict_yet(replace(running, run={**running.run, "status": "complete"}))


def test_sixty_planned_cases_are_enough_for_a_verdict_at_every_look(tmp_path: Path) -> None:
    run_in(tmp_path / "many.db", 60)
    assert not why_no_verdict_yet(while_running(tmp_path / "many.db"))


def test_a_verdict_on_these_cases_waits_for_all_repeats(tmp_path: Path) -> None:
    run_in(tmp_path / "repeats.db", 3, repeats=20)
    assert (
        why_no_verdict_yet(while_running(tmp_path / "repeats.db"))
        == "a verdict on these cases needs all of their repeats"
    )


def test_a_case_counts_while_the_run_is_executed_only_when_it_is_scored(tmp_path: Path) -> None:
    """Judges may score in another order: the cases so far must be a prefix of the order in which cases were started."""
    run_in(tmp_path / "judged.db", 80)
    with open_store(tmp_path / "judged.db") as store:
        before = analyse(store, "latest").rows
        case = int(before.counted[50])
        position = int(before.position[before.case == case][0])
        with store.change() as connection:
            connection.execute("DELETE FROM scores WHERE position = ?", (position,))
        assert len(analyse(store, "latest").rows.counted) == 80
        with store.change() as connection:
            connection.execute("UPDATE runs SET status = 'running', owner = ?", (json.dumps(OWNER),))
            connection.execute("UPDATE runs SET heartbeat_at = ?", (store.now(),))
        running = analyse(store, "latest")
        assert running.run["status"] == "running"
        assert running.rows.counted.tolist() == before.counted[:50].tolist()
        assert running.comparisons[0].waiting == 29
        assert running.comparisons[0].verdict.planned == 80


# -- parts -------------------------------------------------------------------------------------------------------------


def test_the_rate_of_slow_trials_is_taken_from_several_of_them(tmp_path: Path) -> None:
    with open_store(tmp_path / "results.db") as store:
        run = RunWriter(store, "calm-1", ["one", "two"], 1, 50)
        progress = RunProgress(store, int(store.run("calm-1")["run_id"]), 100)
        progress.update(store, 0.0)
        assert progress.rate() is None
        for position in range(40):
            case, answer = Case(f"c{position // 2}", "q"), Outcome("ok", Answer("yes"))
            run.write(position, case, answer, {"exact": 1.0}, "question")
            progress.update(store, 60.0 * (position + 1))
            assert progress.rate() == pytest.approx(1 / 60)
        progress.update(store, 60.0 * 41)
        assert progress.rate() == pytest.approx(1 / 60, rel=0.2), "of the last ten, and the time since"
        run.finish()


def test_events_of_limits_are_drawn_on_their_lanes(complete: Path) -> None:
    kinds = {
        "cut": {"target": "openai", "before": 33, "after": 12, "reason": "latency", "latency": 3.3},
        "quota": {"most": 200, "window_s": 18000, "seconds": 60.0, "waits": True},
        "memory_short": {"message": "memory is short", "requested": 8},
        "control": {"by": "ann@host", "outcome": "paused", "is_paused": True},
        "run_started": {"run": "x"},
    }
    events = limit_events(
        [StoredEvent(float(number), kind, detail) for number, (kind, detail) in enumerate(kinds.items())]
    )
    assert [event.kind for event in events] == ["cut", "quota", "memory_short", "control"]
    assert words(events[0]) == "openai: at most 12 in flight instead of 33: latency increased × 3.3"
    assert words(events[1]) == "the quota (200 in 5 h) is used up; paused for 0:01:00"
    drawn = picture(events, 0.0, 10.0)
    assert drawn is not None
    for lane in ("concurrency", "quota and rates", "memory and cores", "controls"):
        assert lane in drawn.inline("")


def test_events_are_described_by_what_happened_not_by_the_time_of_reading() -> None:
    outage = {"target": "openai", "error": "openai: network: refused", "seconds": 3.2, "next_probe_s": 1.0}
    for kind, detail, line in (
        ("outage", outage, "openai: network: refused; paused after 3 s without an answer"),
        ("stop", {"reason": "requested", "message": "stopped by ann@host", "in_flight": 6}, "stopped by ann@host"),
        ("stop", {"reason": "interrupted", "message": "", "in_flight": 6}, "interrupted"),
        ("requeued", {"trials": 2, "errors": {"network": 2}}, "executing 2 failed trials again"),
        (
            "left_out",
            {"case": "c1", "variant": "b", "repeat": 0},
            "c1, b: left out, the trial before it is missing",
        ),
    ):
        assert words(StoredEvent(0.0, kind, detail)) == line


def test_an_event_of_another_version_is_still_listed() -> None:
    assert words(StoredEvent(0.0, "quota", {"surprise": 1})) == "quota: surprise 1"
