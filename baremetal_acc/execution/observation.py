# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the inventory of a target from its BMCs, locks included, and compare it with the baseline."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import cast

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress, Connection, Look, Reader, ReadsAhead
from baremetal_acc.bmc.settings_reader import ReadsSettings
from baremetal_acc.errors import BmcError
from baremetal_acc.execution.context import Attestor, Target, Tools
from baremetal_acc.execution.write_gate import GatedConnection, limit_of
from baremetal_acc.locks.mechanism import Leading, Mechanism
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import BmcFacts, Gap, Inventory, TaskState
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement, LockReading, Scope
from baremetal_acc.model.measurement import MeasurementReading, MeasurementState, SignedMeasurements
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.subject import UNSEEN_OR_OPEN
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.planning import bmc_settings, card_settings, lock_evidence
from baremetal_acc.planning.merge import merge, unmerged
from baremetal_acc.planning.setting_restores import resembles
from baremetal_acc.planning.target_limit import TargetLimit, written_places
from baremetal_acc.planning.verify import verify
from baremetal_acc.policy.baseline_rules import Measure
from baremetal_acc.policy.device_demands import demands

NO_ROOTS = 'no root certificate is pinned that could verify it (option [baremetal_acc] spdm_trust_roots)'
"""Why devices are not asked to sign. A reading with this reason is unknown, and never good."""

LOGOUT = 'logout'
"""Name of the threads that close a session. Nothing but the end of the process waits for them."""


def observe(
    target: Target,
    tools: Tools,
    now: datetime,
    *,
    tasks: bool = False,
    measure: bool = False,
    settings: bool = False,
    looked: Callable[[tuple[Look, ...], Inventory], None] | None = None,
) -> Inventory:
    """Inspect every BMC of a target at the same time, over sessions opened for this, and read every lock.

    :param tasks: read the tasks of the BMCs, too: for a caller that is going to write, or to hand over.
    :param measure: let devices sign what they run, too. It takes seconds for each; a quick inspection leaves it out.
    :param settings: read the settings of the BMCs that rules name, too.
    :param looked: called with what the inventory was made of; what was read can still be asked for, and nothing more.
    :raises BmcError: a BMC cannot be read at all. What fails in part is a gap of the inventory.
    """
    connections: list[tuple[BmcAddress, Connection]] = []

    def look(address: BmcAddress) -> tuple[Look, tuple[Gap, ...]]:
        connection = tools.connect(address)
        connections.append((address, connection))
        if isinstance(connection, ReadsAhead):
            connection.read_ahead(dict.fromkeys(lead for m in tools.mechanisms if isinstance(m, Leading) for lead in m.leads))
        return _with_tasks(connection, connection.look(now)) if tasks else (connection.look(now), ())

    try:
        found = wait.together(look, target.bmcs)
        limits = [limit_of(b, target.bmcs, seen.ownership) for b, (seen, _) in zip(target.bmcs, found, strict=True)]
        looks = [_limited(seen, limit) for (seen, _), limit in zip(found, limits, strict=True)]
        accelerators = merge(a for seen in looks for a in seen.accelerators)
        locked = tuple(replace(a, locks=_read_locks(a, looks, tools.mechanisms, now, limits)) for a in accelerators)
        if card_settings.are_demanded(tools.baseline):
            locked = tuple(_with_card_settings(a, looks, target, tools) for a in locked)
        if measure:
            signing = {seen.facts.name for seen in looks if seen.measures}
            locked = _measured(locked, target, tools, [c for address, c in connections if address.name in signing], now)
        facts = _with_settings(looks, target, tools, connections) if settings else tuple(seen.facts for seen in looks)
    finally:
        _leave(connections)
    inventory = Inventory(
        target=target.name,
        at=now,
        bmcs=facts,
        accelerators=locked,
        platform_locks=_of_whole_machines(locked),
        platform_devices=tuple(p for seen in looks for p in seen.platform_devices),
        gaps=(
            *(
                g
                for seen, (_, more), limit in zip(looks, found, limits, strict=True)
                for g in (*seen.gaps, *_later(seen, limit, locked), *more)
            ),
            *unmerged(accelerators),
        ),
        shared=tuple(sorted({ref for limit in limits for a in locked for ref in limit.shared(written_places(a))})),
        several=tuple(sorted(limit.bmc for limit in limits if limit.of_several)),
    )
    if looked is not None:
        looked(tuple(looks), inventory)
    return inventory


def _with_settings(
    looks: Iterable[Look], target: Target, tools: Tools, connections: Iterable[tuple[BmcAddress, Connection]]
) -> tuple[BmcFacts, ...]:
    """Return the facts of the BMCs with the settings that rules name. A BMC of which no rule names any is asked nothing."""
    by_name = {address.name: connection for address, connection in connections}
    logins = tuple(b.username for b in target.bmcs if b.username is not None)

    def read(facts: BmcFacts) -> BmcFacts:
        asked, connection = bmc_settings.demanded(tools.baseline, facts, target.node), by_name[facts.name]
        if not isinstance(connection, ReadsSettings):
            return facts
        state = connection.settings(asked, facts)
        accounts = tuple(replace(a, may_be_own=a.is_own or resembles(a.name, logins)) for a in state.accounts)
        return replace(facts, state=replace(state, accounts=accounts))

    wanted = [seen.facts for seen in looks if bmc_settings.demanded(tools.baseline, seen.facts, target.node)]
    found = {facts.name: facts for facts in wait.together(read, wanted)}
    return tuple(found.get(seen.facts.name, seen.facts) for seen in looks)


def _limited(look: Look, limit: TargetLimit) -> Look:
    """Return the part of a BMC's inspection that belongs to the target."""
    if limit.is_whole:
        return look
    shown, unattributed = limit.accelerators(look.accelerators)
    gaps = (*limit.gaps(look.gaps, shown), *unattributed)
    platform = limit.platform_devices(look.platform_devices)
    return replace(look, accelerators=shown, platform_devices=platform, gaps=gaps, others=None)


def _later(look: Look, limit: TargetLimit, shown: tuple[Accelerator, ...]) -> tuple[Gap, ...]:
    """Return the gaps of reading the locks. Locks of another machine do not concern this target."""
    if look.later is None or not shown:
        return ()
    found = look.later()
    return found if limit.is_whole else limit.gaps(found, shown)


def _with_tasks(connection: Connection, look: Look) -> tuple[Look, tuple[Gap, ...]]:
    """Return an inspection with the tasks of the BMC; a BMC that cannot list them leaves a gap."""
    try:
        found = tuple(connection.tasks())
    except BmcError as exc:
        place = Ref(bmc=look.facts.name, uri=exc.uri or '/')
        return look, (Gap(ref=place, reason=f'the running tasks could not be read: {exc.what}'),)
    active = tuple(t for t in found if t.state is TaskState.ACTIVE)
    # On a BMC of several machines, a task that has ended may be one of ours, for another target.
    ended = tuple(t for t in found if t.state is not TaskState.ACTIVE) if look.machines <= 1 else None
    return replace(look, facts=replace(look.facts, active_tasks=active, ended_tasks=ended)), ()


def _read_locks(
    accelerator: Accelerator,
    looks: Iterable[Look],
    mechanisms: Iterable[Mechanism],
    now: datetime,
    limits: Iterable[TargetLimit],
) -> tuple[LockReading, ...]:
    names = {ref.bmc for ref in accelerator.refs}
    readers = [look.reader for look in looks if look.facts.name in names]
    readings = tuple(r for m in mechanisms for r in said_of(m, accelerator, readers, now))
    for limit in limits:
        readings = limit.readings(readings)
    return tuple(sorted(readings, key=lambda r: (r.mechanism, r.ref, r.field)))


def _with_card_settings(accelerator: Accelerator, looks: Iterable[Look], target: Target, tools: Tools) -> Accelerator:
    """Return a device with the settings that rules demand of it; one of which they demand none is not asked."""
    asked = card_settings.demanded(tools.baseline, accelerator, target.node)
    if not asked:
        return accelerator
    names = {ref.bmc for ref in accelerator.refs}
    readers = [look.reader for look in looks if look.facts.name in names]
    found = (r for m in tools.card_settings if m.setting in asked for r in m.read(accelerator, readers))
    return replace(accelerator, settings=tuple(sorted(found, key=lambda r: (r.setting, r.ref, r.field))))


def _measured(
    accelerators: tuple[Accelerator, ...],
    target: Target,
    tools: Tools,
    sources: list[Connection],
    now: datetime,
) -> tuple[Accelerator, ...]:
    """Return the devices with their signed measurements; those that no rule wants measured are not asked."""
    asked = tuple(a for a in accelerators if demands(tools.baseline, a, target.node).measure is not Measure.OFF)
    why_not = None if tools.attestor is not None else NO_ROOTS
    brought = wait.together(lambda connection: connection.measure(asked, now, why_not), sources)
    readings = [_checked(one, tools.attestor) for some in brought for one in some]

    def of(accelerator: Accelerator) -> tuple[MeasurementReading, ...]:
        return tuple(sorted((r for r in readings if r.accelerator == accelerator.id), key=lambda r: (r.ref, r.integrity)))

    return tuple(replace(a, measurements=of(a)) if a in asked else a for a in accelerators)


def _checked(brought: SignedMeasurements | MeasurementReading, attestor: Attestor | None) -> MeasurementReading:
    """Check a signed measurement. Where no root is pinned, its state is unknown."""
    if isinstance(brought, MeasurementReading):
        return brought
    if attestor is not None:
        return attestor.check(brought)
    return MeasurementReading(
        accelerator=brought.accelerator,
        ref=brought.ref,
        integrity=brought.integrity,
        state=MeasurementState.UNKNOWN,
        at=brought.at,
        session=brought.session,
        reason=NO_ROOTS,
    )


def said_of(
    mechanism: Mechanism, accelerator: Accelerator, readers: Iterable[Reader], now: datetime
) -> tuple[LockReading, ...]:
    """Return the readings of a mechanism for a device; closed becomes unknown where the resource reports an error about it."""
    asked = tuple(readers)
    return tuple(_doubted(reading, asked) for reading in mechanism.read(accelerator, asked, now))


def _doubted(reading: LockReading, readers: Iterable[Reader]) -> LockReading:
    found = next((r.peek(reading.ref.uri) for r in readers if r.name == reading.ref.bmc), None)
    return reading if found is None else lock_evidence.doubted(reading, found.body)


def _of_whole_machines(accelerators: Iterable[Accelerator]) -> tuple[LockReading, ...]:
    """Return the locks of whole machines, each once."""
    found = {r.place: r for a in reversed(tuple(accelerators)) for r in a.locks if r.scope is Scope.BMC}
    return tuple(found[place] for place in sorted(found))


def _leave(connections: Iterable[tuple[BmcAddress, Connection]]) -> None:
    """Log out, in threads that nobody waits for.

    A BMC that is asked for one thing at a time is logged out of here: that is how a large inventory reads, which has no threads
    to spare.
    """
    for address, connection in connections:
        if address.concurrency > 1:
            try:
                threading.Thread(target=connection.close, name=LOGOUT, daemon=False).start()
            except RuntimeError:  # the system gives us no thread
                connection.close()
        else:
            connection.close()


def check(
    target: Target,
    tools: Tools,
    engagements: Iterable[Engagement],
    now: datetime,
    *,
    lifecycle: int,
    flow: Flow | None = None,
    starting: Ref | None = None,
    measure: bool = True,
    tasks: bool = False,
    settings: bool = False,
    looked: Callable[[tuple[Look, ...], Inventory], None] | None = None,
) -> tuple[Inventory, Verdict]:
    """Inspect a target, and compare it with the baseline. Writes nothing.

    :param starting: a System that is about to be started: locks that take effect with its start count.
    :param measure: let devices sign what they run. A caller that leaves it out has another inspection to rely on.
    :param tasks: read the tasks of the BMCs, too. ``looked`` as of :func:`observe`.
    :param settings: read the settings of the BMCs that rules name, and compare them.
    :raises BmcError: a BMC cannot be read at all.
    """
    inventory = observe(target, tools, now, measure=measure, tasks=tasks, settings=settings, looked=looked)
    verdict = compare(
        inventory,
        target,
        tools,
        engagements,
        lifecycle=lifecycle,
        flow=flow,
        starting=starting,
        measured=measure,
        settings=settings,
    )
    return inventory, verdict


def compare(
    inventory: Inventory,
    target: Target,
    tools: Tools,
    engagements: Iterable[Engagement],
    *,
    lifecycle: int,
    flow: Flow | None = None,
    starting: Ref | None = None,
    measured: bool = True,
    settings: bool = False,
) -> Verdict:
    """Compare an inventory with the baseline, and with what was shown before
    (:func:`~baremetal_acc.planning.verify.verify`).

    :param settings: compare the settings of the BMCs, too: one that was not read does not meet its demand.
    """
    verdict = verify(
        inventory,
        tools.baseline,
        target.node,
        tools.catalogue,
        engagements,
        lifecycle=lifecycle,
        flow=flow,
        known=tools.known,
        blockable=tools.blockable,
        ways=tools.ways,
        starting=starting,
        measured=measured,
        references=tools.references,
    )
    if not settings:
        return verdict
    of_bmcs = bmc_settings.findings(inventory, tools.baseline, target.node, ramdisk=tools.ramdisk)
    return replace(verdict, findings=(*verdict.findings, *of_bmcs))


def unprotected(verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings about locks that do not hold, and about devices that could not be read: those are not locked."""
    return tuple(f for f in verdict.unmet if f.subject.kind in UNSEEN_OR_OPEN)


class Bmcs:
    """The sessions of one tick, each opened when it is first needed."""

    def __init__(self, target: Target, tools: Tools, stack: ExitStack) -> None:
        self._addresses = {b.name: b for b in target.bmcs}
        self._target = target
        self._tools = tools
        self._stack = stack
        self._open: dict[BmcName, Connection] = {}
        self._seen: dict[BmcName, Look] = {}

    def __getitem__(self, name: BmcName) -> Connection:
        if name not in self._open:
            if name not in self._addresses:
                raise BmcError(bmc=name, what='the target no longer has a BMC of that name')
            address = self._addresses[name]
            connection = self._stack.enter_context(self._tools.connect(address))
            self._open[name] = cast(Connection, GatedConnection(connection, address, self._target.bmcs))
        return self._open[name]

    def look(self, name: BmcName, now: datetime) -> Look:
        """Inspect a BMC, without its locks. It is read once in a tick, however many callers ask.

        :raises BmcError: it could not be read.
        """
        if name not in self._seen:
            self._seen[name] = self[name].look(now)
        return self._seen[name]


@contextmanager
def sessions(target: Target, tools: Tools) -> Iterator[Bmcs]:
    """Give sessions with the BMCs of a target; they are closed at the end."""
    with ExitStack() as stack:
        yield Bmcs(target, tools, stack)
