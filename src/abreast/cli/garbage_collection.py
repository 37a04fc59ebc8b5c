"""The garbage collector of a command: off while modules are loaded, as it would search them again and again."""

from __future__ import annotations

import atexit
import gc

_is_paused = False


def pause() -> None:
    """Turn the collector off until trials start. Only for a process that is nothing but this command."""
    global _is_paused
    atexit.register(gc.freeze)  # else Python searches all objects for cycles before it frees them
    _is_paused = gc.isenabled()
    gc.disable()


def resume() -> None:
    """Turn the collector on again; what was loaded meanwhile stays, and is never searched."""
    global _is_paused
    if _is_paused:
        _is_paused = False
        gc.freeze()
        gc.enable()
