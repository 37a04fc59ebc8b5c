"""Can what is measured be found again in git?"""

from __future__ import annotations

import shlex
from pathlib import Path

from abreast.plan import git
from abreast.preflight import files
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed, many

NAMED = 5  # files


def check(context: Context) -> Finding:
    """A file of the experiment itself that is not committed is warned of, but not while one tries things out."""
    repository, base = context.surroundings.repository, context.surroundings.base
    if repository is None:
        return Finding("git", "note", "not in a git repository: no commit is recorded", "git init", aside=True)
    if repository.commit is None:
        return Finding("git", "note", "nothing is committed yet", "git add and git commit", aside=True)
    where = f"on {repository.branch}" if repository.branch else "with no branch checked out"
    at = f"{repository.commit[:7]} {where}"
    if repository.changed is None:
        return Finding("git", "note", f"{at}; git took too long to say what changed", aside=True)
    tracked = {each.file for each in context.surroundings.tracked}
    own = git.uncommitted(repository, [file for file in context.surroundings.own_files if file not in tracked])
    changed = [files.shown(file, base) for file in repository.changed]
    details = tuple(changed[:NAMED]) + (
        (f"and {many(len(changed) - NAMED, 'file')} more",) if len(changed) > NAMED else ()
    )
    if own:
        return _not_committed(context, at, own, details)
    if changed:
        message = f"{at}; {many(len(changed), 'other file')} not committed: {listed(changed)}"
        return Finding("git", "note", message, "", details, aside=True)
    return Finding("git", "pass" if repository.branch else "note", f"{at}, all of it committed", aside=True)


def _not_committed(context: Context, at: str, own: list[Path], details: tuple[str, ...]) -> Finding:
    base = context.surroundings.base
    names = [files.shown(file, base) for file in own]
    are = "is" if len(names) == 1 else "are"
    message = f"{listed(names)} {are} not committed: what is measured is not what {at} has"
    first = context.earlier is None or context.debug
    words = " ".join(shlex.quote(files.shown(file, Path.cwd())) for file in own[:NAMED])
    fix = f"git add {words}{' ...' if len(own) > NAMED else ''} && git commit"
    told = tuple(names[:NAMED]) + tuple(name for name in details if name not in names[:NAMED])
    return Finding("git", "note" if first else "warn", message, fix, told, aside=first)
