"""Does this run extend an earlier one, and what may still decide?"""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, many


def check(context: Context) -> Finding | None:
    extension = context.extension
    if extension is None:
        return None
    if extension.added:
        what = f"this run extends {extension.run} by {many(extension.added, 'case')}"
    else:
        what = f"this run repeats {many(extension.cases, 'case')} of {extension.run}"
    message = f"{what}; {extension.rule}"
    if not extension.grown_groups:
        return Finding("extension", "note", message)
    groups = f"{many(extension.grown_groups, 'group')} of {extension.run}"
    verb = "has" if extension.grown_groups == 1 else "have"
    return Finding(
        "extension",
        "warn",
        f"{message}; {groups} {verb} new cases, so results that were looked at change",
        "put new cases into new groups",
    )
