"""`python -m toolyard` is `toolyard`."""

import sys

from toolyard.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
