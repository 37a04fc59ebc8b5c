"""Cases that count twice, and inputs that are in training and in test data."""

from __future__ import annotations

from collections.abc import Iterator

from abreast.digest import SIZE
from abreast.model import Case
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed, many
from abreast.spec.cases import CaseTable

LOOKED_AT = 10_000  # copies whose tags are read
TRAINING = ("train", "training")
HELD_OUT = ("test", "testing", "validation", "valid", "val", "dev", "eval", "holdout")


def check(context: Context) -> Finding:
    cases = context.plan.cases
    copies = same_inputs(cases)
    if not copies:
        return Finding("duplicates", "pass", "no input is there twice", aside=True)
    kept, read = list[list[Case]](), 0
    for indexes in copies:
        read += len(indexes)
        if read > LOOKED_AT and kept:
            break
        kept.append([cases[index] for index in indexes])
    overlap = [same for same in kept if _is_in_both(same)]
    if overlap:
        ids = [case.id for same in overlap for case in same]
        message = f"{many(len(overlap), 'input')} in training and in test data ({listed(ids)})"
        return Finding("duplicates", "warn", message, "take them out of one of the two", tuple(ids[:100]))
    alike = [part for same in kept for part in _alike(same, _reads_tags(context))]
    independent = [part for part in alike if part[0].group is None or len({case.group for case in part}) > 1]
    if not independent:
        told = (
            "cases of one group share an input" if alike else "cases that share an input are told apart by their tags"
        )
        return Finding("duplicates", "note", told, aside=True)
    ids = [case.id for part in independent for case in part]
    surplus = sum(map(len, independent)) - len(independent)
    message = f"{many(surplus, 'input')} there more than once ({listed(ids)}): copies are no evidence of their own"
    fix = "remove them, or give the cases of one input one group"
    return Finding("duplicates", "warn", message, fix, tuple(ids[:100]))


def same_inputs(cases: CaseTable) -> list[list[int]]:
    """The cases of each input that is there more than once; next to nothing if there is none."""
    everything = cases.input_digests()
    pieces = [everything[at : at + SIZE] for at in range(0, len(everything), SIZE)]
    if len(set(pieces)) == len(pieces):
        return []
    found: dict[bytes, list[int]] = {}
    for index, piece in enumerate(pieces):
        found.setdefault(piece, []).append(index)
    return [indexes for indexes in found.values() if len(indexes) > 1]


def _is_in_both(same: list[Case]) -> bool:
    """Whether one tag says `train` for one of them and `test` for another."""
    for key in {key for case in same for key in case.tags}:
        values = {str(case.tags.get(key)).strip().lower() for case in same}
        if values & set(TRAINING) and values & set(HELD_OUT):
            return True
    return False


def _alike(same: list[Case], by_tags: bool) -> Iterator[list[Case]]:
    """Those that a target cannot tell apart."""
    found: dict[object, list[Case]] = {}
    for case in same:
        found.setdefault(tuple(sorted(case.tags.items())) if by_tags else None, []).append(case)
    yield from (part for part in found.values() if len(part) > 1)


def _reads_tags(context: Context) -> bool:
    return any(target.sees == "case" for target in context.targets) or any(
        "tags" in str(params.get("prompt", "")) for params in context.params
    )
