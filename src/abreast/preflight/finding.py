"""What a check says: one sentence, one fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["pass", "note", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`pass` and `note` go on; `warn` goes on unless `--strict`; `fail` executes nothing."""

    check: str
    level: Level
    message: str
    fix: str = ""
