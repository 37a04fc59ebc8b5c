"""The documentation is correct: its files and commands are executed, and its reference pages are up to date."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import abreast
from clis import real_cli
from conftest import Folder

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
BLOCK = re.compile(r'^```(\w+)?(?: title="([\w./-]+)")?\n(.*?)^```$', re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Language, file name and content of every fenced block."""
    return [(m[1] or "", m[2] or "", m[3]) for m in BLOCK.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "```console" in page.read_text()],
    ids=lambda p: p.parent.name if p.name == "README.md" else p.name,
)
def test_the_commands_of_a_page_run_in_its_order(page: Path, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path = folder.path
    programs = [Path(sys.executable).parent]
    if ROOT / "examples" in page.parents:
        shutil.copytree(page.parent, tmp_path, dirs_exist_ok=True)
        programs.append(real_cli("claude").parent)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if (logs := ROOT / "tests" / "logs" / page.stem).is_dir():  # of the tool that the page is about
        shutil.copytree(logs, tmp_path / "logs")
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, programs), os.environ["PATH"]]))
    environment = dict(os.environ)
    if page == ROOT / "README.md":  # its first job begins with the files that init writes
        subprocess.run(["abreast", "init", "function"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    commands_run = 0
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
                    result = folder.abreast(*shlex.split(line[2:])[1:])  # quicker in this process
                    code, out, err = result.code, result.out, result.err
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
                commands_run += 1
    assert commands_run


def test_reference_pages_are_the_generated_ones() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        generate_docs = importlib.import_module("generate_docs")
    finally:
        sys.path.pop(0)
    for name, text in generate_docs.pages().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, "run: python tools/generate_docs.py"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_of_the_readme_work_on_the_package_index() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatch_fancy_pypi_readme"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    base = urls["Repository"] + "/blob/main/"
    links = re.findall(r"\]\(([^)]+)\)", done.stdout)
    assert len(links) > 10
    for link in [*links, urls["Documentation"], urls["Changelog"]]:
        assert link.startswith(base), link
        assert (ROOT / link.removeprefix(base)).is_file(), link


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        resources = re.findall(
            r"<(?:script|img|link rel=.?stylesheet.?)[^>]*?(?:src|href)=.?(https?://[^\s\">]+)", page.read_text()
        )
        assert not resources, f"{page.name} loads {resources}"
    assert "Execute the missing trials" in (tmp_path / "site/reference/python-api/index.html").read_text()


def modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(abreast.__path__, "abreast.") if "__main__" not in info.name]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_are_correct(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_no_file_names_local_paths_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    hosts = "|".join(("py" + "pi", "python" + "hosted", "npm" + "js"))
    for name in listed:
        path = ROOT / name
        if path.suffix in (".md", ".py", ".toml", ".txt", ".yaml", "") and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not re.search(rf"https?://[\w.-]*(?:{hosts})", text), name
