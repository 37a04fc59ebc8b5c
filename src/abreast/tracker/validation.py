"""Checks before an experiment, for users who run their own loop: parameters, code, columns and data files."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import AbreastError, BadInput
from abreast.output import confirm, echo, is_interactive
from abreast.plan import git
from abreast.preflight.checks.cases import dvc_file, hash_files, relative_path
from abreast.preflight.checks.code import changes_since
from abreast.preflight.checks.renames import renames
from abreast.preflight.finding import Finding, listed
from abreast.store import open_store
from abreast.store.address import DEFAULT, Address, named_store
from abreast.store.user_tables import tables
from abreast.store.user_tables.tables import Frame
from abreast.store.user_tables.tracked_rows import plain_name
from abreast.tracker.tracker import Tracker

PREFIX = "params_"  # prefix of the columns for the fields of the argument `params`
RECOMMENDED_FIELDS = {
    "raw_response": ("raw_response", "raw", "response"),
    "tokens": ("input_tokens", "output_tokens", "tokens"),
    "cost": ("cost_usd", "cost"),
    "confidence": ("confidence",),
    "latency": ("latency", "function_time"),
    "segments (domain, difficulty, ...)": ("domain", "difficulty", "category", "segment", "input_length"),
}
RECOMMENDED_METRICS = {
    "p95 latency": ("p95_latency", "latency_p95"),
    "error rate": ("error_rate", "n_failed"),
    "cost per correct": ("cost_per_correct",),
    "mean confidence": ("mean_confidence", "avg_confidence"),
    "failures by kind": ("failures",),
}
_ROW_COLUMNS = ("row_id", "track_id", "timestamp", "cache", "cache_row", "code_dirty", "function_name")
_ANNOTATION_KINDS = {"int": "number", "float": "number", "str": "text"}
_MARKS = {"pass": "✓", "note": "·", "warn": "!", "fail": "✗"}
COMPARED_ROWS = 1_000  # number of newest rows whose parameters are compared
MOST_FILES = 10_000  # files to look at in a search for DVC files

Ask = Callable[[str], bool]


class _Prompt(NamedTuple):
    """A question for the user, and the steps to print if the answer stops the experiment."""

    topic: str
    question: str
    stops_on: bool
    steps: tuple[str, ...] = ()


def pre_experiment_validation(
    db_path: Address | None = None,
    predictions_table: str = "predictions",
    metrics_table: str = "metrics",
    params_dataclass: type | None = None,
    *,
    data: Address | Sequence[Address] | None = None,
    ask: Ask | None = None,
) -> bool:
    """Print what changed since the last experiment and which columns are stored. Return whether to continue.

    On a terminal you are asked what to do (the default is no). Elsewhere only a parameter that seems to be renamed
    stops the experiment. The answers are stored in the table `validations`.
    """
    db_path = named_store(db_path) or DEFAULT
    ask = ask or (confirm if is_interactive() else None)
    findings = [
        _check_schema(db_path, predictions_table, params_dataclass),
        *_check_code(db_path, [metrics_table, predictions_table]),
    ]
    columns, missing_fields = _check_columns("design", db_path, predictions_table, RECOMMENDED_FIELDS)
    metrics, missing_metrics = _check_columns("metrics", db_path, metrics_table, RECOMMENDED_METRICS)
    _show([*findings, columns, metrics, *_check_data(data)])
    is_ready = all(finding.level != "fail" for finding in findings)
    answers: dict[str, bool] = {}
    for prompt in _prompts(findings, missing_fields, missing_metrics):
        if ask is not None and is_ready:
            answers[prompt.topic] = ask(prompt.question)
            if answers[prompt.topic] == prompt.stops_on:
                is_ready = False
                echo("\n".join(prompt.steps))
    echo("ready" if is_ready else "not ready: do not run the experiment yet")
    _store_answers(db_path, is_ready, answers)
    return is_ready


def validate_schema_before_experiment(
    db_path: Address | None = None, predictions_table: str = "predictions", params_dataclass: type | None = None
) -> bool:
    """Compare the parameter names with the stored columns. Return False if one seems to have been renamed."""
    finding = _check_schema(named_store(db_path) or DEFAULT, predictions_table, params_dataclass)
    _show([finding])
    return finding.level != "fail"


def check_data_committed(*paths: Address) -> bool:
    """Check that data files are committed to git or DVC: `paths`, or all that DVC tracks in this folder."""
    findings = _check_data(paths)
    _show(findings)
    return all(finding.level not in ("warn", "fail") for finding in findings)


# -- parameters ----------------------------------------------------------------------------------------------------


def _check_schema(db: Address, table: str, params: Any) -> Finding:
    if params is None:
        return Finding("schema", "note", "no `params_dataclass`, so parameter names are not compared")
    cls = params if isinstance(params, type) else type(params)
    fields = _field_names(cls)
    frame = _read(db, table, last=COMPARED_ROWS)
    if frame is None:
        return Finding("schema", "note", f"{table} does not exist yet: this is the first experiment")
    stored = {name.removeprefix(PREFIX) for name in frame.columns if name.startswith(PREFIX)}
    if not stored:
        return Finding("schema", "note", f"{table} has no parameter columns yet")
    values = {
        name.removeprefix(PREFIX): list({repr(value): value for value in column if value is not None}.values())
        for name, column in frame.columns.items()
    }
    renamed = renames(sorted(stored), fields, values, _default_numbers(cls), _annotation_kinds(cls))
    if renamed:
        pairs = "; ".join(f"{PREFIX}{old} seems to be {PREFIX}{new} now" for old, new in renamed)
        option = "" if plain_name(table) == "predictions" else f" --table {plain_name(table)}"
        fixes = [f"abreast rename {os.fspath(db)} {PREFIX}{old} {PREFIX}{new}{option}" for old, new in renamed]
        return Finding("schema", "fail", f"{pairs}; stored rows have the old name", "\n           → ".join(fixes))
    added, removed = [name for name in fields if name not in stored], sorted(stored.difference(fields))
    changes = [f"{label}: {listed(names)}" for label, names in (("added", added), ("removed", removed)) if names]
    if changes:
        return Finding("schema", "warn" if removed else "note", f"parameters of {table}: {'; '.join(changes)}")
    return Finding("schema", "pass", f"the {len(fields)} parameters match the columns of {table}")


def _field_names(cls: type) -> list[str]:
    if dataclasses.is_dataclass(cls):
        names = []
        for field in dataclasses.fields(cls):
            if isinstance(field.type, type) and dataclasses.is_dataclass(field.type):
                names += [f"{field.name}_{name}" for name in _field_names(field.type)]
            else:
                names.append(field.name)
        return names
    fields = getattr(cls, "model_fields", None)
    if isinstance(fields, dict):
        return list(fields)
    raise BadInput(f"params_dataclass: {cls.__name__} is neither a dataclass nor a pydantic model")


def _annotation_kinds(cls: type) -> dict[str, str]:
    """Map field names to `number` or `text`, by their annotations."""
    kinds = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            words = re.findall(r"\w+", annotation.__name__ if isinstance(annotation, type) else str(annotation))
            candidates = {_ANNOTATION_KINDS[word] for word in words if word in _ANNOTATION_KINDS}
            if len(candidates) == 1:
                kinds[name] = candidates.pop()
    return kinds


def _default_numbers(cls: Any) -> dict[str, list[float]]:
    is_dataclass = dataclasses.is_dataclass(cls)
    fields: Any = {field.name: field for field in dataclasses.fields(cls)} if is_dataclass else cls.model_fields
    return {name: [field.default] for name, field in fields.items() if type(field.default) in (int, float)}


# -- code ----------------------------------------------------------------------------------------------------------


def _check_code(db: Address, tables: Iterable[str]) -> list[Finding]:
    state = git.state(Path.cwd())
    if state is None or state.commit is None:
        return [Finding("code", "note", "not a git repository with a commit, so code changes are unknown")]
    last = next((commit for table in tables if (commit := _last_commit(db, table))), None)
    if last is None:
        code = Finding("code", "note", "no earlier experiment to compare with")
    elif state.commit.startswith(last):
        code = Finding("code", "pass", f"same commit as the last experiment ({last})")
    else:
        changes = changes_since(state, last, Path.cwd())
        message = f"the code changed since the last experiment ({changes.sentence})"
        code = Finding("code", "warn", message, f"git diff {last} --", changes.lines)
    uncommitted = [relative_path(file, Path.cwd()) for file in state.changed or ()]
    branch = state.branch or "no branch"
    if uncommitted:
        message = f"not committed on {branch}: {listed(uncommitted, 5)}"
        return [code, Finding("git", "note", message, "git commit -a")]
    return [code, Finding("git", "pass", f"everything is committed on {branch}")]


def _last_commit(db: Address, table: str) -> str | None:
    frame = _read(db, table)
    commits = frame.columns.get("code_commit") if frame is not None else None
    return str(commits[0]) if commits and commits[0] else None


# -- columns -------------------------------------------------------------------------------------------------------


def _check_columns(
    check: str, db: Address, table: str, recommended: Mapping[str, tuple[str, ...]]
) -> tuple[Finding, list[str]]:
    """Compare the columns of a table with `recommended`. Return the finding, and the labels that are missing."""
    frame = _read(db, table)
    if frame is None:
        return Finding(check, "note", f"{table} does not exist yet: this is the first experiment"), []
    columns = [name for name in frame.columns if name not in _ROW_COLUMNS]
    names = {name.lower() for name in columns}
    names |= {name.rpartition("_")[2] for name in names}
    missing = [label for label, aliases in recommended.items() if names.isdisjoint(aliases)]
    message = f"{table} keeps {listed(columns, 12)}"
    message += f"; not kept: {listed(missing, 6)}" if missing else ""
    return Finding(check, "note" if missing else "pass", message, "", tuple(columns)), missing


# -- data files ----------------------------------------------------------------------------------------------------


def _check_data(data: Any) -> list[Finding]:
    paths = [Path(path) for path in ([data] if isinstance(data, str | os.PathLike) else data or ())]
    paths = paths or _files_in_dvc(Path())
    if not paths:
        return [Finding("data", "note", "no data files given, and DVC tracks none in this folder")]
    state = git.state(Path.cwd())
    return [_check_file(path, state) for path in paths]


def _files_in_dvc(folder: Path) -> list[Path]:
    paths: list[Path] = []
    file_count = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(root, name).with_suffix("") for name in sorted(names) if Path(name).suffix == ".dvc"]
        file_count += len(names)
        if file_count > MOST_FILES:
            break
    return paths


def _check_file(path: Path, state: git.GitState | None) -> Finding:
    pointer = path.with_name(f"{path.name}.dvc")
    if not path.exists():
        fix = f"dvc checkout {pointer}" if pointer.is_file() else "check the name"
        return Finding("data", "warn", f"{path}: no such file", fix)
    if pointer.is_file() and path.is_file():
        entry = dvc_file(path, hash_files([path], path.parent)[path.name])
        if entry is not None and not entry.is_unchanged:
            return Finding("data", "warn", f"{path}: differs from what DVC tracks", f"dvc add {path}")
        if state is not None and git.uncommitted(state, [pointer]):
            return Finding("data", "warn", f"{pointer}: not committed", f"git add {pointer} && git commit")
        return Finding("data", "pass", f"{path}: matches DVC" + (f" ({entry.md5[:7]})" if entry else ""))
    if state is None:
        return Finding("data", "note", f"{path}: not in a git repository, so its version is unknown")
    if git.uncommitted(state, [path]):
        return Finding("data", "warn", f"{path}: not committed", f"git add {path} && git commit")
    return Finding("data", "pass", f"{path}: committed")


# -- store and terminal --------------------------------------------------------------------------------------------


def _read(db: Address, table: str, last: int = 1) -> Frame | None:
    name = plain_name(table)
    with open_store(os.fspath(db)) as store:
        if not store.exists():
            return None
        try:
            frame = tables.read(store, name, last=last)
        except BadInput:
            return None
        return frame if len(frame) else None


def _prompts(
    findings: Iterable[Finding], missing_fields: Sequence[str], missing_metrics: Sequence[str]
) -> Iterable[_Prompt]:
    if any(finding.check == "code" and finding.level == "warn" for finding in findings):
        yield _Prompt("code", "continue with code changes?", stops_on=False)
    if missing_fields:
        yield _Prompt(
            "fields",
            f"add fields before this experiment (not kept: {listed(missing_fields, 6)})?",
            stops_on=True,
            steps=(
                "return the new keys from the function, or add fields to the parameters",
                "try it on a few items: abreast tail STORE",
                "delete those rows: abreast delete STORE TRACK_ID",
                "start the experiment again",
            ),
        )
    if missing_metrics:
        yield _Prompt(
            "aggregations",
            f"add aggregations to metrics (not kept: {listed(missing_metrics, 6)})?",
            stops_on=True,
            steps=(
                "compute them from the results of the calls",
                'log them with the other metrics: metrics.log({"accuracy": ..., "p95_latency": ...})',
                "start the experiment again",
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


def _store_answers(db: Address, passed: bool, answers: Mapping[str, bool]) -> None:
    """Log the outcome, if there is a store (before the first experiment there is none)."""
    try:
        with open_store(os.fspath(db)) as store:
            exists = store.exists()
    except AbreastError:
        return
    if exists:
        row = {"passed": passed, **{f"answer_{topic}": answer for topic, answer in answers.items()}}
        Tracker(db, table="validations").log(row)
