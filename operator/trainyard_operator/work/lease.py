"""Which replica works: a Lease in the operator's namespace, as client-go's leader election keeps it.

`Elector` holds and renews ours; `Upstream` watches for a living holder of the
Lease of Kubeflow Trainer's own controller, while which works we must not. Time
is monotonic: other machines' clocks do not count.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trainyard_api import names
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError
from trainyard_kube.resources import LEASES

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """How a Lease is kept, in seconds.

    It lasts `duration`, is given up `renew_deadline` after the last renewal,
    and is tried for or renewed every `retry`.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


class Elector:
    """Holds the Lease for as long as it can be renewed.

    `identity` must differ between replicas. `allowed` is checked before the
    Lease is taken or renewed; while it is False, the Lease is given up.
    `started` and `stopped` are called when this replica begins and ends to
    lead; `stopped` is called before the Lease can be anybody else's.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        *,
        started: Callable[[], Awaitable[None]],
        stopped: Callable[[], Awaitable[None]],
        allowed: Callable[[], bool] = lambda: True,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.leading = False
        self.holder = ""
        self.problem = ""
        """Why the Lease could not be read or written last time; empty if it could."""
        self.beat = clock()
        """When the last try began."""
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._started = started
        self._stopped = stopped
        self._allowed = allowed
        self._timing = timing or Timing()
        self._clock = clock
        self._now = now
        self._record: tuple[str, str] | None = None  # resourceVersion and holder, as last seen
        self._record_at = 0.0
        self._record_lasts = 0.0
        self._renewed_at = float("-inf")

    @property
    def safe(self) -> bool:
        """Whether this replica leads and no other can yet, even if the process has just stood still."""
        return self.leading and self._clock() - self._renewed_at < self._timing.renew_deadline

    async def run(self) -> None:
        """Take part in the election until cancelled. Does not release: call `release`."""
        while True:
            await self.step()
            await asyncio.sleep(self._timing.retry * random.uniform(0.9, 1.1))  # noqa: S311 - spread

    async def step(self) -> None:
        """One try to take or renew the Lease."""
        self.beat = self._clock()
        if not self._allowed():
            if self.leading:
                await self._lose()
                await self._give_back()
            return
        asked_at = self._clock()
        budget = self._timing.renew_deadline
        if self.leading:
            budget -= asked_at - self._renewed_at
        held = False
        try:
            async with asyncio.timeout(max(budget, 0.01)):
                held = await self._try()
            self._report("")
        except ConflictError:
            self._report("")  # another replica was faster; the next step sees which
        except TimeoutError:
            self._report("no answer in time to renew it")
        except ApiError as error:
            self._report(str(error))
        if held:
            # Counted from the request, not the answer: the holder must give up before others take over.
            self._renewed_at = asked_at
            if not self.leading:
                self.leading = True
                logger.info("leading as %s", self._identity)
                await self._started()
        elif self.leading and (
            self.holder != self._identity or self._clock() - self._renewed_at >= self._timing.renew_deadline
        ):
            await self._lose()

    async def release(self) -> None:
        """Stop leading, and let another replica take the Lease at once."""
        if not self.leading:
            return
        try:
            await self._stopped()  # what is under way may still be written: the Lease is ours until then
        finally:
            self.leading = False
        logger.info("no longer leading")
        await self._give_back()

    async def _give_back(self) -> None:
        try:
            async with asyncio.timeout(self._timing.retry):
                lease = await self._client.get(LEASES.path(self._namespace, names.OPERATOR))
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") != self._identity:
                    return
                lease["spec"] = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, **self._renewal()}
                await self._client.replace(LEASES.path(self._namespace, names.OPERATOR), lease)
            logger.info("lease released")
        except (ApiError, TimeoutError) as error:
            logger.warning("lease not released, it will expire: %s", error)

    async def _lose(self) -> None:
        self.leading = False
        logger.info("no longer leading")
        await self._stopped()

    async def _try(self) -> bool:
        path = LEASES.path(self._namespace, names.OPERATOR)
        try:
            lease = await self._client.get(path)
        except NotFoundError:
            created = await self._client.create(
                LEASES.path(self._namespace),
                {
                    "apiVersion": LEASES.api_version,
                    "kind": LEASES.kind,
                    "metadata": {"name": names.OPERATOR, "namespace": self._namespace},
                    "spec": self._spec(acquired=True, transitions=0),
                },
            )
            self._see(created)
            return True
        self._see(lease)
        spec = lease.get("spec") or {}
        mine = self.holder == self._identity
        if not mine and self.holder and self._clock() - self._record_at < self._record_lasts:
            return False
        transitions = int(spec.get("leaseTransitions") or 0) + (0 if mine else 1)
        lease["spec"] = {**spec, **self._spec(acquired=not mine, transitions=transitions)}
        self._see(await self._client.replace(path, lease))
        return True

    def _see(self, lease: dict[str, Any]) -> None:
        spec = lease.get("spec") or {}
        self.holder = spec.get("holderIdentity") or ""
        record = (lease["metadata"]["resourceVersion"], self.holder)
        if record != self._record:
            self._record = record
            self._record_at = self._clock()
        self._record_lasts = float(spec.get("leaseDurationSeconds") or self._timing.duration)

    def _spec(self, *, acquired: bool, transitions: int) -> dict[str, Any]:
        renewal = self._renewal()
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.duration),
            "leaseTransitions": transitions,
            **renewal,
        }
        if acquired:
            spec["acquireTime"] = renewal["renewTime"]
        return spec

    def _renewal(self) -> dict[str, Any]:
        return {"renewTime": self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")}

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("lease %s/%s: %s", self._namespace, names.OPERATOR, problem)
        self.problem = problem


class Upstream:
    """Whether Kubeflow Trainer's controller is alive, by its Lease.

    `reason`: why we must not work, while it is alive or that is not known yet; empty: we may work.
    A Lease that names a holder counts until nobody has renewed it for as long as it lasts.
    """

    def __init__(
        self,
        client: Client,
        namespace: str = names.KUBEFLOW_NAMESPACE,
        *,
        interval: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reason = "not yet known whether Kubeflow Trainer's controller runs"
        self._client = client
        self._namespace = namespace
        self._interval = interval
        self._clock = clock
        self._record: tuple[str, str] | None = None  # holder and time of the renewal, as last seen
        self._record_at = 0.0
        self._is_renewed = False

    @property
    def absent(self) -> bool:
        """True if we may work."""
        return not self.reason

    async def run(self) -> None:
        """Look at intervals until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(self._interval)

    async def step(self) -> None:
        """Look once. If the Lease cannot be read, the last answer stays valid."""
        try:
            lease = await self._client.get(LEASES.path(self._namespace, names.TRAINER_LEASE))
        except NotFoundError:
            self._say("")
            return
        except ApiError as error:
            if self.reason:
                self._say(f"could not find out whether Kubeflow Trainer's controller runs: {error}")
            return
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        self._say(self._why_not(holder, spec) if holder else "")

    def _why_not(self, holder: str, spec: dict[str, Any]) -> str:
        """Alive while it renews, as seen from here; what the Lease says is of another machine's clock."""
        lasts = float(spec.get("leaseDurationSeconds") or 15)
        record = (holder, str(spec.get("renewTime") or ""))
        if record != self._record:
            # The first look shows a time, not a renewal: only a second, different one proves life.
            self._is_renewed = self._record is not None
            self._record, self._record_at = record, self._clock()
        if self._clock() - self._record_at >= lasts:
            return ""
        lease = f"{holder} holds Lease {self._namespace}/{names.TRAINER_LEASE}"
        if self._is_renewed:
            return f"Kubeflow Trainer's controller is alive: {lease}; scale it down first"
        return f"not yet known whether Kubeflow Trainer's controller runs: {lease}; waiting for a renewal"

    def _say(self, reason: str) -> None:
        if reason and reason != self.reason:
            logger.warning("passive: %s", reason)
        elif not reason and self.reason:
            logger.info("no living controller of Kubeflow Trainer in namespace %s", self._namespace)
        self.reason = reason
