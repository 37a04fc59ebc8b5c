"""Did what is measured change since the last run of this experiment?"""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding


def check(context: Context) -> Finding:
    last = context.last_run
    if last is None:
        return Finding("changes", "note", "first run of this experiment in this store")
    now = {variant.name: digest for variant, digest in zip(context.plan.variants, context.plan.digests, strict=True)}
    changed = [name for name, digest in now.items() if context.last_digests.get(name, digest) != digest]
    known = set(context.last_digests.values())
    new = [name for name, digest in now.items() if digest not in known and name not in changed]
    if changed:
        names = ", ".join(changed)
        return Finding("changes", "warn", f"changed since {last['run']}: {names}; those rows are not reused")
    if last["data_hash"] != context.plan.cases.hash:
        return Finding("changes", "note", f"other cases than {last['run']}; answers to the same input are reused")
    if new:
        return Finding("changes", "note", f"new since {last['run']}: {', '.join(new)}")
    return Finding("changes", "pass", f"nothing changed since {last['run']}")
