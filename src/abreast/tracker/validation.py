"""The check before every experiment, for who owns the loop: names, code, design and data, against the stored rows."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from abreast.errors import AbreastError, BadInput
from abreast.output import confirm, echo, is_interactive
from abreast.plan import git
from abreast.preflight.checks.cases import dvc_file, hash_files, relative_path
from abreast.preflight.checks.code import changes_since
from abreast.preflight.checks.renames import renames
from abreast.preflight.finding import Finding, listed
from abreast.store import open_store
from abreast.store.address import DEFAULT, named_store
from abreast.store.user_tables import tables
from abreast.store.user_tables.tables import Frame
from abreast.store.user_tables.tracked_rows import plain_name
from abreast.tracker.tracker import Tracker

PREFIX = "params_"  # of the columns that a parameter called `params` is unpacked to
WANTED = {
    "raw_response": ("raw_response", "raw", "response"),
    "tokens": ("input_tokens", "output_tokens", "tokens"),
    "cost": ("cost_usd", "cost"),
    "confidence": ("confidence",),
    "latency": ("latency", "function_time"),
    "segments (domain, difficulty, ...)": ("domain", "difficulty", "category", "segment", "input_length"),
}
AGGREGATIONS = {
    "p95 latency": ("p95_latency", "latency_p95"),
    "error rate": ("error_rate", "n_failed"),
    "cost per correct": ("cost_per_correct",),
    "mean confidence": ("mean_confidence", "avg_confidence"),
    "failures by kind": ("failures",),
}
_ROW_COLUMNS = ("row_id", "track_id", "timestamp", "cache", "cache_row", "code_dirty", "function_name")
_ANNOTATION_KINDS = {"int": "number", "float": "number", "str": "text"}
_MARKS = {"pass": "✓", "note": "·", "warn": "!", "fail": "✗"}
LOOKED_AT = 1_000  # rows, the newest, whose parameters are compared
MOST_FILES = 10_000  # looked at for DVC files

Ask = Callable[[str], bool]


def pre_experiment_validation(
    db_path: str | os.PathLike[str] | None = None,
    predictions_table: str = "predictions",
    metrics_table: str = "metrics",
    params_dataclass: type | None = None,
    *,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    ask: Ask | None = None,
) -> bool:
    """Say what changed since the last experiment and what is kept; whether to go on.

    On a terminal it asks where a person should decide (the default is no); elsewhere warnings do not stop it, and only
    a parameter that seems to be renamed does. The answers are stored in the table `validations`.
    """
    db_path = named_store(db_path) or DEFAULT
    asked = ask or (confirm if is_interactive() else None)
    answers: dict[str, bool] = {}
    findings = [
        _schema(db_path, predictions_table, params_dataclass),
        *_code(db_path, [metrics_table, predictions_table]),
    ]
    design = [
        _missing_fields("design", db_path, predictions_table, WANTED),
        _missing_fields("metrics", db_path, metrics_table, AGGREGATIONS),
    ]
    _show([*findings, *(finding for finding, _ in design), *_data(data)])
    going_on = all(finding.level != "fail" for finding in findings)
    for matter, question, stops_on, steps in _questions(findings, design):
        if asked is not None and going_on:
            answers[matter] = asked(question)
            if answers[matter] == stops_on:
                going_on = False
                echo("\n".join(steps))
    echo("ready" if going_on else "not ready: nothing should be executed yet")
    _store_answers(db_path, going_on, answers)
    return going_on


def validate_schema_before_experiment(
    db_path: str | os.PathLike[str] | None = None,
    predictions_table: str = "predictions",
    params_dataclass: type | None = None,
) -> bool:
    """Whether the fields of the parameters are the columns of before; False if one seems to be renamed."""
    finding = _schema(named_store(db_path) or DEFAULT, predictions_table, params_dataclass)
    _show([finding])
    return finding.level != "fail"


def check_data_committed(*paths: str | os.PathLike[str]) -> bool:
    """Whether data files are what git, or DVC, has of them. Without paths, those that DVC tracks in this folder."""
    findings = _data(paths)
    _show(findings)
    return all(finding.level not in ("warn", "fail") for finding in findings)


# -- names ---------------------------------------------------------------------------------------------------------


def _schema(db: str | os.PathLike[str], table: str, params: type | None) -> Finding:
    if params is None:
        return Finding("schema", "note", "no class of parameters was given: names are not compared")
    fields = _fields(params)
    frame = _columns(db, table, last=LOOKED_AT)
    if frame is None:
        return Finding("schema", "note", f"{table} is not there yet: the first experiment")
    before = {name.removeprefix(PREFIX) for name in frame.columns if name.startswith(PREFIX)}
    if not before:
        return Finding("schema", "note", f"{table} has no columns of parameters yet")
    stored = {
        name.removeprefix(PREFIX): list({repr(value): value for value in column if value is not None}.values())
        for name, column in frame.columns.items()
    }
    renamed = renames(sorted(before), fields, stored, _default_numbers(params), _kinds(params))
    if renamed:
        pairs = "; ".join(f"{PREFIX}{old} seems to be {PREFIX}{new} now" for old, new in renamed)
        option = "" if plain_name(table) == "predictions" else f" --table {plain_name(table)}"
        fixes = [f"abreast rename {os.fspath(db)} {PREFIX}{old} {PREFIX}{new}{option}" for old, new in renamed]
        return Finding("schema", "fail", f"{pairs}: stored rows keep the old name", "\n           → ".join(fixes))
    new, gone = [name for name in fields if name not in before], sorted(before - set(fields))
    parts = [f"new: {listed(new)}"] if new else []
    parts += [f"no longer there: {listed(gone)}"] if gone else []
    if parts:
        return Finding("schema", "warn" if gone else "note", f"parameters of {table}: {'; '.join(parts)}")
    return Finding("schema", "pass", f"the {len(fields)} parameters are the columns of {table}")


def _fields(params: Any) -> list[str]:
    kind = params if isinstance(params, type) else type(params)
    if dataclasses.is_dataclass(kind):
        names = []
        for field in dataclasses.fields(kind):
            inner = field.type if isinstance(field.type, type) else None
            nested = _fields(inner) if inner is not None and dataclasses.is_dataclass(inner) else [""]
            names += [f"{field.name}_{name}".rstrip("_") if name else field.name for name in nested]
        return names
    fields = getattr(kind, "model_fields", None)
    if isinstance(fields, dict):
        return list(fields)
    raise BadInput(f"params_dataclass: {kind.__name__} is neither a dataclass nor a pydantic model")


def _kinds(params: Any) -> dict[str, str]:
    kind = params if isinstance(params, type) else type(params)
    found = {}
    for base in reversed(kind.__mro__):
        for name, annotation in vars(base).get("__annotations__", {}).items():
            written = annotation.__name__ if isinstance(annotation, type) else str(annotation)
            words = re.findall(r"\w+", written)
            kinds = {_ANNOTATION_KINDS[word] for word in words if word in _ANNOTATION_KINDS}
            if len(kinds) == 1:
                found[name] = kinds.pop()
    return found


def _default_numbers(params: Any) -> dict[str, list[float]]:
    kind = params if isinstance(params, type) else type(params)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    defaults: dict[str, Any] = {field.name: field.default for field in fields}
    defaults |= {name: field.default for name, field in getattr(kind, "model_fields", {}).items()}
    return {name: [value] for name, value in defaults.items() if type(value) in (int, float)}


# -- code ----------------------------------------------------------------------------------------------------------


def _code(db: str | os.PathLike[str], names: Iterable[str]) -> list[Finding]:
    state = git.state(Path.cwd())
    if state is None or state.commit is None:
        return [Finding("code", "note", "not a git repository with a commit: changes of code cannot be told")]
    found = []
    last = next((commit for name in names if (commit := _last_commit(db, name))), None)
    if last is None:
        found.append(Finding("code", "note", "first experiment here: no earlier code to compare with"))
    elif state.commit.startswith(last):
        found.append(Finding("code", "pass", f"the commit of the last experiment ({last})"))
    else:
        told = changes_since(state, last, Path.cwd())
        message = f"the code changed since the last experiment ({told.sentence})"
        found.append(Finding("code", "warn", message, f"see it: git diff {last} --", told.lines))
    changed = [relative_path(file, Path.cwd()) for file in state.changed or ()]
    branch = state.branch or "no branch"
    if changed:
        return [*found, Finding("git", "note", f"not committed on {branch}: {listed(changed, 5)}", "git commit -a")]
    return [*found, Finding("git", "pass", f"everything is committed on {branch}")]


def _last_commit(db: str | os.PathLike[str], name: str) -> str | None:
    frame = _columns(db, name, last=1)
    commits = frame.columns.get("code_commit") if frame is not None else None
    return str(commits[0]) if commits and commits[0] else None


# -- design --------------------------------------------------------------------------------------------------------


def _missing_fields(
    check: str, db: str | os.PathLike[str], table: str, wanted: dict[str, tuple[str, ...]]
) -> tuple[Finding, list[str]]:
    """What a table has, and what of the wanted it has not."""
    frame = _columns(db, table)
    if frame is None:
        return Finding(check, "note", f"{table} is not there yet: the first experiment"), []
    columns = [name for name in frame.columns if name not in _ROW_COLUMNS]
    known = {name.lower() for name in columns}
    known |= {name.rpartition("_")[2] for name in known}
    missing = [what for what, names in wanted.items() if known.isdisjoint(names)]
    message = f"{table} keeps {listed(columns, 12)}"
    message += f"; not kept: {listed(missing, 6)}" if missing else ""
    return Finding(check, "note" if missing else "pass", message, "", tuple(columns)), missing


# -- data ----------------------------------------------------------------------------------------------------------


def _data(given: Any) -> list[Finding]:
    paths = [Path(path) for path in ([given] if isinstance(given, str | os.PathLike) else given or ())]
    paths = paths or _tracked_by_dvc(Path())
    if not paths:
        return [Finding("data", "note", "no data file was named, and DVC tracks none here")]
    state = git.state(Path.cwd())
    return [_data_file(path, state) for path in paths]


def _tracked_by_dvc(folder: Path) -> list[Path]:
    found, seen = [], 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        seen += len(names)
        found += [
            Path(root, name).with_suffix("") for name in sorted(names) if name.endswith(".dvc") and name != ".dvc"
        ]
        if seen > MOST_FILES:
            break
    return found


def _data_file(path: Path, state: git.State | None) -> Finding:
    beside = path.with_name(f"{path.name}.dvc")
    if not path.exists():
        fix = f"dvc checkout {beside}" if beside.is_file() else "check the name"
        return Finding("data", "warn", f"{path}: not there", fix)
    if beside.is_file() and path.is_file():
        entry = dvc_file(path, hash_files([path], path.parent)[path.name])
        if entry is not None and not entry.is_unchanged:
            return Finding("data", "warn", f"{path}: differs from what DVC tracks", f"dvc add {path}")
        if state is not None and git.uncommitted(state, [beside]):
            return Finding("data", "warn", f"{beside}: not committed", f"git add {beside} && git commit")
        return Finding("data", "pass", f"{path}: as DVC tracks it" + (f" ({entry.md5[:7]})" if entry else ""))
    if state is None:
        return Finding("data", "note", f"{path}: in no repository, so no version of it is known")
    if git.uncommitted(state, [path]):
        return Finding("data", "warn", f"{path}: not committed", f"git add {path} && git commit")
    return Finding("data", "pass", f"{path}: as committed")


# -- saying, asking, remembering -----------------------------------------------------------------------------------


def _columns(db: str | os.PathLike[str], table: str, last: int = 0) -> Frame | None:
    """The columns of a table, with its last rows; None if it is not there or nothing was ever written."""
    name = plain_name(table)
    with open_store(os.fspath(db)) as store:
        if not store.exists():
            return None
        try:
            frame = tables.read(store, name, last=max(1, last))
        except BadInput:
            return None
        return frame if len(frame) else None


def _questions(
    findings: Sequence[Finding], design: Sequence[tuple[Finding, list[str]]]
) -> Iterable[tuple[str, str, bool, tuple[str, ...]]]:
    """What is asked: the matter, the question, the answer that stops, and what to do then."""
    if any(finding.check == "code" and finding.level == "warn" for finding in findings):
        yield "code", "continue with code changes?", False, ()
    (_, fields), (_, aggregations) = design
    if fields:
        yield (
            "fields",
            f"add fields before this experiment (not kept: {listed(fields, 6)})?",
            True,
            (
                "let the function return the new keys, or give the parameters new fields",
                "try it on a few items, and look: abreast tail STORE",
                "delete those rows: abreast delete STORE TRACK_ID",
                "then start the experiment again",
            ),
        )
    if aggregations:
        yield (
            "aggregations",
            f"add aggregations to metrics (not kept: {listed(aggregations, 6)})?",
            True,
            (
                "compute them where metrics are logged, from the results of the calls",
                'log them beside the others: metrics.log({"accuracy": ..., "p95_latency": ...})',
                "then start the experiment again",
            ),
        )


def _show(findings: Iterable[Finding]) -> None:
    for finding in findings:
        echo(f"{_MARKS[finding.level]} {finding.check:<8} {finding.message}")
        if finding.level in ("warn", "fail"):
            for line in finding.details:
                echo(f"             {line}")
            if finding.fix:
                echo(f"           → {finding.fix}")


def _store_answers(db: str | os.PathLike[str], passed: bool, answers: dict[str, bool]) -> None:
    """With the rows it was about; before the first experiment there is no store to remember it in."""
    try:
        with open_store(os.fspath(db)) as store:
            there = store.exists()
    except AbreastError:
        return
    if there:
        Tracker(db, table="validations").log(
            {"passed": passed, **{f"answer_{key}": told for key, told in answers.items()}}
        )
