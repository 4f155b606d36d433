"""`python -m toolstile` is `toolstile`."""

import sys

from toolstile.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
