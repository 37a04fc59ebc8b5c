"""Glob matching by parts of the path, so that no glob is slow, however many stars it has."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

MOST_FORMS = 64  # alternatives from braces
SPECIAL = frozenset("*?[{")


def is_glob(text: str) -> bool:
    """Whether the text has a wildcard."""
    return not SPECIAL.isdisjoint(text)


def matcher(glob: str) -> Callable[[str], bool]:
    """Return a function that checks whether a path matches. A glob without a slash matches file names in any folder."""
    forms = [_parts(form) for form in _forms(glob)]
    return lambda path: any(_matches(form, path.split("/")) for form in forms)


def _parts(form: str) -> list[str]:
    parts = [part for part in form.split("/") if part not in ("", ".")]
    if "/" not in form.removeprefix("./").rstrip("/"):
        parts = ["**", *parts]
    return [part for at, part in enumerate(parts) if part != "**" or at == 0 or parts[at - 1] != "**"]


def _matches(parts: list[str], path: list[str]) -> bool:
    """Whether a pattern matches a path. `ends` are the possible numbers of parts matched so far."""
    ends = _skip_stars(parts, {0})
    for name in path:
        open_ends = {end for end in ends if end < len(parts)}
        matched = {end for end in open_ends if parts[end] == "**"}
        matched |= {end + 1 for end in open_ends - matched if fnmatchcase(name, parts[end])}
        ends = _skip_stars(parts, matched)
    return len(parts) in ends


def _skip_stars(parts: list[str], ends: set[int]) -> set[int]:
    """`**` also matches no part at all."""
    return ends | {end + 1 for end in ends if end < len(parts) and parts[end] == "**"}


def _forms(glob: str) -> list[str]:
    """Expand `a.{b,c}` to `a.b` and `a.c`, innermost braces first, up to a limit."""
    forms = [glob]
    done: list[str] = []
    while forms and len(forms) + len(done) <= MOST_FORMS:
        form = forms.pop()
        end = form.find("}")
        start = form.rfind("{", 0, end) if end >= 0 else -1
        if start < 0:
            done.append(form)
        else:
            forms += [form[:start] + choice + form[end + 1 :] for choice in form[start + 1 : end].split(",")]
    return done + forms
