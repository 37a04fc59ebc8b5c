"""`python -m abreast.github STEP`: one step of the action. Inputs are environment variables."""

from __future__ import annotations

import sys
from importlib import import_module

from abreast.errors import AbreastError
from abreast.github.workflow import log
from abreast.output import say_problem
from abreast.report.formats.github_commands import command

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
        log(command("error", error.message, title="abreast"))
        sys.exit(error.exit_code)
