"""A folder for each trial: a checkout of 2,000 files (20 MB) with a history, against other ways to make one.

In memory if there is a file system there, so that the work is measured and not a disk that others use too.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import measure

FILES, SIZE, COMMITS, EDITS = 2_000, 10_000, 20, 25
ROUNDS = 7
CALM = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
OTHERS = ("git clone --local", "git clone --depth 1 file://", "git worktree add", "shutil.copytree")


def git(*words: str, cwd: Path | None = None) -> None:
    subprocess.run(["git", *words], cwd=cwd, env={**os.environ, **CALM}, check=True, capture_output=True)


def repository(path: Path) -> None:
    """Files of words, and commits that each change some."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))) for _ in range(4_000)]

    def line() -> str:
        return " ".join(chance.choices(words, k=10)) + "\n"

    path.mkdir()
    git("init", "--quiet", "-b", "main", cwd=path)
    files = [path / f"d{n % 40}" / f"s{n % 7}" / f"f{n}.py" for n in range(FILES)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(line() for _ in range(SIZE // 70)))
    for _ in range(COMMITS):
        for file in chance.sample(files, EDITS):
            file.write_text(file.read_text() + line())
        git("add", "-A", cwd=path)
        git("commit", "--quiet", "-m", "a step", cwd=path)
    git("gc", "--quiet", cwd=path)


def compare(at_once: int) -> dict[str, Any]:
    """Milliseconds a workspace by each way: rounds in turn, the median of them. Removing is not counted."""
    from abreast.model import Case
    from abreast.targets.workspace import Workspaces

    with tempfile.TemporaryDirectory(prefix="abreast-bench-", dir=_in_memory()) as folder:
        path = Path(folder)
        os.environ["ABREAST_WORKSPACES"] = str(path / "workspaces")
        source, out = path / "source", path / "out"
        repository(source)
        out.mkdir()
        workspaces = Workspaces("the benchmark", {"git": str(source)}, path)
        case = Case("c", "x")
        started = time.perf_counter()
        first = workspaces.make(case, "x")
        results = {"prepare": 1000 * (time.perf_counter() - started)}
        ways: dict[str, Callable[[Path], Any]] = {
            "ours": lambda to: workspaces.make(case, "x"),
            "git clone --local": lambda to: git("clone", "--quiet", "--local", str(source), str(to)),
            "git clone --depth 1 file://": lambda to: git("clone", "-q", "--depth", "1", f"file://{source}", str(to)),
            "git worktree add": lambda to: git("worktree", "add", "--quiet", "--detach", str(to), cwd=source),
            "shutil.copytree": lambda to: shutil.copytree(source, to, symlinks=True),
            "the files alone": lambda to: _cp(first.path, to, history=False),
            "the history alone": lambda to: _cp(first.path / ".git", to, history=True),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        with ThreadPoolExecutor(at_once) as threads:
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    started = time.perf_counter()
                    workspaces_made = list(threads.map(way, [out / str(number) for number in range(at_once)]))
                    times[name].append(1000 * (time.perf_counter() - started) / at_once)
                    for workspace in workspaces_made if name == "ours" else []:
                        workspace.remove()
                    shutil.rmtree(out)
                    out.mkdir()
                    git("worktree", "prune", cwd=source)
        results |= {name: statistics.median(all_of_them) for name, all_of_them in times.items()}
        results |= _diffs(first)
        first.remove()
        workspaces.close()
    return results


def _in_memory() -> str | None:
    """A folder in memory with room for all of it; None where there is none."""
    folder = Path("/dev/shm")
    return str(folder) if folder.is_dir() and shutil.disk_usage(folder).free > 2e9 else None


def _cp(source: Path, to: Path, history: bool) -> None:
    names = [path for path in source.iterdir() if history or path.name != ".git"]
    to.mkdir()
    command = ["cp", "-RP", "--preserve=mode,timestamps", "--reflink=auto", *map(str, names), str(to)]
    subprocess.run(command, check=True)


def _diffs(workspace: Any) -> dict[str, float]:
    """Milliseconds for what 20 edited files and a new one changed, by us and by git itself in the workspace."""
    for file in sorted(workspace.path.rglob("*.py"))[:20]:
        file.write_text(file.read_text() + "edited\n")
    (workspace.path / "new.py").write_text("new\n")
    workspace.diff()  # the first of all makes the record
    ours, plain = [], []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        change = workspace.diff()
        ours.append(1000 * (time.perf_counter() - started))
        started = time.perf_counter()
        git("add", "--all", "--intent-to-add", cwd=workspace.path)
        git("diff", "--binary", "HEAD", cwd=workspace.path)
        git("diff", "--numstat", "HEAD", cwd=workspace.path)
        plain.append(1000 * (time.perf_counter() - started))
        git("reset", "--quiet", cwd=workspace.path)
    assert len(change.files) == 21
    return {"diff": statistics.median(ours), "plain diff": statistics.median(plain)}


def _print_result(results: dict[str, Any], how: str) -> bool:
    ours = results["ours"]
    quickest = min(OTHERS, key=lambda name: results[name])
    ratio = results[quickest] / ours
    figure = f"{ours:.0f} ms each; {quickest} takes {ratio:.2f} ×"
    reached = measure.line(f"workspaces of 2,000 files, {how}", figure, "≤ the quickest other", ratio >= 1)
    for name in OTHERS:
        measure.line(f"  {name}", f"{results[name]:.0f} ms, {results[name] / ours:.2f} × ours", "reported", True)
    history = f"{results['the history alone']:.0f} ms, {results['the history alone'] / ours:.0%} of it"
    measure.line("  what a history of its own costs (copied, not shared)", history, "reported", True)
    return reached


def one_after_the_other() -> bool:
    results = measure.in_own_process("workspaces", "compare", 1).extra
    reached = _print_result(results, "one after the other")
    measure.line("  preparing the first of all", f"{results['prepare']:.0f} ms", "reported", True)
    ratio = results["diff"] / results["plain diff"]
    figure = f"{results['diff']:.0f} ms, {ratio:.2f} × git add and git diff"
    measure.line("  the diff of 21 files", figure, "reported", True)
    return reached


def eight_at_once() -> bool:
    return _print_result(measure.in_own_process("workspaces", "compare", 8).extra, "8 at once")


ALL = (one_after_the_other, eight_at_once)
