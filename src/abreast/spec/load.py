"""From a file to a `Spec`, with errors that name the file, the line, the value and the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic

from abreast.errors import BadInput, suggestion
from abreast.model import Variant
from abreast.plugins import plugin_names
from abreast.scorers import KINDS
from abreast.spec.schema import (
    Bounds,
    Expectation,
    Expects,
    Limits,
    Misplaced,
    Price,
    Spec,
    TargetLimits,
    Timeout,
    VariantLimits,
)
from abreast.spec.scorers import build_scorers, named_scorers, primary_column
from abreast.spec.syntax import Places, parse, read_text
from abreast.spec.values import At, flaw, shown, shown_path
from abreast.spec.written import WrittenCall, WrittenCases, WrittenText
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


def load_spec(path: Path) -> Spec:
    """The experiment written in `path`; its name is the file's if it has none."""
    text = read_text(path, "keep the cases in a file of their own")
    data, places = parse(path, text)
    source = shown_path(path)
    if data is None or data == {}:
        raise BadInput(f"{source}: empty", "write at least cases: and variants:, or start with: abreast init function")
    if not isinstance(data, Mapping):
        raise BadInput(f"{source}: must be a mapping of keys such as name, cases and variants, got {shown(data)}")
    data = dict(data)
    if "name" not in data:
        data["name"] = _name_of(path)
    if "cases" in data:
        data["cases"] = _with_places(data["cases"], source, places)
    spec = validated(data, source, places)
    try:
        check_whole(spec, path.resolve().parent)
    except Misplaced as error:
        raise BadInput(f"{_place(source, places, error.at)}: {error.message}", error.fix) from None
    return spec


def _name_of(path: Path) -> str:
    name = "".join(char if char.isprintable() else "_" for char in path.stem)[:200]
    return name if name.strip() else "experiment"


def _with_places(cases: Any, source: str, places: Places) -> Any:
    """Cases that know where they are written, for the messages about them."""
    kinds: tuple[tuple[type, Any], ...] = ((str, WrittenText), (Mapping, WrittenCall), (list, WrittenCases))
    written = next((kind(cases) for plain, kind in kinds if isinstance(cases, plain)), None)
    if written is None:
        return cases
    written.place = _place(source, places, ("cases",))
    if isinstance(written, WrittenCases):
        written.places = [_place(source, places, ("cases", index)) for index in range(len(cases))]
    return written


def validated(data: Mapping[str, Any], source: str, places: Places | None = None) -> Spec:
    """The spec of these keys and values; `source` begins every message."""
    found = _first_flaw(data)
    if found is not None:
        at, what = found
        subject = f"{_dotted(at)} " if at else ""
        raise BadInput(f"{_place(source, places, at)}: {subject}{what}")
    try:
        return Spec.model_validate(data)
    except pydantic.ValidationError as error:
        raise _explained(error, source, places) from None


def _first_flaw(data: Mapping[str, Any]) -> tuple[At, str] | None:
    """What no file or row could keep. Cases are looked at one by one when they are read."""
    rest: dict[Any, Any] = {key: value for key, value in data.items() if key != "cases"}
    variants = rest.get("variants")
    if isinstance(variants, Mapping):  # names that are not text have a message of their own
        rest["variants"] = {str(name): settings for name, settings in variants.items() if isinstance(name, str)}
    elif isinstance(variants, list | tuple):
        rest["variants"] = [item.params if isinstance(item, Variant) else item for item in variants]
    return flaw(rest)


def _place(source: str, places: Places | None, at: Sequence[str | int]) -> str:
    line = places.line(at) if places else None
    return f"{source}:{line}" if line else source


def _dotted(at: Sequence[str | int]) -> str:
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _explained(error: pydantic.ValidationError, source: str, places: Places | None) -> BadInput:
    """The first thing that is wrong, in one sentence."""
    problems = error.errors(include_url=False)
    unknown = [item for item in problems if item["type"] == "extra_forbidden"]
    in_words = [item for item in problems if item["type"] == "value_error"]
    first = (unknown or in_words or problems)[0]
    at = tuple(part for part in first["loc"] if not _is_branch(part))
    prefix = _place(source, places, at)
    if first["type"] == "extra_forbidden":
        key = str(at[-1])
        inside = f" in {_dotted(at[:-1])}" if len(at) > 1 else ""
        return BadInput(f"{prefix}: unknown key {shown(key)}{inside}{suggestion(key, _known_keys(at[:-1]))}")
    if first["type"] == "missing":
        return BadInput(f'{prefix}: "{_dotted(at)}" is missing', _HOW_TO_ADD.get(at, f"add {at[-1]}:"))
    if first["type"] == "value_error":
        return BadInput(f"{prefix}: {_dotted(at)} {first['ctx']['error']}")
    at, value = _meant(at, first["input"], problems)
    expects = _expects(at) or Expects(_KINDS.get(first["type"], "something else"))
    fix = expects.fix if value is not None else f"write a value after {at[-1]}:, or remove the key"
    return BadInput(f"{_place(source, places, at)}: {_dotted(at)} must be {expects.words}, got {shown(value)}", fix)


_HOW_TO_ADD: dict[At, str] = {("cases",): "add a file or a list: cases: cases.jsonl"}


def _meant(at: At, value: Any, problems: Sequence[Any]) -> tuple[At, Any]:
    """Where a field takes one of several forms, the form that was meant: a mapping means the mapping."""
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


def _expects(at: At) -> Expects | None:
    """What the field at this place takes, as its model says it."""
    model = _model(at[:-1]) if at else None
    field = model.model_fields.get(str(at[-1])) if model else None
    return next((item for item in field.metadata if isinstance(item, Expects)), None) if field else None


def _is_branch(part: str | int) -> bool:
    """Whether pydantic put this into the path to name the form of a value it tried."""
    return isinstance(part, str) and (
        part in ("int", "float", "str", "Bounds", "Timeout", "[key]")
        or part.startswith(("literal[", "function-", "constrained-", "nullable[", "list[", "dict["))
    )


_MODELS: dict[At, type[pydantic.BaseModel]] = {
    (): Spec,
    ("expects",): Expectation,
    ("limits",): Limits,
    ("limits", "parallel"): Bounds,
    ("limits", "timeout"): Timeout,
}


def _model(at: At) -> type[pydantic.BaseModel] | None:
    """The model of a mapping at this place; of those whose keys are names, too."""
    if len(at) == 2 and at[0] == "prices":
        return Price
    if len(at) >= 3 and at[:2] == ("limits", "targets"):
        return TargetLimits if len(at) == 3 else _MODELS.get(("limits", *at[3:]))
    if len(at) == 3 and at[:2] == ("limits", "variants"):
        return VariantLimits
    return _MODELS.get(at)


def _known_keys(at: At) -> list[str]:
    model = _model(at)
    return list(model.model_fields) if model else []
