"""Check whether the measured code changed since the previous run, and whether it is committed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.code.parts import CodeParts
from abreast.code.reference import references_in
from abreast.plan import git
from abreast.preflight.checks.cases import relative_path
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed
from abreast.preflight.previous_run import PreviousRun
from abreast.targets import Target
from abreast.text import many

LINES = 10  # most changed files listed
MOST_NAMED = 5  # files in a message


@dataclass(frozen=True, slots=True)
class VariantChanges:
    code: tuple[str, ...]  # clauses that end before "changed"
    variants_with_new_code: tuple[str, ...]
    params: tuple[str, ...]  # sentences
    new: tuple[str, ...]


def check_code(context: Context) -> Finding:
    previous = context.previous
    if previous is None:
        return Finding("code", "note", "first run of this experiment in this store")
    changes = variant_changes(context, previous)
    commits = _commits(context, previous)
    summary, lines = (f" ({commits.sentence})", commits.lines) if commits else ("", ())
    if changes.code:
        variants = changes.variants_with_new_code
        effect = f"{listed(variants)} will run again" if variants else "nothing is reused"
        fix = f"run `git diff {commits.old} --` to see the change" if commits and commits.is_known else ""
        message = f"{'; '.join(changes.code[:2])} changed since {previous.run}{summary}: {effect}"
        return Finding("code", "warn", message, fix, (*changes.code[2:], *changes.params, *lines))
    if changes.params:
        message = f"{'; '.join(changes.params[:2])} since {previous.run}: earlier rows are not reused"
        return Finding("code", "note", message, "", (*changes.params[2:], *lines))
    if changes.new:
        return Finding("code", "note", f"new since {previous.run}: {listed(changes.new)}", "", lines)
    if commits and (commits.files or not commits.is_known):
        message = f"measured code did not change since {previous.run}; other files did{summary}"
        return Finding("code", "note", message, "", lines)
    return Finding("code", "pass", f"nothing changed since {previous.run}", "", lines)


def variant_changes(context: Context, previous: PreviousRun) -> VariantChanges:
    """Compare the variants with those of the same name in the previous run."""
    before = {variant.name: variant for variant in previous.variants}
    digests = {variant.digest for variant in previous.variants}
    changed_code = dict(differences(previous.provenance.get("code") or {}, context.environment.code))
    versions: Mapping[str, str] = previous.provenance.get("target_versions") or {}
    code, params, new = dict[str, None](), list[str](), list[str]()
    variants: list[str] = []
    for index, variant in enumerate(context.plan.variants):
        old, target, digest = before.get(variant.name), context.targets[index], context.plan.digests[index]
        if old is None:
            new += [variant.name] if digest not in digests else []
            continue
        if old.digest == digest:
            continue
        now = context.columns.params[index]
        measured = (target.name, *references_in(now.get("transform")))
        names = [name for name in changed_code if name in measured]
        if old.target != target.name:
            params.append(f"{variant.name}: target changed from {old.target} to {target.name}")
        elif names:
            variants.append(variant.name)
            code |= dict.fromkeys(changed_code[name] for name in names)
        elif old.params != now:
            keys = _changed_keys(old.params, now)
            noun = "parameter" if len(keys) == 1 else "parameters"
            params.append(f"{variant.name}: {noun} {listed(keys)} changed")
        elif old.digest and versions.get(variant.name) != target.version:  # empty if removed from the cache
            variants.append(variant.name)
            code[_indirect_change(variant.name, target)] = None
        elif old.digest:
            params.append(f"{variant.name}: version changed")
    return VariantChanges(tuple(code), tuple(variants), tuple(params), tuple(new))


def _indirect_change(variant: str, target: Target) -> str:
    """Describe changes outside the spec, in words that end before "changed"."""
    if target.function is not None:
        return f"code of {variant}"
    return f"environment of {target.name} (its address, program, servers or workspace)"


def differences(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, CodeParts]) -> Iterator[tuple[str, str]]:
    """Yield the name of each changed function with its changes, in words that end before "changed"."""
    for name, parts in now.items():
        old = before.get(name)
        if old is None:
            continue
        short = name.rpartition(":")[2]
        own_module = name.split(":")[1] if name.count(":") == 2 else ""
        old_packages = old.get("packages") or {}
        modules = sorted(_changed_keys(old.get("modules") or {}, parts.modules))
        packages = sorted(_changed_keys(old_packages, parts.packages))
        if old.get("function") != parts.own:
            others = [_file(module) for module in modules if module != own_module]
            yield name, f"function {short}" + (f" and {listed(others)}" if others else "")
        elif modules:
            how = f"module of {short}" if modules == [own_module] else f"used by {short}"
            yield name, f"{listed(list(map(_file, modules)))} ({how})"
        elif packages:
            versions = [
                f"{package} ({old_packages.get(package, 'none')} → {parts.packages.get(package, 'none')})"
                for package in packages
            ]
            yield name, f"{listed(versions)}, used by {short},"


def _changed_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [name for name in {**before, **now} if name not in before or name not in now or before[name] != now[name]]


def _file(module: str) -> str:
    origin = str(getattr(sys.modules.get(module), "__file__", None) or "")
    return module.replace(".", "/") + ("/__init__.py" if Path(origin).name == "__init__.py" else ".py")


@dataclass(frozen=True, slots=True)
class CommitChanges:
    old: str
    is_known: bool
    files: int
    sentence: str
    lines: tuple[str, ...]


def _commits(context: Context, previous: PreviousRun) -> CommitChanges | None:
    repository, old = context.environment.repository, previous.provenance.get("commit")
    if repository is None or repository.commit is None or not old or old == repository.commit:
        return None
    return changes_since(repository, str(old), context.environment.base)


def changes_since(repository: git.GitState, old: str, base: Path) -> CommitChanges:
    """Compare an old commit with the current one, as in `git diff --stat`."""
    now = repository.commit or "HEAD"
    step = f"commit {old[:7]} → {now[:7]}"
    files = git.changes_between(repository, old, now)
    if files is None:
        return CommitChanges(old[:12], False, 0, f"{step}; git no longer knows the old commit", ())
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    lines = [f"{relative_path(file.path, base)}  +{file.added:,} −{file.removed:,}" for file in files[:LINES]]
    sentence = f"{step}: {many(len(files), 'file')}, +{added:,} −{removed:,}"
    return CommitChanges(old[:12], True, len(files), sentence, _limited(lines, len(files)))


def _limited(lines: Sequence[str], total: int) -> tuple[str, ...]:
    rest = total - len(lines)
    return (*lines, *([f"and {many(rest, 'file')} more"] if rest else []))


def check_repository(context: Context) -> Finding:
    """Warn if a file of the experiment itself is not committed, except in a first or a debug run."""
    repository, base = context.environment.repository, context.environment.base
    if repository is None:
        return Finding(
            "git", "note", "not in a git repository: no commit is recorded", "run `git init`", is_check_only=True
        )
    if repository.commit is None:
        return Finding("git", "note", "nothing is committed yet", "run `git add` and `git commit`", is_check_only=True)
    where = f"on {repository.branch}" if repository.branch else "on no branch"
    at = f"{repository.commit[:7]} {where}"
    if repository.changed is None:
        return Finding("git", "note", f"{at}; `git status` took too long", is_check_only=True)
    tracked = {file.path for file in context.environment.dvc_files}
    own = git.uncommitted(repository, [file for file in context.environment.own_files if file not in tracked])
    changed = [relative_path(file, base) for file in repository.changed]
    details = _limited(changed[:MOST_NAMED], len(changed))
    if own:
        return _not_committed(context, at, own, details)
    if changed:
        message = f"{at}; {many(len(changed), 'other file')} not committed: {listed(changed)}"
        return Finding("git", "note", message, "", details, is_check_only=True)
    return Finding("git", "pass" if repository.branch else "note", f"{at}, everything committed", is_check_only=True)


def _not_committed(context: Context, at: str, own: list[Path], details: tuple[str, ...]) -> Finding:
    names = [relative_path(file, context.environment.base) for file in own]
    are = "is" if len(names) == 1 else "are"
    message = f"{listed(names)} {are} not committed: the measured code differs from {at}"
    is_trial = context.previous is None or context.settings.is_debug
    words = " ".join(shlex.quote(relative_path(file, Path.cwd())) for file in own[:MOST_NAMED])
    fix = f"run `git add {words}{' ...' if len(own) > MOST_NAMED else ''} && git commit`"
    lines = (*names[:MOST_NAMED], *(name for name in details if name not in names[:MOST_NAMED]))
    return Finding("git", "note" if is_trial else "warn", message, fix, lines, is_check_only=is_trial)
