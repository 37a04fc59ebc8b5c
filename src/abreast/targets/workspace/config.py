"""The `workspace:` of a variant, checked."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, suggestion
from abreast.model import Case
from abreast.targets.request import compile_template, names_of
from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.git.git_command import has_secret, without_secret

if TYPE_CHECKING:
    import jinja2

WITHOUT = "write without: [FILE, FOLDER], paths from its root, beside copy: or git:"
AFTER = "beside git: and commit:, the start of them all, write after: with the id of a case, or a template of it"
SETUP = 'write setup: "uv sync", or a list of words; for a shell: setup: "sh -c \'...\'"'
FIX = "write workspace: empty, workspace: {copy: FOLDER}, or workspace: {git: FOLDER_OR_URL, commit: REVISION}"


@dataclass(frozen=True, slots=True)
class Setting:
    """What trials begin with: nothing, a copied folder, or a commit of a repository."""

    copy: Path | None = None
    git: str | None = None
    commit: str = "HEAD"
    template: jinja2.Template | None = None
    without: tuple[str, ...] = ()  # paths that trials do not get
    after: str | None = None  # the case whose trial leaves what one begins with: a template over the input
    after_template: jinja2.Template | None = None
    setup: tuple[str, ...] = ()  # the words of a command that installs what trials need

    def before(self, case: Case) -> str:
        """The case before one; empty if there is none."""
        if self.after_template is None:
            return ""
        try:
            return self.after_template.render(names_of(case, case.input)).strip()
        except Exception as error:
            raise BadInput(f"case {case.id}: workspace: after {self.after!r}: {error}", AFTER) from error

    def revision(self, case: Case, value: Any) -> str:
        if self.template is None:
            return self.commit
        try:
            return self.template.render(names_of(case, value)).strip()
        except Exception as error:
            raise NoWorkspace(f"workspace: commit {self.commit!r}: {error}") from error


def read_setting(where: str, setting: Any, base: Path) -> Setting:
    """Raises BadInput for whatever is no workspace."""
    where = f"{where}: workspace"
    if setting is None or setting == "empty":
        return Setting()
    if isinstance(setting, str):
        near = suggestion(setting, ["empty"])
        raise BadInput(f'{where}: "{setting}" is none{near if "did you mean" in near else ""}', FIX)
    if not isinstance(setting, Mapping):
        raise BadInput(f"{where}: {setting!r} is none", FIX)
    known = ("copy", "git", "commit", "without", "after", "setup")
    for key in setting:
        if key not in known:
            raise BadInput(f'{where}: unknown key "{key}"{suggestion(str(key), known)}', FIX)
    without = _left_out(where, setting.get("without"))
    for key, value in setting.items():
        if key in ("without", "setup"):
            continue
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            quoted = f', in quotes: {key}: "{value}"' if isinstance(value, int | float) else ""
            raise BadInput(f"{where}: {key} must be text, got {value!r}", f"write it as text{quoted}")
    if ("copy" in setting) == ("git" in setting):
        raise BadInput(f"{where}: one of copy and git is needed, and only one", FIX)
    if "copy" in setting:
        for key in ("commit", "after", "setup"):
            if key in setting:
                fix = AFTER if key == "after" else f"write git: instead of copy:, or remove {key}"
                raise BadInput(f"{where}: {key} is for git, not for copy", fix)
        return Setting(copy=(base / Path(setting["copy"]).expanduser()).absolute(), without=without)
    commit = setting.get("commit", "HEAD").strip()
    if commit.startswith("-"):
        raise BadInput(f'{where}: commit "{commit}" is no revision', "write a commit, a branch or a tag")
    if "::" in setting["git"].partition("/")[0]:
        raise BadInput(
            f'{where}: git "{setting["git"]}" names a program', "write a folder, https://…, ssh://… or file://…"
        )
    if has_secret(setting["git"]):
        raise BadInput(
            f"{where}: git {without_secret(setting['git'])} has a password before its host, which would be stored",
            "leave it out, and let git know it: git help credentials",
        )
    template = compile_template(f"{where}: commit", commit) if "{{" in commit or "{%" in commit else None
    after = setting.get("after")
    if after is not None and without:
        raise BadInput(f"{where}: after and without do not go together", "leave one of them out")
    before = None if after is None else compile_template(f"{where}: after", after)
    return Setting(
        git=setting["git"].strip(),
        commit=commit,
        template=template,
        without=without,
        after=after,
        after_template=before,
        setup=_setup(where, setting.get("setup"), base),
    )


def _setup(where: str, value: Any, base: Path) -> tuple[str, ...]:
    """The words of a command; no shell looks at them."""
    if value is None:
        return ()
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadInput(f"{where}: setup: {str(error).lower()}", SETUP) from None
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) and word for word in words):
        raise BadInput(f"{where}: setup must be a command, got {value!r}", SETUP)
    return tuple(word.replace("{folder}", str(base)) for word in words)


def _left_out(where: str, value: Any) -> tuple[str, ...]:
    """Files and folders by their paths from the root, in plain form; what leads out of it is none."""
    found = []
    for item in [] if value is None else value if isinstance(value, list | tuple) else [value]:
        plain = posixpath.normpath(item) if isinstance(item, str) and item.strip() and "\0" not in item else "."
        if plain == "." or plain.startswith("/") or plain.split("/")[0] in ("..", ".git"):
            raise BadInput(f"{where}: without: {item!r} is no path in it", WITHOUT)
        found.append(plain)
    return tuple(dict.fromkeys(found))
