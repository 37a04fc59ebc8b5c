"""Small experiments to start from: what `abreast init` and `abreast demo` write, a folder of files each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from abreast.errors import BadInput

KINDS = ("function", "api", "claude-code", "mcp", "code-search", "agents", "demo")

FIRST = {"agents": "settings.json"}
"""What is run, where it is not experiment.yaml."""


def next_step(kind: str, folder: Path) -> str:
    """What runs it. Most have a spec; the one of a suite is a repository to ask about."""
    if kind == "code-search":
        return f"{shlex.join(['abreast', 'run', kind, '--repo', str(folder / 'shop')])}   (without an agent: --mock)"
    return shlex.join(["abreast", "run", str(folder / FIRST.get(kind, "experiment.yaml"))])


def write_starter(kind: str, folder: Path, again: bool = False) -> list[str]:
    """Write the files of a starter. An existing file is refused, unless `again` allows one with the same content."""
    found = dict(_files(files(__name__).joinpath(kind), PurePosixPath()))
    for name, content in found.items():
        if (folder / name).exists() and not (again and _has_content(folder / name, content)):
            changed = " with other content" if again else ""
            raise BadInput(f"{folder / name}: already exists{changed}", "choose another folder with --folder")
    try:
        for name, content in found.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written ({error.strerror})") from None
    return [str(folder / name) for name in found]


def _has_content(path: Path, content: str) -> bool:
    try:
        return path.read_bytes() == content.encode()
    except OSError:
        return False


def _files(place: Traversable, above: PurePosixPath) -> Iterator[tuple[str, str]]:
    """Names and contents, what is run first."""
    first = ("experiment.yaml", *FIRST.values())
    for entry in sorted(place.iterdir(), key=lambda entry: (entry.name not in first, entry.name)):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry, above / entry.name)
        else:
            yield str(above / entry.name), entry.read_text(encoding="utf-8")
