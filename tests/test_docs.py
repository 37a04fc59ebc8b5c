"""The documentation is correct: its files and commands are executed, and its reference pages are up to date."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import abreast
from conftest import Folder

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)?[ ]?([\w./-]+)?\n(.*?)^```$", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, file name and content of every fenced block."""
    return [(m[1] or "", m[2] or "", m[3]) for m in BLOCK.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [page for page in PAGES if "```console" in page.read_text()], ids=lambda p: p.name)
def test_the_commands_of_a_page_run_in_its_order(page: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path = folder.path
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    monkeypatch.setenv("PATH", environment["PATH"])
    if page.name == "README.md":  # its first job begins with the files that init writes
        subprocess.run(["abreast", "init", "function"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    ran = 0
    for language, name, content in blocks(page):
        if name:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
            if name == "compare.py":
                subprocess.run(["python", name], cwd=tmp_path, env=environment, check=True, capture_output=True)
        elif language == "console":
            for line in content.splitlines():
                assert line.startswith("$ "), f"{page.name}: {line}"
                if line.startswith("$ abreast ") and not set(line[2:]) & set("|&;<>$`*"):
                    here = folder.abreast(*shlex.split(line[2:])[1:])  # quicker in this process
                    code, out, err = here.code, here.out, here.err
                else:
                    done = subprocess.run(
                        ["bash", "-c", line[2:]],
                        cwd=tmp_path,
                        env=environment,
                        capture_output=True,
                        text=True,
                        timeout=120,
                    )
                    code, out, err = done.returncode, done.stdout, done.stderr
                assert code == 0, f"{page.name}: {line}\n{out}{err}"
                ran += 1
    assert ran


def test_reference_pages_are_the_generated_ones() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        generate = importlib.import_module("generate")
    finally:
        sys.path.pop(0)
    for name, text in generate.pages().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, "run: python docs/generate.py"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(abreast.__path__, "abreast.") if "__main__" not in info.name]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_no_file_names_a_place_of_one_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    hosts = "|".join(("py" + "pi", "python" + "hosted", "npm" + "js"))
    for name in listed:
        path = ROOT / name
        if path.suffix in (".md", ".py", ".toml", ".txt", ".yaml", "") and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search(rf"https?://[\w.-]*(?:{hosts})", text), name
