"""Commands that are run in the workspace of a trial when its agent has ended: tests, builds, linters."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from abreast.digest import digest
from abreast.model import Answer, Check
from abreast.targets import process
from abreast.targets.base import Problem, Workers
from abreast.targets.mcp.references import is_secret
from abreast.targets.workspace import Workspace
from abreast.targets.workspace.place import NoWorkspace, drop_empty, new_folder
from abreast.targets.workspace.removal import remove_tree

LAST_LINE = 300  # characters


class Checks:
    """The checks of a run. What one says of a start is found out once for all variants that begin with it."""

    def __init__(self, shared: dict[str, Any]) -> None:
        self._checks: Sequence[Check] = shared.get("checks", ())
        self._before: dict[Hashable, asyncio.Future[Mapping[str, Any]]] = shared.setdefault("checks-before", {})

    def __bool__(self) -> bool:
        return bool(self._checks)

    @property
    def version(self) -> tuple[str, ...]:
        """What an answer depends on, for its key; nothing if there are none."""
        return tuple(digest(list(astuple(check))) for check in self._checks)

    def problems(self) -> list[Problem]:
        """Programs that are nowhere; one named by its path may be in a workspace."""
        return [
            Problem(
                f'scorer "{check.name}": the program {check.command[0]} is not found', "install it, or mend command"
            )
            for check in self._checks
            if not check.shell and "/" not in check.command[0] and shutil.which(check.command[0]) is None
        ]

    async def added_to(
        self,
        answer: Answer,
        workspace: Workspace,
        start: tuple[Hashable, Callable[[], Workspace]],
        environment: Mapping[str, str],
        workers: Workers,
    ) -> Answer:
        """The answer with how each of them went; what they print is kept as an artifact."""
        key, make = start
        results, artifacts = {}, dict(answer.artifacts)
        for check in self._checks:
            before = await self._of_start(check, key, make, environment, workers) if check.fails_before else {}
            told, output = await _run(check, workspace.path, environment, workers)
            results[check.name] = {**told, **before}
            artifacts[check.name] = output
        kept = {name: text for name, text in artifacts.items() if text}
        return replace(answer, data={**answer.data, "checks": results}, artifacts=kept)

    async def _of_start(
        self,
        check: Check,
        key: Hashable,
        make: Callable[[], Workspace],
        environment: Mapping[str, str],
        workers: Workers,
    ) -> Mapping[str, Any]:
        """Whoever comes first runs it; it goes on if that trial is ended."""
        whole = (check, key)
        if whole not in self._before:
            running = asyncio.ensure_future(_on_start(check, make, environment, workers))
            self._before[whole] = running
        return await asyncio.shield(self._before[whole])


async def _on_start(
    check: Check, make: Callable[[], Workspace], environment: Mapping[str, str], workers: Workers
) -> Mapping[str, Any]:
    try:
        workspace: Workspace = await workers.in_thread(make)
    except NoWorkspace as error:
        return {"problem": str(error)}
    try:
        told, _ = await _run(check, workspace.path, environment, workers)
    finally:
        await workers.in_thread(workspace.remove)
    if "problem" in told:
        return {"problem": told["problem"]}
    return {"before": "passed" if told["passed"] else "failed"}


async def _run(
    check: Check, folder: Path, environment: Mapping[str, str], workers: Workers
) -> tuple[dict[str, Any], str]:
    """How it went, and what it printed. Code of a model is run: it finds no keys."""
    scratch = new_folder("scratch")
    around = {name: value for name, value in environment.items() if not is_secret(name)}
    words = ["/bin/sh", "-c", *check.command] if check.shell else list(check.command)
    try:
        (scratch / "tmp").mkdir(0o700)
        around["TMPDIR"] = str(scratch / "tmp")
        running = process.run(words, scratch, folder, around, b"", process.new_mark(), workers)
        try:
            ended = await asyncio.wait_for(running, check.timeout_s)
        except TimeoutError:
            output = _printed(scratch)
            return {"passed": False, "told": f"took longer than {check.timeout_s:g} s"}, output
        except OSError as error:
            return {"problem": f"{words[0]}: {error.strerror or error}"}, ""
        output = _printed(scratch)
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")[:LAST_LINE]
        told = ended.told + (f": {last}" if last else "")
        return {"passed": ended.code == 0, "told": told, "seconds": round(ended.seconds, 3)}, output
    finally:
        await workers.in_thread(remove_tree, scratch)
        drop_empty(scratch)


def _printed(scratch: Path) -> str:
    parts = (process.tail(scratch / "stdout", 20_000), process.tail(scratch / "stderr", 20_000))
    return "\n".join(part for part in parts if part)
