"""Scoring stored answers anew: nothing is run again, and the earlier scores are kept aside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abreast.code.reference import add_to_path
from abreast.errors import BadInput
from abreast.execute.listener import Listener, Listeners
from abreast.execute.run import Ending, Execution
from abreast.execute.scoring import scored, unscored
from abreast.execute.sources.judging import Panel, without_judges
from abreast.experiment.judges import seat, written_scorer
from abreast.plan.plan import Plan
from abreast.spec.cases import CaseTable
from abreast.spec.load import validated
from abreast.spec.schema import Spec
from abreast.spec.scorers import build_scorers, primary_column
from abreast.store import Store
from abreast.store.rows import score_rows


@dataclass(frozen=True, slots=True)
class Rescored:
    """What it came to: so many answers have new scores, and so many wait for a judge who was stopped, and why."""

    run: str
    answers: int
    waiting: int = 0
    stopped: str | None = None
    why: str = ""
    fix: str = ""


def rescore(
    store: Store,
    name: str,
    given: tuple[Spec, Path] | None,
    kinds: Sequence[str] | None,
    listeners: Sequence[Listener] = (),
) -> Rescored:
    """Score a run with the scorers of a spec in a folder (its own as they were, if there is none), or with these kinds
    in addition."""
    run = store.run(name)
    if run["status"] == "running":
        raise BadInput(f"{run['run']} is still running: its answers are scored as they come", "wait for it")
    stored = json.loads(run["spec"])
    spec, base = given or _scorer_spec(stored, kinds)
    add_to_path(base)
    scorers = build_scorers(spec, base)
    if not scorers:
        raise BadInput("there is no scorer to score with", "name one: abreast rescore --scorer exact")
    primary = run["primary_score"] if kinds and run["primary_score"] else primary_column(spec, scorers)
    run_id = int(run["run_id"])
    digests = store.queries.variant_digests(run_id)
    shared = {"base": base, "prices": spec.prices, "keep_workspaces": False}
    panel = seat(scorers, list(digests), list(digests.values()), run["baseline"], spec.seed, shared, anew=True)
    fresh = [
        row
        for position, case, answer in unscored(store, run_id, without_judges(scorers))
        for scorer in without_judges(scorers)
        for row in score_rows(run_id, position, scorer.version, scored(scorer, case, answer))
    ]
    versions = {column: scorer.version for scorer in scorers for column in scorer.columns}
    store.replace_scores(run_id, versions, fresh, primary, _kept_spec(stored, spec, kinds))
    positions = {row[1] for row in fresh}
    ended = Rescored(str(run["run"]), len(positions))
    if panel is not None:
        ended = _judged(store, ended.run, spec, panel, positions, listeners)
    store.materialise()
    return ended


def _judged(
    store: Store, run: str, spec: Spec, panel: Panel, positions: set[int], listeners: Sequence[Listener]
) -> Rescored:
    """Under the same scheduler, limits and budget as a run, with nothing to execute."""
    run_id = int(store.run(run)["run_id"])
    wanted = _unjudged(store, run_id, panel)
    if wanted and any(target.simulated for target in panel.targets):
        store.mark_simulated(run_id)
    ending = asyncio.run(_execution(store, run, spec, panel, listeners)) if wanted else None
    store.close()
    left = _unjudged(store, run_id, replace(panel, retries_unusable=False)) & wanted
    number = len(positions | (wanted - left))
    if ending is None:
        return Rescored(run, number)
    return Rescored(run=run, answers=number, waiting=len(left), stopped=ending.stopped, why=ending.why, fix=ending.fix)


def _unjudged(store: Store, run_id: int, panel: Panel) -> set[int]:
    return {position for judge in panel.judges for position in panel.unjudged(store, run_id, judge)}


async def _execution(store: Store, run: str, spec: Spec, panel: Panel, listeners: Sequence[Listener]) -> Ending:
    held = store.claim(run, executes=False)
    try:
        nothing = Plan(CaseTable(), (), (), 1, spec.seed)
        listener = Listeners(listeners)
        return await Execution(
            plan=nothing,
            targets=(),
            scorers=(),
            limits=spec.limits,
            store=store,
            lease=held,
            listener=listener,
            panel=panel,
        ).run()
    finally:
        store.give_back(held)


def _kept_spec(stored: Mapping[str, Any], spec: Spec, kinds: Sequence[str] | None) -> dict[str, Any]:
    """Record the scorers behind the run's scores, for resume and label."""
    if kinds:
        return {"scorers": [*stored["scorers"], *(kind for kind in kinds if kind not in stored["scorers"])]}
    return {"scorers": [written_scorer(item) for item in spec.scorers], "primary": spec.primary}


def _scorer_spec(stored: Mapping[str, Any], kinds: Sequence[str] | None) -> tuple[Spec, Path]:
    scorers = list(kinds) if kinds else stored["scorers"]
    primary = None if kinds else stored.get("primary")
    given = {"cases": [], "scorers": scorers, "primary": primary}
    given |= {key: stored[key] for key in ("limits", "prices") if key in stored}
    return validated(given, "rescore"), Path(stored["base"])
