"""The shop on three hosts, two workers and one PostgreSQL, each killed once; then its books."""

import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from shop_host import CUSTOMERS
from shop_tools import Bought

from toolstile import Host, Settings

HERE = Path(__file__).parent
HOSTS, WORKERS = 3, 2
SETTINGS = """\
[plugins.database]
url = "{url}"
lease = 2

[plugins.workers]
dispatcher = "dbos"
lease = 2

[plugins.workers.runs]
tags = ["bank"]

[plugins.ledger]
backoff = 0.2
"""


class Database:
    """A PostgreSQL of its own, on a socket in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        self.programs = installed[-1] if installed else Path(shutil.which("postgres") or "").parent
        # It refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(folder, self.user)
        self.url = f"postgresql://shop@/postgres?host={folder}"
        self.do("initdb", "-D", "data", "-A", "trust", "-U", "shop")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder}"
        self.do("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def kill(self) -> None:
        """End it at once, as a loss of power does to its processes."""
        self.do("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")

    def do(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            user=self.user,
            check=True,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def running_database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as name:
        database = Database(Path(name))
        try:
            yield database
        finally:
            database.kill()


class Shop:
    """The processes of the shop, in a folder with their configuration and their bank."""

    def __init__(self, folder: Path, url: str, orders: int) -> None:
        self.folder, self.orders = folder, orders
        self.log = (folder / "log.txt").open("w")
        self.bank, self.done = folder / "bank.db", folder / "done"
        self.done.mkdir()
        (folder / "toolstile.toml").write_text(SETTINGS.format(url=url))
        with closing(sqlite3.connect(self.bank)) as bank:
            bank.execute("PRAGMA journal_mode = WAL")
            bank.execute("CREATE TABLE payment (shop_order TEXT, euros INTEGER)")
        self.workers = [self.start_worker() for _ in range(WORKERS)]
        self.hosts = [self.start_host(number) for number in range(HOSTS)]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(HERE), "SHOP_BANK": str(self.bank)}
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=environment, stderr=self.log
        )

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self.start("-m", "toolstile", "worker", "--tools", "shop_tools")

    def start_host(self, number: int) -> subprocess.Popen[bytes]:
        share = self.orders * number // HOSTS, self.orders * (number + 1) // HOSTS
        return self.start(str(HERE / "shop_host.py"), f"{share[0]}:{share[1]}", str(self.done))

    def wait_for(self, part: float) -> None:
        """Wait for a part of the orders; what has failed meanwhile is started again."""
        while len(list(self.done.iterdir())) < self.orders * part:
            time.sleep(0.05)
            for number, host in enumerate(self.hosts):
                if host.poll():
                    self.hosts[number] = self.start_host(number)
            for number, worker in enumerate(self.workers):
                if worker.poll():
                    self.workers[number] = self.start_worker()

    def close(self) -> None:
        for process in (*self.hosts, *self.workers):
            process.kill()
            process.wait()
        self.log.close()


def disturb(shop: Shop, database: Database) -> None:
    """Kill a host, a worker and the database, each while orders are carried out."""
    shop.wait_for(0.2)
    print("A host is killed, and another one begins its share anew.", flush=True)
    random.choice(shop.hosts).kill()
    shop.wait_for(0.4)
    print("A worker is killed, and another one takes its place.", flush=True)
    random.choice(shop.workers).kill()
    shop.wait_for(0.6)
    print("PostgreSQL is killed, and starts again.", flush=True)
    database.kill()
    database.start()
    shop.wait_for(1)


def books_of(shop: Shop, url: str) -> list[str]:
    """Return what is wrong with the books: the bank's, and those in the customers' sessions."""
    expected = sorted((f"order {number}", 10 + number % 7) for number in range(shop.orders))
    with closing(sqlite3.connect(shop.bank)) as bank:
        paid = bank.execute("SELECT shop_order, euros FROM payment").fetchall()
    with Host(settings=Settings(plugins={"database": {"url": url}})) as host:
        entered = [
            (bought.order, bought.euros)
            for number in range(CUSTOMERS)
            for bought in host.session_of(f"customer {number}")[Bought].all()
        ]
    return [
        f"{place} {len(lines)} entries for {len(set(lines))} of {len(expected)} orders."
        for place, lines in (("The bank has", paid), ("The sessions have", entered))
        if sorted(lines) != expected
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=120, metavar="N", help="how many (120)")
    orders = parser.parse_args().orders
    with (
        tempfile.TemporaryDirectory() as name,
        running_database() as database,
        closing(Shop(Path(name), database.url, orders)) as shop,
    ):
        disturb(shop, database)
        faults = books_of(shop, database.url)
    print("\n".join(faults) or f"The books balance: {orders} orders, each paid and entered once.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
