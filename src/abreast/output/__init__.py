"""The only place that writes to the terminal.

`echo` and `say` print text for people on standard output and standard error, with unprintable characters replaced;
`emit` writes data for programs, exactly unless it goes to a terminal; `console` and `error_console` print rich
renderables. None of them raises if the stream has no reader; see `abreast.output.streams`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

from abreast.output.streams import encodable, is_read, protect, reserved_for_json, write_error
from abreast.text import dump_json, printable, storable

if TYPE_CHECKING:
    from abreast.output.rich_console import PrintableConsole

__all__ = [
    "confirm",
    "console",
    "echo",
    "emit",
    "emit_json",
    "error_console",
    "is_interactive",
    "is_live_terminal",
    "is_read",
    "protect",
    "read_answer",
    "reserved_for_json",
    "say",
    "say_problem",
    "while_read",
    "write_error",
]

WIDTH_WITHOUT_TERMINAL = 140  # wide enough for the table of a report in a file

Item = TypeVar("Item")


def echo(text: str = "", flush: bool = False) -> None:
    """Print text for people on standard output."""
    _write(sys.stdout, printable(text) + "\n", flush)


def say(text: str = "", end: str = "\n") -> None:
    """Print text for people on standard error, so that standard output stays for results."""
    _write(sys.stderr, printable(text) + end, flush=True)


def say_problem(level: Literal["error", "warning", "note"], message: str, fix: str = "") -> None:
    """Print a problem on standard error and, on the next line, what to do about it."""
    say(f"{level}: {message}")
    if fix:
        say(f"help: {fix}")


def emit(text: str) -> None:
    """Write data to standard output: exactly and in UTF-8 to a file or pipe, printable to a terminal."""
    stream = sys.stdout
    if _is_terminal(stream):
        _write(stream, printable(text))
    elif (stream.encoding or "utf-8").lower().replace("-", "") == "utf8":
        _write(stream, storable(text))
    else:
        _write(stream, "", flush=True)
        stream.buffer.write(storable(text).encode())


def emit_json(value: Any, **options: Any) -> None:
    emit(dump_json(value, **options) + "\n")


def while_read(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items until standard output has no reader any more."""
    for item in items:
        if not is_read():
            return
        yield item


def console() -> PrintableConsole:
    """Return standard output for renderables: as wide as the terminal, or wide enough for a table in a file."""
    from abreast.output.rich_console import PrintableConsole

    return PrintableConsole(width=None if _is_terminal(sys.stdout) else WIDTH_WITHOUT_TERMINAL)


def error_console() -> PrintableConsole:
    from abreast.output.rich_console import PrintableConsole

    return PrintableConsole(stderr=True)


def is_live_terminal() -> bool:
    """Whether standard error can show a line that redraws itself."""
    return _is_terminal(sys.stderr) and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def is_interactive() -> bool:
    """Whether standard input is a terminal, so that questions can be asked."""
    return _is_terminal(sys.stdin)


def read_answer(question: str) -> str:
    """Ask on standard error and read a line; empty at the end of the input."""
    say(question, end="")
    try:
        return sys.stdin.readline()
    except (OSError, ValueError):
        return ""


def confirm(question: str) -> bool:
    return read_answer(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _write(stream: TextIO | None, text: str, flush: bool = False) -> None:
    """Write text, ignoring failures. In a library the stream may be any object; the command line protects its own."""
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(encodable(text, stream.encoding))
        if flush:
            stream.flush()
