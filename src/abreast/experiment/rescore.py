"""Rescoring of stored answers: nothing is executed, and earlier scores are archived."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from abreast.code.reference import add_to_path
from abreast.errors import BadInput
from abreast.execute.engine.base import EngineSetup
from abreast.execute.listener import Listener, Listeners
from abreast.execute.run import Ending, Execution
from abreast.execute.scoring import scored, unscored
from abreast.execute.sources.judging import Panel, scored_by_code
from abreast.experiment.judges import seat, written_scorer
from abreast.plan.plan import Plan
from abreast.spec.cases import CaseTable
from abreast.spec.load import validated
from abreast.spec.schema import Spec
from abreast.spec.scorers import build_scorers, primary_column
from abreast.store import Store
from abreast.store.rows import Row, score_rows


@dataclass(frozen=True, slots=True)
class Rescored:
    """Result of a rescore: how many answers have new scores, and how many still wait for a judge that stopped."""

    run: str
    answers: int
    waiting: int = 0
    stopped: str | None = None
    why: str = ""
    fix: str = ""
    missing: Mapping[str, Counter[str]] = field(default_factory=dict)  # answers without each score, by reason


def rescore(
    store: Store,
    name: str,
    definition: tuple[Spec, Path] | None,
    kinds: Sequence[str] | None,
    listeners: Sequence[Listener] = (),
) -> Rescored:
    """Score a run with the scorers of a spec in a folder (default: the stored ones), or add scorers of these kinds."""
    run = store.run(name)
    if run["status"] == "running":
        raise BadInput(f"{run['run']} is still running", "wait until it has ended")
    stored = json.loads(run["spec"])
    spec, base = definition or _scorer_spec(stored, kinds)
    add_to_path(base)
    scorers = build_scorers(spec, base)
    if not scorers:
        raise BadInput("no scorers to apply", "name one, such as `abreast rescore --scorer exact`")
    primary = run["primary_score"] if kinds and run["primary_score"] else primary_column(spec, scorers)
    run_id = int(run["run_id"])
    digests = store.queries.variant_digests(run_id)
    shared = {"base": base, "prices": spec.prices, "keep_workspaces": False}
    panel = seat(
        scorers, list(digests), list(digests.values()), run["baseline"], spec.seed, shared, retries_unusable=True
    )
    fresh = [
        row
        for position, case, answer in unscored(store, run_id, scored_by_code(scorers))
        for scorer in scored_by_code(scorers)
        for row in score_rows(run_id, position, scorer.version, scored(scorer, case, answer))
    ]
    versions = {
        column: scorer.version for scorer in scorers if scorer.scored_by != "people" for column in scorer.columns
    }
    store.replace_scores(run_id, versions, fresh, primary, _kept_spec(stored, spec, kinds))
    positions = {row[1] for row in fresh}
    result = Rescored(str(run["run"]), len(positions))
    if panel is not None:
        result = _judge(store, result.run, spec, panel, positions, listeners)
    store.materialise()
    return replace(result, missing=_missing_scores(fresh))


def _missing_scores(rows: Sequence[Row]) -> dict[str, Counter[str]]:
    missing: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, name, value, explanation, _ in rows:
        if value is None:
            missing[name][explanation or "no reason given"] += 1
    return missing


def _judge(
    store: Store, run: str, spec: Spec, panel: Panel, positions: set[int], listeners: Sequence[Listener]
) -> Rescored:
    """Ask the judges, under the same scheduler, limits and budget as a run."""
    run_id = int(store.run(run)["run_id"])
    unjudged = _unjudged(store, run_id, panel)
    if not unjudged:
        return Rescored(run, len(positions))
    if any(target.simulated for target in panel.targets):
        store.mark_simulated(run_id)
    ending = asyncio.run(_execute(store, run, spec, panel, listeners))
    store.close()
    waiting = _unjudged(store, run_id, replace(panel, retries_unusable=False)) & unjudged
    return Rescored(
        run=run,
        answers=len(positions | (unjudged - waiting)),
        waiting=len(waiting),
        stopped=ending.stopped,
        why=ending.why,
        fix=ending.fix,
    )


def _unjudged(store: Store, run_id: int, panel: Panel) -> set[int]:
    return {position for judge in panel.judges for position in panel.unjudged(store, run_id, judge)}


async def _execute(store: Store, run: str, spec: Spec, panel: Panel, listeners: Sequence[Listener]) -> Ending:
    lease = store.claim(run, executes=False)
    try:
        return await Execution(
            plan=Plan(CaseTable(), (), (), 1, spec.seed),
            targets=(),
            scorers=(),
            limits=spec.limits,
            store=store,
            lease=lease,
            listener=Listeners(listeners),
            panel=panel,
            engine_setup=EngineSetup(
                variants=panel.contenders,
                judges=len(panel.targets),
                seed=spec.seed,
                limits=spec.limits,
                built_targets=panel.targets,
            ),
        ).run()
    finally:
        store.give_back(lease)


def _kept_spec(stored: Mapping[str, Any], spec: Spec, kinds: Sequence[str] | None) -> dict[str, Any]:
    """Return the scorers to record with the run, for `resume` and `label`."""
    if kinds:
        return {"scorers": [*stored["scorers"], *(kind for kind in kinds if kind not in stored["scorers"])]}
    return {"scorers": [written_scorer(item) for item in spec.scorers], "primary": spec.primary}


def _scorer_spec(stored: Mapping[str, Any], kinds: Sequence[str] | None) -> tuple[Spec, Path]:
    scorers = list(kinds) if kinds else stored["scorers"]
    primary = None if kinds else stored.get("primary")
    settings = {"cases": [], "scorers": scorers, "primary": primary}
    settings |= {key: stored[key] for key in ("limits", "prices") if key in stored}
    return validated(settings, "rescore"), Path(stored["base"])
