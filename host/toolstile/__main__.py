"""`python -m toolstile` is `toolstile`."""

import sys

from toolstile_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
