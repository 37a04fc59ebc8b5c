"""Safe file names for foreign text: names of runs, case ids, names of artifacts."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

LONGEST = 48  # characters of a text in its file name
LONGEST_NAME = 200  # bytes; file systems allow 255, and suffixes are added
_PLAIN = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,{LONGEST - 2}}}[A-Za-z0-9])?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)  # on Windows


def safe_file_name(text: str, digits: int = 8) -> str:
    """Return a file name that needs no quoting: the text itself if possible, else its letters and a digest.

    >>> safe_file_name("brave-otter-4821"), safe_file_name("gpt-4.1"), safe_file_name("../../etc/passwd")
    ('brave-otter-4821', 'gpt-4.1', 'etc-passwd-3754d6cb')
    >>> safe_file_name("-rf"), safe_file_name(".."), safe_file_name("nul")
    ('rf-686c39ac', 'unnamed-5ec1f7e7', 'nul-99e62427')
    """
    if _PLAIN.fullmatch(text) and not _RESERVED.match(text):
        return text
    return _with_digest(text, digits)


def _with_digest(text: str, digits: int) -> str:
    import hashlib  # late: slow to import, and most names are plain

    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    letters = re.sub("[^A-Za-z0-9]+", "-", text[: 10 * LONGEST])[:LONGEST].strip("-") or "unnamed"
    return f"{letters}-{digest[:digits]}"


def is_file_name(text: str) -> bool:
    """Whether a text from a user is the plain name of a visible file.

    >>> is_file_name("my results.csv"), is_file_name("Überblick.md")
    (True, True)
    >>> [is_file_name(name) for name in ("", "..", "../x", "a/b", ".hidden", "-rf", "a\\0b", "x" * 300)]
    [False, False, False, False, False, False, False, False]
    """
    return (
        bool(text)
        and text.isprintable()
        and "/" not in text
        and "\\" not in text
        and not text.startswith((".", "-"))
        and len(text.encode("utf-8", "backslashreplace")) <= LONGEST_NAME
    )


class FileNames:
    """A unique safe file name for each text.

    >>> names = FileNames()
    >>> names.of("pr-12"), names.of("../../etc/passwd"), names.of("PR-12")
    ('pr-12', 'etc-passwd-3754d6cb', 'PR-12-94fbaee8')
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._used: set[str] = set()  # in lower case: some file systems ignore case

    def of(self, text: str) -> str:
        if text not in self._names:
            candidates = [safe_file_name(text), *(_with_digest(text, digits) for digits in range(8, 65))]
            name = next(candidate for candidate in candidates if candidate.lower() not in self._used)
            self._used.add(name.lower())
            self._names[text] = name
        return self._names[text]


def relative_path(path: Path) -> str:
    """Return a path as one would type it in the working folder."""
    text = str(path)
    with contextlib.suppress(ValueError, OSError, RuntimeError):
        folder, full = Path.cwd(), path.absolute()
        text = str((full if full.is_relative_to(folder) else path.resolve()).relative_to(folder))
    return text if text.isprintable() else ascii(text)
