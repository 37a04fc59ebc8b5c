"""Tab completion: names of files are offered, never executed."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Folder

PROMPT = "ready> "

HOSTILE = [
    "numb$(touch executed).yaml",
    "numb`touch executed`.yaml",
    "numb${IFS}x;touch executed;.yaml",
    "numb'\"quote.yaml",
    "numb two words.yaml",
    "numb\ntouch executed\n.yaml",
    "numb<(touch executed).yaml",
    "numb*.yaml",
    "numb~\\.yaml",
    "-numb$(touch executed).yaml",
]


@pytest.fixture
def hostile_names(folder: Folder) -> Folder:
    for name in HOSTILE:
        folder.write(name, "")
    folder.write("a b$(touch executed).yaml", "")
    folder.write("bin/abreast", f'#!/bin/sh\nexec "{sys.executable}" -c "import sys; print(sys.argv[1:])" "$@"\n')
    (folder.path / "bin/abreast").chmod(0o755)
    folder.write("completion.bash", folder.abreast("completion", "bash").out)
    return folder


def type_in_bash(folder: Path, keys: str) -> str:
    """The output of an interactive bash in which these keys are typed, each line after a prompt."""
    terminal, shell_side = pty.openpty()
    path = f"{folder}/bin:{os.environ['PATH']}"
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        cwd=folder,
        env={**os.environ, "PS1": PROMPT, "TERM": "dumb", "HISTFILE": "", "PATH": path},
        **dict.fromkeys(("stdin", "stdout", "stderr"), shell_side),
    )
    os.close(shell_side)
    settings = "bind 'set page-completions off'; bind 'set completion-query-items 0'"
    screen = ""
    for line in ("source completion.bash", settings, keys, "exit"):
        screen += read_until(terminal, PROMPT)
        os.write(terminal, f"{line}\n".encode())
    screen += read_until(terminal, None)
    bash.wait(timeout=60)
    os.close(terminal)
    return screen


def read_until(terminal: int, mark: str | None) -> str:
    screen = ""
    try:
        while mark is None or not screen.endswith(mark):
            screen += os.read(terminal, 1).decode(errors="replace").replace("\r", "")
    except OSError:  # bash has exited
        assert mark is None, screen
    return screen


@pytest.mark.parametrize(
    "keys",
    ["abreast run numb\t\t", "abreast run \t\t", "abreast check -numb\t\t", "abreast run a\t", "abreast show numb\t\t"],
)
def test_a_file_name_is_never_executed_by_completing_it(hostile_names: Folder, keys: str) -> None:
    screen = type_in_bash(hostile_names.path, keys)
    assert "['" in screen, "the fake command ran"
    assert not (hostile_names.path / "executed").exists(), screen


def test_a_completed_name_reaches_the_command_unchanged(hostile_names: Folder) -> None:
    screen = type_in_bash(hostile_names.path, "abreast run a\t")
    assert "['run', 'a b$(touch executed).yaml']" in screen
    assert not (hostile_names.path / "executed").exists()


@pytest.mark.parametrize(
    ("keys", "completed"),
    [
        ("abreast histo\t", "['history']"),
        ("abreast run --until\t", "['run', '--until-decided']"),
        ("abreast check code-s\t", "['check', 'code-search']"),
        ("abreast report spe\t", "['report', 'spec.yaml']"),
    ],
)
def test_commands_flags_suites_and_files_are_completed(hostile_names: Folder, keys: str, completed: str) -> None:
    hostile_names.write("spec.yaml", "")
    assert completed in type_in_bash(hostile_names.path, keys)


def test_a_suite_with_an_unusual_name_is_not_completed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("site/odd-1.0.dist-info/METADATA", "Name: odd\nVersion: 1.0\n")
    names = ["a$(touch executed)", "b`touch executed`", "c;touch executed", "d e", "fine"]
    points = "".join(f"{name} = nothing\n" for name in names)
    folder.write("site/odd-1.0.dist-info/entry_points.txt", f"[abreast.suites]\n{points}")
    monkeypatch.syspath_prepend(str(folder.path / "site"))
    for shell in ("bash", "zsh", "fish"):
        script = folder.abreast("completion", shell).out
        assert "touch" not in script
        assert " fine" in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_valid(folder: Folder, shell: str) -> None:
    script = folder.write(f"completion.{shell}", folder.abreast("completion", shell).out)
    program = shutil.which(shell)
    if program is not None:
        assert subprocess.run([program, "-n", script], capture_output=True).returncode == 0
