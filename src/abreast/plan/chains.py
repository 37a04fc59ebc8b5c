"""Chains: cases whose trials continue from the workspace of another case's trial, of the same variant and repeat."""

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
"""A row per variant with the index of the case that each case continues, −1 if none."""

FIRST = -1


def chains_of(cases: CaseTable, targets: Sequence[Target]) -> Before | None:
    """Return the case that each case continues; None if no target continues from other cases. Raises BadInput."""
    before: Before | None = None
    for variant, target in enumerate(targets):
        if not len(cases) or target.after(cases[0]) is None:
            continue
        if before is None:
            before = np.full((len(targets), len(cases)), FIRST, dtype=np.int64)
        indexes = {case_id: index for index, case_id in enumerate(cases.ids)}
        for index in range(len(cases)):
            if name := target.after(cases[index]):
                before[variant, index] = _predecessor(cases, indexes, index, name)
    return before


def _predecessor(cases: CaseTable, indexes: Mapping[str, int], index: int, name: str) -> int:
    message, before = f"case {cases.ids[index]} continues from {name}", indexes.get(name)
    if before is None:
        fix = "include the cases before it: name each of them with --case, or take the first ones with --limit"
        raise BadInput(f"{message}, which is not among the cases", fix)
    if before >= index:
        raise BadInput(f"{message}, which comes after it", "list cases in the order in which they run")
    if cases.groups[index] is None or cases.groups[index] != cases.groups[before]:
        raise BadInput(
            f"{message}, so they are not independent, but they have no common group", "set the same group: on both"
        )
    return before


def in_order(order: npt.NDArray[np.int64], before: Before) -> npt.NDArray[np.int64]:
    """Sort the cases of each chain within the positions that the chain occupies.

    >>> in_order(np.array([2, 3, 0, 1]), np.array([[-1, -1, 0, 2]])).tolist()
    [0, 2, 3, 1]
    """
    root = np.arange(len(order))
    for index in range(len(order)):
        for predecessor in before[:, index]:
            if predecessor != FIRST and root[predecessor] != root[index]:
                root[root == root[index]] = root[predecessor]
    chained = order.copy()
    for chain in np.unique(root[(before != FIRST).any(axis=0)]):
        positions = np.flatnonzero(root[order] == chain)
        chained[positions] = np.sort(order[positions])
    return chained


def unbroken(plan: Plan, store: Store, sources: Mapping[int, tuple[int, int]]) -> set[int]:
    """Positions of trials that continued from the stored outcome of their predecessor, not from another one.

    `sources` says where the outcome of each position is stored, as run and position.
    """
    links: dict[tuple[int, int], ChainLink] = {}
    for run_id in {run_id for run_id, _ in sources.values()}:
        links |= {(run_id, position): link for position, link in store.queries.chain_links(run_id)}
    positions = set[int]()
    for position in sorted(sources):  # predecessors before their successors
        before, link = plan.before(position), links[sources[position]]
        if before is not None and before not in positions:
            continue
        if link.before is None:  # without a recorded start, assume that it followed the trial of its own run
            fits = before is None or sources[before][0] == sources[position][0] or link.status == "skipped"
        else:
            while before is not None and links[sources[before]].status == "skipped":  # it passes on its own start
                before = plan.before(before)
            case = None if before is None else plan.cases.ids[plan.parts(before)[0]]
            start = link.before if before is None else links[sources[before]].after
            fits = (link.carried_from, link.before) == (case, start)
        if fits:
            positions.add(position)
    return positions


def reuses_in_chains(plan: Plan, store: Store, reuses: Iterable[Reuse]) -> list[Reuse]:
    """Keep the reuses whose predecessor in the chain is also reused."""
    reuses = list(reuses)
    positions = unbroken(plan, store, {reuse.position: (reuse.run_id, reuse.source) for reuse in reuses})
    return [reuse for reuse in reuses if reuse.position in positions]
