"""`python -m abreast.github STEP`: one step of the action. Inputs are environment variables."""

from __future__ import annotations

import sys
from importlib import import_module

from abreast.errors import AbreastError
from abreast.output import say_problem

STEPS = {
    "prepare": "caches:prepare",
    "keep-base": "caches:keep_base",
    "run": "experiment:run",
    "comment": "comments:comment",
}

if __name__ == "__main__":
    module, _, function = STEPS[sys.argv[1]].partition(":")
    try:
        sys.exit(getattr(import_module(f"abreast.github.{module}"), function)())
    except AbreastError as error:
        say_problem("error", error.message, error.fix)
        sys.exit(error.exit_code)
