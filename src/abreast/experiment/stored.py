"""The spec as stored with a run, and the experiment restored from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput
from abreast.experiment.judges import written_scorer
from abreast.model import Variant
from abreast.spec.load import validated
from abreast.spec.schema import VARIANT_SETTINGS, Spec
from abreast.store import Store
from abreast.store.run_names import matching_runs
from abreast.store.runs.provenance import ImportRecord
from abreast.targets.python import reference_of
from abreast.targets.request import params_as_mapping

if TYPE_CHECKING:
    from abreast.experiment.setup import Setup


def shown_params(variant: Variant) -> dict[str, Any]:
    params = params_as_mapping(variant.params)
    return {key: reference_of(value) if callable(value) else value for key, value in params.items()}


_AS_WRITTEN = {
    *("name", "description", "repeats", "baseline", "primary", "store"),
    *("until_decided", "margin", "weight", "min_cases", "suite", "case_noun", "output", "fail_if"),
}


def stored_spec(setup: Setup) -> dict[str, Any]:
    """Return the spec as executed, so that `resume` needs no file; functions by name."""
    spec, origin, options = setup.spec, setup.origin, setup.options
    written = spec.model_dump(mode="python", include=_AS_WRITTEN)
    return {
        **written,
        "seed": spec.seed,
        "cases": _written_cases(spec.cases, origin is not None or spec.suite is not None),
        "variants": _written_variants(spec),
        "scorers": [written_scorer(item) for item in spec.scorers],
        "limits": spec.as_written("limits"),
        "expects": spec.as_written("expects"),
        "prices": spec.as_written("prices"),
        "engine": spec.model_dump(include={"engine"})["engine"],
        "base": str(setup.base.resolve()),
        "origin": str(origin.resolve()) if origin else None,
        "origin_digest": None if options.resume else _digest_of(origin),  # resume does not read the file
        "options": {
            "case": list(options.case),
            "tag": dict(options.tag),
            "variant": list(options.variant),
            "limit": options.limit,
            "debug": options.debug,
        },
    }


def _digest_of(path: Path | None) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path else None
    except OSError:
        return None


def edited_since(run: Mapping[str, Any]) -> Path | None:
    """Return the spec file of a run if it has changed since the run started."""
    stored = json.loads(run["spec"])
    recorded = stored.get("origin_digest")
    current = _digest_of(Path(stored["origin"])) if recorded else None
    return Path(stored["origin"]) if current is not None and current != recorded else None


def _written_cases(cases: Any, plain: bool) -> Any:
    """Return cases that `resume` can load again: files, references and, if `plain`, those in a spec or by a suite."""
    if isinstance(cases, str):
        return cases
    if isinstance(cases, Mapping):  # a function with arguments
        return dict(cases)
    if isinstance(cases, list) and all(isinstance(item, str) or (plain and isinstance(item, dict)) for item in cases):
        return cases
    return None


def _written_variants(spec: Spec) -> dict[str, Any] | None:
    """Return the variants as in a spec file; None if one exists only in Python."""
    written: dict[str, Any] = {}
    for variant in spec.all_variants():
        params = variant.params
        if (
            not isinstance(variant.target, str)
            or not isinstance(params, Mapping)
            or any(map(callable, params.values()))
        ):
            return None
        settings = {name: getattr(variant, name) for name in VARIANT_SETTINGS}
        written[variant.name] = {**params, **settings}
    return written


def reopened(store: Store, name: str | None) -> tuple[Spec, Path, Path | None, dict[str, Any]]:
    """Return spec, folder, file and options of a run that is incomplete or stopped early.

    `name` is the run's name, or a spec file or suite, which means the last such run started from it.
    """
    run = _last_incomplete(store, _not_imported(store)) if name is None else _run_to_resume(store, name)
    if record := ImportRecord.read(json.loads(run["provenance"])):
        raise BadInput(
            f"{run['run']} cannot be resumed: {record.sentence()}", f"{record.rerun}, and import the new log"
        )
    if run["status"] == "complete":
        report = f"abreast report {run['run']} --store {store.quoted_address}"
        raise BadInput(f"{run['run']} is complete; nothing to resume", f"run `{report}`")
    spec, base, origin, options = spec_of(run)
    if run["status"] == "stopped_early":  # resuming it means running the remaining cases
        spec = spec.model_copy(update={"until_decided": False})
    if not base.is_dir():
        raise BadInput(f"{run['run']} was started in {base}, which no longer exists")
    return spec, base, origin, {**options, "resume": run["run"]}


def _not_imported(store: Store) -> list[dict[str, Any]]:
    return [run for run in store.runs() if ImportRecord.read(json.loads(run["provenance"])) is None]


def spec_of(run: Mapping[str, Any]) -> tuple[Spec, Path, Path | None, dict[str, Any]]:
    """Return spec, folder, file and options of a stored run."""
    stored = json.loads(run["spec"])
    base, origin, options = Path(stored.pop("base")), stored.pop("origin"), stored.pop("options")
    stored.pop("origin_digest", None)
    options.pop("retry_failed", None)  # applies to one execution only
    if stored["cases"] is None or stored["variants"] is None:
        if stored.get("suite"):
            suite = stored["suite"]
            raise BadInput(
                f'{run["run"]} was started by the suite "{suite}", whose cases or variants exist only in Python',
                f"run `abreast run {suite}` with the same flags to continue it",
            )
        raise BadInput(
            f"{run['run']} was started from Python", "call .run() of the same Experiment again to continue it"
        )
    spec = validated(stored, f"the spec of {run['run']}")
    return spec, base, Path(origin) if origin else None, dict(options)


def _is_started_from(run: Mapping[str, Any], name: str) -> bool:
    spec = json.loads(run["spec"])
    origin = spec.get("origin")
    is_path = origin is not None and "\0" not in name
    return spec.get("suite") == name or (is_path and Path(origin) == Path(name).resolve())


def _run_to_resume(store: Store, name: str) -> dict[str, Any]:
    """Return the run with this name or label, or the last incomplete run of this spec file or suite."""
    started = [run for run in store.runs() if _is_started_from(run, name)]
    matches = matching_runs(store, name)
    if not started or matches == [name]:
        return store.run(name)
    run = _last_incomplete(store, started)
    if set(matches) - {run["run"]}:
        candidates = ", ".join(dict.fromkeys([*matches, run["run"]]))
        raise BadInput(f'"{name}" names a spec or suite and also matches a run: {candidates}', "use the full name")
    return run


def _last_incomplete(store: Store, runs: list[dict[str, Any]]) -> dict[str, Any]:
    incomplete = [run for run in runs if run["status"] in ("incomplete", "running")]
    if incomplete:
        return incomplete[-1]
    early = [run["run"] for run in runs if run["status"] == "stopped_early"]
    if early:
        resume = f"abreast resume {early[-1]} --store {store.quoted_address}"
        fix = f"run `{resume}` to continue the one that stopped early"
        raise BadInput(f"{store.address}: nothing to resume: every run is complete or stopped early", fix)
    raise BadInput(
        f"{store.address}: nothing to resume, every run is complete", "run `abreast run SPEC` to start a new one"
    )
