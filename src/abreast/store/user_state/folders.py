"""Folders of the user: state and cache."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """`$ABREAST_STATE`, else the user's state folder. Raises RuntimeError if the user has no home."""
    return _user_folder("ABREAST_STATE", "XDG_STATE_HOME", ".local/state")


def cache_folder() -> Path:
    """`$ABREAST_CACHE`, else the user's cache folder. Raises RuntimeError if the user has no home."""
    return _user_folder("ABREAST_CACHE", "XDG_CACHE_HOME", ".cache")


def _user_folder(variable: str, xdg_variable: str, default: str) -> Path:
    if folder := os.environ.get(variable):
        return Path(folder).absolute()
    return Path(os.environ.get(xdg_variable) or Path.home() / default) / "abreast"
