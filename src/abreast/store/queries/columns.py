"""Rows as numpy columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_DTYPES = {int: np.int64, float: float, bool: bool, str: object}


def as_columns(chunks: Iterable[list[tuple[Any, ...]]], kinds: Mapping[str, type]) -> dict[str, Array]:
    """Rows as arrays by name, a chunk at a time. No text is kept twice; an unknown number is nan, an integer 0."""
    texts: dict[str | None, str | None] = {}
    parts: dict[str, list[Array]] = {name: [np.array([], dtype=_DTYPES[kind])] for name, kind in kinds.items()}
    for chunk in chunks:
        for (name, kind), column in zip(kinds.items(), zip(*chunk, strict=True), strict=True):
            items: Iterable[Any] = column
            if kind is str:
                items = [texts.setdefault(item, item) for item in column]
            elif kind is int and None in column:
                items = [item or 0 for item in column]
            parts[name].append(np.array(items, dtype=_DTYPES[kind]))
    return {name: np.concatenate(parts.pop(name)) for name in kinds}  # frees the parts of each column as it goes
