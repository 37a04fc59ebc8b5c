"""What a spec file says that cannot be, found before any code of the user is loaded."""

from __future__ import annotations

from pathlib import Path

from abreast.errors import BadInput
from abreast.model import Variant
from abreast.plugins import plugin_names
from abreast.scorers import KINDS
from abreast.spec.schema import Misplaced, Spec
from abreast.spec.scorers import build_scorers, named_scorers, primary_column
from abreast.targets import NAMES, build

_BUILT_IN = ("simulated", "mock")


def check_whole(spec: Spec, base: Path) -> None:
    """Variants, baseline, targets and scorers fit together; files are seen from `base`. What Python functions are
    involved is seen when it runs."""
    variants = spec.all_variants()
    spec.baseline_of(variants)
    for variant in variants:
        if _is_known_without_code(variant):
            try:
                build(variant, spec.seed, {})
            except BadInput as error:
                at = ("grid",) if spec.grid is not None else ("variants", variant.name)
                raise Misplaced(at, error.message, error.fix) from None
    kinds = [kind for kind, _ in named_scorers(spec)]
    if not any(not isinstance(kind, str) or kind.startswith("python:") or _is_of_a_package(kind) for kind in kinds):
        primary_column(spec, build_scorers(spec, base))


def _is_of_a_package(kind: str) -> bool:
    return kind not in KINDS and kind in plugin_names("scorer")


def _is_known_without_code(variant: Variant) -> bool:
    """Whether the target is our own, or none at all; others may need the network or a program to be built."""
    target = variant.target
    if target is None:
        return True
    if not isinstance(target, str) or target.startswith("python:"):
        return False
    if target in _BUILT_IN:
        return not isinstance(variant.params, dict) or variant.params.get("transform") is None
    return target not in NAMES and target not in plugin_names("target")
