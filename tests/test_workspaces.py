"""Workspaces: a folder for each trial that shows neither the work of others nor the solution, and what was changed."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import abreast
from abreast import Experiment
from abreast.errors import BadInput
from abreast.model import Case
from abreast.report import folder
from abreast.store import open_store
from abreast.targets.workspace import Diff, NoWorkspace, Workspace, Workspaces
from abreast.targets.workspace.files import copies
from abreast.targets.workspace.files.directories import remove_tree
from abreast.targets.workspace.git.diff import DiffCounts, count_replaced_lines
from abreast.targets.workspace.git.scan import LARGE

CASE = Case("c1", "do it")
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
GIT_IDENTITY = {f"GIT_{role}_{key}": "x@y" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for workspaces during a test."""
    monkeypatch.setenv("ABREAST_WORKSPACES", str(tmp_path / "root"))
    return tmp_path / "root"


def git(folder: Path, *words: str, stdin: str | None = None, check: bool = True, **more: str) -> str:
    """Run git without the settings of this machine."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**clean, **QUIET, **more}, input=stdin, capture_output=True, text=True
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path, message: str = "a step") -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", message, **GIT_IDENTITY)
    return git(folder, "rev-parse", "HEAD")


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


class Project:
    """A repository with a history, a commit to work on, and solutions in later commits and on other branches."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        path.mkdir()
        git(path, "init", "--quiet", "-b", "trunk", *init)
        write(path, app_py="print(1)\n", src__deep__x_txt="x\n", run_sh="echo\n")
        (path / "run.sh").chmod(0o755)
        (path / "link").symlink_to("app.py")
        self.first = commit(path, "first")
        write(path, app_py="print(2)\n", _gitignore="*.log\nbuild/\n")
        self.start = commit(path, "start")
        git(path, "tag", "-a", "v1", "-m", "annotated", **GIT_IDENTITY)
        git(path, "branch", "side", self.start)
        write(path, solution_txt="THE SOLUTION\n")
        self.solution = commit(path, "the solution")
        git(path, "tag", "v2")
        git(path, "checkout", "--quiet", "side")
        write(path, other_txt="ANOTHER TRY\n")
        self.aside = commit(path, "another try")
        git(path, "checkout", "--quiet", "trunk")
        write(path, stashed_txt="STASHED\n")
        git(path, "stash", "--quiet", "--include-untracked", **GIT_IDENTITY)

    def workspaces(self, revision: str | None = None, **more: Any) -> Workspaces:
        return new_workspaces(git=str(self.path), commit=revision or self.start, **more)


def new_workspaces(**setting: Any) -> Workspaces:
    return Workspaces('variant "v"', setting or None, Path.cwd())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def at_start(project: Project) -> Iterator[Workspace]:
    """A workspace at the start of the project."""
    workspaces = project.workspaces()
    workspace = workspaces.make(CASE, "do it")
    yield workspace
    workspace.remove()
    workspaces.close()


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if ".git" not in path.parts}


# What a trial begins with


def test_an_empty_workspace_is_empty_and_alone_in_its_parent_folder() -> None:
    for setting in (None, "empty"):
        workspaces = Workspaces('variant "v"', setting, Path.cwd())
        first, other = workspaces.make(CASE, "x"), workspaces.make(CASE, "x")
        assert list(first.path.iterdir()) == []
        assert list(first.path.parent.iterdir()) == [first.path]
        assert first.path != other.path
        assert workspaces.problems() == []


def test_a_copy_keeps_permissions_dates_and_links_without_following_them(tmp_path: Path) -> None:
    source, outside = tmp_path / "source", tmp_path / "outside"
    outside.mkdir()
    write(outside, secret_txt="secret")
    write(source, a_txt="a", sub__b_sh="b")
    (source / "sub" / "b.sh").chmod(0o751)
    (source / "a.txt").chmod(0o440)
    os.utime(source / "a.txt", (1_000_000_000, 1_000_000_000))
    (source / "inside").symlink_to("sub")
    (source / "out").symlink_to(outside)
    (source / "dangling").symlink_to("nowhere")
    workspaces = new_workspaces(copy=str(source))
    path = workspaces.make(CASE, "x").path
    assert names(path) == {"a.txt", "sub", "sub/b.sh", "inside", "out", "dangling"}
    assert stat.S_IMODE((path / "sub" / "b.sh").stat().st_mode) == 0o751
    assert stat.S_IMODE((path / "a.txt").stat().st_mode) == 0o440
    assert int((path / "a.txt").stat().st_mtime) == 1_000_000_000
    links = [str((path / name).readlink()) for name in ("inside", "out", "dangling")]
    assert links == ["sub", str(outside), "nowhere"]
    (path / "out").unlink()
    (path / "sub" / "b.sh").write_text("changed")
    assert (source / "sub" / "b.sh").read_text() == "b"
    assert any("links lead out" in note and "'out'" in note for note in workspaces.notes())
    assert any("3 files" in note or "5 files" in note for note in workspaces.notes())


def test_a_copy_is_the_same_without_cp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    write(source, a_txt="a" * 100_000, sub__b_sh="b", sub__locked__c="c", empty="")
    (source / "link").symlink_to("a.txt")
    (source / "sub" / "locked").chmod(0o555)
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    copies.copy_tree(source, tmp_path / "one")
    monkeypatch.setattr(copies, "_has_gnu_cp", lambda: False)
    copies.copy_tree(source, tmp_path / "other")

    def copied(folder: Path) -> list[Any]:
        return [
            (str(path.relative_to(folder)), path.lstat().st_mode, path.is_file() and path.read_bytes())
            + ((path.lstat().st_mtime_ns,) if not path.is_dir() else ())
            for path in sorted(folder.rglob("*"))
        ]

    assert copied(tmp_path / "one") == copied(tmp_path / "other") == copied(source)


def test_sockets_and_pipes_are_left_out_of_a_copy_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    write(source, a_txt="a")
    os.mkfifo(source / "pipe")
    monkeypatch.chdir(source)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        workspaces = new_workspaces(copy=str(source))
        assert names(workspaces.make(CASE, "x").path) == {"a.txt"}
        assert any("2 sockets, pipes or devices" in note for note in workspaces.notes())


def test_a_copied_folder_may_contain_the_root_of_all_workspaces(root: Path) -> None:
    write(root.parent / "data", a_txt="a")
    workspaces = new_workspaces(copy=str(root.parent))
    first = workspaces.make(CASE, "x")
    assert names(first.path) == {"data", "data/a.txt"}
    assert names(workspaces.make(CASE, "x").path) == {"data", "data/a.txt"}
    assert new_workspaces(copy=str(first.path)).problems()[0][1].startswith("set $ABREAST_WORKSPACES")


def test_a_store_in_a_copied_folder_is_not_shown_to_trials(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, a_txt="a")
    Experiment(
        cases=[Case("c", "q", expected="yes")],
        variants={"v": {}},
        target="simulated",
        scorers=["exact"],
        store=source / "results.db",
    ).run()
    shutil.copyfile(source / "results.db", source / "named otherwise.db")
    (source / "fixture.db").write_bytes(b"SQLite format 3\0" + bytes(200))
    workspaces = new_workspaces(copy=str(source))
    copied = names(workspaces.make(CASE, "x").path)
    assert {name for name in copied if "db" in name} == {"fixture.db"}
    assert any("stores and their reports are left out" in note for note in workspaces.notes())


def test_reports_and_results_in_a_copied_folder_are_hidden_and_do_not_count_as_changes(tmp_path: Path) -> None:
    """A file that a user put among them is shown."""
    source = tmp_path / "source"
    write(source, a_txt="a")
    before = new_workspaces(copy=str(source)).version
    store = open_store(source / "results.db")
    home = folder.home(store, "brave-otter-1")
    folder.remember(store, home, [folder.keep(home, "report.html", [b"what others answered"])])
    folder.publish(store, "brave-otter-1", "bench.json", b"{}")
    workspaces = new_workspaces(copy=str(source))
    assert names(workspaces.make(CASE, "x").path) == {"a.txt"}
    assert workspaces.version == before
    write(source, runs__mine__notes_txt="mine", own_json="{}")
    copied = names(new_workspaces(copy=str(source)).make(CASE, "x").path)
    assert copied == {"a.txt", "own.json", "runs", "runs/mine", "runs/mine/notes.txt"}


def test_an_invalid_ledger_hides_nothing_and_does_not_block(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, a_txt="a", runs__deep___abreast_json="[" * 100_000)
    (source / "runs" / "pipe").mkdir()
    os.mkfifo(source / "runs" / "pipe" / ".abreast.json")
    assert "a.txt" in names(new_workspaces(copy=str(source)).make(CASE, "x").path)


def test_repository_settings_that_would_run_programs_are_ignored(tmp_path: Path, project: Project) -> None:
    """Text conversion, a file monitor, hooks and programs run by the address of another repository."""
    evil = f"touch {tmp_path}/ran; cat"
    write(project.path, _gitattributes="*.txt diff=evil\n.gitattributes diff=evil\n")
    start = commit(project.path, "attributes")
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "diff.evil.textconv"):
        git(project.path, "config", name, evil)
    git(project.path, "config", "uploadpack.packObjectsHook", evil)
    (project.path / ".git" / "info" / "attributes").write_text("* diff=evil\n")
    workspaces = project.workspaces(start)
    assert workspaces.problems() == []
    assert workspaces.notes() != []
    assert workspaces.make(CASE, "x").diff() == Diff()
    assert not (tmp_path / "ran").exists()


def test_a_git_folder_is_copied_only_if_the_repository_is_inside(tmp_path: Path, project: Project) -> None:
    inside = new_workspaces(copy=str(project.path))
    assert git(inside.make(CASE, "x").path, "rev-parse", "HEAD") == project.solution
    assert any("every branch" in note for note in inside.notes())
    git(project.path, "worktree", "add", "--quiet", str(tmp_path / "tree"), "side")
    pointing = new_workspaces(copy=str(tmp_path / "tree"))
    path = pointing.make(CASE, "x").path
    assert (path / "other.txt").exists()
    assert not (path / ".git").exists()
    assert any("point to a repository elsewhere" in note for note in pointing.notes())


def test_a_folder_that_changes_between_plan_and_start_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, a_txt="a")
    workspaces = new_workspaces(copy=str(source))
    assert workspaces.version
    write(source, a_txt="b")
    with pytest.raises(NoWorkspace, match="changed since the run was planned"):
        workspaces.make(CASE, "x")


def test_all_trials_of_a_run_start_alike_even_if_the_folder_is_edited(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, a_txt="a")
    workspaces = new_workspaces(copy=str(source))
    workspaces.make(CASE, "x")
    write(source, a_txt="b")
    assert (workspaces.make(CASE, "x").path / "a.txt").read_text() == "a"


# The solution is not there


def every_object(path: Path) -> set[str]:
    listing = git(path, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listing.split())


def assert_only_ancestors(path: Path, project: Project, start: str) -> None:
    reachable = set(git(project.path, "rev-list", "--objects", "--no-object-names", start).split())
    assert every_object(path) == reachable
    assert set(git(path, "rev-list", "--all", "--objects", "--no-object-names").split()) == reachable
    assert git(path, "log", "--all", "--format=%H").split() == git(project.path, "log", "--format=%H", start).split()
    assert git(path, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert git(path, "rev-parse", "HEAD") == start
    assert git(path, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(path, "remote") == git(path, "tag") == git(path, "reflog") == git(path, "stash", "list") == ""
    assert git(path, "fsck", "--full", "--unreachable", "--no-progress") == ""
    assert git(path, "fsck", "--lost-found", "--no-progress") == ""
    assert git(path, "status", "--porcelain") == ""


def test_a_checkout_contains_only_the_ancestors_of_its_commit(at_start: Workspace, project: Project) -> None:
    assert_only_ancestors(at_start.path, project, project.start)
    for later in (project.solution, project.aside, "v1", "v2", "trunk", "side", "origin/trunk"):
        assert git(at_start.path, "cat-file", "-t", later, check=False) == ""
    content = b"".join(path.read_bytes() for path in (at_start.path / ".git").rglob("*") if path.is_file())
    assert str(project.path).encode() not in content, "nothing names the original"
    assert {path.name for path in (at_start.path / ".git").iterdir()} <= {
        *("HEAD", "config", "index", "objects", "refs")
    }
    assert names(at_start.path) == {"app.py", "link", "run.sh", ".gitignore", "src", "src/deep", "src/deep/x.txt"}


def test_urls_and_packed_bare_and_sha256_repositories_give_the_same_checkout(tmp_path: Path, project: Project) -> None:
    git(project.path, "gc", "--quiet", "--aggressive")
    git(project.path, "repack", "-adbq")
    git(tmp_path, "clone", "--quiet", "--bare", str(project.path), "bare.git")
    other = Project(tmp_path / "other", "--object-format=sha256")
    for repository, address in (
        (project, str(project.path)),
        (project, f"file://{project.path}"),
        (project, "bare.git"),
        (other, str(other.path)),
    ):
        workspaces = Workspaces('variant "v"', {"git": address, "commit": repository.start}, tmp_path)
        assert workspaces.problems() == []
        workspace = workspaces.make(CASE, "x")
        assert_only_ancestors(workspace.path, repository, repository.start)
        write(workspace.path, new_txt="new\n")
        (workspace.path / "app.py").unlink()
        assert workspace.diff().files == ("app.py", "new.txt")
        workspace.remove()
        workspaces.close()


def test_a_commit_on_no_branch_is_fetched_if_the_server_allows_it(tmp_path: Path, project: Project) -> None:
    """A commit that is on no branch, such as one of a pull request, and so not in a clone."""
    git(project.path, "update-ref", "refs/pull/1/head", project.aside)
    git(project.path, "branch", "-D", "side")
    workspaces = new_workspaces(git=f"file://{project.path}", commit=project.aside)
    assert workspaces.problems() == []
    assert_only_ancestors(workspaces.make(CASE, "x").path, project, project.aside)


def test_a_shallow_repository_can_be_the_source(tmp_path: Path, project: Project) -> None:
    git(tmp_path, "clone", "--quiet", "--depth", "2", f"file://{project.path}", "shallow")
    workspaces = new_workspaces(git=str(tmp_path / "shallow"), commit=project.start)
    assert workspaces.problems() == []
    workspace = workspaces.make(CASE, "x")
    assert git(workspace.path, "log", "--format=%H") == project.start
    assert git(workspace.path, "status", "--porcelain") == git(workspace.path, "fsck") == ""
    assert project.solution not in every_object(workspace.path)
    write(workspace.path, new_txt="new\n")
    assert workspace.diff().files == ("new.txt",)


def test_submodules_and_lfs_files_stay_unchanged_with_a_note(tmp_path: Path, project: Project) -> None:
    parent = Project(tmp_path / "whole")
    write(parent.path, _gitattributes="*.bin filter=lfs diff=lfs merge=lfs -text\n", big_bin="version https://lfs\n")
    git(parent.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(project.path), "part")
    start = commit(parent.path, "with a submodule")
    workspaces = parent.workspaces(start)
    workspace = workspaces.make(CASE, "x")
    assert list((workspace.path / "part").iterdir()) == []
    assert (workspace.path / "big.bin").read_text() == "version https://lfs\n"
    assert git(workspace.path, "status", "--porcelain") == ""
    notes = "\n".join(workspaces.notes())
    assert "1 submodules" in notes
    assert "Git LFS" in notes
    assert workspace.diff() == Diff()
    write(workspace.path, part__filled_txt="filled\n", big_bin="version 2\n")
    assert workspace.diff().files == ("big.bin", "part/filled.txt")


def test_settings_and_hooks_of_the_user_do_not_reach_a_checkout(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        write(hooks, **{name: f"#!/bin/sh\ntouch {tmp_path}/hooked\n"})
        (hooks / name).chmod(0o755)
    (tmp_path / "template" / "hooks").mkdir(parents=True)
    shutil.copy(hooks / "post-checkout", tmp_path / "template" / "hooks" / "pre-commit")
    (tmp_path / "config").write_text(
        f"[core]\n hooksPath = {hooks}\n autocrlf = true\n excludesFile = {tmp_path}/ignore\n"
        f"[init]\n templateDir = {tmp_path}/template\n[diff]\n external = false\n noprefix = true\n"
        '[filter "lfs"]\n smudge = false\n required = true\n'
    )
    (tmp_path / "ignore").write_text("*.txt\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no-index"))
    workspace = project.workspaces().make(CASE, "x")
    assert not (workspace.path / ".git" / "hooks").exists()
    assert (workspace.path / "app.py").read_bytes() == b"print(2)\n"
    write(workspace.path, new_txt="new\n")
    assert workspace.diff().text.startswith("diff --git a/new.txt b/new.txt\n")
    assert not (tmp_path / "hooked").exists()


def test_an_agent_can_commit(at_start: Workspace) -> None:
    write(at_start.path, done_txt="done\n")
    git(at_start.path, "add", "-A")
    git(at_start.path, "commit", "--quiet", "-m", "done", HOME="/nonexistent")
    assert git(at_start.path, "log", "-1", "--format=%an <%ae>") == "agent <agent@localhost>"


def test_git_does_not_reread_the_files_of_a_fresh_checkout(at_start: Workspace) -> None:
    assert git(at_start.path, "diff-files", "--name-only") == "", "it takes the index as it was copied"
    dates = [
        path.lstat().st_mtime for path in at_start.path.rglob("*") if ".git" not in path.parts and not path.is_dir()
    ]
    assert len(set(map(int, dates))) == len(dates), "so that it tells any two files apart"


def test_git_and_the_diff_detect_files_that_swap_names(tmp_path: Path) -> None:
    path = tmp_path / "twins"
    path.mkdir()
    git(path, "init", "--quiet")
    write(path, a__x_txt="one\n", b__x_txt="two\n")
    commit(path)
    for workspaces in (new_workspaces(git=str(path)), new_workspaces(copy=str(path))):
        work = workspaces.make(CASE, "x")
        (work.path / "a").rename(work.path / "c")
        (work.path / "b").rename(work.path / "a")
        (work.path / "c").rename(work.path / "b")
        assert git(work.path, "status", "--porcelain").split() == ["M", "a/x.txt", "M", "b/x.txt"]
        assert work.diff().files == ("a/x.txt", "b/x.txt")


# Trials do not disturb each other


def test_damage_to_the_objects_of_one_trial_does_not_affect_others(project: Project) -> None:
    workspaces = project.workspaces()
    bad, good = workspaces.make(CASE, "x"), workspaces.make(CASE, "x")
    write(bad.path, app_py="print(3)\n")
    git(bad.path, "commit", "--quiet", "-am", "mine")
    git(bad.path, "reflog", "expire", "--expire=now", "--all")
    git(bad.path, "reset", "--quiet", "--hard", "HEAD~2")
    git(bad.path, "gc", "--quiet", "--prune=now", "--aggressive")
    for path in (bad.path / ".git").rglob("*"):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
        if path.is_file():
            os.truncate(path, 3)
    for path in bad.path.rglob("*"):
        if ".git" not in path.parts and path.is_file() and not path.is_symlink():
            os.truncate(path, 0)
    for workspace in (good, workspaces.make(CASE, "x")):
        assert_only_ancestors(workspace.path, project, project.start)
        assert (workspace.path / "app.py").read_text() == "print(2)\n"
        assert workspace.diff() == Diff()
    assert "app.py" in bad.diff().files
    outside = [path for path in bad.path.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert outside == [], "no file is shared with anybody"


def test_forty_concurrent_workspaces_are_complete_and_prepared_once(project: Project, root: Path) -> None:
    workspaces, together = project.workspaces(), threading.Barrier(40)
    twin = project.workspaces("side~1")  # another variant that begins with the same commit

    def trial(number: int) -> tuple[Path, Diff]:
        together.wait()
        workspace = (twin if number % 2 else workspaces).make(CASE, "x")
        (workspace.path / "app.py").write_text(f"print(10 + {number})\n")
        results = workspace.diff()
        assert git(workspace.path, "log", "-1", "--format=%H") == project.start
        assert len(list(root.glob("*/templates/*"))) == 1
        workspace.remove()
        return workspace.path, results

    with ThreadPoolExecutor(40) as threads:
        done = list(threads.map(trial, range(40)))
    assert len({path for path, _ in done}) == 40
    for number, (_, results) in enumerate(done):
        assert f"+print(10 + {number})\n" in results.text
        assert (results.files, results.counts.lines_added, results.counts.lines_deleted) == (("app.py",), 1, 1)
    workspaces.close()
    twin.close()
    assert list(root.iterdir()) == []


def test_workspaces_can_be_made_and_removed_concurrently(root: Path) -> None:
    """Removing the last one also removes the parent folder, in which another is just being created."""

    def trials(number: int) -> None:
        workspaces = new_workspaces()
        for _ in range(60):
            workspace = workspaces.make(CASE, "x")
            (workspace.path / "x").touch()
            workspace.remove()
        workspaces.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(trials, range(8)))
    assert list(root.iterdir()) == []


def test_every_case_gets_the_commit_named_in_its_input(project: Project, root: Path) -> None:
    workspaces = new_workspaces(git=str(project.path), commit="{{ commit }}")
    for start in (project.first, project.start, project.aside):
        value = {"commit": start}
        assert_only_ancestors(workspaces.make(Case("c", value), value).path, project, start)
    revision = new_workspaces(git=str(project.path), commit="{{ tags.at }}^{commit}")
    workspace = revision.make(Case("c", "x", tags={"at": "v1"}), "x")
    assert git(workspace.path, "rev-parse", "HEAD") == project.start
    with pytest.raises(NoWorkspace, match="'commit' is undefined"):
        workspaces.make(CASE, "x")
    with pytest.raises(NoWorkspace, match="no such commit"):
        workspaces.make(CASE, {"commit": "0" * 40})
    for bad in ("--upload-pack=touch x", "", "a\nb", "HEAD..side"):
        with pytest.raises(NoWorkspace, match="no such commit"):
            workspaces.make(CASE, {"commit": bad})


def test_only_the_most_recently_used_commits_stay_prepared(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "long"
    path.mkdir()
    git(path, "init", "--quiet")
    for number in range(12):
        write(path, n_txt=f"{number}\n")
        commit(path)
    workspaces = new_workspaces(git=str(path), commit="HEAD~{{ n }}")
    for number in range(12):
        workspace = workspaces.make(CASE, {"n": number})
        assert (workspace.path / "n.txt").read_text() == f"{11 - number}\n"
        workspace.remove()
    assert len(list(root.glob("*/templates/*"))) == 8
    recent = workspaces.make(CASE, {"n": 0})
    workspaces.close()
    write(recent.path, n_txt="mine\n")
    assert recent.diff().counts.lines_added == 1, "the template of a trial stays until its workspace is removed"
    recent.remove()
    assert list(root.iterdir()) == []


# What a trial changed


def test_a_diff_shows_new_changed_deleted_renamed_and_binary_files(at_start: Workspace) -> None:
    path = at_start.path
    write(path, app_py="print(2)\nprint(3)\n", new_txt="new\n", noise_log="ignored\n", build__x="ignored\n")
    (path / "run.sh").unlink()
    (path / "src" / "deep" / "x.txt").rename(path / "src" / "y.txt")
    (path / "picture.png").write_bytes(b"\x89PNG\0\1\2" * 50)
    diff = at_start.diff()
    assert set(diff.files) == {"app.py", "new.txt", "picture.png", "run.sh", "src/y.txt"}
    assert diff.problem == ""
    assert diff.counts.columns() == {
        "files_changed": 5,
        "files_added": 2,
        "files_modified": 1,
        "files_deleted": 1,
        "files_renamed": 1,
        "files_binary": 1,
        "lines_added": 2,
        "lines_deleted": 1,
        "lines_modified": 0,
    }
    for line in (
        *("+print(3)", "deleted file mode 100755", "rename from src/deep/x.txt", "rename to src/y.txt"),
        *("GIT binary patch", "new file mode 100644"),
    ):
        assert f"\n{line}\n" in diff.text


def test_every_changed_file_has_one_kind_of_change_and_replaced_lines_are_counted(at_start: Workspace) -> None:
    """A file that only became executable counts as modified, as does a link replaced by a file."""
    path = at_start.path
    (path / "app.py").chmod(0o755)
    (path / "link").unlink()
    (path / "link").write_text("a file\n")
    (path / "src" / "deep" / "x.txt").write_bytes(b"\0\1\2")
    (path / "first.txt").write_text("".join(f"{n}\n" for n in range(20)))
    commit(path)  # that it did is of no account
    counts = at_start.diff().counts
    assert (counts.files_added, counts.files_modified, counts.files_changed) == (1, 3, 4)
    assert (counts.files_binary, counts.files_deleted, counts.files_renamed) == (1, 0, 0)
    assert (counts.lines_added, counts.lines_deleted, counts.lines_modified) == (21, 1, 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from("+- "), max_size=40))
def test_replaced_lines_are_the_deletions_next_to_additions(signs: list[str]) -> None:
    stretches = "".join(signs).split(" ")
    assert count_replaced_lines(signs) == sum(min(stretch.count("+"), stretch.count("-")) for stretch in stretches)


def test_a_truncated_diff_has_no_count_of_replaced_lines(at_start: Workspace) -> None:
    write(at_start.path, app_py="".join(f"line {n}\n" for n in range(1000)))
    assert at_start.diff(max_bytes=500).counts.lines_modified is None
    assert at_start.diff().counts.lines_modified == 1


def change_files(path: Path, how: str, project: Project) -> None:
    """Change the same files, then do something to git."""
    write(path, app_py="print(9)\n", new_txt="new\n")
    if how == "commits":
        commit(path)
    elif how == "rewrites history":
        commit(path)
        git(path, "checkout", "--quiet", "--orphan", "other")
        git(path, "commit", "--quiet", "-m", "all of it", **GIT_IDENTITY)
        git(path, "branch", "-D", "main")
    elif how == "resets softly":
        git(path, "reset", "--quiet", "--soft", "HEAD~1")
    elif how == "deletes .git":
        remove_tree(path / ".git")
    elif how == "begins anew":
        remove_tree(path / ".git")
        git(path, "init", "--quiet")
        commit(path)
    elif how == "breaks .git":
        remove_tree(path / ".git")
        (path / ".git").write_text("gitdir: /nonexistent\n")
    elif how == "begins a repository inside":
        git(path / "src", "init", "--quiet")
    elif how == "asks for programs":
        attributes = "* diff=evil filter=evil\n*.py -diff\n"
        (path / ".git" / "info").mkdir()
        (path / ".git" / "info" / "attributes").write_text(attributes)
        git(path, "config", "diff.evil.command", f"touch {project.path}/evil")
        git(path, "config", "diff.evil.textconv", f"touch {project.path}/evil")
        git(path, "config", "filter.evil.clean", f"touch {project.path}/evil")
        git(path, "config", "core.fsmonitor", f"touch {project.path}/evil")
    elif how == "hides by flags":
        git(path, "update-index", "--assume-unchanged", "app.py")
        git(path, "update-index", "--skip-worktree", "app.py")
        (path / ".git" / "info").mkdir()
        (path / ".git" / "info" / "exclude").write_text("*\n")
    elif how == "fakes dates":
        status = (path / "link").lstat()
        os.utime(path / "app.py", ns=(status.st_mtime_ns, status.st_mtime_ns))


HOWS = [
    *("commits", "rewrites history", "resets softly", "deletes .git", "begins anew", "breaks .git"),
    *("begins a repository inside", "asks for programs", "hides by flags", "fakes dates"),
]


@pytest.mark.parametrize("how", HOWS)
def test_the_diff_is_the_same_whatever_the_agent_does_to_git(at_start: Workspace, project: Project, how: str) -> None:
    change_files(at_start.path, how, project)
    diff = at_start.diff()
    assert (diff.files, diff.problem) == (("app.py", "new.txt"), "")
    counts = DiffCounts(files_added=1, files_modified=1, lines_added=2, lines_deleted=1, lines_modified=1)
    assert diff.counts == counts
    assert not (project.path / "evil").exists()


def test_a_change_with_the_same_size_and_date_is_detected(at_start: Workspace) -> None:
    path = at_start.path / "app.py"
    status = path.stat()
    path.write_text("print(7)\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert at_start.diff().files == ("app.py",)


def test_a_diff_does_not_change_the_workspace(at_start: Workspace) -> None:
    write(at_start.path, new_txt="new\n")

    def snapshot() -> list[Any]:
        return sorted((str(path), path.lstat().st_mtime_ns, path.lstat().st_size) for path in at_start.path.rglob("*"))

    before = snapshot()
    assert at_start.diff().files == ("new.txt",)
    assert snapshot() == before


def test_empty_and_copied_workspaces_have_a_diff_too(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, a_txt="a\n", b_txt="b\n", _gitignore="*.log\n", old_log="old\n", sub___gitignore="/only-here\n")
    git_inside = source / "vendor"
    git_inside.mkdir()
    git(git_inside, "init", "--quiet")
    write(git_inside, v_txt="v\n")
    copied, empty = new_workspaces(copy=str(source)).make(CASE, "x"), new_workspaces().make(CASE, "x")
    assert copied.diff() == empty.diff() == Diff()
    write(copied.path, a_txt="A\n", new_log="new\n", vendor__v_txt="V\n", vendor__w_txt="w\n", sub__also="s\n")
    write(copied.path, **{"sub__only-here": "x\n", "only-here": "y\n"})
    (copied.path / "b.txt").unlink()
    assert copied.diff().files == ("a.txt", "b.txt", "only-here", "sub/also", "vendor/v.txt", "vendor/w.txt")
    write(empty.path, hello_txt="hello\n")
    assert empty.diff().files == ("hello.txt",)


def test_files_ignored_at_the_start_stay_out_of_the_diff_whatever_the_agent_ignores(
    at_start: Workspace,
) -> None:
    write(at_start.path, _gitignore="*.tmp\n", x_log="log\n", x_tmp="tmp\n", build__out="out\n", x_txt="x\n")
    assert at_start.diff().files == (".gitignore", "x.txt")
    (at_start.path / ".gitignore").unlink()
    assert at_start.diff().files == (".gitignore", "x.tmp", "x.txt")


def test_repositories_created_inside_hide_nothing_from_the_diff(at_start: Workspace) -> None:
    inner = at_start.path / "tool"
    inner.mkdir()
    git(inner, "init", "--quiet")
    write(inner, main_py="print()\n", sub__deep_py="deep\n", noise_log="log\n", _gitignore="secret\n", secret="s\n")
    commit(inner)
    nested = inner / "sub" / "again"
    nested.mkdir()
    git(nested, "init", "--quiet")
    write(nested, inner_py="inner\n")
    expected = ("tool/.gitignore", "tool/main.py", "tool/sub/again/inner.py", "tool/sub/deep.py")
    assert at_start.diff().files == expected


def test_pipes_in_place_of_files_that_git_reads_do_not_block(
    at_start: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abreast.targets.workspace.git.git_command.TIMEOUT_S", 5.0)
    (at_start.path / "new").mkdir()
    for name in (".gitattributes", "new/.gitignore", "new/pipe"):
        (at_start.path / name).unlink(missing_ok=True)
        os.mkfifo(at_start.path / name)
    (at_start.path / "new" / "file.txt").write_text("here\n")
    diff = at_start.diff()
    assert diff.problem == ""
    assert "new/file.txt" in diff.files


@pytest.mark.parametrize(
    "attributes",
    [
        "* working-tree-encoding=BOGUS\n",
        "* working-tree-encoding=UTF-16\n",
        "* filter=missing\n",
        "* binary\n",
        "[attr]hidden -diff -text\n* hidden\n",
        "* diff=missing\n",
        "* text eol=crlf\n",
        "* text=auto eol=lf\n",
        "* ident\n",
        "* export-ignore export-subst merge=union -delta\n",
        "* text" + " x" * 2_000 + "\n" + "\1 !\n" * 100,
    ],
)
def test_attributes_written_by_an_agent_do_not_affect_the_diff(project: Project, attributes: str) -> None:
    """At the top or deeper, in a checkout or in a folder that began empty."""
    for workspaces in (project.workspaces(), new_workspaces()):
        workspace = workspaces.make(CASE, "x")
        write(workspace.path, _gitattributes=attributes, sub___gitattributes=attributes)
        write(workspace.path, app_py="print('$Id: 1 $')\r\n", sub__new_txt="größer\n")
        diff = workspace.diff()
        assert (diff.problem, diff.counts.files_binary) == ("", 0)
        assert {".gitattributes", "app.py", "sub/.gitattributes", "sub/new.txt"} == set(diff.files)
        assert "+print('$Id: 1 $')\r\n" in diff.text
        assert "+größer\n" in diff.text


def test_pathologically_slow_ignore_rules_hide_nothing(at_start: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abreast.targets.workspace.git.scan.IGNORE_RULES_TIMEOUT_S", 0.5)
    deep = "/".join(["aaa"] * 40)
    write(at_start.path, **{f"{deep}/{'a' * 100}": "here\n", "x.log": "log\n"})
    write(at_start.path, _gitignore="/".join(["**", "aaa"] * 25) + "/b\n" + "**/a*/" * 30 + "b\n")
    diff = at_start.diff()
    assert diff.problem == ""
    assert set(diff.files) == {".gitignore", f"{deep}/{'a' * 100}"}, "what the start ignores stays out"


def test_attributes_of_the_repository_convert_files_for_the_agent_but_not_in_the_diff(project: Project) -> None:
    write(project.path, _gitattributes="*.bat eol=crlf\n*.rc working-tree-encoding=UTF-16LE\n", go_bat="one\ntwo\n")
    (project.path / "app.rc").write_bytes("größe\n".encode("utf-16-le"))
    workspace = project.workspaces(commit(project.path, "files for Windows")).make(CASE, "x")
    assert (workspace.path / "go.bat").read_bytes() == b"one\r\ntwo\r\n"
    assert (workspace.path / "app.rc").read_bytes() == "größe\n".encode("utf-16-le")
    assert workspace.diff() == Diff()
    (workspace.path / "go.bat").write_bytes(b"one\r\nthree\r\n")
    (workspace.path / "app.rc").write_bytes(b"no UTF-16")
    diff = workspace.diff()
    assert diff.files == ("app.rc", "go.bat")
    assert "-two\r\n+three\r\n" in diff.text


def test_a_deleted_workspace_is_a_diff_in_which_everything_is_deleted(project: Project, tmp_path: Path) -> None:
    for how in ("nothing", "file", "link"):
        of_git, of_nothing = project.workspaces().make(CASE, "x"), new_workspaces().make(CASE, "x")
        for workspace in (of_git, of_nothing):
            shutil.rmtree(workspace.path)
            if how == "file":
                workspace.path.write_text("x")
            elif how == "link":
                workspace.path.symlink_to(project.path)
        assert of_git.diff().files == (".gitignore", "app.py", "link", "run.sh", "src/deep/x.txt")
        assert (of_git.diff().counts.lines_added, of_git.diff().problem) == (0, "")
        assert of_nothing.diff() == Diff()
        of_git.remove()
        of_nothing.remove()
        assert not of_git.path.parent.exists()
    assert (project.path / "app.py").exists(), "no link was followed"


def test_folders_replaced_by_links_are_not_followed(at_start: Workspace, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", deep__x_txt="x\n", secret_txt="secret\n")
    shutil.rmtree(at_start.path / "src")
    (at_start.path / "src").symlink_to(tmp_path / "elsewhere")
    diff = at_start.diff()
    assert "secret" not in diff.text
    assert set(diff.files) == {"src", "src/deep/x.txt"}
    at_start.remove()
    assert (tmp_path / "elsewhere" / "secret.txt").exists()


def test_files_may_be_replaced_by_folders_and_vice_versa(at_start: Workspace) -> None:
    (at_start.path / "app.py").unlink()
    shutil.rmtree(at_start.path / "src")
    write(at_start.path, app_py__inner_txt="inner\n")
    (at_start.path / "app.py").mkdir(exist_ok=True)
    write(at_start.path / "app.py", inner_txt="inner\n")
    (at_start.path / "src").write_text("now a file\n")
    (at_start.path / "run.sh").unlink()
    os.mkfifo(at_start.path / "run.sh")
    diff = at_start.diff()
    assert {"app.py", "app.py/inner.txt", "src", "src/deep/x.txt", "run.sh"} <= set(diff.files)
    assert diff.problem == ""


def test_file_names_with_any_bytes_are_in_the_diff_and_its_text_can_be_stored(at_start: Workspace) -> None:
    top = os.fsencode(at_start.path)
    for name in (b"new\nline", b'quo"te', b"back\\slash", b"not-utf8-\xff\xfe", "grün ✓".encode(), b" spaces ", b"-rf"):
        Path(os.fsdecode(top + b"/" + name)).write_bytes(b"caf\xe9 and some text\n")
    (at_start.path / ".GIT").mkdir()
    (at_start.path / ".GIT" / "config").write_text("x")
    (at_start.path / ".gitmodules").symlink_to("app.py")
    diff = at_start.diff()
    assert diff.problem == ""
    assert len(diff.files) == 7
    assert "\n".join([diff.text, *diff.files]).encode()
    assert "caf� and some text" in diff.text


def test_a_diff_that_is_too_long_is_cut_at_a_line_with_a_note(at_start: Workspace) -> None:
    write(at_start.path, many_txt="".join(f"line {number}\n" for number in range(10_000)))
    diff = at_start.diff(max_bytes=5_000)
    assert diff.counts.lines_modified is None
    assert 4_000 < len(diff.text) <= 5_000
    assert diff.text.endswith("\n")
    assert (diff.counts.lines_added, diff.files) == (10_000, ("many.txt",))
    complete = at_start.diff()
    assert complete.counts.lines_modified == 0
    assert at_start.diff(max_bytes=len(complete.text.encode())) == complete


def test_a_huge_file_is_listed_by_name_and_not_read(at_start: Workspace) -> None:
    with (at_start.path / "huge.bin").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    write(at_start.path, new_txt="new\n")
    diff = at_start.diff()
    assert diff.files == ("huge.bin", "new.txt")
    assert "+(not shown: 1,099,511,627,776 bytes, dated " in diff.text
    assert "+new\n" in diff.text
    assert (diff.counts.files_added, diff.counts.files_binary, diff.counts.lines_added) == (2, 1, 1)


def test_large_files_of_the_start_are_compared_by_content(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.mkdir()
    git(path, "init", "--quiet")
    (path / "large.bin").write_bytes(b"x" * (LARGE + 1))
    (path / "gone.bin").write_bytes(b"y" * (LARGE + 1))
    commit(path)
    for workspaces in (new_workspaces(git=str(path)), new_workspaces(copy=str(path))):
        workspace = workspaces.make(CASE, "x")
        os.utime(workspace.path / "large.bin")
        assert workspace.diff() == Diff(), "touched, not changed"
        with (workspace.path / "large.bin").open("r+b") as file:
            file.write(b"z")
        (workspace.path / "gone.bin").unlink()
        diff = workspace.diff()
        assert diff.files == ("gone.bin", "large.bin")
        assert len(diff.text) < 2_000
        assert diff.counts == DiffCounts(files_modified=1, files_deleted=1, files_binary=2), (
            "their lines were not counted"
        )


def test_without_git_folders_work_and_the_missing_diff_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cp").symlink_to(str(shutil.which("cp")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    write(tmp_path / "source", a_txt="a")
    for workspaces in (new_workspaces(), new_workspaces(copy=str(tmp_path / "source"))):
        workspace = workspaces.make(CASE, "x")
        assert workspaces.problems() == []
        assert any("git is not installed" in note for note in workspaces.notes())
        assert workspace.diff() == Diff(), "nothing was changed, which needs no git"
        write(workspace.path, b_txt="b")
        assert workspace.diff() == Diff(problem="no diff: git is not installed")
        workspace.remove()
    of_git = project.workspaces()
    assert of_git.problems() == [
        ('variant "v": workspace: git: git is not installed', "install git, or use workspace: {copy: FOLDER}")
    ]
    with pytest.raises(NoWorkspace):
        of_git.make(CASE, "x")


# Applying the text gives the end

CONTENT = st.one_of(
    st.just(b""),
    st.text(alphabet="ab\n é", max_size=40).map(str.encode),
    st.text(alphabet="ab\r\n", max_size=40).map(str.encode),
    st.binary(max_size=40).map(lambda content: b"\0" + content),
    st.integers(0, 3).map(lambda seed: b"".join(b"line %d of %d\n" % (n, seed) for n in range(30))),
)
NAME = st.sampled_from(["a", "b", "c.txt", "d/e", "d/f", "d/g/h", "i j", 'k"l', "ü", "m\nn"])
TREE = st.dictionaries(NAME, st.tuples(CONTENT, st.sampled_from(["plain", "executable", "link"])), max_size=6)


def put(folder: Path, tree: dict[str, tuple[bytes, str]]) -> None:
    for name, (content, kind) in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to("target" + str(len(content)))
        else:
            path.write_bytes(content)
            path.chmod(0o755 if kind == "executable" else 0o644)


def contents_of(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.rglob("*")
        if ".git" not in path.relative_to(folder).parts and (path.is_symlink() or path.is_file())
    }


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(TREE, TREE, st.booleans(), st.lists(st.tuples(NAME, NAME), max_size=2))
def test_applying_the_diff_to_the_start_gives_the_end(
    before: dict[str, tuple[bytes, str]],
    after: dict[str, tuple[bytes, str]],
    by_git: bool,
    renames: list[tuple[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, patched = Path(folder) / "source", Path(folder) / "again"
        source.mkdir()
        put(source, before)
        if by_git:
            git(source, "init", "--quiet")
            git(source, "add", "-A")
            git(source, "commit", "--quiet", "--allow-empty", "-m", "start", **GIT_IDENTITY)
        shutil.copytree(source, patched, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        workspaces = new_workspaces(git=str(source)) if by_git else new_workspaces(copy=str(source))
        workspace = workspaces.make(CASE, "x")
        assert contents_of(workspace.path) == contents_of(source)
        moved = {new: before[old] for old, new in renames if old in before}
        if by_git:
            for path in workspace.path.iterdir():
                if path.name != ".git":
                    remove_tree(path)
        else:
            remove_tree(workspace.path)
            workspace.path.mkdir()
        put(workspace.path, {**moved, **after})
        diff = workspace.diff()
        assert diff.problem == ""
        git(patched, "init", "--quiet")
        if diff.text:
            patch = Path(folder) / "patch"
            patch.write_bytes(diff.text.encode())
            git(patched, "apply", "--binary", "--whitespace=nowarn", str(patch))
        assert contents_of(patched) == contents_of(workspace.path)
        assert bool(diff.files) == (contents_of(workspace.path) != contents_of(source))
        workspace.remove()
        workspaces.close()


# Removing


WITHOUT_POWERS = """
import ctypes, os, sys
if os.getuid() == 0:
    for power in (1, 2, 3):  # to pass over permissions
        assert ctypes.CDLL(None).prctl(24, power, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


def run_unprivileged(code: str) -> None:
    """Run code as a user who is subject to permissions, even if the tests run as root."""
    folder = Path(tempfile.mkdtemp())
    try:
        source = str(Path(abreast.__file__).parent.parent)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "ABREAST_"))}
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_POWERS, textwrap.dedent(code)],
            cwd=folder,
            env={
                **clean,
                **QUIET,
                "PYTHONPATH": source,
                "ABREAST_STATE": str(folder / "state"),
                "ABREAST_WORKSPACES": str(folder / "root"),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    finally:
        remove_tree(folder)


def test_everything_left_by_an_agent_is_removed_except_the_targets_of_links() -> None:
    run_unprivileged(
        """
        import os
        from pathlib import Path
        from abreast.model import Case
        from abreast.targets.workspace import Workspaces

        outside = Path("outside")
        outside.mkdir()
        (outside / "kept.txt").write_text("kept")
        outside.chmod(0o555)
        workspaces = Workspaces("v", None, Path.cwd())
        workspace = workspaces.make(Case("c", "x"), "x")
        path = workspace.path
        for name in ("none", "read", "search"):
            (path / name / "sub" / "sub").mkdir(parents=True)
            (path / name / "sub" / "file").write_text("x")
            (path / name / "sub" / "file").chmod(0)
        (path / "out").symlink_to(outside.absolute())
        (path / "none" / "out").symlink_to(outside.absolute())
        os.mkfifo(path / "pipe")
        here = os.getcwd()
        os.chdir(path)
        for _ in range(3000):  # deeper than any path may be, and than Python calls itself
            os.mkdir("deeper")
            os.chdir("deeper")
        open("file", "w").close()
        os.chdir(here)
        (path / "none" / "sub" / "sub").chmod(0)
        (path / "none").chmod(0)
        (path / "read").chmod(0o400)
        (path / "search").chmod(0o100)
        path.chmod(0)
        path.parent.chmod(0)
        before = workspace.diff()
        workspace.remove()
        workspace.remove()
        workspaces.close()
        assert not os.path.lexists(path.parent), os.listdir(path.parent)
        assert (outside / "kept.txt").read_text() == "kept"
        assert oct(outside.stat().st_mode)[-3:] == "555"
        assert os.listdir(os.environ["ABREAST_WORKSPACES"]) == []
        """
    )


def test_unreadable_files_are_reported_and_the_others_are_in_the_diff() -> None:
    run_unprivileged(
        """
        from pathlib import Path
        from abreast.model import Case
        from abreast.targets.workspace import Workspaces

        Path("source/shut").mkdir(parents=True)
        for name in ("a", "b", "shut/c"):
            Path("source", name).write_text("x\\n")
        workspaces = Workspaces("v", {"copy": "source"}, Path.cwd())
        workspace = workspaces.make(Case("c", "x"), "x")
        (workspace.path / "new").write_text("new\\n")
        (workspace.path / "new").chmod(0)
        (workspace.path / "a").chmod(0)
        (workspace.path / "b").write_text("changed\\n")
        (workspace.path / "shut").chmod(0)
        found = workspace.diff()
        assert found.files == ("b", "new"), found
        assert not found.problem, found
        assert "4 bytes that may not be read" in found.text
        Path("source/a").chmod(0)
        again = Workspaces("v", {"copy": "source"}, Path.cwd())
        assert "cannot be read" in again.problems()[0][0]
        assert again.version
        """
    )


def test_trials_cannot_list_the_folders_of_others() -> None:
    run_unprivileged(
        """
        import os
        from pathlib import Path
        from abreast.model import Case
        from abreast.targets.workspace import Workspaces

        workspaces = Workspaces("v", None, Path.cwd())
        one, other = (workspaces.make(Case("c", "x"), "x") for _ in range(2))
        assert os.listdir(one.path.parent) == ["work"]
        try:
            os.listdir(one.path.parent.parent)
        except PermissionError:
            pass
        else:
            raise AssertionError("listed")
        assert one.environment == {"GIT_CEILING_DIRECTORIES": str(one.path.parent)}
        one.remove()
        other.remove()
        """
    )


def test_a_root_that_another_user_prepared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ABREAST_WORKSPACES")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "trap").mkdir()
    (tmp_path / f"abreast-{os.getuid()}").symlink_to(tmp_path / "trap")
    with pytest.raises(NoWorkspace, match="belongs to another user"):
        new_workspaces().make(CASE, "x")
    (tmp_path / f"abreast-{os.getuid()}").unlink()
    workspace = new_workspaces().make(CASE, "x")
    assert stat.S_IMODE((tmp_path / f"abreast-{os.getuid()}").stat().st_mode) == 0o700
    workspace.remove()


# Before a run


@pytest.mark.parametrize(
    ("setting", "message", "fix"),
    [
        ("emtpy", 'workspace: "emtpy" is not a workspace (did you mean "empty"?)', "use workspace: empty"),
        ("data", 'workspace: "data" is not a workspace', "{copy: FOLDER}"),
        (3, "workspace: 3 is not a workspace", "use workspace"),
        ([], "workspace: [] is not a workspace", "use workspace"),
        ({}, "exactly one of copy and git", "{copy: FOLDER}"),
        ({"copy": "a", "git": "b"}, "exactly one of copy and git is required", "{copy: FOLDER}"),
        ({"commit": "x"}, "exactly one of copy and git", "{copy: FOLDER}"),
        ({"git": "a", "comit": "x"}, 'unknown key "comit" (did you mean "commit"?)', "use workspace"),
        ({"git": "a", "commit": 1234567}, "commit must be text, got 1234567", 'commit: "1234567"'),
        ({"git": ""}, "git must be text", "write it as text"),
        ({"copy": "a", "commit": "x"}, "commit needs git, not copy", "use git: instead"),
        ({"git": "a", "commit": "--output=x"}, 'commit "--output=x" is not a revision', "use a commit"),
        ({"git": "ext::sh -c evil"}, "runs a remote helper program", "use a folder"),
        ({"git": "https://me:pass@host/x.git"}, "git https://host/x.git contains a password", "git help credentials"),
        ({"git": "a", "commit": "{{ x"}, "workspace: commit template, line 1", ""),
    ],
)
def test_invalid_settings_are_refused_with_a_fix(setting: Any, message: str, fix: str) -> None:
    with pytest.raises(BadInput) as caught:
        Workspaces('variant "with_mcp"', setting, Path.cwd())
    assert caught.value.message.startswith('variant "with_mcp": workspace')
    assert message in caught.value.message
    assert fix in caught.value.fix


def test_problems_are_reported_before_a_run(tmp_path: Path, project: Project) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for setting, expected, fix in [
        ({"copy": "nowhere"}, "no such folder", "use an existing folder"),
        ({"copy": "file"}, "is a file, not a folder", "use an existing folder"),
        ({"git": "nowhere"}, "no such folder", "its URL"),
        ({"git": "folder"}, "is not a git repository", "`copy:` instead"),
        ({"git": "project/src"}, f"inside the repository {project.path}", f"use git: {project.path}"),
        ({"git": "project", "commit": "nowhere"}, 'commit "nowhere": no such commit in project', "git log"),
        ({"git": f"file://{tmp_path}/nowhere"}, "cannot reach", "git ls-remote"),
        ({"git": f"file://{project.path}", "commit": "nowhere"}, "no such commit", "git log"),
        ({"git": "https://secret@127.0.0.1:1/x.git"}, "cannot reach https://127.0.0.1:1/x.git", "git ls-remote"),
    ]:
        workspaces = Workspaces('variant "v"', setting, tmp_path)
        ((message, fixes),) = workspaces.problems()
        assert message.startswith('variant "v": workspace: ')
        assert expected in message
        assert fix in fixes
        assert "secret" not in message
        assert workspaces.version, "there is one all the same"
        assert isinstance(workspaces.notes(), list)
        workspaces.close()


def test_a_root_inside_a_repository_is_a_problem(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABREAST_WORKSPACES", str(project.path / "workspaces"))
    ((message, fix),) = new_workspaces().problems()
    assert "which agents would find" in message
    assert fix == "set $ABREAST_WORKSPACES to a folder elsewhere"


def test_the_version_depends_on_the_content(tmp_path: Path, project: Project) -> None:
    def version(**setting: Any) -> str:
        return new_workspaces(**setting).version

    address = str(project.path)
    at = version(git=address, commit=project.start)
    assert at == version(git=address, commit="v1") == version(git=f"file://{address}", commit="v1")
    assert at == version(git=f"file://{address}", commit="trunk~1")
    head = version(git=address)
    assert head == version(git=address, commit="trunk") == version(git=f"file://{address}")
    assert head != at
    write(project.path, more_txt="more")
    assert version(git=address) == head, "not committed"
    commit(project.path)
    assert version(git=address) != head
    template = version(git=address, commit="{{ a }}")
    assert template != version(git=address, commit="{{ b }}")
    assert template == version(git=address, commit="{{ a }}")

    first, other = tmp_path / "one", tmp_path / "other"
    write(first, a_txt="a", sub__b="b")
    write(other, sub__b="b", a_txt="a")
    digest = version(copy=str(first))
    assert digest == version(copy=str(other))
    (other / "a.txt").touch()
    assert digest == version(copy=str(other)), "dates do not count"
    (other / "sub" / "b").chmod(0o755)
    assert digest != version(copy=str(other))
    write(first, a_txt="A")
    assert digest != version(copy=str(first))
    assert version() not in (digest, at, head)


def test_notes_list_what_is_hidden_from_trials_and_what_they_get(project: Project) -> None:
    workspaces = project.workspaces()
    assert workspaces.notes() == ["each trial gets 5 files (0.0 MB) and their history"]
    write(project.path, app_py="changed", never_added_txt="x")
    assert f"trials do not see 2 uncommitted changes in {project.path}" in project.workspaces().notes()


# -- what is left out --------------------------------------------------------------------------------------------------


LEFT_OUT = ["cases/[a]*.jsonl", "ünder way", "link", "link/known.txt", "not there"]


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """A repository that also contains the expected answers."""
    folder = tmp_path / "a näme of its own"
    for name in ("app.py", "cases/[a]*.jsonl", "cases/ab.jsonl", "ünder way/x.txt", "real/known.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"this is {name}\n")
    (folder / "link").symlink_to("real")
    git(folder, "init", "--quiet", "-b", "trunk")
    commit(folder, "earlier")
    (folder / "app.py").write_text("this is newer\n")
    commit(folder, "later")
    return folder


@pytest.mark.parametrize("kind", ["git", "worktree", "bare", "shallow", "copy"])
def test_excluded_paths_are_missing_everywhere_and_all_others_are_present(
    annotated: Path, tmp_path: Path, kind: str
) -> None:
    source = tmp_path / kind
    if kind == "worktree":
        git(annotated, "worktree", "add", "--quiet", "--detach", str(source))
    elif kind in ("bare", "shallow"):
        how = ("--bare",) if kind == "bare" else ("--depth", "1")
        git(tmp_path, "clone", "--quiet", *how, f"file://{annotated}", str(source))
    else:
        source = annotated
    setting = {"copy" if kind == "copy" else "git": str(source), "without": LEFT_OUT}
    workspaces = Workspaces("variants.v", setting, tmp_path)
    assert workspaces.problems() == []
    workspace = workspaces.make(CASE, None)
    paths = {str(path.relative_to(workspace.path)) for path in workspace.path.rglob("*") if ".git" not in path.parts}
    assert paths == {"app.py", "cases", "cases/ab.jsonl", "real", "real/known.txt"}
    assert workspace.diff() == Diff()
    if kind != "copy":
        assert git(workspace.path, "status", "--porcelain") == ""
        assert git(workspace.path, "rev-list", "--all", "--count") == "1"
        listed = git(workspace.path, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
        blobs = [line.split()[1] for line in listed.splitlines() if line.startswith("blob")]
        texts = {git(workspace.path, "cat-file", "-p", blob) for blob in blobs}
        assert texts == {"this is newer", "this is cases/ab.jsonl", "this is real/known.txt"}, (
            "nor is it in git's objects"
        )
    workspace.remove()
    workspaces.close()


@pytest.mark.parametrize("name", ["", ".", "/etc", "..", "a/../..", ".git", ".git/config", 3, "a\0b"])
def test_paths_outside_the_repository_cannot_be_excluded(tmp_path: Path, name: Any) -> None:
    with pytest.raises(BadInput, match=r"without: .* is not a path inside it"):
        Workspaces("variants.v", {"copy": str(tmp_path), "without": [name]}, tmp_path)


def test_a_reused_workspace_is_clean_and_has_another_path(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "folder").mkdir(parents=True)
    for name in ("kept", "edited", "removed", "folder/linked"):
        (source / name).write_text(name)
    workspaces = new_workspaces(copy=str(source))
    first = workspaces.make(CASE, "x")
    before = first.path
    (before / "edited").write_text("edited by the trial")
    os.utime(before / "edited", ns=((source / "edited").stat().st_mtime_ns,) * 2)
    (before / "removed").unlink()
    (before / "new").mkdir()
    (before / "new" / "file").write_text("new")
    os.link(before / "folder" / "linked", tmp_path / "outside")
    first.expect_reuse()
    first.reuse()
    second = workspaces.make(CASE, "x")
    assert second.path != before
    assert not before.exists()
    (tmp_path / "outside").write_text("written through a link that the first trial made")
    names = sorted(path.relative_to(second.path) for path in second.path.rglob("*"))
    assert names == sorted(path.relative_to(source) for path in source.rglob("*"))
    assert all(
        (second.path / name).read_text() == (source / name).read_text() for name in names if (source / name).is_file()
    )
    second.remove()
    workspaces.close()
    assert not second.path.exists()
