"""Redeems a token in a process of its own, and prints what came of it.

Usage: redeeming_driver.py FILE KEY TOKEN TOOL SESSION USER, with the key in hexadecimal digits.
"""

import sys
from pathlib import Path

from toolstile.policies.approval_tokens import SpentInFile, TokenRefused, TokenSigner, TokenSubject
from toolstile_hookspecs import Principal, SystemClock
from toolstile_hookspecs.execution.principal import APPLICATION

file, key, token, name, session, user = sys.argv[1:]
bearer = TokenSubject(name, session, Principal(APPLICATION, user), dry_run=False)
seal = TokenSigner(bytes.fromhex(key), SystemClock(), 3600, SpentInFile(Path(file)))
# Those that are started together also begin together.
sys.stdout.write("there\n")
sys.stdout.flush()
sys.stdin.read()
try:
    seal.redeem(token, bearer).spend()
except TokenRefused as refused:
    sys.stdout.write(f"{refused}\n")
else:
    sys.stdout.write("redeemed\n")
