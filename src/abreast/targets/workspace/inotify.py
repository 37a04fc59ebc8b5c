"""Events of folders, from the kernel (Linux alone)."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import weakref
from collections.abc import Iterator

_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # written, attributes, moved, made, deleted, itself
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER = 65_536


class FolderWatch:
    """Watches folders, not what is below them. Raises OSError if there is no such thing here."""

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("inotify is a part of Linux")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._libc.inotify_init1(_FLAGS))
        weakref.finalize(self, os.close, self._descriptor)
        self._folders: dict[int, str] = {}

    def add(self, folder: str) -> None:
        """Raises OSError, also if there are too many watches."""
        mask = _CHANGES | _ONLY_FOLDERS | _NO_LINKS
        watch = self._checked(self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask))
        self._folders[watch] = folder

    def read(self) -> Iterator[tuple[str, str]]:
        """The events since the last call: a folder and a name in it, which is empty where it is about the folder itself
        or events were lost."""
        while True:
            try:
                events = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                name = os.fsdecode(events[at - length : at].rstrip(b"\0"))
                yield ("", "") if mask & _OVERFLOW else (self._folders.get(watch, ""), name)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result
