"""Scoring stored answers anew: nothing is run again, and the earlier scores are kept aside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abreast.code.reference import add_to_path
from abreast.errors import BadInput
from abreast.execute.scoring import scored, unscored
from abreast.spec import Spec, load_spec, validated
from abreast.spec.scorers import build_scorers, primary_column
from abreast.store import Store
from abreast.store.rows import score_rows


def rescore(store: Store, name: str, spec_path: Path | None, kinds: Sequence[str] | None) -> tuple[str, int]:
    """Score a run with the scorers of a spec (its own file if none is named), or with these kinds in addition."""
    run = store.run(name)
    if run["status"] == "running":
        raise BadInput(f"{run['run']} is still running: its answers are scored as they come", "wait for it")
    stored = json.loads(run["spec"])
    spec, base = _scorer_spec(stored, spec_path, kinds)
    add_to_path(base)
    scorers = build_scorers(spec)
    if not scorers:
        raise BadInput("there is no scorer to score with", "name one: abreast rescore --scorer exact")
    primary = run["primary_score"] if kinds and run["primary_score"] else primary_column(spec, scorers)
    run_id = int(run["run_id"])
    fresh = [
        row
        for position, case, answer in unscored(store, run_id, scorers)
        for scorer in scorers
        for row in score_rows(run_id, position, scorer.version, scored(scorer, case, answer))
    ]
    versions = {column: scorer.version for scorer in scorers for column in scorer.columns}
    store.replace_scores(run_id, versions, fresh, primary)
    store.materialise()
    return str(run["run"]), len({row[1] for row in fresh})


def _scorer_spec(stored: Mapping[str, Any], path: Path | None, kinds: Sequence[str] | None) -> tuple[Spec, Path]:
    origin = stored["origin"]
    if path is None and not kinds and origin and Path(origin).is_file():
        path = Path(origin)
    if path is not None and not kinds:
        return load_spec(path), path.resolve().parent
    scorers = list(kinds) if kinds else stored["scorers"]
    primary = None if kinds else stored["primary"]
    given = {"cases": [], "scorers": scorers, "primary": primary}
    return validated(given, "rescore"), Path(stored["base"])
