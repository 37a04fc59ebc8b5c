"""The runs of the store with their costs and verdicts, which are recomputed only if rows were added."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from abreast.analyse.decision.interim import RUNNING, why_no_verdict_yet
from abreast.analyse.run import Analysis, analyse
from abreast.errors import AbreastError
from abreast.report.words import verdict_sentence as sentences
from abreast.report.words.variant_figures import share
from abreast.store import Store
from abreast.view.reading import StoreReader

REFRESH_S = 0.5  # between two readings of the store
SHARE = 0.1  # of the time, spent on reading and analysing
WAIT_S = 1.0  # for a change in the store
RETRY_S = 5.0  # after an analysis that failed
ALIVE_S = 10.0  # between two signs of life to pages

_FAILED = ("failed",)  # version of a verdict that could not be computed


class VariantOutcome(NamedTuple):
    """The verdict on one variant, abbreviated."""

    word: str  # empty if the run compares nothing
    variant: str
    estimate: float | None
    figures: str  # `+12.4 points (+5.1 … +19.3)`


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict of a run, or why there is none."""

    outcomes: tuple[VariantOutcome, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunTotals:
    trials: int
    cost_usd: float | None  # None if no trial has a known cost
    commit: str
    is_dirty: bool


@dataclass(frozen=True, slots=True)
class ListedRun:
    state: Mapping[str, Any]  # of `Store.run_states`
    totals: RunTotals
    verdict: RunVerdict | None = None  # None until it is computed

    @property
    def name(self) -> str:
        return str(self.state["run"])

    @property
    def is_running(self) -> bool:
        return bool(self.state["status"] == RUNNING)

    @property
    def words(self) -> set[str]:
        """The words of all verdicts."""
        return {outcome.word for outcome in self.verdict.outcomes} if self.verdict else set()


class RunList:
    """Lists runs, and notifies pages of changes. Only runs that a page shows are analysed."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._watcher = StoreReader(reader.address, reader.engine, threads=1, name="abreast-runs")
        self._analyst = StoreReader(reader.address, reader.engine, threads=1, name="abreast-verdicts")
        self._reading = threading.Lock()
        self._totals: dict[str, tuple[tuple[object, ...], RunTotals]] = {}
        self._lock = threading.Lock()  # guards the following
        self._verdicts: dict[str, tuple[tuple[object, ...], RunVerdict]] = {}
        self._due: dict[str, float] = {}  # when a running run may be analysed again
        self._queue: dict[str, ListedRun] = {}
        self._is_analysing = False
        self._listeners: set[asyncio.Event] = set()
        self._watching: asyncio.Task[None] | None = None
        self._runs: list[ListedRun] = []
        self._problem: Exception | None = None

    async def runs(self) -> list[ListedRun]:
        """Read all runs, newest first."""
        return await self._reader.read(self._read)

    def _read(self, store: Store) -> list[ListedRun]:
        if store.is_missing() or not store.exists():
            return []
        with self._reading:
            states = store.run_states()
            runs = [ListedRun(state, self._totals_of(store, state)) for state in reversed(states)]
            for name in self._totals.keys() - {state["run"] for state in states}:
                self._totals.pop(name)
                with self._lock:
                    self._verdicts.pop(name, None)
                    self._due.pop(name, None)
        return self.with_verdicts(runs)

    def _totals_of(self, store: Store, state: Mapping[str, Any]) -> RunTotals:
        name = state["run"]
        version, totals = self._totals.get(name, ((), None))
        if totals is None or version != _version_of_totals(state):
            totals = _totals(store, state, totals)
            self._totals[name] = (_version_of_totals(state), totals)
        return totals

    # -- verdicts --------------------------------------------------------------------------------------------------

    def request_verdicts(self, runs: Iterable[ListedRun]) -> int:
        """Compute missing and outdated verdicts, in order; return how many are missing."""
        now, missing, outdated = time.monotonic(), set(), {}
        with self._lock:
            for run in runs:
                version, verdict = self._verdicts.get(run.name, ((), None))
                if verdict is None:
                    missing.add(run.name)
                is_due = now >= self._due.get(run.name, 0) or not (run.is_running or version == _FAILED)
                if version != _version_of_verdict(run.state) and is_due:
                    outdated[run.name] = run
            self._queue = outdated | {key: run for key, run in self._queue.items() if key not in outdated}
            must_start = bool(self._queue) and not self._is_analysing
            self._is_analysing = self._is_analysing or must_start
        if must_start:
            self._analyst.submit(self._analyse, asyncio.get_running_loop())
        return len(missing)

    def _analyse(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            with self._lock:
                run = next(iter(self._queue.values()), None)
                if run is None:
                    self._is_analysing = False
                    return
                self._queue.pop(run.name)
            began = time.monotonic()
            version, verdict = _version_of_verdict(run.state), RunVerdict()
            try:
                verdict = _verdict(store, run.name)
            except Exception as error:  # noqa: BLE001 - the list shows it, and tries again
                version, verdict = _FAILED, RunVerdict(note=_problem(error))
            ended = time.monotonic()
            with self._lock:
                self._verdicts[run.name] = (version, verdict)
                self._due[run.name] = ended + max(RETRY_S if version == _FAILED else REFRESH_S, (ended - began) / SHARE)
            with suppress(RuntimeError):  # the server is closing
                loop.call_soon_threadsafe(self._notify)
                if version == _FAILED:
                    loop.call_soon_threadsafe(loop.call_later, RETRY_S + 0.1, self._notify)

    def with_verdicts(self, runs: Iterable[ListedRun]) -> list[ListedRun]:
        """Return the runs with the verdicts computed so far."""
        with self._lock:
            verdicts = {name: verdict for name, (_, verdict) in self._verdicts.items()}
        return [replace(run, verdict=verdicts.get(run.name)) for run in runs]

    # -- pages that stay current -----------------------------------------------------------------------------------

    async def updates(self) -> AsyncGenerator[list[ListedRun] | Exception | None]:
        """Yield the runs at once and after each change, or why they cannot be read; None as a sign of life."""
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            self._runs = await self.runs()
            if self._watching is None:
                self._watching = asyncio.create_task(self._watch())
            changed.set()
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), ALIVE_S)
                if not changed.is_set():
                    yield None
                    continue
                changed.clear()
                yield self._problem or self.with_verdicts(self._runs)
        finally:
            self._listeners.discard(changed)

    async def _watch(self) -> None:
        """Follow the store while a page is open."""
        try:
            await self._follow()
        finally:
            self._watching = None

    async def _follow(self) -> None:
        while self._listeners:
            began = time.monotonic()
            runs: list[ListedRun] = self._runs
            problem: Exception | None = None
            try:
                runs = await self._watcher.read(self._read)
            except Exception as error:  # noqa: BLE001 - such as a server that cannot be reached: look again
                problem = error
            is_due = any(run.is_running for run in runs)  # a verdict was postponed
            if is_due or runs != self._runs or str(problem) != str(self._problem):
                self._runs, self._problem = runs, problem
                self._notify()
            took = time.monotonic() - began
            await asyncio.sleep(max(REFRESH_S, took / SHARE))
            with suppress(Exception):  # the next reading reports it
                await self._watcher.read(_wait_for_change)

    def _notify(self) -> None:
        for changed in self._listeners:
            changed.set()

    def close(self) -> None:
        with self._lock:
            self._queue.clear()
        self._watcher.close()
        self._analyst.close()


def _wait_for_change(store: Store) -> None:
    if store.is_missing():
        time.sleep(WAIT_S)
    else:
        store.wait_for_change(WAIT_S)


def _version_of_totals(state: Mapping[str, Any]) -> tuple[object, ...]:
    return state["last_trial"], state["last_judgement"], state["epoch"]


def _version_of_verdict(state: Mapping[str, Any]) -> tuple[object, ...]:
    rows = (state["last_trial"], state["last_score"], state["last_judgement"])
    return *rows, state["status"], state["primary_score"], state["baseline"]


def _totals(store: Store, state: Mapping[str, Any], known: RunTotals | None) -> RunTotals:
    run_id = state["run_id"]
    spent = store.spent(run_id, len(store.queries.variants(run_id)))
    judges = [row["cost_usd"] for row in store.queries.judge_totals(run_id)] if state["last_judgement"] else []
    is_known = any(costed for costed, _, _, _ in spent) or any(cost is not None for cost in judges)
    count, _ = store.queries.trial_state(run_id)
    provenance = json.loads(store.run(state["run"])["provenance"]) if known is None else {}
    return RunTotals(
        trials=count,
        cost_usd=sum(paid for _, paid, _, _ in spent) + sum(filter(None, judges)) if is_known else None,
        commit=known.commit if known else str(provenance.get("commit") or ""),
        is_dirty=known.is_dirty if known else bool(provenance.get("dirty")),
    )


def _verdict(store: Store, run: str) -> RunVerdict:
    analysis = analyse(store, run)
    if not analysis.stored:
        return RunVerdict(note="no trials yet" if analysis.run["status"] == RUNNING else "no trials")
    if withheld := why_no_verdict_yet(analysis):
        return RunVerdict(note=f"no verdict yet: {withheld}")
    return RunVerdict(tuple(_outcomes(analysis)), "" if analysis.score_name else "no scorer")


def _problem(error: Exception) -> str:
    return error.message if isinstance(error, AbreastError) else f"{type(error).__name__}: {error}"


def _outcomes(analysis: Analysis) -> Iterable[VariantOutcome]:
    for item in analysis.comparisons:
        interval, sure = item.verdict.interval, sentences.trusted(item.verdict)
        figures = "" if interval is None else f"{sentences.points(interval.estimate)} points"
        if sure is not None:
            figures += f" ({sentences.points(sure.low)} … {sentences.points(sure.high)})"
        yield VariantOutcome(item.verdict.word, item.variant, None if interval is None else interval.estimate, figures)
    if not analysis.comparisons and analysis.score_name:
        (summary,) = analysis.variants
        figures = sentences.ALL_FAILED if summary.all_failed else share(summary.score) if summary.score else "no score"
        yield VariantOutcome("", summary.name, summary.score.estimate if summary.score else None, figures)
