"""Scoring of stored answers in a thread, so that a slow or broken scorer costs no answer."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from abreast.model import Answer, Case, Score
from abreast.redaction import redact_case, redact_log
from abreast.scorers.base import Scorer
from abreast.store import Store, Writer
from abreast.store.rows import Row, score_rows

if TYPE_CHECKING:
    from abreast.execute.early_stopping import EarlyStopping

PATIENCE_S = 3.0  # for scorers that still run after the last trial, or when the run is interrupted
BATCH_S = 0.1  # how long scores wait for others of their batch

Item = tuple[int, Case, Answer]


class Scoring:
    """Scores stored answers in a thread and passes the rows to the writer."""

    def __init__(
        self,
        scorers: Sequence[Scorer],
        writer: Writer,
        earlier: Iterable[Item] = (),
        early_stopping: EarlyStopping | None = None,
    ) -> None:
        """`earlier` answers were stored before, for example by a run that was killed. `early_stopping` receives the
        deciding score."""
        self._scorers, self._writer, self._earlier, self._early_stopping = scorers, writer, earlier, early_stopping
        self._items: queue.SimpleQueue[Sequence[Item] | None] = queue.SimpleQueue()
        self._is_abandoned = self._is_hurried = self._is_finishing = False
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._work, name="abreast-scoring", daemon=True).start()

    @property
    def has_scorers(self) -> bool:
        return bool(self._scorers)

    def put(self, items: Sequence[Item]) -> None:
        if self._early_stopping is not None:
            self._early_stopping.await_scores(len(items))
        self._items.put(items)

    def abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop scoring soon; a resume scores the rest."""
        self._is_hurried = True
        if self._is_finishing:
            loop.call_later(PATIENCE_S, self._give_up)

    def _give_up(self) -> None:
        self._is_abandoned = True
        self._ended.set()

    def finish(self, report_delay: Callable[[], object]) -> None:
        """Score the rest, unless that is abandoned, and report if it takes a while."""
        self._is_finishing, is_hurried = True, self._is_hurried
        self._items.put(None)
        if not self._ended.wait(PATIENCE_S):
            if is_hurried:
                self._give_up()
            else:
                report_delay()
        self._ended.wait()

    def _work(self) -> None:
        try:
            for batch in itertools.chain(([item] for item in self._earlier), self._new_batches()):
                self._score_all(batch)
                if self._is_abandoned:
                    return
        finally:
            if self._early_stopping is not None:
                self._early_stopping.ended()
            self._ended.set()

    def _new_batches(self) -> Iterator[Sequence[Item]]:
        if self._early_stopping is not None:
            self._early_stopping.caught_up()
        yield from iter(self._items.get, None)

    def _score_all(self, batch: Sequence[Item]) -> None:
        """Score answers and queue their rows, together unless that takes a while."""
        rows: list[tuple[str, Row]] = []
        begin = time.monotonic()
        for item in batch:
            if self._is_abandoned:
                break
            rows += self._score(*item)
            if time.monotonic() - begin > BATCH_S:
                self._writer.put_together(rows)
                rows, begin = [], time.monotonic()
        if rows:
            self._writer.put_together(rows)

    def _score(self, position: int, case: Case, answer: Answer) -> list[tuple[str, Row]]:
        run_id, early_stopping, value = self._writer.lease.run_id, self._early_stopping, None
        rows: list[tuple[str, Row]] = []
        for scorer in self._scorers:
            scores = scored(scorer, case, answer)
            rows += [("scores", row) for row in score_rows(run_id, position, scorer.version, scores)]
            if early_stopping is not None and early_stopping.score in scorer.columns:
                value = next((score.value for score in scores if score.name == early_stopping.score), None)
        if early_stopping is not None:
            early_stopping.scored(position, value)
        return rows


def scored(scorer: Scorer, case: Case, answer: Answer) -> Sequence[Score]:
    """Score one answer; if the scorer crashes, the explanation says so."""
    try:
        return tuple(_as_float(score) for score in scorer.score(redact_case(case), answer))
    except BaseException as error:  # noqa: BLE001 - a user's scorer may raise anything
        explanation = redact_log(f"crashed: {type(error).__name__}: {error}")
        return tuple(Score(column, None, explanation) for column in scorer.columns)


def _as_float(score: Score) -> Score:
    if score.value is None or type(score.value) is float:
        return score
    return dataclasses.replace(score, value=float(score.value))


def unscored(store: Store, run_id: int, scorers: Sequence[Scorer]) -> Iterator[Item]:
    """Yield stored answers that lack a score of one of these scorers in its present version."""
    versions = [(column, scorer.version) for scorer in scorers for column in scorer.columns]
    return store.queries.unscored_answers(run_id, versions) if versions else iter(())
