"""What there is now around an experiment: its repository, code and case files. Found out once, stored with a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast.code.parts import Parts, parts, returned_keys
from abreast.code.reference import load_function, references_in
from abreast.errors import AbreastError
from abreast.model import Variant
from abreast.plan import git
from abreast.preflight import files
from abreast.targets import Target
from abreast.targets.python import reference_of
from abreast.targets.request import params_as_mapping


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`code` is by the name of a function that is measured, `versions` by variant, `data` by case file."""

    base: Path = Path()
    repository: git.State | None = None
    code: Mapping[str, Parts] = field(default_factory=dict)
    returns: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    tracked: tuple[files.Tracked, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    own_files: tuple[Path, ...] = ()  # the spec, the case files, the modules of the targets

    def recorded(self) -> dict[str, Any]:
        """For the provenance of a run."""
        code = {
            name: {
                "function": found.own,
                "modules": dict(found.modules),
                "packages": dict(found.packages),
                "returns": None if self.returns.get(name) is None else sorted(self.returns[name] or ()),
            }
            for name, found in self.code.items()
        }
        told: dict[str, Any] = {
            "code": code,
            "target_versions": dict(self.versions),
            "case_files": dict(self.data),
            "dvc": {files.shown(each.file, self.base): each.md5 for each in self.tracked},
            "data_commit": "+".join(each.md5 for each in self.tracked if each.same) or None,
            "cli_versions": dict(self.programs),
        }
        return {key: value for key, value in told.items() if value}


def surroundings(
    base: Path,
    repository: git.State | None,
    variants: Sequence[Variant],
    targets: Sequence[Target],
    case_files: Sequence[Path],
    origin: Path | None,
) -> Surroundings:
    """Nothing is executed for it; git is asked elsewhere, a file is read at most once."""
    functions = list(_functions(variants, targets))
    found: dict[str, Parts] = {}
    for name, function in functions:
        found[name] = _merged(found[name], parts(function)) if name in found else parts(function)
    data = files.hashes(case_files, base)
    by_file = ((file, data.get(files.shown(file, base))) for file in case_files)
    tracked = [files.tracked(file, md5) for file, md5 in by_file if md5]
    modules = [file for each in found.values() for file in each.files]
    programs: dict[str, str] = {}
    for target in targets:
        programs |= target.cli_versions
    return Surroundings(
        base,
        repository,
        found,
        {name: returned_keys(function) for name, function in functions},
        {variant.name: target.version for variant, target in zip(variants, targets, strict=True)},
        data,
        tuple(each for each in tracked if each is not None),
        programs,
        tuple(dict.fromkeys([*([origin] if origin else []), *case_files, *modules])),
    )


def _functions(variants: Sequence[Variant], targets: Sequence[Target]) -> Iterable[tuple[str, Any]]:
    """Each of the user's functions that are measured, once: targets and transforms."""
    seen: set[int] = set()
    for variant, target in zip(variants, targets, strict=True):
        named = {target.name: target.function}
        transform = params_as_mapping(variant.params).get("transform")
        for reference in references_in(transform) if target.transforms else ():
            with contextlib.suppress(AbreastError):
                named[reference] = load_function(reference)
        if callable(transform):
            named[reference_of(transform)] = transform
        for name, function in named.items():
            if callable(function) and id(function) not in seen:
                seen.add(id(function))
                yield name, function


def _merged(one: Parts, other: Parts) -> Parts:
    """Two functions of one name, such as lambdas."""
    owns = sorted({*one.own.split("+"), other.own})
    return Parts(
        "+".join(owns),
        {**one.modules, **other.modules},
        {**one.packages, **other.packages},
        tuple(sorted({*one.files, *other.files})),
    )
