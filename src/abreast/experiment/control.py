"""Control of an active run: send a request to its driver, and wait for the answer."""

from __future__ import annotations

import getpass
import platform
import time
from typing import Any

from abreast.errors import BadInput, StoreError
from abreast.spec.syntax import yaml_value
from abreast.store import Store
from abreast.store.runs.controls import Control

ANSWER_S = 10.0
CHECK_S = 0.5  # between two checks that a process still executes the run


def account_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no account, as in some containers
        return "unknown"


def parse_settings(words: list[str]) -> dict[str, Any]:
    """Parse settings as typed, with values as in a spec.

    >>> parse_settings(["parallel=8", "parallel.openai=auto", "budget_usd=none"])
    {'parallel': 8, 'parallel.openai': 'auto', 'budget_usd': None}
    """
    settings = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not name or not separator or not text:
            raise BadInput(f'ctl: "{word}" is not a setting with a value', "use NAME=VALUE, such as parallel=8")
        settings[name] = None if text == "none" else yaml_value(f"ctl: {name}", text)
    return settings


def control_run(store: Store, run: str, action: str, value: Any = None) -> Control:
    """Send a request to the driver of a run, and return it with its answer, which may be a refusal."""
    name = store.run(run)["run"]
    number = store.request_control(name, action, value, f"{account_name()}@{platform.node()}")
    deadline, check_at = time.monotonic() + ANSWER_S, time.monotonic() + CHECK_S
    while True:
        control = store.control(number)
        if control is None:
            raise StoreError(f"{name} was deleted", f"see `abreast runs --store {store.quoted_address}`")
        if control.outcome is not None:
            return control
        now = time.monotonic()
        if now >= check_at:
            check_at = now + CHECK_S
            if store.run(name)["status"] != "running":
                resume = f"abreast resume {name} --store {store.quoted_address}"
                raise StoreError(f"the process that executed {name} died", f"run `{resume}` to continue it")
        if now >= deadline:
            message = f"no answer within {ANSWER_S:.0f} s from the process that executes {name}"
            events = f"abreast show {name} --events --store {store.quoted_address}"
            raise StoreError(message, f"it may still apply the request; see `{events}`")
        store.wait_for_change(CHECK_S)
