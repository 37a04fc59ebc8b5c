"""Questions about what judges were asked and said."""

from __future__ import annotations

from typing import Any, NamedTuple

from abreast.store.queries.base import QueryGroup, count_if
from abreast.store.rows import Paid
from abreast.store.schema import TABLES

_COLUMNS = tuple(TABLES["judgements"])


class JudgeQuestion(NamedTuple):
    """Which answer a judge is asked about, and for which item."""

    run_id: int
    position: int
    scorer: str
    item: str


class JudgementQueries(QueryGroup):
    def judge_totals(self, run_id: int) -> list[dict[str, Any]]:
        """What was asked of each judge in a run, and paid for it."""
        sums = ", ".join(
            f"SUM(CASE WHEN reused_from IS NULL THEN {name} END) AS {name}"
            for name in ("cost_usd", "input_tokens", "output_tokens")
        )
        return self._store.dicts(
            "SELECT scorer, COUNT(*) - COUNT(reused_from) AS calls, COUNT(reused_from) AS reused, "
            f"{count_if(_FAILED)} AS failed, {sums} FROM judgements WHERE run_id = ? GROUP BY scorer ORDER BY scorer",
            (run_id,),
        )

    def has_judgements(self, run_id: int) -> bool:
        return bool(self._store.rows("SELECT 1 FROM judgements WHERE run_id = ? LIMIT 1", (run_id,)))

    def known_judgement(
        self, key: str, question: JudgeQuestion, only_run: int | None, is_asked_anew: bool
    ) -> tuple[bool, dict[str, Any]] | None:
        """What a judge said before to the question with this key, and whether that is a row of this very question.

        In any run or in one; a reply that could not be used only of this question, unless it is asked anew. In a row of
        another question, `reused_from` is the run that asked. Runs whose answers `abreast cache clear` forgot do not
        count.
        """
        usable = "j.status = 'ok'" + ("" if only_run is None else " AND j.run_id = ?")
        own = "j.run_id = ? AND j.position = ? AND j.scorer = ? AND j.item = ?"
        final = "" if is_asked_anew else f" OR {own} AND j.status IN ('invalid', 'skipped')"
        rows = self._store.rows(
            f"SELECT CASE WHEN {own} THEN 1 ELSE 0 END, r.run, {', '.join(f'j.{name}' for name in _COLUMNS)} "
            f"FROM judgements j JOIN runs r ON r.run_id = j.run_id WHERE j.key = ? AND ({usable}{final}) "
            "AND NOT EXISTS (SELECT 1 FROM variants v WHERE v.run_id = j.run_id AND v.digest = '') "
            "ORDER BY 1 DESC, j.seq LIMIT 1",
            (*question, key, *(() if only_run is None else (only_run,)), *(() if is_asked_anew else question)),
        )
        for is_own, run, *values in rows:
            judgement = dict(zip(_COLUMNS, values, strict=True))
            judgement["reused_from"] = judgement["reused_from"] or (None if is_own else run)
            return bool(is_own), judgement
        return None

    def paid_for_question(self, question: JudgeQuestion, key: str) -> Paid:
        """What was paid for this question before."""
        rows = self._store.rows(
            "SELECT cost_usd, cost_basis, input_tokens, output_tokens FROM judgements WHERE run_id = ? "
            "AND position = ? AND scorer = ? AND item = ? AND key = ? AND reused_from IS NULL",
            (*question, key),
        )
        return Paid(*rows[0]) if rows else Paid()

    def mean_judge_cost(self, scorer: str, most: int = 1_000) -> float | None:
        """The mean cost of the last calls of a judge; None if none is known."""
        rows = self._store.rows(
            "SELECT AVG(cost_usd) FROM (SELECT cost_usd FROM judgements WHERE scorer = ? AND status = 'ok' "
            "AND reused_from IS NULL ORDER BY seq DESC LIMIT ?) j",
            (scorer, most),
        )
        return None if rows[0][0] is None else float(rows[0][0])


_FAILED = "status <> 'ok' AND reused_from IS NULL"
