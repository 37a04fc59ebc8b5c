"""What auggie and cursor-agent print: one object with the result, and little more."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from abreast.targets.agents.presets.agent_output import Reader, Said, document, trouble
from abreast.targets.agents.presets.custom import usage_of
from abreast.targets.untrusted_json import count, dollars, mapping

AUGGIE_LOGIN = "run `auggie login` once, or: export AUGMENT_SESSION_AUTH=..."
CURSOR_LOGIN = "run `cursor-agent login` once, or: export CURSOR_API_KEY=..."


def _read(login: str, out: Path, err: Path) -> Said:
    told = mapping(document(out))
    result = told.get("result")
    said = Said(
        text=result if isinstance(result, str) else None,
        usage=usage_of(mapping(told.get("usage"))),
        cost_usd=dollars(told.get("total_cost_usd")),
        model=told["model"] if isinstance(told.get("model"), str) else None,
        turns=count(told.get("num_turns")),
    )
    if told.get("is_error"):
        said.trouble = trouble(str(result or told.get("error") or told.get("subtype") or ""), login)
    return said


read_auggie: Reader = partial(_read, AUGGIE_LOGIN)
read_cursor: Reader = partial(_read, CURSOR_LOGIN)
