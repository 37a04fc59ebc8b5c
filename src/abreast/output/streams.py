"""Standard streams on which a failed write is recorded instead of raised, so that it cannot end a command."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO

# Replacements for our own characters on terminals that lack them; others are escaped as in Python source.
_ASCII = {
    **dict.fromkeys("−–—·─", "-"),
    **dict.fromkeys("█▏▎▍▌▋▊▉▘▝▀▖▞▛▗▚▐▜▄▙▟░▒▓", "#"),
    **dict.fromkeys("│┤", "|"),
    **dict.fromkeys("━╸╺", "="),
    "…": "...",
    "×": "x",
    "±": "+/-",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "≈": "~",
    "∞": "inf",
    "→": "->",
    "└": "+",
    "✓": "+",
    "✗": "x",
    "•": "*",
    "‹": "<",
    "›": ">",
}
_ENCODE_ERRORS = "abreast-ascii"
_READER_GONE = (errno.EPIPE, errno.EBADF, errno.EIO, errno.ECONNRESET, errno.ESHUTDOWN)


def _encode_error(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_ASCII.get(char) or ascii(char)[1:-1] for char in text), error.end


codecs.register_error(_ENCODE_ERRORS, _encode_error)


def encodable(text: str, encoding: str) -> str:
    return text.encode(encoding, _ENCODE_ERRORS).decode(encoding)


class _Descriptor(io.FileIO):
    """A file descriptor that records the first failed write and drops all later ones."""

    error: OSError | None = None

    def write(self, content: object) -> int:
        while self.error is None:
            try:
                count: int | None = super().write(content)  # type: ignore[arg-type]
                if count is not None:
                    return count
                select.select([], [self], [])  # another program made the terminal non-blocking
            except OSError as error:
                self.error = error
        return memoryview(content).nbytes  # type: ignore[arg-type]


def protect() -> None:
    """Make the standard streams of this process safe to use, whatever they are connected to.

    A closed stream is connected to the null device, so that no other file gets its number. A replaced stream, for
    example of a test or notebook, is not touched.
    """
    _reserve_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if sys.stdout is sys.__stdout__:
        sys.stdout = _protected(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _protected(sys.stderr, 2)


def _reserve_descriptors() -> None:
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _protected(stream: TextIO | None, descriptor: int) -> TextIO:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.flush()
    raw = _Descriptor(descriptor, "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors=_ENCODE_ERRORS,
        newline="\n",
        line_buffering=descriptor == 2 or raw.isatty(),
        write_through=getattr(stream, "write_through", False),
    )


@contextlib.contextmanager
def reserved_for_json(as_json: bool) -> Iterator[None]:
    """Send what the user's code and its processes print on standard output to standard error, if JSON follows there."""
    if not as_json:
        yield
        return
    sys.stdout.flush()
    results = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(results, 1)
        os.close(results)


def _descriptor_of(stream: TextIO | None) -> _Descriptor | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Descriptor) else None


def is_read() -> bool:
    """Whether standard output still has a reader, judging by past writes."""
    descriptor = _descriptor_of(sys.stdout)
    return descriptor is None or descriptor.error is None


def write_error() -> str:
    """Flush standard output and return why a write failed; empty if none did, or the reader is gone."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    descriptor = _descriptor_of(sys.stdout)
    error = descriptor.error if descriptor is not None else None
    return "" if error is None or error.errno in _READER_GONE else error.strerror or str(error)
