# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reduce an inventory to what custody needs of each card: power of its hosts, and locks of the demanded write paths."""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime

from baremetal_acc.model.accelerator import Accelerator, Kind
from baremetal_acc.model.codec import encode
from baremetal_acc.model.custody import Access, CardSeen, Custody, HostSeen
from baremetal_acc.model.inventory import BmcFacts, Inventory, PowerState
from baremetal_acc.model.lock import Engagement, LockReading, LockState
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.planning import lock_evidence
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.policy.device_demands import HOST_PATHS, Demands, demands

_CLOSED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})


def seen(
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    before: Custody,
    starting: Ref | None = None,
) -> dict[AcceleratorId, CardSeen]:
    """Return what custody needs of a whole reading of a machine, by card.

    :param engagements: our own records; only they make a lock proven.
    :param before: the custody that the reading is going to extend.
    :param starting: as of :func:`~baremetal_acc.planning.lock_evidence.judge`.
    """
    records = lock_evidence.Records(engagements)
    hosts, shared = inventory.hosts, inventory.shared_devices
    found = {}
    for accelerator in inventory.accelerators:
        closed = _proven_closed(before.of(accelerator.id).seen)
        locks = tuple(
            _engaged_again(r, lock_evidence.judge(r, records.at(r), lifecycle=lifecycle, starting=starting), closed)
            for r in accelerator.locks
        )
        # A device that other machines of the BMC reach, too, has hosts that are not read: none is known.
        reaching = () if accelerator.id in shared else hosts
        own = _own_system(accelerator, inventory, hosts)
        found[accelerator.id] = _card(accelerator, demands(baseline, accelerator, node), locks, inventory.at, reaching, own)
    return found


def _proven_closed(card: CardSeen | None) -> frozenset[str]:
    """Return the digests of the locks that keep a card closed."""
    return frozenset(card.locks) if card is not None and card.access is Access.CLOSED and card.proven else frozenset()


def _engaged_again(reading: LockReading, judged: LockReading, closed: frozenset[str]) -> LockReading:
    """Return a lock that was closed, and that we have engaged once more, as closed: only the new record waits for its reset."""
    waits = reading.state is LockState.LOCKED_REPORTED and judged.state is LockState.PENDING_RESET
    return reading if waits and _digest(reading) in closed else judged


def _card(
    accelerator: Accelerator,
    wanted: Demands,
    locks: tuple[LockReading, ...],
    at: datetime,
    hosts: tuple[BmcFacts, ...],
    own: PowerState,
) -> CardSeen:
    """Return what custody needs of one card.

    :param hosts: those that reach the card; ``own``: the power of the System that the card itself is.
    """
    paths = sorted(wanted.block & HOST_PATHS)
    weakest = [lock_evidence.weakest(lock_evidence.coverage(accelerator, path, locks)).state for path in paths]
    # A lock that takes effect with a start shows another value after it: it only has to be closed then.
    pending = {r.place for r in accelerator.locks if r.state is LockState.PENDING_RESET}
    closing = [r for r in locks if r.blocks & wanted.block & HOST_PATHS and r.state in _CLOSED and r.place not in pending]
    return CardSeen(
        at=at,
        access=_access(weakest),
        hosts=tuple(HostSeen(system=facts.system, reading=facts.host) for facts in hosts if facts.system is not None),
        locks=tuple(sorted(map(_digest, closing))),
        proven=bool(weakest) and all(state is LockState.LOCKED_VERIFIED for state in weakest),
        own_processor=accelerator.kind is Kind.DPU and own is not PowerState.OFF,
        bmcs=frozenset(ref.bmc for ref in accelerator.refs),
    )


def _access(states: list[LockState]) -> Access:
    if not states or any(s not in _CLOSED and s is not LockState.UNKNOWN for s in states):
        return Access.OPEN
    return Access.UNKNOWN if LockState.UNKNOWN in states else Access.CLOSED


def _own_system(accelerator: Accelerator, inventory: Inventory, hosts: tuple[BmcFacts, ...]) -> PowerState:
    """Return the power of the System that a card itself is, as the BMC of a DPU shows it; unknown where no BMC shows it."""
    names = {ref.bmc for ref in accelerator.refs} - {HOST, *(facts.name for facts in hosts)}
    found = [facts.power for facts in inventory.bmcs if facts.name in names and facts.system is not None]
    return found[0] if len(found) == 1 else PowerState.UNKNOWN


def _digest(reading: LockReading) -> str:
    """Return a digest that differs for different locks and settings. 64 bits suffice: a collision helps no attacker."""
    place = (reading.mechanism, encode(reading.ref), reading.field, reading.part, reading.value, reading.leaves)
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:16]


def is_host_off(card: CardSeen) -> bool:
    """Whether every System that reaches the card was read off."""
    return bool(card.hosts) and all(host.reading.power is PowerState.OFF for host in card.hosts)


def is_kept(card: CardSeen) -> bool:
    """Whether nobody else's code can write the card as it was read, so that the next reading breaks no chain begun here."""
    return is_host_off(card) or (card.access is Access.CLOSED and card.proven)
