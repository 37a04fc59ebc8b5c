"""Variants as a product over a class of parameters, named after the fields that vary."""

from __future__ import annotations

import enum
import inspect
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from abreast.digest import digest
from abreast.errors import BadInput, suggestion
from abreast.model import Variant, has_fields, is_of_fields
from abreast.spec.values import quote
from abreast.targets.request import params_as_mapping

MOST_VARIANTS = 10_000
_WIDTHS = (40, 20, 10)  # characters of a value in a name, narrower for longer names
_LONGEST_NAME = 120  # characters
_EXAMPLE = 'use grid(Params, model=["a", "b"], dim=[256, 768])'


def grid(params: type, /, **values: Any) -> list[Variant]:
    """A variant for each combination of values, with an instance of `params` as its parameters.

    `params` is a dataclass or a pydantic model. A list, tuple, range, iterator or array holds the values of a field;
    anything else, text included, is a single value. Other fields have their defaults.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Params:
        ...     model: str
        ...     dim: int = 256
        >>> for variant in grid(Params, model=["small", "large"], dim=[256, 768]):
        ...     print(variant.name)
        model=small,dim=256
        model=small,dim=768
        model=large,dim=256
        model=large,dim=768
    """
    where = _check_class(params)
    if not values:
        raise BadInput(f"{where}: no field has values", _EXAMPLE)
    _check_fields(where, params, values)
    choices = {name: _choices(f"{where}: {name}", name, choice) for name, choice in values.items()}
    number = math.prod(map(len, choices.values()))
    if number > MOST_VARIANTS:
        raise BadInput(f"{where}: makes {number:,} variants, more than {MOST_VARIANTS:,}", "remove values")
    rows = [dict(zip(choices, row, strict=True)) for row in itertools.product(*choices.values())]
    instances = [_build_instance(where, params, row) for row in rows]
    names = _names(rows, [name for name in choices if len(choices[name]) > 1] or list(choices))
    _refuse_duplicates(f"{where}: ", instances, names, "remove one of them")
    return [Variant(name, params=instance) for name, instance in zip(names, instances, strict=True)]


def name_instances(instances: Sequence[Any]) -> list[Variant]:
    """Make variants of instances, named after the fields that vary, and after their classes if these differ.

    >>> from dataclasses import make_dataclass
    >>> Params = make_dataclass("Params", ["model", "dim"])
    >>> [variant.name for variant in name_instances([Params("bert", 768), Params("roberta", 768)])]
    ['model=bert', 'model=roberta']
    """
    _refuse_duplicates(
        "",
        instances,
        [f"variants[{at}]" for at in range(len(instances))],
        'remove one of them, or name each: {"first": Params(...), "second": Params(...)}',
    )
    rows = [params_as_mapping(instance) for instance in instances]
    varying = [
        field
        for field in dict.fromkeys(field for row in rows for field in row)
        if len({_identity(row[field]) for row in rows if field in row}) > 1
    ]
    names = _names(rows, varying)
    classes = [type(instance).__name__ for instance in instances]
    if len(set(map(type, instances))) > 1 or "" in names:
        names = [f"{kind} {name}".strip() for kind, name in zip(classes, names, strict=True)]
    return [Variant(name, params=instance) for name, instance in zip(names, instances, strict=True)]


def value_label(values: Sequence[Any], index: int, longest: int = _WIDTHS[0]) -> str:
    """Format a value of a grid as part of a variant's name; a long one is cut and numbered.

    >>> value_label(["haiku", "sonnet"], 1), value_label(["You are a helpful\\nassistant. " * 9], 0)
    ('sonnet', 'You are a helpful assistant. Y…#1')
    >>> value_label([len, "len"], 0)
    'len'
    """
    text = _value_text(values[index])
    return text if len(text) <= longest else f"{text[: longest * 3 // 4]}…#{index + 1}"


def _value_text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if value is None:
        return "null"
    if callable(value) and hasattr(value, "__qualname__"):  # its repr is an address
        return str(value.__qualname__)
    text = value if isinstance(value, str) else quote(value, longest=200)
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _names(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> list[str]:
    """`model=a,dim=256` for each row, with cut values if that is long, else numbered."""
    keys = [{field: _identity(row[field]) for field in fields if field in row} for row in rows]
    values: dict[str, dict[str, Any]] = {field: {} for field in fields}
    for row, own in zip(rows, keys, strict=True):
        for field, key in own.items():
            values[field].setdefault(key, row[field])
    for longest in _WIDTHS:
        labels = {field: _labels(choices, longest) for field, choices in values.items()}
        names = [",".join(f"{field}={labels[field][key]}" for field, key in own.items()) for own in keys]
        if all(len(name) <= _LONGEST_NAME for name in names):
            return names
    return [f"combination {number}" for number in range(1, len(rows) + 1)]


def _labels(values: Mapping[str, Any], longest: int) -> dict[str, str]:
    """A label for each value, numbered if two look alike, such as 1 and "1"."""
    labels = [value_label(list(values.values()), index, longest) for index in range(len(values))]
    counts = Counter(labels)
    return {
        key: label if counts[label] == 1 else f"{label}#{number}"
        for number, (key, label) in enumerate(zip(values, labels, strict=True), 1)
    }


def _check_class(params: Any) -> str:
    if has_fields(params):
        name = type(params).__name__
        raise BadInput(f"grid: needs the class {name}, got an instance", f"use grid({name}, field=[...])")
    if not (isinstance(params, type) and is_of_fields(params)):
        raise BadInput(
            f"grid: needs a dataclass or a pydantic model, got {quote(params)}",
            'put @dataclass(frozen=True) above the class, or use Experiment(grid={"model": ["a", "b"]}) without one',
        )
    return f"grid of {params.__name__}"


def _check_fields(where: str, params: type, values: Mapping[str, Any]) -> None:
    parameters = inspect.signature(params).parameters
    fields = [name for name, item in parameters.items() if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)]
    if len(fields) == len(parameters):
        for name in values:
            if name not in fields:
                raise BadInput(f'{where}: has no field "{name}"{suggestion(name, fields)}')
    for name in fields:
        if name not in values and parameters[name].default is inspect.Parameter.empty:
            raise BadInput(f'{where}: the field "{name}" has no default and no values', f"add {name}=[...]")


def _choices(where: str, name: str, values: Any) -> list[Any]:
    """The values of a field. Text is a single value."""
    if isinstance(values, set | frozenset):
        raise BadInput(f"{where} is a set, which has no order", f"use a list: {name}=[...]")
    if hasattr(values, "tolist"):  # a numpy array
        values = values.tolist()
    if not isinstance(values, list | tuple | range | Iterator):
        return [values]
    choices = list(itertools.islice(values, MOST_VARIANTS + 1)) if isinstance(values, Iterator) else list(values)
    if not choices:
        raise BadInput(f"{where} has no values", f"use {name}=[first, second], or omit it for its default")
    if len(choices) > MOST_VARIANTS:
        raise BadInput(f"{where} has more than {MOST_VARIANTS:,} values", "remove values")
    identities: set[str] = set()
    for choice in choices:
        if (identity := _identity(choice)) in identities:
            raise BadInput(f"{where} has the value {quote(choice)} twice", "remove one of them")
        identities.add(identity)
    return choices


def _build_instance(where: str, params: type, row: Mapping[str, Any]) -> Any:
    try:
        return params(**row)
    except Exception as error:  # from a user's __post_init__ or pydantic
        problem = " ".join(str(error).split("[type=")[0].split())
        values = ", ".join(f"{name}={quote(value, longest=40)}" for name, value in row.items())
        raise BadInput(
            f"{where}: cannot create it with {values} ({type(error).__name__}: {problem})", "remove invalid values"
        ) from error


def _refuse_duplicates(where: str, instances: Sequence[Any], names: Sequence[str], fix: str) -> None:
    first_names: dict[str, str] = {}
    for instance, name in zip(instances, names, strict=True):
        first = first_names.setdefault(_identity(instance), name)
        if first != name:
            raise BadInput(f"{where}{first} and {name} are the same", fix)


def _identity(value: Any) -> str:
    """A digest of type and value; for an object without stable content, its type and address."""
    try:
        return digest(value)
    except TypeError:
        return f"{type(value).__qualname__} at {id(value)}"
