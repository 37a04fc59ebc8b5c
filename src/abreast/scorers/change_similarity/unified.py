"""Parse unified diffs as git writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_ESCAPED = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_PREFIXES = re.compile(r'"?([abciow])/.* "?(?!\1)[abciow]/', re.DOTALL)
_LEFT_OUT = re.compile(r"Files .* left out for their size: .*, (\d{1,9}) lines added, (\d{1,9}) deleted", re.DOTALL)
_NOWHERE = "/dev/null"


@dataclass(slots=True)
class Hunk:
    """Lines with their signs and line ends. `start` is the first line of the old file, from 0."""

    start: int
    lines: list[tuple[str, str]] = field(default_factory=list)

    def side(self, sign: str) -> list[str]:
        """Return the lines before (`-`) or after (`+`) the change, with context."""
        return [text for mark, text in self.lines if mark in (" ", sign)]

    def only(self, sign: str) -> list[str]:
        return [text for mark, text in self.lines if mark == sign]


@dataclass(slots=True)
class FileDiff:
    """The changes of one file. A name is None if the file does not exist before or after."""

    old: str | None = None
    new: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    binary: bool = False
    copied: bool = False
    combined: bool = False
    left_out: tuple[int, int] | None = None  # lines added and deleted of a file too large to be shown

    @property
    def names(self) -> list[str]:
        return [name for name in dict.fromkeys((self.new, self.old)) if name is not None]

    @property
    def has_changes(self) -> bool:
        """Whether there is any change; a truncated diff may end with a mere header."""
        is_edited = any(sign != " " for hunk in self.hunks for sign, _ in hunk.lines)
        is_named = self.binary or self.combined or self.left_out is not None
        return is_edited or self.old != self.new or bool(self.modes) or is_named

    @property
    def is_complete(self) -> bool:
        """Whether the diff appears to show all lines of the file."""
        return len(self.hunks) == 1 and self.hunks[0].start == 0


def parse_diff(diff: str) -> list[FileDiff]:
    """Return the files of a diff, skipping unreadable lines."""
    return [entry for entry in _DiffParser(diff).entries() if entry.names and entry.has_changes]


class _DiffParser:
    """Reads a diff line by line; only a line feed ends a line."""

    def __init__(self, diff: str) -> None:
        self._lines = [line + "\n" for line in diff.removesuffix("\n").split("\n")]
        self._index = 0

    def entries(self) -> Iterator[FileDiff]:
        entry: FileDiff | None = None
        prefixed = True
        while self._index < len(self._lines):
            line = self._lines[self._index].rstrip("\n")
            self._index += 1
            if line.startswith(("diff --git ", "diff --cc ", "diff --combined ")):
                if entry is not None:
                    yield entry
                words = line.split(" ", 2)[2]
                prefixed = _PREFIXES.match(words) is not None and _same_name(words, False) is None
                entry = FileDiff(combined=not line.startswith("diff --git "))
                entry.old = entry.new = words if entry.combined else _same_name(words, prefixed)
            elif line.startswith("--- ") and (entry is None or entry.hunks):  # a diff without headers
                if entry is not None:
                    yield entry
                entry, prefixed = FileDiff(old=_name(line[4:], True)), True
            elif entry is not None and (header := _HUNK.match(line)):
                entry.hunks.append(self._read_hunk(header))
            elif entry is not None and not entry.hunks:
                _read_header(entry, line.rstrip("\r"), prefixed)
        if entry is not None:
            yield entry

    def _read_hunk(self, header: re.Match[str]) -> Hunk:
        start, old, _, new = (1 if part is None else int(part) for part in header.groups())
        hunk = Hunk(max(start - 1, 0) if old else start)
        while self._index < len(self._lines):
            line = self._lines[self._index]
            sign = " " if line in ("\n", "\r\n") and old and new else line[0]  # some programs strip the space
            if sign == "\\" and hunk.lines:
                mark, text = hunk.lines[-1]
                hunk.lines[-1] = (mark, text.removesuffix("\n"))
            elif {"-": old, "+": new, " ": min(old, new)}.get(sign, 0) > 0:
                hunk.lines.append((sign, line[1:] if line[0] == sign else line))
                old, new = old - (sign != "+"), new - (sign != "-")
            else:
                break
            self._index += 1
        return hunk


def _read_header(entry: FileDiff, line: str, prefixed: bool) -> None:
    word, _, rest = line.partition(" ")
    if word in ("---", "+++"):
        setattr(entry, "old" if word == "---" else "new", _name(rest, prefixed))
    elif line.startswith(("rename from ", "copy from ")):
        entry.old = _name(rest[5:], False)
        entry.copied = word == "copy"
    elif line.startswith(("rename to ", "copy to ")):
        entry.new = _name(rest[3:], False)
    elif line.startswith("new file mode "):
        entry.old = None
        entry.modes += [f"new {rest[10:]}"] if rest[10:] != "100644" else []
    elif line.startswith("deleted file mode "):
        entry.new = None
    elif line.startswith("new mode "):
        entry.modes.append(line)
    elif line.startswith("Binary files ") or line == "GIT binary patch":
        entry.binary = True
    elif match := _LEFT_OUT.fullmatch(line):
        entry.left_out = int(match[1]), int(match[2])


def _name(text: str, prefixed: bool) -> str | None:
    r"""Parse a file name in a header.

    >>> _name('"a/\\303\\244 b.py"', True), _name("b/a b.py\t", True), _name("/dev/null", True)
    ('ä b.py', 'a b.py', None)
    """
    text = text.rstrip("\r")
    if text.startswith('"'):
        raw = text[1:].rpartition('"')[0].encode("utf-8", "replace")
        text = _ESCAPE.sub(_unescape, raw).decode("utf-8", "replace")
    else:
        text = text.partition("\t")[0]
    if text == _NOWHERE:
        return None
    return text[2:] if prefixed and re.match("[abciow]/", text) else text


def _unescape(match: re.Match[bytes]) -> bytes:
    word = match[1]
    return bytes([int(word, 8) & 255 if len(word) == 3 else _ESCAPED[word[0]]])


def _same_name(words: str, prefixed: bool) -> str | None:
    """Return the name that follows `diff --git` twice; None if the names differ.

    >>> _same_name("a/x b/y b/x b/y", True)
    'x b/y'
    """
    words = words.rstrip("\r")
    half = len(words) // 2
    old, new = _name(words[:half], prefixed), _name(words[half + 1 :], prefixed)
    return old if old == new and words[half : half + 1] == " " else None
