"""Are these the cases of the last run?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from abreast.preflight.context import Context
from abreast.preflight.earlier import Earlier
from abreast.preflight.finding import Finding, listed, many

RUNS = 20  # looked at to find one with all cases


@dataclass(frozen=True, slots=True)
class CaseChanges:
    """Ids of cases since an earlier run."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def sentence(self) -> str:
        """`2 changed (c1 and c2), 1 added (c9)`."""
        kinds = {"changed": self.changed, "removed": self.removed, "added": self.added}
        return ", ".join(f"{len(ids):,} {kind} ({listed(ids)})" for kind, ids in kinds.items() if ids)


def check(context: Context) -> Finding:
    earlier, plan = context.earlier, context.plan
    files = [f"{name}  {md5}" for name, md5 in context.surroundings.data.items()]
    if earlier is None:
        told = f" in {listed(list(context.surroundings.data))}" if context.surroundings.data else ""
        return Finding("data", "pass", f"{many(len(plan.cases), 'case')}{told}", "", tuple(files), aside=True)
    earlier = whole(earlier)
    if earlier.provenance.get("data_hash") == plan.cases.hash:
        message = f"the same {many(len(plan.cases), 'case')} as in {earlier.run}"
        return Finding("data", "pass", message, "", tuple(files), aside=True)
    found = case_changes(context, earlier)
    if not found:
        message = (
            f"a part of the cases of {earlier.run}" if context.selects else f"more cases than {earlier.run} stored"
        )
        return Finding("data", "note", message, "", tuple(files), aside=True)
    message = f"cases since {earlier.run}: {found.sentence()}; answers to the same input are reused"
    details = (*_files_that_changed(earlier, context.surroundings.data), *files)
    return Finding("data", "warn" if found.changed else "note", message, "", details)


def whole(earlier: Earlier) -> Earlier:
    """The last run that left no case out, if there is one among the last."""
    found: Earlier | None = earlier
    for _ in range(RUNS):
        if found is None or not found.selects:
            break
        found = found.before
    return found if found is not None and not found.selects else earlier


def case_changes(context: Context, earlier: Earlier) -> CaseChanges:
    """By id and content. What was left out on purpose, now or then, was not removed or added."""
    earlier = whole(earlier)
    if earlier.provenance.get("data_hash") == context.plan.cases.hash:
        return CaseChanges()
    cases = context.plan.cases
    return compared(
        earlier.cases,
        {case: cases.digest(index) for index, case in enumerate(cases.ids)},
        all_of_before=not earlier.selects and len(earlier.cases) >= int(earlier.provenance.get("cases") or 0),
        all_of_now=not context.selects,
    )


def compared(
    before: Mapping[str, str], now: Mapping[str, str], all_of_before: bool = True, all_of_now: bool = True
) -> CaseChanges:
    """Digests by id, then and now.

    >>> compared({"a": "1", "b": "1"}, {"a": "2", "c": "1"})
    CaseChanges(added=('c',), removed=('b',), changed=('a',))
    """
    return CaseChanges(
        tuple(case for case in now if case not in before) if all_of_before else (),
        tuple(case for case in before if case not in now) if all_of_now else (),
        tuple(case for case, digest in now.items() if before.get(case, digest) != digest),
    )


def _files_that_changed(earlier: Earlier, now: Mapping[str, str]) -> list[str]:
    before: Mapping[str, str] = earlier.provenance.get("case_files") or {}
    return [f"{name} is not the file it was" for name, md5 in now.items() if before.get(name, md5) != md5]
