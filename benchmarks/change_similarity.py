"""Calibrate the scorer `change_similarity` on the pull requests of any git repositories.

    python -m benchmarks.change_similarity REPOSITORY... [--limit 14] [--written FOLDER] [--json FILE]

Each pull request becomes the human change, and variants of it become the agent's. Prints the distribution of the score
for each kind of variant, and pull requests in which two kinds are in an order that a person would not choose.
`--written` names a folder with equivalent changes written by hand, one `git diff` per file, called `COMMIT.diff`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path

from abreast.languages import language_of
from abreast.model import Answer, Case
from abreast.scorers import build

Files = dict[str, str]
Edit = tuple[int, list[str], list[str]]
_DEFINED = re.compile(
    r"\b(?:def|class|func|fn|function|const|let|var|struct|enum|trait|interface|type|mut|for)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w+)"
    r"|^\s*([A-Za-z_]\w+)(?:\s*:\s*[\w\[\], .|]+)?\s*:?=[^=]"
)
_BREAKABLE = re.compile(r"^([^'\"`#/]*?[\w\])]\()(?=[^)\s])")
_RANKS = (
    ("identical",),
    ("reordered", "renamed", "equivalent", "written otherwise", "with extra files"),
    ("half",),
    ("unrelated", "unrelated, same files"),
    ("emptied", "removed"),
)
_IDENTITY = {f"GIT_{who}_{what}": "nobody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@dataclass
class PullRequest:
    """The files that a pull request touches, before and after."""

    commit: str
    subject: str
    before: Files
    after: Files
    values: dict[str, float] = field(default_factory=dict)

    def edits(self, name: str) -> list[Edit]:
        return edits(self.before.get(name, ""), self.after.get(name, ""))

    @property
    def names(self) -> list[str]:
        return sorted({**self.before, **self.after})

    @property
    def changed_lines(self) -> int:
        return sum(len(old) + len(new) for name in self.names for _, old, new in self.edits(name))


@cache
def edits(before: str, after: str) -> list[Edit]:
    """What to replace in the lines of a text, as (first line, old lines, new lines)."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    opcodes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(start + a, old[a:b], new[c:d]) for kind, a, b, c, d in opcodes if kind != "equal"]


def _common(first: list[str], second: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "core.autocrlf=false", "-c", "core.quotepath=false", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=True, env={**os.environ, **_IDENTITY})
    return done.stdout.decode("utf-8", "replace")


def pull_requests(repository: Path, limit: int) -> Iterator[PullRequest]:
    """The latest changes on the main line that edit code: 4 to 600 lines in up to 10 text files."""
    log = git(repository, "log", "--first-parent", "--format=%H %P %x09%s", "-n", "2000")
    for line in log.splitlines():
        commits, _, subject = line.partition("\t")
        commit, *parents = commits.split()
        if limit == 0 or not parents:
            return
        if not re.search(r"#\d+", subject) or re.search(r"\b[Bb]ump|[Rr]elease|[Vv]ersion", subject):
            continue
        names = git(repository, "diff", "--name-only", "--no-renames", parents[0], commit).splitlines()
        if len(names) > 10 or not any(map(language_of, names)):
            continue
        before, after = (_contents(repository, revision, names) for revision in (parents[0], commit))
        if any("\0" in text or "\ufffd" in text for text in (*before.values(), *after.values())):
            continue
        request = PullRequest(commit, subject, before, after)
        if any(name in before for name in names) and 4 <= request.changed_lines <= 600:
            limit -= 1
            yield request


def _contents(repository: Path, revision: str, names: list[str]) -> Files:
    present = set(git(repository, "ls-tree", "-r", "--name-only", revision).splitlines())
    return {name: git(repository, "show", f"{revision}:{name}") for name in names if name in present}


def applied(before: str, changes: list[Edit]) -> str:
    lines = before.splitlines(keepends=True)
    for start, old, new in reversed(changes):
        lines[start : start + len(old)] = new
    return "".join(lines)


def edited(request: PullRequest, edit: Callable[[list[str]], list[str]]) -> Files:
    """The files after the pull request, with every run of lines that it adds to source files changed by a function."""
    result = dict(request.after)
    for name in filter(language_of, request.after):
        changes = [(start, old, edit(new)) for start, old, new in request.edits(name)]
        result[name] = applied(request.before.get(name, ""), changes)
    return result


def added_code(request: PullRequest) -> list[str]:
    """The lines that a pull request adds to source files."""
    return [line for name in filter(language_of, request.names) for _, _, new in request.edits(name) for line in new]


def blocks_reversed(lines: list[str]) -> list[str]:
    """Reverse the order of blocks: a line of the least indent, with what is indented below it."""
    depths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    blocks: list[list[str]] = []
    for line in lines:
        is_start = line.strip() and len(line) - len(line.lstrip()) == min(depths) and line.strip()[0] not in ")]}"
        if is_start or not blocks:
            blocks.append([])
        blocks[-1].append(line)
    return [line for block in reversed(blocks) for line in block]


def broken(lines: list[str]) -> list[str]:
    """Break lines after their first opening parenthesis."""
    result = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        result += _BREAKABLE.sub(rf"\1\n{indent}        ", line).splitlines(keepends=True)
    return result


def renamed(request: PullRequest, files: Files) -> Files:
    """Give another name to all that the pull request defines."""
    existing = set(re.findall(r"\w+", " ".join(request.before.values())))
    names = {name for line in added_code(request) for pair in _DEFINED.findall(line) for name in pair if name}
    names -= existing
    if not names:
        return files
    pattern = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    return {name: pattern.sub(lambda match: f"my_{match[1][::-1]}", text) for name, text in files.items()}


def half(request: PullRequest) -> Files:
    """The edits of the pull request in order, up to half of the lines that it changes."""
    remaining = request.changed_lines // 2
    result = dict(request.before)
    for name in request.names:
        changes = []
        for start, old, new in request.edits(name):
            share = min(1.0, remaining / (len(old) + len(new)))
            changes.append((start, old[: round(share * len(old))], new[: round(share * len(new))]))
            remaining = max(0, remaining - len(old) - len(new))
        if any(old or new for _, old, new in changes):
            result[name] = applied(request.before.get(name, ""), changes)
    return result


def appended(request: PullRequest, other: PullRequest) -> Files:
    """What another pull request added, put into the middle of the files that this one touches."""
    added = added_code(other)
    result = dict(request.before)
    for name, text in request.before.items():
        lines = text.splitlines(True)
        empty = [index for index, line in enumerate(lines) if not line.strip()] or [len(lines)]
        middle = empty[len(empty) // 2]
        result[name] = "".join([*lines[:middle], "\n", *added, *lines[middle:]])
    return result


def variants(request: PullRequest, other: PullRequest) -> Iterator[tuple[str, Files]]:
    """The kinds of variants; those that do not differ from the pull request are left out."""
    count = 3 * request.changed_lines
    scratch = "".join(f"print('attempt {n}', run({n}))\n" for n in range(count))
    yield "identical", request.after
    reordered = edited(request, blocks_reversed)
    rename = renamed(request, request.after)
    equivalent = renamed(request, edited(request, lambda lines: broken(blocks_reversed(lines))))
    for kind, files in (("reordered", reordered), ("renamed", rename), ("equivalent", equivalent)):
        if files != request.after:
            yield kind, files
    yield "with extra files", {**request.after, "scratch_attempt.py": scratch, "NOTES.md": "What I did.\n" * 20}
    yield "half", half(request)
    yield "unrelated", {**request.before, **{n: t for n, t in other.after.items() if n not in request.before}}
    yield "unrelated, same files", appended(request, other)
    if any(request.after.get(name) for name in request.before):
        yield "emptied", dict.fromkeys(request.before, "")
        yield "removed", {}


def measure(request: PullRequest, other: PullRequest, written: Path | None) -> list[tuple[str, str]]:
    """Score all variants and return the explanations."""
    explanations = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        git(folder, "init", "-q")
        outside = {name: text for name, text in other.before.items() if name not in request.before}
        _write(folder, {**outside, **request.before})
        git(folder, "add", "-A", "-f")
        git(folder, "commit", "-q", "--allow-empty", "-m", "before")
        human = _diff(folder, {**outside, **request.after}, "-U1000000")
        scorer, case = build("change_similarity"), Case("c", "?", {"diff": human})
        diffs = [(kind, _diff(folder, {**outside, **files})) for kind, files in variants(request, other)]
        if written and (path := written / f"{request.commit[:10]}.diff").exists():
            diffs.append(("written otherwise", path.read_text()))
        for kind, diff in diffs:
            score = scorer.score(case, Answer("", artifacts={"diff": diff}))[0]
            assert score.value is not None, score.explanation
            request.values[kind] = score.value
            explanations.append((kind, score.explanation))
    return explanations


def _write(folder: Path, files: Files) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def _diff(folder: Path, files: Files, *words: str) -> str:
    git(folder, "rm", "-rfq", "--ignore-unmatch", ".")
    _write(folder, files)
    git(folder, "add", "-A", "-f")
    diff = git(folder, "diff", "--cached", "--find-renames", *words)
    git(folder, "reset", "-q", "--hard")
    return diff


def violations(values: dict[str, float]) -> Iterator[str]:
    """Pairs of kinds in an order that a person would not choose."""
    for above, below in pairwise(_RANKS):
        for better in above:
            for worse in below:
                if better in values and worse in values and values[better] < values[worse] - 1e-9:
                    yield f"{better} {values[better]:.2f} < {worse} {values[worse]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=14, help="pull requests per repository")
    parser.add_argument("--written", type=Path, help="folder with COMMIT.diff files")
    parser.add_argument("--json", type=Path, help="write all values to this file")
    options = parser.parse_args()
    rows = []
    began = time.process_time()
    for repository in options.repositories:
        requests = list(pull_requests(repository, options.limit))
        for index, request in enumerate(requests):
            explanations = measure(request, requests[(index + len(requests) // 2) % len(requests)], options.written)
            rows.append(
                (repository.parent.name if repository.name == "repo" else repository.name, request, explanations)
            )
    print(f"{len(rows)} pull requests, {time.process_time() - began:.1f} s\n")
    print("| kind | n | p10 | median | p90 |\n|---|---|---|---|---|")
    for kind in (kind for rank in _RANKS for kind in rank):
        values = sorted(request.values[kind] for _, request, _ in rows if kind in request.values)
        if len(values) > 1:
            cuts = statistics.quantiles(values, n=10, method="inclusive")
            print(f"| {kind} | {len(values)} | {cuts[0]:.2f} | {cuts[4]:.2f} | {cuts[8]:.2f} |")
    for name, request, _ in rows:
        for violation in violations(request.values):
            print(f"{name} {request.commit[:10]} {violation} ({request.subject[:60]})")
    if options.json:
        records = [
            {
                "repository": name,
                "commit": request.commit,
                "subject": request.subject,
                "values": request.values,
                "lines": request.changed_lines,
                "explanations": explanations,
            }
            for name, request, explanations in rows
        ]
        options.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
