"""Exclusive resources held by a transaction by hand, from its begin to its end."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from toolstile.resources.closing import Failures
from toolstile.resources.exclusive import Claim, lock_of


class HeldResources:
    """Exclusive resources that one transaction by hand has begun.

    Args:
        resources: The resources.
        tag: How messages name the transaction.
        lock: Whether their locks have to be had; the call of a scope has them already.

    Attributes:
        over: Whether the transaction has ended.
        resources: The resources.
    """

    parent: None = None

    def __init__(self, resources: Sequence[Any], tag: str | None, *, lock: bool) -> None:
        self.over = False
        self.resources = resources
        self._tag = tag
        self._claims: list[Claim] = []
        self._begun: list[tuple[Any, Any]] = []
        try:
            for resource in resources:
                if lock:
                    self._lock(resource)
                self._begun.append((resource, resource.begin()))
        except BaseException:
            self.end("rollback", Failures("rolling back"))
            raise

    @property
    def root_id(self) -> Hashable:
        """What the locks know the transaction by."""
        return id(self)

    def __str__(self) -> str:
        return f"the transaction {self._tag!r}" if self._tag else "a transaction"

    def end(self, how: str, failures: Failures) -> None:
        """Commit or roll back, newest first, and give the locks back."""
        self.over = True
        self._end_all(how, failures)
        for claim in self._claims:
            claim.leave()

    def restart(self, failures: Failures) -> None:
        """Roll back and begin again."""
        self._end_all("rollback", failures)
        for resource in self.resources:
            try:
                self._begun.append((resource, resource.begin()))
            except BaseException as error:  # noqa: BLE001 - told when all have begun
                failures.add(resource, error)

    def _lock(self, resource: Any) -> None:
        claim = Claim(lock_of(resource), self, waitable=False)
        claim.request(fail_fast=True)
        self._claims.append(claim)

    def _end_all(self, how: str, failures: Failures) -> None:
        while self._begun:
            resource, savepoint = self._begun.pop()
            try:
                getattr(resource, how)(savepoint)
            except BaseException as error:  # noqa: BLE001 - told when all have ended
                failures.add(resource, error)
