"""What a trial left, kept so that another trial can begin with it: a commit, and the objects that it adds to the start.

Everything that the difference of a workspace looks at is carried exactly: contents of any bytes, deletions, links, the
executable bit. Of `.git` nothing is: whatever the agent committed is one commit of ours. What is ignored is left out.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.files.scan import SETTINGS, Looked
from abreast.targets.workspace.git import git_command
from abreast.targets.workspace.git.baseline import Start

MOST = 64_000_000  # bytes of changed files in one trial, and of what a chain of them adds
_GONE = b"000000"
_RAW = ("diff-index", "--cached", "--raw", "--no-abbrev", "--no-renames", "-z")
_AGENT = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "agent"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "agent@localhost"),
}


class NotCarried(NoWorkspace):
    """What a trial should begin with is not known exactly. It does not begin with anything else."""

    kind = "not_carried"


@dataclass(frozen=True, slots=True)
class State:
    """A commit, and a pack of what it has beside the commit that the first of the trials began with.

    >>> State.of_text(State("c0ffee" * 6 + "c0ff", b"objects").as_text()).objects
    b'objects'
    """

    commit: str
    objects: bytes

    def as_text(self) -> str:
        return f"{self.commit}\n{base64.b64encode(self.objects).decode('ascii')}"

    @classmethod
    def of_text(cls, text: str) -> State:
        commit, _, objects = text.partition("\n")
        if not re.fullmatch(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", commit):
            raise NotCarried("what is stored is no state of a workspace")
        try:
            return cls(commit, base64.b64decode(objects, validate=True))
        except binascii.Error:
            raise NotCarried("what is stored of a workspace was changed since") from None


@dataclass(frozen=True, slots=True)
class Carried:
    """What a trial begins with: the state that another one left, and the case of that; nothing, if it is the first."""

    case: str | None = None
    state: State | None = None


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a state is kept: since which commit, under which words, and what must not be in it (the name of a key)."""

    since: str
    words: str
    secret_in: Callable[[bytes], str | None]


def state_of(start: Start, looked: Looked, environment: Mapping[str, str], scratch: Path, keeping: Keeping) -> State:
    """The state that the index of that environment says. Raises NotCarried if it would not be exact."""
    told = git_command.run(*_RAW, start.tree, settings=SETTINGS, environment=environment)
    parts = [part for part in told.split(b"\0") if part]
    changed = {name: what.split() for what, name in zip(parts[::2], parts[1::2], strict=True)}
    _refuse_inexact(looked, changed)
    commit = start.commit
    if changed:
        _refuse_contents(changed, environment, keeping)
        commit = _committed(start, changed, {**environment, "GIT_INDEX_FILE": str(scratch / "kept")}, keeping.words)
    if commit == keeping.since:
        return State(commit, b"")
    objects = git_command.run(
        *("pack-objects", "--revs", "--thin", "--stdout", "--quiet", "--delta-base-offset"),
        environment=environment,
        stdin=f"{commit}\n^{keeping.since}\n".encode(),
    )
    if len(objects) > MOST:
        raise NotCarried(f"what was changed since the first of them is more than {MOST / 1e6:,.0f} MB")
    return State(commit, objects)


def _refuse_inexact(looked: Looked, changed: Mapping[bytes, list[bytes]]) -> None:
    if looked.incomplete:
        raise NotCarried("some files could not be read, or there are too many new ones")
    for name, _, _ in looked.named:
        if name in changed:
            raise NotCarried(f"{os.fsdecode(name)!r} is too large")


def _refuse_contents(changed: Mapping[bytes, list[bytes]], environment: Mapping[str, str], keeping: Keeping) -> None:
    """Too much of it, or a key in it: what is stored can be read by others."""
    asked = b"".join(what[3] + b"\n" for what in changed.values() if what[1] != _GONE)
    sizes = git_command.run("cat-file", "--batch-check=%(objectsize)", environment=environment, stdin=asked).split()
    if sum(map(int, sizes)) > MOST:
        raise NotCarried(f"the changed files are more than {MOST / 1e6:,.0f} MB")
    contents = git_command.run("cat-file", "--batch", environment=environment, stdin=asked)
    key = keeping.secret_in(contents) or keeping.secret_in(b"\n".join(changed))
    if key is not None:
        raise NotCarried(f"{key} is written into it, and keys are not stored")


def _committed(start: Start, changed: Mapping[bytes, list[bytes]], environment: Mapping[str, str], words: str) -> str:
    """A commit after the one of the start, of its date, so that equal states have equal names."""
    git_command.run("read-tree", start.commit, environment=environment)
    gone = [name for name, what in changed.items() if what[1] == _GONE]
    nothing = b"0" * len(start.commit)
    lines = [b"0 " + nothing + b"\t" + name + b"\0" for name in gone]
    lines += [what[1] + b" " + what[3] + b"\t" + name + b"\0" for name, what in changed.items() if name not in gone]
    update = ("update-index", "--replace", "-z", "--index-info")
    git_command.run(*update, environment=environment, stdin=b"".join(lines))
    tree = git_command.run("write-tree", environment=environment).decode().strip()
    told = git_command.run("show", "-s", "--format=%ct", start.commit, environment=environment)
    date = f"@{git_command.seconds(told)} +0000"
    made = git_command.run(
        *("commit-tree", tree, "-p", start.commit, "-F", "-"),
        environment={**environment, **_AGENT, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
        stdin=words.encode("utf-8", "replace"),
    )
    return made.decode().strip()
