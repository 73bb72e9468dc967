# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Power a System off, reset it, and power it on again, where that is safe.

A host that a job holds off is given back only when its locks are proven and no device of it is unusable.
"""

import logging
from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from baremetal_acc.bmc.driver import Connection
from baremetal_acc.errors import AccError, BmcBusy, BmcRefused, BmcUnreachable
from baremetal_acc.execution import custody_feed
from baremetal_acc.execution.context import Target, Tools
from baremetal_acc.execution.job_polling import awaiting_tasks, not_ours, stuck_tasks
from baremetal_acc.execution.observation import Bmcs, check, observe, unprotected
from baremetal_acc.execution.retry_policy import took_nothing
from baremetal_acc.execution.step_context import StepContext
from baremetal_acc.model.action import Reset, ResetPurpose
from baremetal_acc.model.inventory import Inventory, Objection, PowerState, UpdateActivity
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.subject import SubjectKind
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.planning import activation, interference, write_outcomes
from baremetal_acc.planning.action_descriptions import describe, objected
from baremetal_acc.planning.image_selection import same_version
from baremetal_acc.planning.job_items import given_up
from baremetal_acc.render import findings

LOG = logging.getLogger(__name__)

_MOMENT = timedelta(seconds=2)
"""Two resets within this time may show the same LastResetTime, which BMCs write in whole seconds (DSP0268, ComputerSystem)."""

_LEADS_TO: dict[PowerState, frozenset[PowerState]] = {
    PowerState.ON: frozenset({PowerState.ON, PowerState.POWERING_ON}),
    PowerState.OFF: frozenset({PowerState.OFF, PowerState.POWERING_OFF}),
}
"""Power states in which a System already is as wanted, or becomes so by itself."""

_ASKS_ONCE_MORE = 2
"""The BMC has rejected the reset with a server error, and the reset has had its time to show that it came.

A value of :attr:`~baremetal_acc.model.job_item.Item.rejected`: the reset is requested once more then.
"""

_TOLD_OFF, _FOUND_OFF = 'it was requested to power off', 'it was found off'
"""Messages of a host that is waited for: where it is not seen off in the end, they tell whether it will go off."""


def reset(at: StepContext, action: Reset) -> Job:
    """Request a reset; a later turn sees whether it was carried out.

    A host is powered on again only when its locks hold and none of its cards is spoilt.
    """
    job, item, tools, now = at.job, at.item, at.tools, at.now
    bmc = at.bmcs[action.system.bmc]
    told = None
    # A reset of the host cuts the power of all its cards, whichever BMC writes them; a reset of a DPU only its own power.
    hosts = {HOST, *(system.bmc for system in held(job))}
    unknown = next((a for a in given_up(job) if action.system.bmc in (*hosts, a.ref.bmc)), None)
    if action.purpose is ResetPurpose.ENFORCE and item.before is None and unknown is not None:
        return at.failed(f'it is not reset while a write may still run: the BMC may still {describe(unknown)}')
    match action.purpose:
        case ResetPurpose.HOLD:
            told = _FOUND_OFF
            if bmc.power(action.system) is not PowerState.OFF:
                _wait_for_updates(bmc, action, job)
                at = at.of(_switched(at, bmc, action.system, PowerState.OFF))
                told = _TOLD_OFF
        case ResetPurpose.RESUME:
            job, why = _not_given_back(job, action.system, at.target, tools, now)
            settles = interference.tail(tools.patience.poll)
            # A process that died here may have powered it on.
            if action.system in held(job) and item.since == now:
                job = interference.watched(job, {action.system: bmc.host(action.system)}, now, settles, [action.system])
            at = at.of(job)
            why += [f'{card} has to be written again' for card in sorted(job.suspect)]
            if why:
                if action.system in held(job):
                    off_again(bmc, action.system, tools)
                return at.failed('the host stays powered off: ' + '; '.join(why))
            _wait_for_updates(bmc, action, job)
            at = at.of(_switched(at, bmc, action.system, PowerState.ON))
        case ResetPurpose.ENFORCE if action.kind.is_standby:
            if item.before is None:
                return _cycled(at, action, bmc)
        case ResetPurpose.ENFORCE if activation.was_cycled(job, action.system) and bmc.power(action.system) is PowerState.ON:
            pass  # it has started by itself once it had power again
        case ResetPurpose.ENFORCE if item.rejected == _ASKS_ONCE_MORE and item.before is not None:
            _wait_for_updates(bmc, action, job)
            has_not_come = _has_not_come(item, action, bmc)
            item = replace(item, rejected=_ASKS_ONCE_MORE + 1)  # a reset is requested twice at most
            if has_not_come and item.before is not None:
                item = _asked(at.of(at.with_item(item)), action, bmc, item.before)
        case ResetPurpose.ENFORCE if action.kind is ResetKind.BMC_RESET:
            if item.before is None:
                _wait_for_updates(bmc, action, job)
                # Where the BMC shows no time, the reset has come when it stops answering.
                before = bmc.last_reset(action.system) or ''
                if _just_now(before, now):
                    return job
                item = _asked(at, action, bmc, before)
        case ResetPurpose.ENFORCE if bmc.power(action.system) is PowerState.OFF:
            _wait_for_updates(bmc, action, job)
            at = at.of(_switched(at, bmc, action.system, PowerState.ON))
        case ResetPurpose.ENFORCE if item.before is None:
            _wait_for_updates(bmc, action, job)
            last = bmc.last_reset(action.system)
            if last is None or not bmc.offers_reset(action.system, action.kind):
                # Nothing would show that a reset came, or the System offers none: it is powered off and then on instead.
                return _powered_off(at, action, bmc, bmc.power(action.system))
            if _just_now(last, now):
                return job
            if tools.ramdisk:
                # From here on the host may boot something else than the ramdisk; its locks are engaged, or take effect with
                # this start.
                at = _read_before(at, starting=action.system)
            item = _asked(at, action, bmc, last)
    objection = at.item.objection or item.objection
    return at.with_item(replace(item.to(ItemState.RUNNING, now, told), objection=objection))


def _read_before(at: StepContext, starting: Ref | None = None) -> StepContext:
    """Return the context after a whole reading of the machine, right before a System of it is powered off or started."""
    inventory = observe(at.target, at.tools, at.now + timedelta(microseconds=1))
    return at.of(custody_feed.after_reading(at.job, inventory, at.target, at.tools, starting=starting))


def _powered_off(at: StepContext, action: Reset, bmc: Connection, power: PowerState) -> Job:
    """Power off a System that is not off, or wait where it is just powering off. There is a limit to that."""
    limit = at.tools.patience.reset
    if at.now - at.item.since > limit or at.now > at.job.deadline + limit:
        return at.failed(f'did not power off within {limit}{objected(at.item)}')
    return at.job if power is PowerState.POWERING_OFF else _switched(at, bmc, action.system, PowerState.OFF)


def _cycled(at: StepContext, action: Reset, bmc: Connection) -> Job:
    """Take away the standby power of a System, once it is off; or wait for a person who does.

    The BMC sees nothing while it restarts. So the locks that cover that time are proven closed right before it.
    """
    now, patience = at.now, at.tools.patience
    _wait_for_updates(bmc, action, at.job)
    power = bmc.power(action.system)
    if power is not PowerState.OFF:
        return _powered_off(at, action, bmc, power)
    before = '' if action.manager is None else bmc.last_reset(action.manager) or ''
    by_hand = action.kind is activation.BY_HAND
    if not by_hand and _just_now(before, now):
        return at.job
    if action.system in held(at.job):
        at = _read_before(at)
    if not by_hand:
        item = _asked(at, action, bmc, before)
        return at.with_item(item.to(ItemState.RUNNING, now))
    flashes = activation.brought_in_force(at.job, action)
    shown = all(same_version(bmc.component(flash.ref).version, flash.version) for flash in flashes)
    told = f'until {now + patience.person:%Y-%m-%d %H:%M:%S}Z, with the machine powered off; the job notices it by itself'
    LOG.warning('%s: %s, %s', at.job.target, describe(action), told)
    item = replace(at.item, before=before, shown=shown).to(ItemState.RUNNING, now, told)
    return at.of(replace(at.job, deadline=at.job.deadline + patience.person)).with_item(item)


def _just_now(last: str, now: datetime) -> bool:
    """Whether a System or BMC was reset in the last moments: another reset in the same second would not show.

    Where its clock differs from ours this cannot be told, and nothing is waited for.
    """
    try:
        at = datetime.fromisoformat(last)
    except ValueError:
        return False
    return abs(now - (at if at.tzinfo is not None else at.replace(tzinfo=UTC))) < _MOMENT


def _asked(at: StepContext, action: Reset, bmc: Connection, last: str) -> Item:
    """Request a reset once, and store before that what will show whether it was carried out."""
    tools = at.tools
    item = replace(at.item, before=last, again=None)
    tools.save(at.with_item(item))
    if tools.polling is not None:
        tools.polling.end()
    try:
        item = replace(item, objection=bmc.reset(action.by or action.system, action.kind))
    except BmcUnreachable as exc:
        # LastResetTime shows whether it arrived; a second reset could hit a card that applies its firmware.
        LOG.warning('%s: %s: %s', at.job.target, describe(action), exc)
    except BmcRefused as exc:
        if took_nothing(exc):
            raise
        # A server error does not say what the BMC has done: what it shows decides, within its time for that.
        LOG.warning('%s: %s: %s', at.job.target, describe(action), exc)
        again = None if item.rejected else at.now + tools.patience.settle
        item = replace(item, rejected=item.rejected or 1, again=again, message=str(exc))
    return item


def _has_not_come(item: Item, action: Reset, bmc: Connection) -> bool:
    """Whether a reset that the BMC answered with a server error was not carried out, as far as the BMC shows.

    A System that is in another power state than on is just being reset.
    """
    if action.kind is not ResetKind.BMC_RESET and bmc.power(action.system) is not PowerState.ON:
        return False
    return (bmc.last_reset(action.system) or '') == item.before


def _switched(at: StepContext, bmc: Connection, system: Ref, wanted: PowerState) -> Job:
    """Call :func:`switch`, and keep the objection of the BMC in the job."""
    return at.with_item(replace(at.item, objection=switch(bmc, system, wanted, at.tools)))


def switch(bmc: Connection, system: Ref, wanted: PowerState, tools: Tools) -> Objection | None:
    """Power a System off or on, and report that to the shell.

    BMCs refuse this, with one status or another, where the System is in that state already or just changes to it: that is no
    failure. Nor is a lost answer, where the request has arrived.

    :returns: the objection that the BMC reports although it has accepted the request.
    :raises BmcError: it was refused, or not answered, and the System does not change to that state, as far as its BMC reports.
    """
    if wanted is PowerState.ON and tools.polling is not None:
        tools.polling.end()  # from here on it would only read the power-on that we request
    objection = None
    try:
        objection = bmc.set_power(system, wanted)
    except (BmcBusy, BmcRefused, BmcUnreachable) as exc:
        if isinstance(exc, BmcUnreachable) and not exc.sent:
            raise
        power = _power_now(bmc, system)
        if power not in _LEADS_TO[wanted]:
            raise
        LOG.info('%s is %s: %s', system, power, exc)
    tools.power_changed(system, wanted)
    return objection


def _power_now(bmc: Connection, system: Ref) -> PowerState:
    try:
        return bmc.power(system)
    except AccError as exc:
        LOG.info('%s', exc)
        return PowerState.UNKNOWN


def held(job: Job) -> tuple[Ref, ...]:
    """Return the Systems that a job has powered off, or found off, and that it keeps off until they may be given back."""
    holds = (i.action for i in job.items if i.state is ItemState.DONE and isinstance(i.action, Reset))
    return tuple(dict.fromkeys(action.system for action in holds if action.purpose is ResetPurpose.HOLD))


def off_again(bmc: Connection, system: Ref, tools: Tools) -> str | None:
    """Power off a System that must not run, whoever has powered it on. Return why it is not off yet; None: it is off."""
    try:
        power = bmc.power(system)
        if power is PowerState.OFF:
            return None
        if power is not PowerState.POWERING_OFF:
            switch(bmc, system, PowerState.OFF, tools)
    except AccError as exc:
        LOG.info('%s must not run, but could not be powered off: %s', system, exc)
        return str(exc)
    return f'it was requested to power off, but is {power}'


def power_off(systems: Iterable[Ref], bmcs: Bmcs, tools: Tools) -> None:
    """Power off at once the Systems that run although the job holds them off.

    Nothing is waited for, not even an update: what it writes does not count any more, and somebody else's code is about to
    reach open cards. If a BMC does not accept the request, the next turn sends it again.
    """
    for system in systems:
        try:
            why_not = off_again(bmcs[system.bmc], system, tools)
        except AccError as exc:
            why_not = str(exc)
        if why_not is not None:
            LOG.warning('%s is held off by the job, but runs: %s', system, why_not)


def _wait_for_updates(bmc: Connection, action: Reset, job: Job) -> None:
    """Refuse to cut the power while the BMC writes to a device, be it for us or for somebody else.

    Tasks that claim to run although their devices show that they have ended do not count; nor do tasks that wait for this very
    restart, where a write of the job does.

    :raises BmcBusy: the BMC writes.
    """
    is_scheduled = any(ref.bmc == action.system.bmc for ref in awaiting_tasks(job))
    check_no_update(bmc, action.system, stuck_tasks(job), is_scheduled=is_scheduled)


def check_no_update(bmc: Connection, system: Ref, own: Container[Ref], *, is_scheduled: bool = False) -> None:
    """Check that a BMC writes to no device; parameters as of :func:`~baremetal_acc.execution.job_polling.not_ours`.

    :raises BmcBusy: it does.
    """
    active = not_ours(bmc.active_tasks(), own, is_scheduled=is_scheduled)
    if not active and bmc.update_activity() is UpdateActivity.BUSY:
        what = f'its update service reports a write in progress: {system.uri} is not reset during it'
        raise BmcBusy(bmc=system.bmc, what=what)
    if active:
        what = f'task {active[0].ref.uri} still runs ({active[0].raw}): {system.uri} is not reset during it'
        raise BmcBusy(bmc=system.bmc, what=what)


def _not_given_back(job: Job, system: Ref, target: Target, tools: Tools, now: datetime) -> tuple[Job, list[str]]:
    """Return the job, and why the host must not run; no reason where it may.

    Reasons are locks that do not hold, read over fresh sessions; unexpected accounts of BMCs, which may open them; and devices
    that nobody may use. What the BIOS keeps takes effect with this very start; whether it did is seen in the end.
    """
    later = now + timedelta(microseconds=1)
    # Only the locks are checked here; the final inspection checks what the devices run.
    inventory, verdict = check(target, tools, job.engagements, later, lifecycle=job.lifecycle, starting=system, measure=False)
    job = custody_feed.after_reading(job, inventory, target, tools, starting=system)
    lost = write_outcomes.lost(job)
    why = [findings.sentence(f) for f in keeping_off(verdict)]
    why += [f'{device} could be neither written nor restored' for device in lost]
    why += [f'{device} is quarantined' for device in sorted(tools.unusable(job, inventory).difference(lost))]
    return job, why


def keeping_off(verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings for which a host must not run: locks that do not hold, devices that could not be read, and accounts
    of BMCs that no rule expects, which may open the locks.
    """
    return (
        *unprotected(verdict),
        *(f for f in verdict.unmet if f.subject.kind is SubjectKind.BMC_USERS),
    )


def host_woke(job: Job, bmcs: Bmcs) -> str | None:
    """As :func:`host_runs`, but the power is read from the BMCs now, where no inventory is read.

    :raises AccError: a BMC does not say.
    """
    for system in held(job):
        power = bmcs[system.bmc].power(system)
        if power is not PowerState.OFF:
            return f'the host was powered off, but is {power} now'
    return None


def host_runs(job: Job, inventory: Inventory | None) -> str | None:
    """Return why nothing may be released or written: a host that this job powered off is on again.

    None when the host is off, or not held.
    """
    for item in job.items:
        if isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.HOLD:
            facts = None if inventory is None else inventory.bmc(item.action.system.bmc)
            if facts is None or facts.system != item.action.system or facts.power is not PowerState.OFF:
                return f'the host was powered off, but is {"unknown" if facts is None else facts.power} now'
    return None
