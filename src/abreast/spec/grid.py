"""Variants by product over a class of parameters, and what they are called: by the fields that vary."""

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
from abreast.spec.values import shown
from abreast.targets.request import params_as_mapping

MOST_VARIANTS = 10_000
_WIDTHS = (40, 20, 10)  # of a value in a name: the first that keeps names short
_SHORT = 120  # characters of a name
_EXAMPLE = 'write such as grid(Params, model=["a", "b"], dim=[256, 768])'


def grid(params: type, /, **values: Any) -> list[Variant]:
    """A variant for each combination, in the order of the product, with an instance of `params` as its parameters.

    `params` is a dataclass or a pydantic model. A list holds the values that a field takes; anything that is no list,
    tuple, range, iterator or array is one value, text too. Fields that are left out have their defaults.

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
    where = _checked_class(params)
    if not values:
        raise BadInput(f"{where}: no field has values", _EXAMPLE)
    _check_fields(where, params, values)
    choices = {name: _choices(f"{where}: {name}", name, given) for name, given in values.items()}
    number = math.prod(map(len, choices.values()))
    if number > MOST_VARIANTS:
        raise BadInput(f"{where}: makes {number:,} variants, more than {MOST_VARIANTS:,}", "leave out values")
    rows = [dict(zip(choices, row, strict=True)) for row in itertools.product(*choices.values())]
    made = [_made(where, params, row) for row in rows]
    names = _names(rows, [name for name in choices if len(choices[name]) > 1] or list(choices))
    _refuse_twins(f"{where}: ", made, names, "leave one of them out")
    return [Variant(name, params=one) for name, one in zip(names, made, strict=True)]


def named(instances: Sequence[Any]) -> list[Variant]:
    """Variants of instances, called by what varies between them; by their class too if there are several.

    >>> from dataclasses import make_dataclass
    >>> Params = make_dataclass("Params", ["model", "dim"])
    >>> [variant.name for variant in named([Params("bert", 768), Params("roberta", 768)])]
    ['model=bert', 'model=roberta']
    """
    _refuse_twins(
        "",
        instances,
        [f"variants[{at}]" for at in range(len(instances))],
        'leave one of them out, or give each a name: {"first": Params(...), "second": Params(...)}',
    )
    rows = [params_as_mapping(one) for one in instances]
    varying = []
    for field in dict.fromkeys(field for row in rows for field in row):
        if len({_identity(row[field]) for row in rows if field in row}) > 1:
            varying.append(field)
    names = _names(rows, varying)
    classes = [type(one).__name__ for one in instances]
    if len({type(one) for one in instances}) > 1 or "" in names:
        names = [f"{kind} {name}".strip() for kind, name in zip(classes, names, strict=True)]
    return [Variant(name, params=one) for name, one in zip(names, instances, strict=True)]


def label(values: Sequence[Any], index: int, longest: int = _WIDTHS[0]) -> str:
    """A value of a grid inside the name of its variant; a long one by its beginning and its number.

    >>> label(["haiku", "sonnet"], 1), label([True, None], 0), label(["You are a helpful\\nassistant. " * 9], 0)
    ('sonnet', 'true', 'You are a helpful assistant. Y…#1')
    >>> label([len, "len"], 0)
    'len'
    """
    text = _in_words(values[index])
    return text if len(text) <= longest else f"{text[: longest * 3 // 4]}…#{index + 1}"


def _in_words(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return value.name
    if value is None:
        return "null"
    if callable(value) and hasattr(value, "__qualname__"):  # its repr is an address
        return str(value.__qualname__)
    text = value if isinstance(value, str) else shown(value, longest=200)
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _names(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> list[str]:
    """`model=a,dim=256` for each row; shorter where there are many fields, and numbers where even that is too long."""
    keys = [{field: _identity(row[field]) for field in fields if field in row} for row in rows]
    values: dict[str, dict[str, Any]] = {field: {} for field in fields}
    for row, own in zip(rows, keys, strict=True):
        for field, key in own.items():
            values[field].setdefault(key, row[field])
    for longest in _WIDTHS:
        labels = {field: _labels(found, longest) for field, found in values.items()}
        names = [",".join(f"{field}={labels[field][key]}" for field, key in own.items()) for own in keys]
        if all(len(name) <= _SHORT for name in names):
            return names
    return [f"combination {number}" for number in range(1, len(rows) + 1)]


def _labels(values: Mapping[str, Any], longest: int) -> dict[str, str]:
    """A label for each value; with its number where two look alike, such as 1 and "1"."""
    given = list(values.values())
    labels = [label(given, index, longest) for index in range(len(given))]
    often = Counter(labels)
    return {
        key: one if often[one] == 1 else f"{one}#{number}"
        for number, (key, one) in enumerate(zip(values, labels, strict=True), 1)
    }


def _checked_class(params: Any) -> str:
    if has_fields(params):
        name = type(params).__name__
        raise BadInput(f"grid: needs the class {name}, got one of its instances", f"write grid({name}, field=[...])")
    if not (isinstance(params, type) and is_of_fields(params)):
        raise BadInput(
            f"grid: needs a dataclass or a pydantic model, got {shown(params)}",
            'put @dataclass(frozen=True) above the class, or use Experiment(grid={"model": ["a", "b"]}) without one',
        )
    return f"grid of {params.__name__}"


def _check_fields(where: str, params: type, values: Mapping[str, Any]) -> None:
    taken = inspect.signature(params).parameters
    known = [name for name, one in taken.items() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    if len(known) == len(taken):
        for name in values:
            if name not in known:
                raise BadInput(f'{where}: has no field "{name}"{suggestion(name, known)}')
    for name in known:
        if name not in values and taken[name].default is inspect.Parameter.empty:
            raise BadInput(f'{where}: the field "{name}" has no default and no values', f"add {name}=[...]")


def _choices(where: str, name: str, given: Any) -> list[Any]:
    """The values of one field. Text is one value, never its letters."""
    if isinstance(given, set | frozenset):
        raise BadInput(f"{where} is a set, which has no order", f"write a list: {name}=[...]")
    if hasattr(given, "tolist"):  # of numpy
        given = given.tolist()
    if not isinstance(given, list | tuple | range | Iterator):
        return [given]
    found = list(itertools.islice(given, MOST_VARIANTS + 1)) if isinstance(given, Iterator) else list(given)
    if not found:
        raise BadInput(f"{where} has no values", f"write {name}=[first, second], or leave it out for its default")
    if len(found) > MOST_VARIANTS:
        raise BadInput(f"{where} has more than {MOST_VARIANTS:,} values", "leave out values")
    seen: set[str] = set()
    for value in found:
        if (one := _identity(value)) in seen:
            raise BadInput(f"{where} has the value {shown(value)} twice", "leave one of them out")
        seen.add(one)
    return found


def _made(where: str, params: type, row: Mapping[str, Any]) -> Any:
    try:
        return params(**row)
    except Exception as error:  # a user's __post_init__, or what pydantic does not accept
        told = " ".join(str(error).split("[type=")[0].split())
        given = ", ".join(f"{name}={shown(value, longest=40)}" for name, value in row.items())
        raise BadInput(
            f"{where}: cannot be made with {given} ({type(error).__name__}: {told})", "leave out what does not fit"
        ) from error


def _refuse_twins(where: str, instances: Sequence[Any], names: Sequence[str], fix: str) -> None:
    seen: dict[str, str] = {}
    for one, name in zip(instances, names, strict=True):
        before = seen.setdefault(_identity(one), name)
        if before != name:
            raise BadInput(f"{where}{before} and {name} are the same", fix)


def _identity(value: Any) -> str:
    """What is the same for equal values of the same kind only; an object without content is told by what it is."""
    try:
        return digest(value)
    except TypeError:
        return f"{type(value).__qualname__} at {id(value)}"
