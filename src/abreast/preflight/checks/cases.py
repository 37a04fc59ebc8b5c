"""Check for changes of cases since the previous run, duplicates, and files that differ from what DVC tracks."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from abreast.digest import SIZE
from abreast.model import Case
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed
from abreast.preflight.previous_run import PreviousRun
from abreast.spec.cases import CaseTable
from abreast.text import many

RUNS = 20  # most runs searched for one with all cases
COPIES = 10_000  # most cases whose tags are read
TRAINING = ("train", "training")
HELD_OUT = ("test", "testing", "validation", "valid", "val", "dev", "eval", "holdout")
LARGEST_DVC_FILE = 1_000_000  # bytes; such files usually have a few hundred


@dataclass(frozen=True, slots=True)
class CaseChanges:
    """Ids of the cases that changed since an earlier run."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def sentence(self) -> str:
        """`2 changed (c1 and c2), 1 added (c9)`."""
        kinds = {"changed": self.changed, "removed": self.removed, "added": self.added}
        return ", ".join(f"{len(ids):,} {kind} ({listed(ids)})" for kind, ids in kinds.items() if ids)


def check_data(context: Context) -> Finding:
    plan, case_files = context.plan, context.environment.case_files
    files = tuple(f"{name}  {md5}" for name, md5 in case_files.items())
    if context.previous is None:
        where = f" in {listed(list(case_files))}" if case_files else ""
        return Finding("data", "pass", f"{many(len(plan.cases), 'case')}{where}", "", files, is_check_only=True)
    previous = _last_complete(context.previous)
    if previous.provenance.get("data_hash") == plan.cases.hash:
        message = f"the same {many(len(plan.cases), 'case')} as in {previous.run}"
        return Finding("data", "pass", message, "", files, is_check_only=True)
    changes = case_changes(context, previous)
    if not changes:
        is_part = context.settings.selects_cases
        message = f"part of the cases of {previous.run}" if is_part else f"more cases than {previous.run} stored"
        return Finding("data", "note", message, "", files, is_check_only=True)
    message = f"cases since {previous.run}: {changes.sentence()}; answers to the same input are reused"
    before: Mapping[str, str] = previous.provenance.get("case_files") or {}
    other = [f"{name} changed" for name, md5 in case_files.items() if before.get(name, md5) != md5]
    return Finding("data", "warn" if changes.changed else "note", message, "", (*other, *files))


def _last_complete(previous: PreviousRun) -> PreviousRun:
    """The last run with all cases, else the previous one."""
    return next((run for run in previous.with_earlier(RUNS) if not run.selects), previous)


def case_changes(context: Context, previous: PreviousRun) -> CaseChanges:
    """Compare cases by id and content, except those deselected in one of the runs."""
    previous = _last_complete(previous)
    if previous.provenance.get("data_hash") == context.plan.cases.hash:
        return CaseChanges()
    before, cases = previous.cases, context.plan.cases
    now = {case: cases.digest(index) for index, case in enumerate(cases.ids)}
    has_all_before = not previous.selects and len(before) >= int(previous.provenance.get("cases") or 0)
    return CaseChanges(
        added=tuple(case for case in now if case not in before) if has_all_before else (),
        removed=() if context.settings.selects_cases else tuple(case for case in before if case not in now),
        changed=tuple(case for case, digest in now.items() if before.get(case, digest) != digest),
    )


def check_duplicates(context: Context) -> Finding:
    """Find duplicate cases, and inputs that are in both training and test data."""
    cases = context.plan.cases
    copies = same_inputs(cases)
    if not copies:
        return Finding("duplicates", "pass", "no duplicate inputs", is_check_only=True)
    groups, read = list[list[Case]](), 0
    for indexes in copies:
        read += len(indexes)
        if read > COPIES and groups:
            break
        groups.append([cases[index] for index in indexes])
    overlap = [same for same in groups if _is_in_both(same)]
    if overlap:
        ids = [case.id for same in overlap for case in same]
        message = f"{many(len(overlap), 'input')} in both training and test data ({listed(ids)})"
        return Finding("duplicates", "warn", message, "remove them from one of the two", tuple(ids[:100]))
    by_tags = _reads_tags(context)
    alike = [part for same in groups for part in _indistinguishable(same, by_tags)]
    independent = [part for part in alike if part[0].group is None or len({case.group for case in part}) > 1]
    if not independent:
        message = "cases of one group share an input" if alike else "cases that share an input have different tags"
        return Finding("duplicates", "note", message, is_check_only=True)
    ids = [case.id for part in independent for case in part]
    surplus = len(ids) - len(independent)
    message = f"{many(surplus, 'duplicate input')} ({listed(ids)}): copies are not independent evidence"
    fix = "remove them, or put cases with the same input into one group"
    return Finding("duplicates", "warn", message, fix, tuple(ids[:100]))


def same_inputs(cases: CaseTable) -> list[list[int]]:
    """Case indexes by duplicate input."""
    joined = cases.input_digests()
    digests = [joined[at : at + SIZE] for at in range(0, len(joined), SIZE)]
    if len(set(digests)) == len(digests):
        return []
    by_digest: dict[bytes, list[int]] = {}
    for index, digest in enumerate(digests):
        by_digest.setdefault(digest, []).append(index)
    return [indexes for indexes in by_digest.values() if len(indexes) > 1]


def _is_in_both(same: list[Case]) -> bool:
    """Whether a tag says `train` for one case and `test` for another."""
    for key in {key for case in same for key in case.tags}:
        values = {str(case.tags.get(key)).strip().lower() for case in same}
        if values & set(TRAINING) and values & set(HELD_OUT):
            return True
    return False


def _indistinguishable(same: list[Case], by_tags: bool) -> Iterator[list[Case]]:
    """Groups of cases that a target cannot tell apart."""
    by_key: dict[object, list[Case]] = {}
    for case in same:
        by_key.setdefault(tuple(sorted(case.tags.items())) if by_tags else None, []).append(case)
    yield from (part for part in by_key.values() if len(part) > 1)


def _reads_tags(context: Context) -> bool:
    return any(target.sees == "case" for target in context.targets) or any(
        "tags" in str(params.get("prompt", "")) for params in context.columns.params
    )


def check_dvc(context: Context) -> Finding | None:
    """Compare the case files with what DVC tracks; None if it tracks none of them."""
    files, base = context.environment.dvc_files, context.environment.base
    if not files:
        return None
    changed = [file.path for file in files if not file.is_unchanged]
    details = tuple(f"{relative_path(file.path, base)}  {file.md5}" for file in files)
    names = listed([relative_path(path, base) for path in changed or [file.path for file in files]])
    if not changed:
        return Finding("dvc", "pass", f"{names} as tracked by DVC", "", details, is_check_only=True)
    words = " ".join(shlex.quote(relative_path(path, Path.cwd())) for path in changed)
    message = f"{names} differs from what DVC tracks"
    fix = f"run `dvc add {words}`, or `dvc checkout {words}` to restore the tracked content"
    return Finding("dvc", "warn", message, fix, details)


def hash_files(files: Iterable[Path], base: Path) -> dict[str, str]:
    """MD5 hashes, as used by DVC, by path relative to `base`; without unreadable files."""
    hashes = {}
    for file in files:
        try:
            with file.open("rb") as content:
                hashes[relative_path(file, base)] = hashlib.file_digest(content, _md5).hexdigest()
        except OSError:
            continue
    return hashes


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def relative_path(file: Path, base: Path) -> str:
    try:
        return file.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return str(file)


@dataclass(frozen=True, slots=True)
class DvcFile:
    path: Path
    md5: str
    is_unchanged: bool


def dvc_file(path: Path, md5: str) -> DvcFile | None:
    """None if the file has no `.dvc` file. DVC before version 3 read CRLF line ends as LF."""
    entry = _dvc_entry(path)
    expected = entry.get("md5")
    if not isinstance(expected, str):
        return None
    return DvcFile(path, expected, expected == md5 or (entry.get("hash") is None and expected == _md5_of_text(path)))


def _md5_of_text(file: Path) -> str:
    digest = _md5()
    try:
        digest.update(file.read_bytes().replace(b"\r\n", b"\n"))
    except OSError:
        return ""
    return str(digest.hexdigest())


def _dvc_entry(file: Path) -> dict[str, Any]:
    """The entry of a file in its `.dvc` file; empty if there is none."""
    dvc = file.with_name(f"{file.name}.dvc")
    try:
        if not dvc.is_file() or dvc.stat().st_size > LARGEST_DVC_FILE:
            return {}
        content = yaml.safe_load(dvc.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    outs = content.get("outs") if isinstance(content, dict) else None
    for out in outs if isinstance(outs, list) else ():
        if isinstance(out, dict) and out.get("path", file.name) == file.name:
            return out
    return {}
