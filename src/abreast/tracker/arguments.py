"""The arguments of a call as columns: by the names the function gives them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from abreast.store.user_tables.cells import TypedCell, cell

MOST_KEYS = 200  # of a mapping; a larger one is data, not parameters, and stays one value
MOST_ITEMS = 100  # of a list
DEEPEST = 8  # levels of objects in objects


def argument_cells(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, TypedCell]:
    """A column for every argument; of dictionaries, dataclasses and pydantic models one for every field.

    >>> def predict(item, params, top_k=3): ...
    >>> {name: cell.value for name, cell in unpacked(predict, [{"id": 7}, {"model": "m"}], {}).items()}
    {'item_id': 7, 'params_model': 'm', 'top_k': 3}
    """
    return {name: cell(value) for name, value in _argument_columns(function, args, kwargs)}


def _argument_columns(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    signature = _signature(function)
    bound: Mapping[str, Any]
    try:
        if signature is None:
            raise TypeError
        found = signature.bind(*args, **kwargs)
        found.apply_defaults()
        bound = found.arguments
    except TypeError:  # the call will say what is wrong with it
        names = list(signature.parameters) if signature else []
        names += [f"arg_{number}" for number in range(len(names), len(args))]
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
    for name, value in bound.items():
        kind = signature.parameters[name].kind if signature and name in signature.parameters else None
        if kind is inspect.Parameter.VAR_KEYWORD:
            for key, item in value.items():
                yield from _fields(key, item, DEEPEST)
        elif kind is not inspect.Parameter.VAR_POSITIONAL or value:
            yield from _fields(name, value, DEEPEST)


@functools.lru_cache(maxsize=1_000)
def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some of C have none
        return None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return _signature_of(function)
    except TypeError:  # an object that has no hash
        return _signature_of.__wrapped__(function)


def _fields(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    try:
        inner, one = (_subfields(value) if depth else None), _summary(value)
    except Exception:  # noqa: BLE001 - an object of a user's that raises when it is looked at
        inner, one = None, value
    if inner is None:
        yield name, one
    else:
        for key, item in inner:
            if isinstance(item, Mapping):  # data inside of data
                yield f"{name}_{key}", item
            else:
                yield from _fields(f"{name}_{key}", item, depth - 1)


def _subfields(value: Any) -> list[tuple[str, Any]] | None:
    """The fields of what is unpacked; None for what is one value."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()] if 0 < len(value) <= MOST_KEYS else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    names = getattr(type(value), "model_fields", None)
    return [(name, getattr(value, name, None)) for name in names] if isinstance(names, dict) else None


def _summary(value: Any) -> Any:
    """What fits a column: small values themselves, of large ones what they are."""
    if value is None or isinstance(value, str | bool | int | float | Enum | Mapping):
        return value
    shape = getattr(value, "shape", None)
    if shape:  # an array, a frame, a tensor
        kind = getattr(value, "dtype", "")
        return f"{type(value).__name__} {'×'.join(map(str, shape))} {kind}".strip()
    if isinstance(value, list | tuple | set | frozenset) and len(value) > MOST_ITEMS:
        return f"{type(value).__name__} of {len(value):,}"
    return value
