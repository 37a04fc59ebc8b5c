"""Find the secrets in the values of variables, URLs and connection strings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from abreast.redaction.names import is_connection_name, is_description, is_secret_name, is_strong_name

SHORTEST = 8  # characters; shorter values occur in ordinary text
LONGEST_WORD = 15  # most letters of a plain word
_COMMON = """
a access admin an any anything api auth change changeme credentials custom default demo disabled dummy empty enabled
example fake false guest here insert invalid key letmein local localhost me missing mock my needed no none not null
nothing optional pass passwd password placeholder postgres proxy public qwerty replace required root sample secret some
test testing the this token true undefined unknown unset unused user username value your xxx xxxx
"""
_COMMON_WORDS = frozenset(_COMMON.split())
_SWITCHES = frozenset(("", "0", "1", "true", "false", "yes", "no", "on", "off", "none", "null"))
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_PASSWORD = re.compile(r"(?:password|passwd|pwd)\s*=\s*('[^']*'|\"[^\"]*\"|[^;]+)", re.IGNORECASE)
_SCHEME = re.compile(r"\b(?:bearer|basic|token)\s+(\S+)", re.IGNORECASE)
_PLAIN = re.compile(r"(?:[a-z]{1,15}|\d{1,4})(?:[_.-](?:[a-z]{1,15}|\d{1,4}))*")
_UNPRONOUNCEABLE = re.compile(r"[^aeiouy\W\d_]{5}")
_MAX_PLAIN_WORDS = 3  # more may be a passphrase
_IDENTIFIER = re.compile("(?:^|_)(?:id|email|domain)$|[a-z](?:Id|Email|Domain)$")  # JSON fields that are not secrets
_SETTING = re.compile(r"([A-Za-z_][\w -]*?)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s;&,]+)")


def is_redactable(value: str) -> bool:
    """Whether a value is long and unusual enough to be a secret. Replacing a common word would corrupt answers.

    >>> [is_redactable(value) for value in ("sk-12345678", "old-key-xyz", "Tr0ub4dor&3", "q" * 8 + "wertzuiop")]
    [True, True, True, True]
    >>> [is_redactable(value) for value in ("none", "x", "changeme", "my-api-key-1", "password", "12345678", "x" * 20)]
    [False, False, False, False, False, False, False]
    """
    if len(value) < SHORTEST or len(set(value)) < 5:
        return False
    words = [word.rstrip("0123456789") for word in re.split(r"[\W_]+", value.lower())]
    if all(not word or word in _COMMON_WORDS for word in words):
        return len(value) > LONGEST_WORD and value.isdigit()
    if value.isalpha() and (value.islower() or value.isupper() or value.istitle()) and len(value) <= LONGEST_WORD:
        return False
    return not _is_path(value)


def is_secret_setting(name: str, value: str) -> bool:
    """Whether a setting contains a secret: `API_KEY: abc` does, `DISABLE_AUTH: "1"` does not.

    >>> is_secret_setting("API_KEY", "abc"), is_secret_setting("DISABLE_AUTH", "1")
    (True, False)
    """
    return is_secret_name(name) and value.lower() not in _SWITCHES


def is_plain(value: str) -> bool:
    """Whether a value consists of a few lower-case words and short numbers, like the name of a model or a column.

    >>> [is_plain(value) for value in ("created_at", "claude-sonnet-4-5", "production-eu", "id,created_at")]
    [True, True, True, True]
    >>> [is_plain(value) for value in ("correct-horse-battery-staple", "v4lue-of-key", "sk-12345678", "xkqzw-wrtpl")]
    [False, False, False, False]
    """
    return all(
        _PLAIN.fullmatch(item) and len(re.findall("[a-z]+", item)) <= _MAX_PLAIN_WORDS
        for item in re.split(r"[\s,;]+", value)
    ) and not _UNPRONOUNCEABLE.search(value)


def secret_values(name: str, value: str) -> set[str]:
    secrets = {*url_secrets(value), *_passwords(value), *_json_secrets(value, every_field=False)}
    if is_secret_name(name):
        secrets.update(() if is_plain(value) and not is_strong_name(name) else secret_parts(name, value))
    elif is_connection_name(name) and (secrets or "://" not in value or "WEBHOOK" in name.upper()):
        secrets.update(secret_parts(name, value))
    return {part for part in secrets if is_redactable(part)}


def secret_parts(name: str, value: str) -> Iterator[str]:
    """Yield a secret and its parts that are secrets on their own: lines, list items, fields."""
    yield value
    yield value.strip()
    yield from url_secrets(value)
    if value.lstrip().startswith(("{", "[")):
        yield from _json_secrets(value, every_field=True)
        return
    yield from (line.strip() for line in value.splitlines())
    yield from (part.strip() for part in re.split(r"[,;]", value))
    yield from (part for part in value.split() if len(part) > LONGEST_WORD)
    yield from (setting[2].strip("'\"") for setting in _SETTING.finditer(value) if is_secret_name(setting[1]))
    yield from _passwords(value)
    if "COOKIE" in name.upper():
        cookies = (part.partition("=")[2].strip().strip('"') for part in value.split(";"))
        yield from (cookie for cookie in cookies if not is_plain(cookie))
    credentials = [match[1] for match in _SCHEME.finditer(value)]
    yield from credentials
    if "AUTH" in name.upper():
        for login in (value.strip(), *credentials):
            yield from _login_password(login)


def _passwords(text: str) -> Iterator[str]:
    """Yield the values of `Password=` and `Pwd=` in a connection string."""
    for match in _PASSWORD.finditer(text) if "=" in text else ():
        password = match[1].strip()
        yield password.strip("'\"")
        yield re.split(r"[\s&,]", password, maxsplit=1)[0].strip("'\"")


def _login_password(login: str) -> Iterator[str]:
    """Yield the password of `user:password`, in plain text or Base64."""
    if ":" not in login:
        try:
            login = base64.b64decode(login, validate=True).decode()
        except ValueError:
            return
    user, _, password = login.partition(":")
    if not re.search(r"[\s/]", user):  # neither a URL nor a header
        yield password


def url_secrets(text: str) -> Iterator[str]:
    """Yield passwords and secret query parameters of the URLs in a text, as written and decoded."""
    if "://" not in text:
        return
    for match in _URL.finditer(text):
        try:
            parts = urlsplit(match[0])
        except ValueError:
            continue
        login = parts.netloc.rpartition("@")[0]
        user, _, password = login.partition(":")
        for secret in (password, login if password else user):
            yield from filter(None, {secret, unquote(secret)})
        yield from (secret for key, secret in parse_qsl(parts.query) if is_secret_name(key))


def _json_secrets(text: str, every_field: bool) -> Iterator[str]:
    """Yield the texts of JSON fields with secret names, or with `every_field` of all fields not known to be public."""
    if not text.lstrip().startswith(("{", "[")):
        return
    try:
        yield from _json_texts(json.loads(text), every_field)
    except (ValueError, RecursionError):
        return


def _json_texts(value: Any, secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            public = is_description(key) or _IDENTIFIER.search(key)
            yield from _json_texts(item, is_secret_name(key) or (secret and not public))
    elif isinstance(value, list):
        for item in value:
            yield from _json_texts(item, secret)
    elif isinstance(value, str) and secret:
        yield value
        yield from (line.strip() for line in value.splitlines())
        yield from _login_password(value)


def _is_path(value: str) -> bool:
    try:
        return value.startswith(("/", "./", "~/")) and Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
