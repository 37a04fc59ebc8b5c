"""Steps of the action: name the caches, and keep the store of the base branch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from abreast.github.workflow import current
from abreast.report.formats.github_commands import write_outputs


def prepare() -> int:
    """Set the outputs that name the store and its caches."""
    workflow = current()
    outputs = {"store": workflow.store, "path": f"{workflow.store}*", "folder": str(workflow.output)}
    if workflow.is_cached:
        Path(workflow.store).parent.mkdir(parents=True, exist_ok=True)
        own = workflow.cache_prefix(workflow.pull)
        execution = f"{os.environ.get('GITHUB_RUN_ID', '0')}-{os.environ.get('GITHUB_RUN_ATTEMPT', '1')}"
        outputs |= {"own": own, "key": f"{own}{execution}"}
        outputs |= {"base": workflow.cache_prefix(None)} if workflow.pull is not None else {}
    write_outputs(**outputs)
    return 0


def keep_base() -> int:
    """Move the restored store of the base branch aside, so that the pull request's own can be restored."""
    workflow = current()
    move(Path(workflow.store), workflow.base_store)
    return 0


def move(store: Path, folder: Path) -> None:
    """Move a store and its journal to another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in store.parent.glob(f"{store.name}*"):
        shutil.move(path, folder / path.name)
