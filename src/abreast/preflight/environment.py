"""The environment of an experiment: repository, code, case files and programs, as stored with a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.code.parts import CodeParts, parts, returned_keys
from abreast.code.reference import load_function, references_in
from abreast.errors import AbreastError
from abreast.model import Variant
from abreast.plan import git
from abreast.preflight.checks.cases import DvcFile, dvc_file, hash_files, relative_path
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding
from abreast.targets import Target
from abreast.targets.python import reference_of
from abreast.targets.request import params_as_mapping
from abreast.text import many


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentEnvironment:
    base: Path
    repository: git.GitState | None
    code: Mapping[str, CodeParts]  # by measured function
    returns: Mapping[str, frozenset[str] | None]  # keys of returned dicts, by function
    versions: Mapping[str, str]  # version by variant
    case_files: Mapping[str, str]  # MD5 by path
    dvc_files: Sequence[DvcFile]
    programs: Mapping[str, str]  # versions
    own_files: Sequence[Path]  # the spec, the case files, the modules of the targets

    def recorded(self) -> dict[str, Any]:
        """Return what is stored in the provenance of a run."""
        code = {
            name: {
                "function": measured.own,
                "modules": dict(measured.modules),
                "packages": dict(measured.packages),
                "returns": None if self.returns.get(name) is None else sorted(self.returns[name] or ()),
            }
            for name, measured in self.code.items()
        }
        facts: dict[str, Any] = {
            "code": code,
            "target_versions": dict(self.versions),
            "case_files": dict(self.case_files),
            "dvc": {relative_path(file.path, self.base): file.md5 for file in self.dvc_files},
            "data_commit": "+".join(file.md5 for file in self.dvc_files if file.is_unchanged) or None,
            "cli_versions": dict(self.programs),
        }
        return {key: value for key, value in facts.items() if value}


def read_environment(
    base: Path,
    origin: Path | None,
    variants: Sequence[Variant],
    targets: Sequence[Target],
    case_files: Sequence[Path],
) -> ExperimentEnvironment:
    """Query git, hash the case files and read the source code without executing it."""
    functions = list(_functions(variants, targets))
    code: dict[str, CodeParts] = {}
    for name, function in functions:
        code[name] = _merged(code[name], parts(function)) if name in code else parts(function)
    hashes = hash_files(case_files, base)
    by_file = ((file, hashes.get(relative_path(file, base))) for file in case_files)
    tracked = [dvc_file(file, md5) for file, md5 in by_file if md5]
    modules = [file for measured in code.values() for file in measured.files]
    programs: dict[str, str] = {}
    for target in targets:
        programs |= target.cli_versions
    return ExperimentEnvironment(
        base=base,
        repository=git.state(base),
        code=code,
        returns={name: returned_keys(function) for name, function in functions},
        versions={variant.name: target.version for variant, target in zip(variants, targets, strict=True)},
        case_files=hashes,
        dvc_files=[file for file in tracked if file is not None],
        programs=programs,
        own_files=list(dict.fromkeys([*([origin] if origin else []), *case_files, *modules])),
    )


def _functions(variants: Sequence[Variant], targets: Sequence[Target]) -> Iterable[tuple[str, Any]]:
    """Yield the user's functions (targets and transforms) by name, without duplicates."""
    ids: set[int] = set()
    for variant, target in zip(variants, targets, strict=True):
        functions = {target.name: target.function}
        transform = params_as_mapping(variant.params).get("transform")
        for reference in references_in(transform) if target.transforms else ():
            with contextlib.suppress(AbreastError):
                functions[reference] = load_function(reference)
        if callable(transform):
            functions[reference_of(transform)] = transform
        for name, function in functions.items():
            if callable(function) and id(function) not in ids:
                ids.add(id(function))
                yield name, function


def _merged(first: CodeParts, second: CodeParts) -> CodeParts:
    """Merge the code of functions with the same name, such as lambdas."""
    return CodeParts(
        "+".join(sorted({*first.own.split("+"), second.own})),
        {**first.modules, **second.modules},
        {**first.packages, **second.packages},
        tuple(sorted({*first.files, *second.files})),
    )


def check_software(context: Context) -> Finding:
    """Compare Python, packages and programs with those of the previous run."""
    software = _software(context.provenance)
    others = many(len(software) - 1, "package and program", "packages and programs")
    summary = f"Python {software['Python']}, {others}"
    details = tuple(f"{name} {version}" for name, version in software.items())
    previous = context.previous
    if previous is None:
        return Finding("environment", "pass", summary, "", details, is_check_only=True)
    before = _software(previous.provenance)
    changed = [
        f"{name} {before[name]} → {version}"
        for name, version in software.items()
        if name in before and before[name] != version
    ]
    if not changed:
        return Finding("environment", "pass", f"{summary}, as in {previous.run}", "", details, is_check_only=True)
    message = f"since {previous.run}: {', '.join(changed[:5])}{' and others' if len(changed) > 5 else ''}"
    return Finding("environment", "note", message, "", (*changed, *details))


def _software(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Versions by name: Python, recorded packages, packages that the code imports, programs."""
    versions = {"Python": str(provenance.get("python"))}
    for code in (provenance.get("code") or {}).values():
        versions |= code.get("packages") or {}
    return {**versions, **(provenance.get("packages") or {}), **(provenance.get("cli_versions") or {})}


def check_leftovers(context: Context) -> Finding | None:
    """Report processes and folders of killed runs that were removed before this run."""
    cleanup = context.cleanup
    if cleanup.problems:
        return Finding("leftovers", "warn", f"cannot remove {cleanup.problems[0]}", "run `abreast clean` to list them")
    if not cleanup:
        return None
    processes, folders = len(cleanup.processes), many(len(cleanup.folders), "folder")
    removed = [f"ended {processes:,} process{'' if processes == 1 else 'es'}"] if processes else []
    removed += [f"removed {folders} ({cleanup.size / 1e6:,.1f} MB)"] if cleanup.folders else []
    return Finding("leftovers", "note", f"{' and '.join(removed)} left behind by killed runs")
