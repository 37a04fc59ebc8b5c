"""Did the code that is measured change since the last run of this experiment?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.code.parts import Parts
from abreast.code.reference import references_in
from abreast.plan import git
from abreast.preflight import files
from abreast.preflight.context import Context
from abreast.preflight.earlier import Earlier
from abreast.preflight.finding import Finding, listed, many
from abreast.targets import Target

LINES = 10  # of what git says changed


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the contenders: the variants whose code changed and in what, those with other parameters only,
    and those that are new."""

    code: tuple[str, ...]  # sentences without their end
    of_code: tuple[str, ...]  # variants
    params: tuple[str, ...]  # sentences
    new: tuple[str, ...]


def check(context: Context) -> Finding:
    earlier = context.earlier
    if earlier is None:
        return Finding("code", "note", "first run of this experiment in this store")
    found = changes(context, earlier)
    since = _commits(context, earlier)
    told, lines = "", tuple(since.lines) if since else ()
    if since:
        told = f" ({since.sentence})"
    if found.code:
        anew = f"{listed(found.of_code)} will answer anew" if found.of_code else "nothing of it is reused"
        fix = f"see it: git diff {since.old} --" if since and since.known else ""
        message = f"{'; '.join(found.code[:2])} changed since {earlier.run}{told}: {anew}"
        return Finding("code", "warn", message, fix, (*found.code[2:], *found.params, *lines))
    if found.params:
        message = f"{'; '.join(found.params[:2])} since {earlier.run}: the rows of before are not reused"
        return Finding("code", "note", message, "", (*found.params[2:], *lines))
    if found.new:
        return Finding("code", "note", f"new since {earlier.run}: {listed(found.new)}", "", lines)
    if since and (since.files or not since.known):
        message = f"what is measured did not change since {earlier.run}; other files did{told}"
        return Finding("code", "note", message, "", lines)
    return Finding("code", "pass", f"nothing changed since {earlier.run}", "", lines)


def changes(context: Context, earlier: Earlier) -> Changes:
    """Variants of before and of now, by name."""
    before = {variant.name: variant for variant in earlier.variants}
    known = {variant.digest for variant in earlier.variants}
    told = dict(differences(earlier.provenance.get("code") or {}, context.surroundings.code))
    versions: Mapping[str, str] = earlier.provenance.get("target_versions") or {}
    code, params, new = dict[str, None](), list[str](), list[str]()
    of_code: list[str] = []
    for index, variant in enumerate(context.plan.variants):
        old, target, digest = before.get(variant.name), context.targets[index], context.plan.digests[index]
        if old is None:
            new += [variant.name] if digest not in known else []
            continue
        if old.digest == digest:
            continue
        measured = (target.name, *references_in(context.params[index].get("transform")))
        names = [name for name in told if name in measured]
        if old.target != target.name:
            params.append(f"{variant.name} changed its target from {old.target} to {target.name}")
        elif names:
            of_code.append(variant.name)
            code |= dict.fromkeys(told[name] for name in names)
        elif old.params != context.params[index]:
            params.append(
                f"{variant.name} changed its parameters: {listed(_different(old.params, context.params[index]))}"
            )
        elif old.digest and versions.get(variant.name) != target.version:  # empty: cleared from the cache
            of_code.append(variant.name)
            code[_beneath(variant.name, target)] = None
        elif old.digest:
            params.append(f"{variant.name} has another version")
    return Changes(tuple(code), tuple(of_code), tuple(params), tuple(new))


def _beneath(variant: str, target: Target) -> str:
    """What is not written in the spec and counts all the same."""
    if target.function is not None:
        return f"what {variant} is made of"
    return f"what {target.name} runs on (its address, program, servers or workspace)"


def differences(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Parts]) -> Iterator[tuple[str, str]]:
    """For each function that is not what it was, what of it changed, in words that end before `changed`."""
    for name, parts in now.items():
        old = before.get(name)
        if old is None:
            continue
        short = name.rpartition(":")[2]
        modules = _other(old.get("modules") or {}, parts.modules)
        packages = _other(old.get("packages") or {}, parts.packages)
        if old.get("function") != parts.own:
            own = name.split(":")[1] if name.count(":") == 2 else ""
            others = [module for module in modules if module != own]
            also = f" and {listed([_file(module) for module in others])}" if others else ""
            yield name, f"the function {short} itself{also}"
        elif modules:
            own = name.split(":")[1] if name.count(":") == 2 else ""
            how = f"beside {short}" if modules == [own] else f"used by {short}"
            yield name, f"{listed([_file(module) for module in modules])} ({how})"
        elif packages:
            told = [
                f"{each} ({(old.get('packages') or {}).get(each, 'none')} → {parts.packages.get(each, 'none')})"
                for each in packages
            ]
            yield name, f"{listed(told)}, used by {short},"


def _other(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _file(module: str) -> str:
    origin = str(getattr(sys.modules.get(module), "__file__", None) or "")
    return module.replace(".", "/") + ("/__init__.py" if Path(origin).name == "__init__.py" else ".py")


def _different(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    names = dict.fromkeys([*before, *now])
    return [name for name in names if (name in before) != (name in now) or before[name] != now[name]]


@dataclass(frozen=True, slots=True)
class Since:
    """What git says of the time since a commit."""

    old: str
    known: bool
    files: int
    sentence: str
    lines: tuple[str, ...]


def _commits(context: Context, earlier: Earlier) -> Since | None:
    """None if there is nothing to tell: no repository then or now, or the same commit."""
    repository, old = context.surroundings.repository, earlier.provenance.get("commit")
    if repository is None or repository.commit is None or not old or old == repository.commit:
        return None
    return since(repository, str(old), context.surroundings.base)


def since(repository: git.State, old: str, base: Path) -> Since:
    """From an old commit to the one of now: a sentence, and the first lines of what changed."""
    now = repository.commit or "HEAD"
    step = f"commit {old[:7]} → {now[:7]}"
    found = git.between(repository, old, now)
    if found is None:
        return Since(old[:12], False, 0, f"{step}; git does not know the old one any more", ())
    added, removed = sum(each.added for each in found), sum(each.removed for each in found)
    lines = stat(found, base)
    return Since(old[:12], True, len(found), f"{step}: {many(len(found), 'file')}, +{added:,} −{removed:,}", lines)


def stat(found: Sequence[git.Change], base: Path) -> tuple[str, ...]:
    """`git diff --stat` in words, the first lines of it."""
    told = [f"{files.shown(each.path, base)}  +{each.added:,} −{each.removed:,}" for each in found[:LINES]]
    rest = len(found) - len(told)
    return (*told, *([f"and {many(rest, 'file')} more"] if rest else []))
