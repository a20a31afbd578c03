"""`python -m egomap`: the same as the `egomap` command."""

import sys

from egomap.cli import main

if __name__ == "__main__":
    sys.exit(main())
