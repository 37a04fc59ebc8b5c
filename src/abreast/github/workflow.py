"""The workflow that executes the action, read from environment variables."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from abreast.errors import BadInput
from abreast.output import echo
from abreast.store.address import is_url
from abreast.store.run_names import LONGEST_LABEL, POSITIONS

DEFAULT_STORE = ".abreast/results.db"


@dataclass(frozen=True, slots=True)
class Workflow:
    spec: str
    store: str  # a file or a URL
    branch: str  # the branch whose last run is the baseline
    pull: int | None  # number of the pull request
    temporary: Path  # this job's own folder

    @property
    def key(self) -> str:
        """Identifier that distinguishes several uses of the action in one workflow."""
        return _digest(self.spec, self.store)

    @property
    def label(self) -> str:
        """The label of the run."""
        return branch_label(self.branch) if self.pull is None else f"pull-{self.pull}"

    @property
    def output(self) -> Path:
        """The folder for reports."""
        return self.temporary / f"abreast-{self.key}"

    @property
    def body(self) -> Path:
        """The text of the comment."""
        return self.output / "comment.md"

    @property
    def base_store(self) -> Path:
        """Where the store of the base branch is kept until it is merged."""
        return self.temporary / f"abreast-{self.key}-base"

    @property
    def marker(self) -> str:
        """The first line of the comment; later executions find the comment by it."""
        return f"<!-- abreast {self.key} -->"

    def cache_prefix(self, pull: int | None) -> str:
        """Return the prefix of the cache keys of a pull request, or of its base branch."""
        scope = f"branch-{_digest(self.branch)}" if pull is None else f"pull-{pull}"
        return f"abreast-{self.key}-{scope}-"

    @property
    def is_cached(self) -> bool:
        """Whether the store is a file, which GitHub's cache keeps between executions."""
        return not is_url(self.store)


def current() -> Workflow:
    pull = _pull_number()
    branch = os.environ.get("GITHUB_BASE_REF") if pull is not None else os.environ.get("GITHUB_REF_NAME")
    return Workflow(
        spec=required("SPEC"),
        store=os.environ.get("STORE") or DEFAULT_STORE,
        branch=branch or "unknown",
        pull=pull,
        temporary=Path(required("RUNNER_TEMP")),
    )


def required(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise BadInput(f"{name} is not set", "run this as a step of the action, in a GitHub workflow")
    return value


def branch_label(branch: str) -> str:
    """Return the label of runs on a branch, which cannot be `latest` or `previous`."""
    return f"branch {branch}" if branch in POSITIONS else branch[:LONGEST_LABEL]


def log(line: str) -> None:
    """Print a line at once, before the output of later commands."""
    echo(line, flush=True)


def _pull_number() -> int | None:
    try:
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        return int(event["pull_request"]["number"])
    except (KeyError, TypeError, ValueError, OSError):
        return None


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
