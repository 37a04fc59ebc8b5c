"""Queries for judgements."""

from __future__ import annotations

from typing import Any, NamedTuple

from abreast.store.queries.base import QueryGroup, count_if
from abreast.store.rows import Paid
from abreast.store.schema import TABLES

_COLUMNS = tuple(TABLES["judgements"])
_FAILED = "status <> 'ok' AND reused_from IS NULL"


class JudgeQuestion(NamedTuple):
    """The answer that a judge is asked about, and the item."""

    run_id: int
    position: int
    scorer: str
    item: str


class JudgementQueries(QueryGroup):
    def judge_totals(self, run_id: int) -> list[dict[str, Any]]:
        """Number, cost and tokens of the calls of each judge in a run."""
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
        return self._exists("SELECT 1 FROM judgements WHERE run_id = ?", run_id)

    def find_judgement(
        self, key: str, question: JudgeQuestion, only_run: int | None, retries_unusable: bool
    ) -> tuple[bool, dict[str, Any]] | None:
        """An earlier judgement with this key, in any run or one, and whether it belongs to this question.

        An unusable reply counts only for this question, and not with `retries_unusable`. In a judgement of another
        question, `reused_from` is its run. Runs that `abreast cache clear` cleared do not count.
        """
        usable = "j.status = 'ok'" + ("" if only_run is None else " AND j.run_id = ?")
        own = "j.run_id = ? AND j.position = ? AND j.scorer = ? AND j.item = ?"
        final = "" if retries_unusable else f" OR {own} AND j.status IN ('invalid', 'skipped')"
        rows = self._store.rows(
            f"SELECT CASE WHEN {own} THEN 1 ELSE 0 END, r.run, {', '.join(f'j.{name}' for name in _COLUMNS)} "
            f"FROM judgements j JOIN runs r ON r.run_id = j.run_id WHERE j.key = ? AND ({usable}{final}) "
            "AND NOT EXISTS (SELECT 1 FROM variants v WHERE v.run_id = j.run_id AND v.digest = '') "
            "ORDER BY 1 DESC, j.seq LIMIT 1",
            (*question, key, *(() if only_run is None else (only_run,)), *(() if retries_unusable else question)),
        )
        for is_own, run, *values in rows:
            judgement = dict(zip(_COLUMNS, values, strict=True))
            judgement["reused_from"] = judgement["reused_from"] or (None if is_own else run)
            return bool(is_own), judgement
        return None

    def paid_for_question(self, question: JudgeQuestion, key: str) -> Paid:
        """Cost and tokens already spent on this question."""
        rows = self._store.rows(
            "SELECT cost_usd, cost_basis, input_tokens, output_tokens FROM judgements WHERE run_id = ? "
            "AND position = ? AND scorer = ? AND item = ? AND key = ? AND reused_from IS NULL",
            (*question, key),
        )
        return Paid(*rows[0]) if rows else Paid()

    def mean_judge_cost(self, scorer: str) -> float | None:
        """The mean cost of the last 1,000 calls of a judge; None if unknown."""
        query = (
            "SELECT AVG(cost_usd) FROM (SELECT cost_usd FROM judgements WHERE scorer = ? AND status = 'ok' "
            "AND reused_from IS NULL ORDER BY seq DESC LIMIT 1000) j"
        )
        mean: float | None = self._scalar(query, scorer)
        return mean
