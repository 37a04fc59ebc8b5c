"""Atomic updates of case files that several commands may write at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from abreast.errors import BadInput
from abreast.filenames import relative_path


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Replace a file's content (empty if it does not exist) by `change(content)`, in one step for readers."""
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.parent):
            before = target.read_bytes() if target.exists() else None
            after = change(before or b"")
            if after != before:
                _replace(target, after)
    except OSError as error:
        message = f"{relative_path(path)}: cannot be written ({error.strerror or error})"
        raise BadInput(message, "use another file: `--output FILE`") from None


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    number = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _replace(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.umask(mask := os.umask(0))
        Path(name).chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~mask)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
