"""Redaction: keep secrets out of everything that is stored or shown.

Known secret values are replaced everywhere. Texts in the format of a key are replaced in errors, logs, diffs and
artifacts, but not in prompts and answers.
"""

from __future__ import annotations

from typing import Any

from abreast.redaction.known_secrets import KNOWN_SECRETS
from abreast.redaction.names import is_secret_name
from abreast.redaction.outcomes import redact_case, redact_outcome
from abreast.redaction.patterns import redact_patterns
from abreast.redaction.redactor import Redactor, redact_texts
from abreast.redaction.values import SHORTEST, is_secret_setting, url_secrets

__all__ = [
    "KNOWN_SECRETS",
    "Redactor",
    "declare_secret",
    "excerpt",
    "find_secret",
    "is_secret_name",
    "is_secret_setting",
    "redact",
    "redact_case",
    "redact_log",
    "redact_log_value",
    "redact_outcome",
    "url_secrets",
]

declare_secret = KNOWN_SECRETS.declare


def redact(text: str) -> str:
    """Replace known secrets in a prompt, an answer or a name."""
    return KNOWN_SECRETS.redactor.redact(text) if len(text) >= SHORTEST else text


def redact_log(text: str) -> str:
    """Replace known secrets, fragments of them at a cut end, and texts in the format of a key."""
    return redact_patterns(KNOWN_SECRETS.redactor.redact_cut(text))


def redact_log_value(value: Any) -> Any:
    return redact_texts(value, redact_log)


def excerpt(text: str, length: int) -> str:
    """Return the beginning of a log or an error, redacted before it is cut."""
    redactor = KNOWN_SECRETS.redactor
    return redact_patterns(redactor.redact_cut(text[: length + redactor.longest]))[:length]


def find_secret(content: bytes) -> str | None:
    """Return the name of a known secret that these bytes contain."""
    return KNOWN_SECRETS.redactor.find_in_bytes(content)
