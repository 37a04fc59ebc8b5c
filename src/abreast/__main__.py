"""`python -m abreast` is `abreast`."""

import sys

from abreast.cli import main

sys.exit(main())
