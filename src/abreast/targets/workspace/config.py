"""Parse and check the `workspace:` of a variant."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, did_you_mean, suggestion
from abreast.model import Case
from abreast.targets.request import compile_template, names_of
from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.git.git_command import has_credentials, strip_credentials

if TYPE_CHECKING:
    import jinja2

WITHOUT_FIX = "use `without: [FILE, FOLDER]` next to `copy:` or `git:`, with paths relative to its root"
AFTER_FIX = "set `after:` to the id of a case, or a template of it, next to `git:` and `commit:`"
SETUP_FIX = 'use `setup: "uv sync"` or a list of words; for a shell: `setup: "sh -c \'...\'"`'
FIX = "use workspace: empty, workspace: {copy: FOLDER}, or workspace: {git: FOLDER_OR_URL, commit: REVISION}"
KEYS = ("copy", "git", "commit", "without", "after", "setup")


@dataclass(frozen=True, slots=True)
class WorkspaceConfig:
    copy: Path | None = None
    git: str | None = None
    commit: str = "HEAD"
    template: jinja2.Template | None = None
    without: tuple[str, ...] = ()  # paths to hide from trials
    after: str | None = None  # the case whose final state a trial starts from: a template over the input
    after_template: jinja2.Template | None = None
    setup: tuple[str, ...] = ()  # the command that installs what trials need

    def previous_case(self, case: Case) -> str:
        """Return the id of the case that this one continues; empty if there is none."""
        if self.after_template is None:
            return ""
        try:
            return self.after_template.render(names_of(case, case.input)).strip()
        except Exception as error:
            raise BadInput(f"case {case.id}: workspace: after {self.after!r}: {error}", AFTER_FIX) from error

    def revision(self, case: Case, value: Any) -> str:
        if self.template is None:
            return self.commit
        try:
            return self.template.render(names_of(case, value)).strip()
        except Exception as error:
            raise NoWorkspace(f"workspace: commit {self.commit!r}: {error}") from error


def parse_workspace(where: str, setting: Any, base: Path) -> WorkspaceConfig:
    """Parse a `workspace:` setting. Raises BadInput."""
    where = f"{where}: workspace"
    if setting is None or setting == "empty":
        return WorkspaceConfig()
    if isinstance(setting, str):
        raise BadInput(f'{where}: "{setting}" is not a workspace{did_you_mean(setting, ["empty"])}', FIX)
    if not isinstance(setting, Mapping):
        raise BadInput(f"{where}: {setting!r} is not a workspace", FIX)
    for key in setting:
        if key not in KEYS:
            raise BadInput(f'{where}: unknown key "{key}"{suggestion(str(key), KEYS)}', FIX)
    without = _excluded_paths(where, setting.get("without"))
    for key, value in setting.items():
        if key in ("without", "setup"):
            continue
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            quoted = f', in quotes: {key}: "{value}"' if isinstance(value, int | float) else ""
            raise BadInput(f"{where}: {key} must be text, got {value!r}", f"write it as text{quoted}")
    if ("copy" in setting) == ("git" in setting):
        raise BadInput(f"{where}: exactly one of copy and git is required", FIX)
    if "copy" in setting:
        for key in ("commit", "after", "setup"):
            if key in setting:
                fix = AFTER_FIX if key == "after" else f"use git: instead of copy:, or remove {key}"
                raise BadInput(f"{where}: {key} needs git, not copy", fix)
        return WorkspaceConfig(copy=(base / Path(setting["copy"]).expanduser()).absolute(), without=without)
    commit = setting.get("commit", "HEAD").strip()
    if commit.startswith("-"):
        raise BadInput(f'{where}: commit "{commit}" is not a revision', "use a commit, a branch or a tag")
    if "::" in setting["git"].partition("/")[0]:
        fix = "use a folder, https://…, ssh://… or file://…"
        raise BadInput(f'{where}: git "{setting["git"]}" runs a remote helper program', fix)
    if has_credentials(setting["git"]):
        raise BadInput(
            f"{where}: git {strip_credentials(setting['git'])} contains a password or token, which would be stored",
            "remove it, and let git look it up: `git help credentials`",
        )
    after = setting.get("after")
    if after is not None and without:
        raise BadInput(f"{where}: after and without cannot be combined", "remove one of them")
    return WorkspaceConfig(
        git=setting["git"].strip(),
        commit=commit,
        template=compile_template(f"{where}: commit", commit) if "{{" in commit or "{%" in commit else None,
        without=without,
        after=after,
        after_template=None if after is None else compile_template(f"{where}: after", after),
        setup=_setup_command(where, setting.get("setup"), base),
    )


def _setup_command(where: str, value: Any, base: Path) -> tuple[str, ...]:
    if value is None:
        return ()
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadInput(f"{where}: setup: {str(error).lower()}", SETUP_FIX) from None
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) and word for word in words):
        raise BadInput(f"{where}: setup must be a command, got {value!r}", SETUP_FIX)
    return tuple(word.replace("{folder}", str(base)) for word in words)


def _excluded_paths(where: str, value: Any) -> tuple[str, ...]:
    """Normalised paths relative to the root, all inside it."""
    paths = []
    for item in [] if value is None else value if isinstance(value, list | tuple) else [value]:
        path = posixpath.normpath(item) if isinstance(item, str) and item.strip() and "\0" not in item else "."
        if path == "." or path.startswith("/") or path.split("/")[0] in ("..", ".git"):
            raise BadInput(f"{where}: without: {item!r} is not a path inside it", WITHOUT_FIX)
        paths.append(path)
    return tuple(dict.fromkeys(paths))
