"""Whether results go on where the last run ended, or a new series begins: numbers of two series are no one curve."""

from __future__ import annotations

from dataclasses import dataclass

from abreast.preflight.code import changes
from abreast.preflight.context import Context
from abreast.preflight.data import case_changes
from abreast.preflight.finding import listed


@dataclass(frozen=True, slots=True)
class Series:
    """Its number, and why it began; `since` is the last run of the one before, if it begins now."""

    number: int = 1
    why: str = ""
    since: str | None = None


def series(context: Context) -> Series:
    """A new one begins if code, cases or scorers are others. Other parameters are another contender, which is told."""
    earlier = context.earlier
    if earlier is None:
        return Series()
    number = int(earlier.provenance.get("series") or 1)
    code, cases = changes(context, earlier).code, case_changes(context, earlier)
    scorers = [name for name, version in context.scores.items() if earlier.scores.get(name, version) != version]
    why = [f"{each} changed" for each in code[:1]]
    why += [f"cases: {cases.sentence()}"] if cases else []
    why += [f"score_{listed(scorers)} is given otherwise"] if scorers else []
    if not why:
        return Series(number, str(earlier.provenance.get("series_why") or ""))
    return Series(number + 1, "; ".join(why), earlier.run)
