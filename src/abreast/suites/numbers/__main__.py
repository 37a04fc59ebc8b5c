"""`python -m abreast.suites.numbers` is `abreast run numbers`."""

import runpy
import sys

from abreast.suites.numbers.suite import NAME

if __name__ == "__main__":
    sys.argv[1:1] = ["run", NAME]
    runpy.run_module("abreast", run_name="__main__")
