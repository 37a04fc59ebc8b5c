"""`python -m benchmarks.statistics`."""

import sys

from benchmarks.statistics import verdicts

if __name__ == "__main__":
    sys.exit(0 if verdicts() else 1)
