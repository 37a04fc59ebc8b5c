"""Names of files for texts of anybody: they stay in their folder, differ everywhere, and need no quotes."""

from __future__ import annotations

import hashlib
import re

LONGEST = 48  # characters of a text that its name shows
_PLAIN = re.compile(rf"[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,{LONGEST - 2}}}[A-Za-z0-9])?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)  # what Windows keeps for itself


class FileNames:
    """A name for each text, the same whenever it is asked for. What is no good name shows its letters and a digest.

    >>> names = FileNames()
    >>> names.of("pr-12"), names.of("gpt-4.1"), names.of("../../etc/passwd"), names.of("PR-12")
    ('pr-12', 'gpt-4.1', 'etc-passwd-3754d6cb', 'PR-12-94fbaee8')
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()  # in small letters: some file systems do not tell them from large ones

    def of(self, text: str) -> str:
        if text not in self._names:
            name = text
            if not _PLAIN.fullmatch(text) or _RESERVED.match(text) or text.lower() in self._taken:
                digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
                letters = re.sub("[^A-Za-z0-9]+", "-", text[: 10 * LONGEST])[:LONGEST].strip("-") or "unnamed"
                name = next(
                    found
                    for length in range(8, len(digest) + 1)
                    if (found := f"{letters}-{digest[:length]}").lower() not in self._taken
                )
            self._taken.add(name.lower())
            self._names[text] = name
        return self._names[text]
