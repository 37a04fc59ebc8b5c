"""Which paths a glob means. By parts of the path, so that no glob takes long, however many stars it has."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

MOST_FORMS = 64  # that braces may stand for

SPECIAL = frozenset("*?[{")


def is_glob(text: str) -> bool:
    """Whether it has a character that stands for others."""
    return not SPECIAL.isdisjoint(text)


def matcher(glob: str) -> Callable[[str], bool]:
    """Whether a path with forward slashes is meant. Without a slash the name of a file counts, in whatever folder."""
    forms = [_parts(form) for form in _forms(glob)]
    return lambda path: any(_fits(form, path.split("/")) for form in forms)


def _parts(form: str) -> list[str]:
    parts = [part for part in form.split("/") if part not in ("", ".")]
    if "/" not in form.removeprefix("./").rstrip("/"):
        parts = ["**", *parts]
    return [part for place, part in enumerate(parts) if part != "**" or place == 0 or parts[place - 1] != "**"]


def _fits(parts: list[str], path: list[str]) -> bool:
    """`there` holds how many parts of the pattern may be used up, after each part of the path."""
    there = _past_stars(parts, {0})
    for name in path:
        ahead = {place for place in there if place < len(parts) and parts[place] == "**"}
        ahead |= {p + 1 for p in there if p < len(parts) and parts[p] != "**" and fnmatchcase(name, parts[p])}
        there = _past_stars(parts, ahead)
    return len(parts) in there


def _past_stars(parts: list[str], places: set[int]) -> set[int]:
    """`**` may stand for nothing."""
    return places | {place + 1 for place in places if place < len(parts) and parts[place] == "**"}


def _forms(glob: str) -> list[str]:
    """`a.{b,c}` is `a.b` and `a.c`; innermost braces first, and not more than a few."""
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
