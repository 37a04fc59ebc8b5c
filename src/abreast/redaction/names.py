"""Recognise names of variables, headers and URL parameters that contain secrets."""

from __future__ import annotations

import re
from functools import lru_cache

_ANYWHERE = ("KEY", "KEYS", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "AUTHORIZATION")
_LAST = {
    *("PASS", "PASSWD", "PASSPHRASE", "PASSCODE", "PWD", "PAT", "AUTH", "BEARER", "COOKIE", "COOKIES"),
    *("CREDENTIAL", "CREDENTIALS", "CREDS", "JWT", "DSN", "SIG", "SIGNATURE", "WEBHOOK"),
}
_DESCRIPTIONS = {  # MAX_TOKEN_COUNT, TOKEN_URL and KEY_NAME are not secrets
    *("FILE", "PATH", "DIR", "HOME", "LIMIT", "COUNT", "LENGTH", "SIZE", "NAME", "TYPE", "MODE", "LEVEL", "VERSION"),
    *("MODEL", "LANG", "REGION", "ENV", "USER", "HOST", "PORT", "URL", "URI", "ENDPOINT"),
}
_SUFFIXES = {  # SMTP_PASS_PROD is as secret as SMTP_PASS
    *("PROD", "PRODUCTION", "STAGING", "STAGE", "DEV", "DEVELOPMENT", "TEST", "QA", "UAT", "SANDBOX", "LIVE"),
    *("LOCAL", "CI"),
    *("OLD", "NEW", "PREVIOUS", "CURRENT", "NEXT", "BACKUP", "PRIMARY", "SECONDARY", "DEFAULT", "JSON", "VALUE"),
}
# Words in front of KEY that make it an identifier or public.
_PUBLIC_KEYS = frozenset(("SORT", "CACHE", "PARTITION", "FOREIGN", "MODEL", "PUBLIC", "ROUTING"))
_SECRET_KEYS = {"API", "ACCESS", "PRIVATE", "SIGNING", "ENCRYPTION", "MASTER", "ACCOUNT"}
_WEAK = ("KEY", "KEYS", "AUTH", "COOKIE", "COOKIES", "SIG", "SIGNATURE", "DSN", "WEBHOOK")
_SERVICES = {"DATABASE", "DB", "REDIS", "MONGO", "MONGODB", "POSTGRES", "BROKER", "WEBHOOK"}


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Whether a name denotes a secret.

    >>> [is_secret_name(name) for name in ("API_KEY", "x-api-key", "apiToken", "Authorization", "DB_PWD", "Cookie")]
    [True, True, True, True, True, True]
    >>> [is_secret_name(name) for name in ("MAX_TOKENS", "KEYBOARD", "TOKEN_LIMIT", "SSH_KEY_PATH", "PWD", "AUTHOR")]
    [False, False, False, False, False, False]
    >>> [is_secret_name(name) for name in ("GITHUB_PAT_2", "SMTP_PASS1", "DB_PASS_PROD", "SORT_KEY", "publicKey")]
    [True, True, True, False, False]
    """
    return bool(_secret_words(name))


@lru_cache(maxsize=4_096)
def is_strong_name(name: str) -> bool:
    """Whether a name denotes a secret even if its value consists of plain words.

    >>> [is_strong_name(name) for name in ("DB_PASSWORD", "ACME_API_KEY", "ACME_KEY", "COLUMN_KEYS")]
    [True, True, False, False]
    """
    return any(before in _SECRET_KEYS or not word.endswith(_WEAK) for before, word in _secret_words(name))


def _secret_words(name: str) -> list[tuple[str, str]]:
    """The words that make a name secret, each with its preceding word."""
    words = [word.rstrip("0123456789") for word in _words(name)]
    while len(words) > 1 and (not words[-1] or words[-1] in _SUFFIXES):
        words.pop()
    if words[-1] in _DESCRIPTIONS or words == ["PWD"]:  # PWD on its own is the working directory
        return []
    pairs = list(zip(["", *words], words, strict=False))
    return [
        (before, word)
        for before, word in pairs
        if word.endswith(_ANYWHERE) and not (word in ("KEY", "KEYS") and before in _PUBLIC_KEYS)
    ] + [pair for pair in pairs[-1:] if pair[1] in _LAST]


def is_connection_name(name: str) -> bool:
    """Whether a variable contains an address that may include a password.

    >>> [is_connection_name(name) for name in ("DATABASE_URL", "MONGODB_URI", "SLACK_WEBHOOK_URL", "BASE_URL")]
    [True, True, True, False]
    """
    *_, kind, last = ("", *_words(name))
    return (kind, last) == ("CONNECTION", "STRING") or (last in ("URL", "URI") and kind in _SERVICES)


def is_description(name: str) -> bool:
    """Whether a name denotes something public, such as a model, a path or a host."""
    return _words(name)[-1] in _DESCRIPTIONS


def _words(name: str) -> list[str]:
    return re.sub(r"[\W_]+", "_", re.sub("([a-z0-9])([A-Z])", r"\1_\2", name)).upper().strip("_").split("_")
