"""Packages for tests, installed without a network: what `pip install` leaves behind."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from conftest import Folder


def install(folder: Folder, name: str, points: Mapping[str, Mapping[str, str]], site: str = "site") -> None:
    """Write the metadata of a package with these entry points, by group."""
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in own.items()) for group, own in points.items()
    ]
    folder.write(f"{site}/{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    folder.write(f"{site}/{name}-1.0.dist-info/entry_points.txt", "\n".join(lines))


def install_project(folder: Folder, pyproject: str, site: str) -> None:
    """Write the metadata from the `pyproject.toml` of a package whose modules are already in `site`."""
    project = tomllib.loads(pyproject)["project"]
    install(folder, project["name"], project["entry-points"], site)
