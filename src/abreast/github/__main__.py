"""`python -m abreast.github STEP`: one step of the action. Inputs are environment variables."""

from __future__ import annotations

import sys
from collections.abc import Callable

from abreast.errors import AbreastError
from abreast.github import comments, steps
from abreast.output import say_problem

STEPS: dict[str, Callable[[], int]] = {
    "prepare": steps.prepare,
    "keep-base": steps.keep_base,
    "run": steps.run,
    "comment": comments.comment,
}

if __name__ == "__main__":
    try:
        sys.exit(STEPS[sys.argv[1]]())
    except AbreastError as error:
        say_problem("error", error.message, error.fix)
        sys.exit(error.exit_code)
