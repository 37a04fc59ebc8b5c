"""Are the case files what DVC tracks?"""

from __future__ import annotations

import shlex
from pathlib import Path

from abreast.preflight import files
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed


def check(context: Context) -> Finding | None:
    """Only where a case file has a `.dvc` file beside it."""
    tracked, base = context.surroundings.tracked, context.surroundings.base
    if not tracked:
        return None
    other = [each for each in tracked if not each.same]
    details = tuple(f"{files.shown(each.file, base)}  {each.md5}" for each in tracked)
    if not other:
        names = listed([files.shown(each.file, base) for each in tracked])
        return Finding("dvc", "pass", f"{names} as DVC tracks it", "", details, aside=True)
    names = listed([files.shown(each.file, base) for each in other])
    words = " ".join(shlex.quote(files.shown(each.file, Path.cwd())) for each in other)
    message = f"{names} differs from what DVC tracks"
    return Finding("dvc", "warn", message, f"dvc add {words}, or dvc checkout {words} for what was tracked", details)
