"""`python -m abreast.suites.numbers` is `abreast run numbers`."""

import sys

from abreast.cli import main
from abreast.suites.numbers.config import NAME

if __name__ == "__main__":
    sys.exit(main(["run", NAME, *sys.argv[1:]]))
