"""Why no answer of a run has a score, as whoever paid for them wants to know it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis


def lines(analysis: Analysis, where: str) -> list[str]:
    """The reason that most of them have, and what to do."""
    run, found = analysis.run["run"], analysis.rows.why_unscored()
    if found is None:
        return [f"error: no answer could be scored. See why: abreast logs {run}{where}"]
    why, case = found
    again = "; when it is mended: the same run with --fresh" if _by_tests(analysis) else ""
    return [
        f"error: no answer could be scored: {why}",
        f"       see it: abreast show {run} {shlex.quote(case)}{where}{again}",
    ]


def _by_tests(analysis: Analysis) -> bool:
    """Whether it was decided where the agent worked, which is gone: then answers cannot be scored anew."""
    named = [one for one in analysis.rows.spec.get("scorers") or [] if isinstance(one, dict)]
    return any("tests" in one for one in named)
