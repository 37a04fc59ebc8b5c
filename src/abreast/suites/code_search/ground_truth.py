"""Whether the files that ground truths name are in what trials get."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.scorers.retrieval.names import path_of
from abreast.scorers.retrieval.truth import as_mapping
from abreast.suites.code_search.finding import placed_cases
from abreast.targets.workspace.git import git_command

MOST_SHOWN = 10  # cases in one message


def refuse_absent_files(files: list[Path], categories: list[str], workspace: Mapping[str, Any]) -> None:
    """Raise `BadInput` if a ground truth names a file or folder that the workspace does not have: no agent could find
    it, and every variant would be scored too low."""
    exists = _lookup(workspace)
    problems = []
    for place, case in placed_cases(files, categories):
        expected = as_mapping(case.expected)
        named = dict.fromkeys(map(path_of, (*(expected.get("files") or ()), *(expected.get("lines") or ()))))
        missing = [path for path in named if not exists(path)]
        if missing:
            problems.append(f"{place}: {case.id or 'case'}: {', '.join(missing)}")
    if problems:
        where = f"at {workspace['commit']}" if "git" in workspace else f"in {workspace['copy']}"
        more = [f"and {len(problems) - MOST_SHOWN} more cases"] if len(problems) > MOST_SHOWN else []
        raise BadInput(
            "\n".join([f"ground_truth names files that do not exist {where}:", *problems[:MOST_SHOWN], *more]),
            "correct the paths, or choose the commit they were written for: --commit REV",
        )


def _lookup(workspace: Mapping[str, Any]) -> Callable[[str], bool]:
    if "git" not in workspace:
        root = Path(workspace["copy"])
        return lambda path: os.path.lexists(root / path)
    try:
        listed = git_command.run_as_user("-C", workspace["git"], "ls-tree", "-r", "-t", "-z", workspace["commit"], "--")
    except git_command.GitFailed:  # no commit, or none of this name: preparing the workspace reports it
        return lambda path: True
    entries = [entry.partition(b"\t") for entry in listed.split(b"\0") if entry]
    there = {os.fsdecode(path) for _, _, path in entries}
    modules = {os.fsdecode(path) for about, _, path in entries if b" commit " in about}
    return lambda path: path in there or any(path.startswith(f"{module}/") for module in modules)
