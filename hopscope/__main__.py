"""`python -m hopscope` is `hopscope`."""

import sys

from hopscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
