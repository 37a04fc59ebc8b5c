"""Arguments of a call as columns, named after the parameters of the function."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from abreast.store.user_tables.cells import TypedCell, cell

MOST_KEYS = 200  # a larger mapping is data, not parameters, and stays one value
MOST_ITEMS = 100  # a longer list is summarised
DEEPEST = 8  # levels of nested objects


def argument_cells(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, TypedCell]:
    """Return a cell per argument, or per field of dictionaries, dataclasses and pydantic models.

    >>> def predict(item, params, top_k=3): ...
    >>> cells = argument_cells(predict, [{"id": 7}, {"model": "m"}], {})
    >>> {name: cell.value for name, cell in cells.items()}
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
        bound_arguments = signature.bind(*args, **kwargs)
        bound_arguments.apply_defaults()
        bound = bound_arguments.arguments
    except TypeError:  # the call itself will raise
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
    except (TypeError, ValueError):  # some C functions have none
        return None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return _signature_of(function)
    except TypeError:  # not hashable
        return _signature_of.__wrapped__(function)


def _fields(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    try:
        subfields, summary = (_subfields(value) if depth else None), _summary(value)
    except Exception:  # noqa: BLE001 - a user's object may raise anything
        subfields, summary = None, value
    if subfields is None:
        yield name, summary
    else:
        for key, item in subfields:
            if isinstance(item, Mapping):  # nested data
                yield f"{name}_{key}", item
            else:
                yield from _fields(f"{name}_{key}", item, depth - 1)


def _subfields(value: Any) -> list[tuple[str, Any]] | None:
    """Return the fields of a value that gets several columns; None if it gets one."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()] if 0 < len(value) <= MOST_KEYS else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    names = getattr(type(value), "model_fields", None)
    return [(name, getattr(value, name, None)) for name in names] if isinstance(names, dict) else None


def _summary(value: Any) -> Any:
    """Return a small value unchanged, and a description of a large one, which fits a column."""
    if value is None or isinstance(value, str | bool | int | float | Enum | Mapping):
        return value
    shape = getattr(value, "shape", None)
    if shape:  # an array, a frame, a tensor
        kind = getattr(value, "dtype", "")
        return f"{type(value).__name__} {'×'.join(map(str, shape))} {kind}".strip()
    if isinstance(value, list | tuple | set | frozenset) and len(value) > MOST_ITEMS:
        return f"{type(value).__name__} of {len(value):,}"
    return value
