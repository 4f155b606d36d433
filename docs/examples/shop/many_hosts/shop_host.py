"""A host of the shop: it carries out its share of the orders, and says so in a folder."""

import sys
import time
from pathlib import Path

from shop_tools import enter, pay

from toolstile import Executor, Host, ToolCall

CUSTOMERS = 10


def carry_out(executor: Executor, name: str, number: int) -> None:
    """Call a tool until it has succeeded: however often it is called, its effect happens once."""
    call = ToolCall(name, {"order": f"order {number}", "euros": 10 + number % 7})
    while not (outcome := executor.dispatch(call)).success:
        print(f"{name}, order {number}: {outcome.text}", file=sys.stderr, flush=True)
        time.sleep(0.5)


def serve(share: range, done: Path) -> None:
    with Host(tools=[pay, enter]) as host:
        for number in share:
            with host.executor(session_id=f"customer {number % CUSTOMERS}") as executor:
                carry_out(executor, "pay", number)
                carry_out(executor, "enter", number)
            (done / str(number)).touch()


if __name__ == "__main__":
    serve(range(*map(int, sys.argv[1].split(":"))), Path(sys.argv[2]))
