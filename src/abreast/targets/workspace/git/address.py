"""Addresses of repositories, and the passwords that may stand in them."""

from __future__ import annotations

import re

_URL = re.compile(r"(https?|ssh|git|file)://.+|[\w.+-]+@[\w.-]+:.+", re.IGNORECASE)
_BEFORE_HOST = re.compile(r"(?<=://)[^/\s]+@")
_LONGEST_NAME = 19  # characters; tokens that stand there alone are longer


def is_address(written: str) -> bool:
    """Whether this is a repository elsewhere, and not a folder.

    >>> is_address("https://example.org/a.git"), is_address("git@example.org:a.git"), is_address("../a")
    (True, True, False)
    """
    return _URL.fullmatch(written) is not None


def without_secret(text: str) -> str:
    """The same without names and passwords before hosts."""
    return _BEFORE_HOST.sub("", text)


def has_secret(address: str) -> bool:
    """Whether something before the host is a password, or a token instead of a name.

    >>> [has_secret(f"https://{who}example.org/a") for who in ("", "ann@", "ann:pass@", f"{'0a' * 20}@")]
    [False, False, True, True]
    """
    found = _BEFORE_HOST.search(address)
    name, _, password = found[0].removesuffix("@").partition(":") if found else ("", "", "")
    return bool(password) or len(name) > _LONGEST_NAME
