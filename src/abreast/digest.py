"""Digests of values, the same in every process and on every machine.

>>> digest("a") == digest("a"), digest(1) == digest("1"), digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
(True, False, True)
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

SIZE = 12  # bytes; 24 hexadecimal digits


def digest(value: Any) -> str:
    """Return a digest of the content of `value`. Text, the most frequent input, is hashed directly."""
    if isinstance(value, str):
        return hashlib.blake2b(b"s" + value.encode("utf-8", "surrogatepass"), digest_size=SIZE).hexdigest()
    text = json.dumps(canonical(value), ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(b"j" + text.encode(), digest_size=SIZE).hexdigest()


def compose(*parts: str | int) -> str:
    """Return a digest of several parts; cheap enough for every trial."""
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=SIZE).hexdigest()


def canonical(value: Any, unknown: Callable[[Any], Any] | None = None) -> Any:
    """Convert `value` to plain JSON data in which types stay distinct (1 and 1.0, a tuple and a list).

    `unknown` converts objects of other types; by default their repr is used.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, enum.Enum):
        return {"enum": f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"}
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return {"float": value.hex() if math.isfinite(value) else repr(value)}
    if isinstance(value, list):
        return [canonical(item, unknown) for item in value]
    if isinstance(value, Mapping):
        if all(type(key) is str for key in value):
            return {"map": {key: canonical(item, unknown) for key, item in value.items()}}
        return {
            "pairs": sorted(
                ([canonical(key, unknown), canonical(item, unknown)] for key, item in value.items()), key=json.dumps
            )
        }
    return _canonical_object(value, unknown)


def _canonical_object(value: Any, unknown: Callable[[Any], Any] | None) -> Any:
    module = type(value).__module__
    kind = f"{'__main__' if module == '__mp_main__' else module}.{type(value).__qualname__}"  # equal in a worker
    if isinstance(value, tuple):
        return {"tuple": [canonical(item, unknown) for item in value]}
    if isinstance(value, set | frozenset):
        return {"set": sorted((canonical(item, unknown) for item in value), key=json.dumps)}
    if isinstance(value, bytes | bytearray):
        return {"bytes": hashlib.blake2b(value, digest_size=SIZE).hexdigest()}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: canonical(getattr(value, field.name), unknown)
            for field in dataclasses.fields(value)
            if field.metadata.get("digest", True)
        }
        return {"object": kind, "fields": fields}
    if hasattr(value, "model_dump"):
        return {"object": kind, "fields": canonical(value.model_dump(), unknown)}
    if hasattr(value, "tobytes") and hasattr(value, "dtype") and hasattr(value, "shape"):
        content = value.tolist() if value.dtype.hasobject else hashlib.blake2b(value.tobytes()).hexdigest()
        return {"array": canonical(content, unknown), "dtype": str(value.dtype), "shape": list(value.shape)}
    if hasattr(value, "isoformat"):
        return {"object": kind, "text": value.isoformat()}
    if hasattr(value, "to_numpy"):
        return {"object": kind, **_canonical_frame(value, unknown)}
    return unknown(value) if unknown is not None else _by_representation(kind, value)


def _canonical_frame(value: Any, unknown: Callable[[Any], Any] | None) -> dict[str, Any]:
    """A frame or column of pandas or polars: values, names, types, and the index if there is one."""
    if hasattr(value, "columns"):
        column = (lambda at: value.iloc[:, at]) if hasattr(value, "iloc") else value.to_series
        content: Any = [_canonical_frame(column(at), unknown) for at in range(len(value.columns))]
        names = [canonical(name, unknown) for name in value.columns]
    else:
        content = canonical(value.to_numpy(), unknown)
        names = [canonical(getattr(value, "name", None), unknown), str(value.dtype)]
    index = _canonical_frame(value.index, unknown) if hasattr(value, "index") and hasattr(value, "iloc") else None
    return {"values": content, "names": names, "index": index}


def _by_representation(kind: str, value: Any) -> Any:
    text = repr(value)
    if f"{id(value):x}" in text.lower():
        raise TypeError(
            f"{kind} has no stable content: its repr contains its address. "
            "Give it a __repr__, or use a dataclass, a mapping or plain values"
        )
    return {"object": kind, "text": text}
