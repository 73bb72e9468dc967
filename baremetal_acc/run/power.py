# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Power a System off, reset it and give it back, where that is allowed."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from baremetal_acc.bmc.api import Connection
from baremetal_acc.decide import interference, restore
from baremetal_acc.decide.advance import describe, given_up, objected
from baremetal_acc.decide.images import same_version
from baremetal_acc.errors import AccError, BmcBusy, BmcRefused, BmcUnreachable
from baremetal_acc.model.inventory import Inventory, Objection, PowerState, UpdateActivity
from baremetal_acc.model.job import Item, ItemState, Job, Reset, ResetPurpose
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.subject import SubjectKind
from baremetal_acc.planning import activation
from baremetal_acc.render import findings
from baremetal_acc.run import custody_feed
from baremetal_acc.run.looking import Bmcs, check, observe, unprotected
from baremetal_acc.run.patience import took_nothing
from baremetal_acc.run.sighting import awaiting_tasks, not_ours, stuck_tasks
from baremetal_acc.run.step_context import StepContext
from baremetal_acc.run.tools import Target, Tools

LOG = logging.getLogger(__name__)

_MOMENT = timedelta(seconds=2)
"""LastResetTime is a time of whole seconds as BMCs write it (DSP0268, ComputerSystem)."""

_LEADS_TO: dict[PowerState, frozenset[PowerState]] = {
    PowerState.ON: frozenset({PowerState.ON, PowerState.POWERING_ON}),
    PowerState.OFF: frozenset({PowerState.OFF, PowerState.POWERING_OFF}),
}
"""The states in which a System is as it is wanted, or becomes so with nobody doing anything."""

_ASKS_ONCE_MORE = 2
"""As :attr:`~baremetal_acc.model.job.Item.rejected` of a reset: the BMC has rejected it with an error of its own, and has had
its time to show that it came."""

_TOLD_OFF, _FOUND_OFF = 'it was told to power off', 'it was found off'
"""What a host that is waited for was told: where it is not seen off in the end, nobody else knows whether it will go off."""


def reset(at: StepContext, action: Reset) -> Job:
    """Ask for a reset; whether it came is seen later. A host is given back only at locks that hold, and with no card spoilt."""
    job, item, tools, now = at.job, at.item, at.tools, at.now
    bmc = at.bmcs[action.system.bmc]
    told = None
    # A reset of the host cuts the power of all its cards, whatever BMC writes them; one of a DPU that of its own.
    hosts = {HOST, *(system.bmc for system in held(job))}
    unknown = next((a for a in given_up(job) if action.system.bmc in (*hosts, a.ref.bmc)), None)
    if action.purpose is ResetPurpose.ENFORCE and item.before is None and unknown is not None:
        return at.failed(
            f'it is not reset under a write that may go on: whether the BMC has ended to {describe(unknown)} is not known'
        )
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
            # Who died over this may have powered it on.
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
            item = replace(item, rejected=_ASKS_ONCE_MORE + 1)  # there is no third time
            if has_not_come and item.before is not None:
                item = _asked(at.of(at.with_item(item)), action, bmc, item.before)
        case ResetPurpose.ENFORCE if action.kind is ResetKind.BMC_RESET:
            if item.before is None:
                _wait_for_updates(bmc, action, job)
                # Where no time is shown, that it came is seen by its silence.
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
                # Nothing would show that a reset came, or there is none: so the System is seen off and then on.
                return _powered_off(at, action, bmc, bmc.power(action.system))
            if _just_now(last, now):
                return job
            if tools.ramdisk:
                # The locks are engaged, or come in force with this start, and what the host boots now may be something else
                # than the ramdisk.
                at = _read_before(at, starting=action.system)
            item = _asked(at, action, bmc, last)
    objection = at.item.objection or item.objection
    return at.with_item(replace(item.to(ItemState.RUNNING, now, told), objection=objection))


def _read_before(at: StepContext, starting: Ref | None = None) -> StepContext:
    """With a whole reading of the machine, right before something of it goes off or starts."""
    inventory = observe(at.target, at.tools, at.now + timedelta(microseconds=1))
    return at.of(custody_feed.after_reading(at.job, inventory, at.target, at.tools, starting=starting))


def _powered_off(at: StepContext, action: Reset, bmc: Connection, power: PowerState) -> Job:
    """Power a System off that is not off, or wait where it goes off just now. Not for ever."""
    limit = at.tools.patience.reset
    if at.now - at.item.since > limit or at.now > at.job.deadline + limit:
        return at.failed(f'did not power off within {limit}{objected(at.item)}')
    return at.job if power is PowerState.POWERING_OFF else _switched(at, bmc, action.system, PowerState.OFF)


def _cycled(at: StepContext, action: Reset, bmc: Connection) -> Job:
    """Take the standby power of a System away that is off, or is powered off for that; or wait for somebody who does.

    The BMC sees nothing while it restarts. So locks that cover that time are proven closed right before it.
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
    told = f'up to {now + patience.person:%Y-%m-%d %H:%M:%S}Z, with the machine powered off; it is noticed by itself'
    LOG.warning('%s: %s, %s', at.job.target, describe(action), told)
    item = replace(at.item, before=before, shown=shown).to(ItemState.RUNNING, now, told)
    return at.of(replace(at.job, deadline=at.job.deadline + patience.person)).with_item(item)


def _just_now(last: str, now: datetime) -> bool:
    """Whether a System or BMC was reset in the last moments: another reset in the same second would not show.

    Where its clock is another one than ours, nobody can tell, and nothing is waited for.
    """
    try:
        at = datetime.fromisoformat(last)
    except ValueError:
        return False
    return abs(now - (at if at.tzinfo is not None else at.replace(tzinfo=UTC))) < _MOMENT


def _asked(at: StepContext, action: Reset, bmc: Connection, last: str) -> Item:
    """Ask once for a reset, and store before that what will show whether it came."""
    tools = at.tools
    item = replace(at.item, before=last, again=None)
    tools.save(at.with_item(item))
    if tools.polling is not None:
        tools.polling.end()
    try:
        item = replace(item, objection=bmc.reset(action.by or action.system, action.kind))
    except BmcUnreachable as exc:
        # Whether it arrived shows in LastResetTime; a second reset could meet a card that applies its firmware.
        LOG.warning('%s: %s: %s', at.job.target, describe(action), exc)
    except BmcRefused as exc:
        if took_nothing(exc):
            raise
        # An error of its own says nothing of what it has done: what it shows decides, and it has its time for that.
        LOG.warning('%s: %s: %s', at.job.target, describe(action), exc)
        again = None if item.rejected else at.now + tools.patience.settle
        item = replace(item, rejected=item.rejected or 1, again=again, message=str(exc))
    return item


def _has_not_come(item: Item, action: Reset, bmc: Connection) -> bool:
    """A reset that the BMC has answered with an error of its own has not been carried out, as far as it shows.

    A System that is not simply on is on its way.
    """
    if action.kind is not ResetKind.BMC_RESET and bmc.power(action.system) is not PowerState.ON:
        return False
    return (bmc.last_reset(action.system) or '') == item.before


def _switched(at: StepContext, bmc: Connection, system: Ref, wanted: PowerState) -> Job:
    """As :func:`switch`, with the job in which is kept what the BMC says against it."""
    return at.with_item(replace(at.item, objection=switch(bmc, system, wanted, at.tools)))


def switch(bmc: Connection, system: Ref, wanted: PowerState, tools: Tools) -> Objection | None:
    """Power a System off or on, and tell the shell.

    BMCs refuse it, with one status or another, where the System is so already or just changes to it: that is no failure, and
    an answer that is lost is none where it has arrived.

    :returns: what the BMC says against it although it has accepted it.
    :raises BmcError: it was refused, or has no answer, and the System is not on its way there, as far as its BMC tells.
    """
    if wanted is PowerState.ON and tools.polling is not None:
        tools.polling.end()  # what it would read from here on is our own doing
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
    """The Systems that a job has powered off, or found off, to keep them so until they may be given back."""
    holds = (i.action for i in job.items if i.state is ItemState.DONE and isinstance(i.action, Reset))
    return tuple(dict.fromkeys(action.system for action in holds if action.purpose is ResetPurpose.HOLD))


def off_again(bmc: Connection, system: Ref, tools: Tools) -> str | None:
    """Power a System off that must not run, whoever has powered it on. Why it is not off yet; None: it is."""
    try:
        power = bmc.power(system)
        if power is PowerState.OFF:
            return None
        if power is not PowerState.POWERING_OFF:
            switch(bmc, system, PowerState.OFF, tools)
    except AccError as exc:
        LOG.info('%s must not run, and could not be powered off: %s', system, exc)
        return str(exc)
    return f'it was told to power off, and is {power}'


def power_off(systems: Iterable[Ref], bmcs: Bmcs, tools: Tools) -> None:
    """Power Systems off at once that run while the job holds them off.

    Nothing is waited for, an update neither: what it writes counts for nothing already, and the code of somebody else is
    about to meet open cards. A BMC that does not take it is asked again by the next turn.
    """
    for system in systems:
        try:
            why_not = off_again(bmcs[system.bmc], system, tools)
        except AccError as exc:
            why_not = str(exc)
        if why_not is not None:
            LOG.warning('%s was held off and runs: %s', system, why_not)


def _wait_for_updates(bmc: Connection, action: Reset, job: Job) -> None:
    """No power is cut while the BMC writes to something, be it ours or another's.

    Tasks that claim to run, and whose devices show that they have ended, are left out; and those that wait for this very
    restart, where a write of the job does.

    :raises BmcBusy: it does.
    """
    is_scheduled = any(ref.bmc == action.system.bmc for ref in awaiting_tasks(job))
    active = not_ours(bmc.active_tasks(), stuck_tasks(job), is_scheduled=is_scheduled)
    if not active and bmc.update_activity() is UpdateActivity.BUSY:
        what = f'its update service says that it is writing: {action.system.uri} is not reset under it'
        raise BmcBusy(bmc=action.system.bmc, what=what)
    if active:
        what = f'task {active[0].ref.uri} still runs ({active[0].raw}): {action.system.uri} is not reset under it'
        raise BmcBusy(bmc=action.system.bmc, what=what)


def _not_given_back(job: Job, system: Ref, target: Target, tools: Tools, now: datetime) -> tuple[Job, list[str]]:
    """Why the host must not run: locks that do not hold, read over fresh sessions, accounts of BMCs that nobody expects, which
    may open them, and devices that nobody may use.

    What its BIOS keeps comes in force with this very start; whether it did is seen in the end.
    """
    later = now + timedelta(microseconds=1)
    # What is asked here is whether it is closed: what it runs the final look asks.
    inventory, verdict = check(target, tools, job.engagements, later, lifecycle=job.lifecycle, starting=system, measure=False)
    job = custody_feed.after_reading(job, inventory, target, tools, starting=system)
    lost = restore.lost(job)
    why = [findings.sentence(f) for f in unprotected(verdict)]
    why += [findings.sentence(f) for f in verdict.unmet if f.subject.kind is SubjectKind.BMC_USERS]
    why += [f'{device} could be neither written nor put back' for device in lost]
    why += [f'{device} is quarantined' for device in sorted(tools.unusable(job, inventory).difference(lost))]
    return job, why


def host_woke(job: Job, bmcs: Bmcs) -> str | None:
    """As :func:`host_runs`, asked of the BMCs now, where nobody looks at cards.

    :raises AccError: a BMC does not say.
    """
    for system in held(job):
        power = bmcs[system.bmc].power(system)
        if power is not PowerState.OFF:
            return f'the host was powered off, and is {power} now'
    return None


def host_runs(job: Job, inventory: Inventory | None) -> str | None:
    """Why nothing may be opened or written: a host that this job powered off is on again. None when it is off, or not held."""
    for item in job.items:
        if isinstance(item.action, Reset) and item.action.purpose is ResetPurpose.HOLD:
            facts = None if inventory is None else inventory.bmc(item.action.system.bmc)
            if facts is None or facts.system != item.action.system or facts.power is not PowerState.OFF:
                return f'the host was powered off, and is {"unknown" if facts is None else facts.power} now'
    return None
