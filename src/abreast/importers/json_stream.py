"""JSON documents larger than memory, read value by value."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Collection, Iterator
from typing import IO, Any

CHUNK = 1 << 20  # characters
_CUT_NUMBER = re.compile(r"\.|[eE][+-]?")  # the rest of a number that was cut where its beginning is also a number
_SPACE = " \t\n\r"
_NEAR = 32  # characters before the end where an unfinished value may already look malformed


class BadJson(ValueError):
    """The text is not JSON, or ends too early."""

    def __init__(self, problem: str, is_truncated: bool) -> None:
        super().__init__(problem)
        self.is_truncated = is_truncated


def values(file: IO[str], arrays: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a JSON object in the order of the file, as path and value.

    The arrays at these dotted paths are read item by item, and the objects that contain them member by member. `NaN`
    and `Infinity` are accepted, as by Python's own parser.

    >>> import io
    >>> document = '{"version": 2, "results": {"rows": [{"a": 1}, {"a": 2}], "total": 2}}'
    >>> list(values(io.StringIO(document), ["results.rows"]))
    [('version', 2), ('results.rows', {'a': 1}), ('results.rows', {'a': 2}), ('results.total', 2)]
    """
    reader = _Reader(file)
    yield from _members(reader, "", {path for array in arrays for path in _prefixes(array)}, set(arrays))
    reader.expect_end()


def items(file: IO[str]) -> Iterator[Any]:
    """Yield the items of a JSON array."""
    reader = _Reader(file)
    yield from _items(reader)
    reader.expect_end()


def head_members(text: str) -> dict[str, Any]:
    """Return the members in the beginning of a JSON object; a last value that is cut off is None.

    >>> head_members('{"version": 2, "status": "success", "samples": [{"id": 1}, {"i')
    {'version': 2, 'status': 'success', 'samples': None}
    """
    reader, members = _Reader(io.StringIO(text)), dict[str, Any]()
    with contextlib.suppress(BadJson):
        reader.take("{")
        while True:
            key = str(reader.value())
            reader.take(":")
            members[key] = None
            members[key] = reader.value()
            reader.take(",")
    return members


def _prefixes(path: str) -> list[str]:
    parts = path.split(".")[:-1]
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _members(reader: _Reader, prefix: str, objects: set[str], arrays: set[str]) -> Iterator[tuple[str, Any]]:
    reader.take("{")
    if reader.skip("}"):
        return
    while True:
        key = reader.value()
        if not isinstance(key, str):
            raise BadJson(f"expected a name in quotes before character {reader.at:,}", is_truncated=False)
        reader.take(":")
        path = f"{prefix}{key}"
        if path in arrays and reader.next() == "[":
            for item in _items(reader):
                yield path, item
        elif path in objects and reader.next() == "{":
            yield from _members(reader, f"{path}.", objects, arrays)
        else:
            yield path, reader.value()
        if not reader.skip(","):
            reader.take("}")
            return


def _items(reader: _Reader) -> Iterator[Any]:
    reader.take("[")
    if reader.skip("]"):
        return
    while True:
        yield reader.value()
        if not reader.skip(","):
            reader.take("]")
            return


class _Reader:
    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._buffer = ""
        self._position = 0  # in the buffer
        self._dropped = 0  # characters before the buffer
        self._is_complete = False
        self._decoder = json.JSONDecoder()

    @property
    def at(self) -> int:
        return self._dropped + self._position

    def next(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._position < len(self._buffer):
                character = self._buffer[self._position]
                if character not in _SPACE:
                    return character
                self._position += 1
            if not self._read_more():
                return ""

    def skip(self, character: str) -> bool:
        """Read the character if it is next."""
        if self.next() != character:
            return False
        self._position += 1
        return True

    def take(self, character: str) -> None:
        if self.skip(character):
            return
        following = self.next()
        if not following or _CUT_NUMBER.fullmatch(self._buffer, self._position):
            raise BadJson(f"ends after {self.at:,} characters, before a {character}", is_truncated=True)
        raise BadJson(f"expected {character} at character {self.at + 1:,}, got {following}", is_truncated=False)

    def value(self) -> Any:
        if not self.next():
            raise BadJson(f"ends after {self.at:,} characters, before a value", is_truncated=True)
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._position)
            except json.JSONDecodeError as error:
                is_unfinished = error.msg.startswith("Unterminated string") or error.pos > len(self._buffer) - _NEAR
                if is_unfinished and not self._is_complete:
                    self._read_more()
                    continue
                where = self._dropped + error.pos + 1
                if is_unfinished:
                    problem = f"ends in the middle of a value, after {self._dropped + len(self._buffer):,} characters"
                else:
                    problem = f"{error.msg} at character {where:,}"
                raise BadJson(problem, is_unfinished) from None
            except ValueError as error:  # such as a number of more than 4,300 digits
                raise BadJson(f"{error} at character {self.at + 1:,}", is_truncated=False) from None
            except RecursionError:
                raise BadJson(f"nested too deeply at character {self.at + 1:,}", is_truncated=False) from None
            if isinstance(value, int | float) and end > len(self._buffer) - _NEAR and not self._is_complete:
                self._read_more()  # the number may continue
                continue
            self._position = end
            return value

    def expect_end(self) -> None:
        if self.next():
            raise BadJson(f"more text after the end, at character {self.at + 1:,}", is_truncated=False)

    def _read_more(self) -> bool:
        """Double the buffer, so that a value of any size is parsed only a few times."""
        if self._is_complete:
            return False
        rest = self._buffer[self._position :]
        text = self._file.read(max(CHUNK, len(rest)))
        self._dropped += self._position
        self._buffer, self._position = rest + text, 0
        self._is_complete = not text
        return bool(text)
