"""Load spec files, with errors that name file, line, value and fix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic

from abreast.errors import BadInput, suggestion
from abreast.filenames import relative_path
from abreast.model import Variant
from abreast.plugins import plugin_names
from abreast.scorers import KINDS
from abreast.spec.read_cases import LocatedCall, LocatedCases, LocatedText
from abreast.spec.schema import (
    FIXED_LIMITS,
    SIMULATORS,
    Bounds,
    Expectation,
    Expects,
    Limits,
    Price,
    RayEngineChoice,
    RaySettings,
    Spec,
    SpecError,
    TargetLimits,
    Timeout,
    VariantLimits,
)
from abreast.spec.scorers import build_scorers, named_scorers, primary_column
from abreast.spec.syntax import KeyLines, parse, read_text
from abreast.spec.values import KeyPath, find_unstorable, quote
from abreast.targets import NAMES, build


def check_consistency(spec: Spec, base: Path) -> None:
    """Check that variants, baseline, targets and scorers fit together; files are relative to `base`.

    Parts that need Python functions are checked when the experiment runs.
    """
    variants = spec.all_variants()
    spec.baseline_of(variants)
    for variant in variants:
        if _is_checkable(variant):
            try:
                build(variant, spec.seed, {})
            except BadInput as error:
                at = ("grid",) if spec.grid is not None else ("variants", variant.name)
                raise SpecError(at, error.message, error.fix) from None
    kinds = [kind for kind, _ in named_scorers(spec)]
    if not any(not isinstance(kind, str) or kind.startswith("python:") or _is_plugin(kind) for kind in kinds):
        primary_column(spec, build_scorers(spec, base))


def _is_plugin(kind: str) -> bool:
    return kind not in KINDS and kind in plugin_names("scorer")


def _is_checkable(variant: Variant) -> bool:
    """Whether building the target needs no user code, network or programs; True if there is no such target."""
    target = variant.target
    if target is None:
        return True
    if not isinstance(target, str) or target.startswith("python:"):
        return False
    if target in SIMULATORS:
        return not isinstance(variant.params, dict) or variant.params.get("transform") is None
    return target not in NAMES and target not in plugin_names("target")


def load_spec(path: Path) -> Spec:
    """Load a spec file. Without a name, the experiment is named after the file."""
    text = read_text(path, "move the cases to a separate file")
    data, lines = parse(path, text)
    source = relative_path(path)
    if data is None or data == {}:
        raise BadInput(f"{source}: empty", "add at least cases: and variants:, or run `abreast init function`")
    if not isinstance(data, Mapping):
        raise BadInput(f"{source}: must be a mapping of keys such as name, cases and variants, got {quote(data)}")
    data = dict(data)
    if "name" not in data:
        data["name"] = _name_of(path)
    if "cases" in data:
        data["cases"] = _located(data["cases"], source, lines)
    spec = validated(data, source, lines)
    try:
        check_consistency(spec, path.resolve().parent)
    except SpecError as error:
        raise BadInput(f"{_location(source, lines, error.at)}: {error.message}", error.fix) from None
    return spec


def _name_of(path: Path) -> str:
    name = "".join(char if char.isprintable() else "_" for char in path.stem)[:200]
    return name if name.strip() else "experiment"


def _located(cases: Any, source: str, lines: KeyLines) -> Any:
    """Add the locations of cases, for messages."""
    kinds: tuple[tuple[type, Any], ...] = ((str, LocatedText), (Mapping, LocatedCall), (list, LocatedCases))
    located = next((kind(cases) for plain, kind in kinds if isinstance(cases, plain)), None)
    if located is None:
        return cases
    located.location = _location(source, lines, ("cases",))
    if isinstance(located, LocatedCases):
        located.locations = [_location(source, lines, ("cases", index)) for index in range(len(cases))]
    return located


def validated(data: Mapping[str, Any], source: str, lines: KeyLines | None = None) -> Spec:
    """Validate keys and values and return the spec; `source` prefixes errors."""
    unstorable = _first_unstorable(data)
    if unstorable is not None:
        at, problem = unstorable
        subject = f"{_dotted(at)} " if at else ""
        raise BadInput(f"{_location(source, lines, at)}: {subject}{problem}")
    try:
        return Spec.model_validate(data)
    except pydantic.ValidationError as error:
        raise _explain(error, source, lines) from None


def changed_limits(limits: Limits, changes: Mapping[str, Any], targets: Collection[str], source: str) -> Limits:
    """The limits of a run with some settings changed: `parallel`, or `parallel.TARGET` for one target."""
    section = limits.model_dump(exclude_unset=True)
    for name, value in changes.items():
        key, dot, target = name.partition(".")
        if key in FIXED_LIMITS:
            raise BadInput(f"{source}: {key} cannot change during a run", "stop the run, change the spec and resume")
        if dot and target not in targets:
            fix = f"choose one of {', '.join(sorted(targets))}"
            raise BadInput(f"{source}: no target {quote(target)}{suggestion(target, targets)}", fix)
        own = section.setdefault("targets", {}).setdefault(target, {}) if target else section
        own[key] = value
    return validated({"cases": "", "limits": section}, source).limits


def _first_unstorable(data: Mapping[str, Any]) -> tuple[KeyPath, str] | None:
    """Find the first value that cannot be stored. Cases are checked when they are read."""
    rest: dict[Any, Any] = {key: value for key, value in data.items() if key != "cases"}
    variants = rest.get("variants")
    if isinstance(variants, Mapping):  # other types of names have their own message
        rest["variants"] = {str(name): settings for name, settings in variants.items() if isinstance(name, str)}
    elif isinstance(variants, list | tuple):
        rest["variants"] = [item.params if isinstance(item, Variant) else item for item in variants]
    return find_unstorable(rest)


def _location(source: str, lines: KeyLines | None, at: Sequence[str | int]) -> str:
    line = lines.line(at) if lines else None
    return f"{source}:{line}" if line else source


def _dotted(at: Sequence[str | int]) -> str:
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _explain(error: pydantic.ValidationError, source: str, lines: KeyLines | None) -> BadInput:
    """Explain the first problem of a validation."""
    problems = error.errors(include_url=False)
    unknown_keys = [item for item in problems if item["type"] == "extra_forbidden"]
    from_validators = [item for item in problems if item["type"] == "value_error"]
    first = (unknown_keys or from_validators or problems)[0]
    at = tuple(part for part in first["loc"] if not _is_branch(part))
    prefix = _location(source, lines, at)
    if first["type"] == "extra_forbidden":
        key, model = str(at[-1]), _model(at[:-1])
        inside = f" in {_dotted(at[:-1])}" if len(at) > 1 else ""
        return BadInput(
            f"{prefix}: unknown key {quote(key)}{inside}{suggestion(key, model.model_fields if model else ())}"
        )
    if first["type"] == "missing":
        return BadInput(f'{prefix}: "{_dotted(at)}" is missing', _HOW_TO_ADD.get(at, f"add {at[-1]}:"))
    if first["type"] == "value_error":
        return BadInput(f"{prefix}: {_dotted(at)} {first['ctx']['error']}")
    at, value = _intended(at, first["input"], problems)
    expects = _expects(at) or Expects(_KINDS.get(first["type"], "something else"))
    fix = expects.fix if value is not None else f"add a value after {at[-1]}:, or remove the key"
    return BadInput(f"{_location(source, lines, at)}: {_dotted(at)} must be {expects.words}, got {quote(value)}", fix)


_HOW_TO_ADD: dict[KeyPath, str] = {("cases",): "add a file or a list: cases: cases.jsonl"}


def _intended(at: KeyPath, value: Any, problems: Sequence[Any]) -> tuple[KeyPath, Any]:
    """Return the key path and value to report: those of a problem inside `value`, if the field takes either a mapping
    or a plain value and this is the mapping."""
    for item in problems if isinstance(value, Mapping) else ():
        deeper = tuple(part for part in item["loc"] if not _is_branch(part))
        if deeper[:-1] == at and _expects(deeper):
            return deeper, item["input"]
    return at, value


_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "bool_type": "true or false",
    "model_type": "a mapping",
}


def _expects(at: KeyPath) -> Expects | None:
    """The values that the field at this key path takes, as declared by its model."""
    model = _model(at[:-1]) if at else None
    field = model.model_fields.get(str(at[-1])) if model else None
    return next((item for item in field.metadata if isinstance(item, Expects)), None) if field else None


def _is_branch(part: str | int) -> bool:
    """Whether pydantic added this part of the path, to name a member of a union that it tried."""
    return isinstance(part, str) and (
        part in ("int", "float", "str", "Bounds", "Timeout", "RayEngineChoice", "[key]")
        or part.startswith(("literal[", "function-", "constrained-", "nullable[", "list[", "dict["))
    )


_MODELS: dict[KeyPath, type[pydantic.BaseModel]] = {
    (): Spec,
    ("engine",): RayEngineChoice,
    ("engine", "ray"): RaySettings,
    ("expects",): Expectation,
    ("limits",): Limits,
    ("limits", "parallel"): Bounds,
    ("limits", "timeout"): Timeout,
}


def _model(at: KeyPath) -> type[pydantic.BaseModel] | None:
    """The model of the mapping at this key path, which may contain names chosen by the user."""
    if len(at) == 2 and at[0] == "prices":
        return Price
    if len(at) >= 3 and at[:2] == ("limits", "targets"):
        return TargetLimits if len(at) == 3 else _MODELS.get(("limits", *at[3:]))
    if len(at) == 3 and at[:2] == ("limits", "variants"):
        return VariantLimits
    return _MODELS.get(at)
