"""Chains: cases whose trials begin with what the trial of another case, of the same variant and repeat, left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from abreast.errors import BadInput
from abreast.spec.cases import CaseTable
from abreast.store import Reuse, Store

if TYPE_CHECKING:
    from abreast.plan.plan import Plan
    from abreast.store.queries.artifacts import ChainLink
    from abreast.targets import Target

Before = npt.NDArray[np.int64]
"""A row for each variant: of each case the index of the one before, −1 if there is none."""

FIRST = -1


def chains_of(cases: CaseTable, targets: Sequence[Target]) -> Before | None:
    """The case that each case follows; None if no target continues from other cases. Raises BadInput."""
    found: Before | None = None
    for variant, target in enumerate(targets):
        if not len(cases) or target.after(cases[0]) is None:
            continue
        if found is None:
            found = np.full((len(targets), len(cases)), FIRST, dtype=np.int64)
        numbers = {case_id: index for index, case_id in enumerate(cases.ids)}
        for index in range(len(cases)):
            if name := target.after(cases[index]):
                found[variant, index] = _known(cases, numbers, index, name)
    return found


def _known(cases: CaseTable, numbers: Mapping[str, int], index: int, name: str) -> int:
    what, before = f"case {cases.ids[index]} begins with what {name} left", numbers.get(name)
    if before is None:
        fix = "take those before it too: --case names each of them, --limit takes the first ones"
        raise BadInput(f"{what}, which is not among the cases", fix)
    if before >= index:
        raise BadInput(f"{what}, which does not stand before it", "write cases in the order in which they are done")
    if cases.groups[index] is None or cases.groups[index] != cases.groups[before]:
        raise BadInput(f"{what}, so they are not independent, and not in one group", "give both the same group:")
    return before


def in_order(order: npt.NDArray[np.int64], before: Before) -> npt.NDArray[np.int64]:
    """The same order with the cases of each chain as they are written, in the places that they have together.

    >>> in_order(np.array([2, 3, 0, 1]), np.array([[-1, -1, 0, 2]])).tolist()
    [0, 2, 3, 1]
    """
    root = np.arange(len(order))
    for index in range(len(order)):
        for one in before[:, index]:
            if one != FIRST and root[one] != root[index]:
                root[root == root[index]] = root[one]
    found = order.copy()
    for chain in np.unique(root[(before != FIRST).any(axis=0)]):
        places = np.flatnonzero(root[order] == chain)
        found[places] = np.sort(order[places])
    return found


def unbroken(plan: Plan, store: Store, sources: Mapping[int, tuple[int, int]]) -> set[int]:
    """Of trials that have an outcome, by their positions and by where it is stored (run, position), those that began
    with what the outcome of the one before left: it may have been another one then."""
    links: dict[tuple[int, int], ChainLink] = {}
    for run_id in {run_id for run_id, _ in sources.values()}:
        links |= {(run_id, position): link for position, link in store.queries.chain_links(run_id)}
    kept = set[int]()
    for position in sorted(sources):  # what comes before stands before
        before, mine = plan.before(position), links[sources[position]]
        if before is not None and before not in kept:
            continue
        if mine.before is None:  # it never had a folder, or nobody knows: then it was after what its own run has
            fits = before is None or sources[before][0] == sources[position][0] or mine.status == "skipped"
        else:
            fits = (mine.carried_from, mine.before) == _left(plan, links, sources, before, mine)
        if fits:
            kept.add(position)
    return kept


def _left(
    plan: Plan,
    links: Mapping[tuple[int, int], ChainLink],
    sources: Mapping[int, tuple[int, int]],
    position: int | None,
    mine: ChainLink,
) -> tuple[str | None, str | None]:
    """Case and state that a trial begins with after this one; a skipped trial passes on its own start."""
    while position is not None and links[sources[position]].status == "skipped":
        position = plan.before(position)
    if position is None:
        return None, mine.before  # the start is part of the question
    return plan.cases.ids[plan.parts(position)[0]], links[sources[position]].after


def reuses_in_chains(plan: Plan, store: Store, reuses: Iterable[Reuse]) -> list[Reuse]:
    """Reuses whose predecessor in the chain is reused too and left what they began with."""
    found = list(reuses)
    kept = unbroken(plan, store, {reuse.position: (reuse.run_id, reuse.source) for reuse in found})
    return [reuse for reuse in found if reuse.position in kept]
