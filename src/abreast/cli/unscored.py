"""Why no answer of a run has a score, as whoever paid for them wants to know it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis

_MOST_OFTEN = (
    "SELECT s.explanation, MIN(c.id), COUNT(*) AS n FROM scores s JOIN trials t ON t.run_id = s.run_id "
    "AND t.position = s.position JOIN cases c ON c.digest = t.case_digest "
    "WHERE s.run_id = ? AND s.name = ? AND s.value IS NULL GROUP BY s.explanation ORDER BY n DESC, 1 LIMIT 1"
)


def lines(analysis: Analysis, where: str) -> list[str]:
    """The reason that most of them have, and what to do."""
    rows, run = analysis.rows, analysis.run["run"]
    found = next(iter(rows.store.each(_MOST_OFTEN, (rows.run_id, rows.primary))), None)
    if found is None:
        return [f"error: no answer could be scored. See why: abreast logs {run}{where}"]
    why, case, _ = found
    told = " ".join((why or "without a reason").split())
    again = "; when it is mended: the same run with --fresh" if _by_tests(analysis) else ""
    return [
        f"error: no answer could be scored: {told}",
        f"       see it: abreast show {run} {shlex.quote(case)}{where}{again}",
    ]


def _by_tests(analysis: Analysis) -> bool:
    """Whether it was decided where the agent worked, which is gone: then answers cannot be scored anew."""
    named = [one for one in analysis.rows.spec.get("scorers") or [] if isinstance(one, dict)]
    return any("tests" in one for one in named)
