# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Choose the resets that activate written firmware: of which System or Manager, which cover others, and what still waits.

A cycle of standby power also power-cycles the machine and restarts its BMC, so no other reset of those is requested with it.
Firmware that takes effect only when the power cord is pulled cannot be activated out of band: the job waits for a person
(:data:`BY_HAND`).
"""

from collections.abc import Iterable, Iterator, Mapping

from baremetal_acc.model.action import Flash, Reset, ResetPurpose
from baremetal_acc.model.inventory import BmcFacts, PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.refusal import ComesOnByItself, NoStandbyCycle, PowerUnknownBeforeCycle

SEVERITY = {kind: rank for rank, kind in enumerate(ResetKind)}
"""Rank of each kind of reset: a later kind also activates what an earlier one does.

A restart of the BMC alone is covered by the cycles of standby power.
"""

BY_HAND = ResetKind.AC_POWER_CYCLE

COMES_ON = 'AlwaysOn'
"""Value of PowerRestorePolicy. Source: DSP8010 2025.4, ComputerSystem v1_27_0."""

GIVE_BACK = 'return the host to service'


def strongest(*kinds: ResetKind) -> ResetKind:
    """Return the one of some kinds of reset that covers the others."""
    return max(kinds, key=SEVERITY.__getitem__)


def reset_of(facts: BmcFacts | None, kind: ResetKind) -> Ref | None:
    """Return what has to be reset for a component that a BMC shows: its Manager or its System. None: the BMC shows none."""
    if facts is None:
        return None
    return facts.manager if kind is ResetKind.BMC_RESET else facts.system


def nothing_to_reset(kind: ResetKind) -> str:
    """Say why a reset that an image needs is impossible where a BMC shows nothing to reset, as the end of a sentence."""
    what = 'no Manager that can be restarted' if kind is ResetKind.BMC_RESET else 'no System to reset'
    return f'needs {"an" if kind.is_standby else "a"} {kind}, and the BMC shows {what}'


def not_offered(
    facts: BmcFacts, system: Ref, kind: ResetKind, *, held: bool
) -> Iterator[NoStandbyCycle | PowerUnknownBeforeCycle | ComesOnByItself]:
    """List why the standby power of a System cannot be cycled.

    :param held: the System must not come on by itself.
    """
    if kind is ResetKind.AUX_POWER_CYCLE and facts.standby_reset is None:
        yield NoStandbyCycle(system=system, kind=kind)
    if facts.power is PowerState.UNKNOWN:
        yield PowerUnknownBeforeCycle(system=system)
    if held and facts.power_restore == COMES_ON:
        yield ComesOnByItself(system=system, policy=COMES_ON)


def cycle(facts: BmcFacts | None, system: Ref, kind: ResetKind, why: tuple[str, ...]) -> Reset:
    """Return the reset that cycles the standby power of a System."""
    by = facts.standby_reset if facts is not None and kind is not BY_HAND else None
    return Reset(
        system=system,
        purpose=ResetPurpose.ENFORCE,
        kind=kind,
        why=why,
        by=None if by == system else by,
        manager=None if facts is None else facts.manager,
    )


def given_back(system: Ref) -> Reset:
    """Return the start of a System that is not held off, and that was powered off so that its standby power could be cycled."""
    return Reset(system=system, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE, why=(GIVE_BACK,))


def covered(resets: Mapping[Ref, ResetKind], cycled: Iterable[Ref]) -> frozenset[Ref]:
    """Return the Managers to be reset that restart with the standby power anyway.

    :param cycled: the Systems whose standby power is cycled.
    """
    bmcs = {system.bmc for system in cycled}
    return frozenset(ref for ref, kind in resets.items() if kind is ResetKind.BMC_RESET and ref.bmc in bmcs)


def was_cycled(job: Job, system: Ref) -> bool:
    """Whether the job has cycled the standby power of a System."""
    return any(i.state is ItemState.DONE and _cycles(i, system) for i in job.items)


def waits_for_cycle(job: Job, item: Item) -> bool:
    """Whether a write has ended well and waits for a cycle of standby power that did not come: it runs whenever that comes."""
    action = item.action
    if not isinstance(action, Flash) or item.state is not ItemState.STAGED or not action.reset.is_standby:
        return False
    asked = [i for i in job.items if isinstance(i.action, Reset) and _cycles(i, i.action.system)]
    last = next((i for i in reversed(asked) if isinstance(i.action, Reset) and i.action.system.bmc == action.ref.bmc), None)
    return last is not None and last.state is not ItemState.DONE


def brought_in_force(job: Job, reset: Reset) -> tuple[Flash, ...]:
    """Return the writes of a job that wait for this cycle of standby power."""
    return tuple(
        i.action
        for i in job.items
        if isinstance(i.action, Flash)
        and i.state is ItemState.STAGED
        and i.action.reset.is_standby
        and i.action.ref.bmc == reset.system.bmc
    )


def waits_for_person(item: Item) -> bool:
    """Whether an item waits for a person now."""
    return item.state is ItemState.RUNNING and isinstance(item.action, Reset) and item.action.kind is BY_HAND


def _cycles(item: Item, system: Ref) -> bool:
    return isinstance(item.action, Reset) and item.action.kind.is_standby and item.action.system == system


__all__ = [
    'BY_HAND',
    'COMES_ON',
    'GIVE_BACK',
    'SEVERITY',
    'brought_in_force',
    'covered',
    'cycle',
    'given_back',
    'not_offered',
    'nothing_to_reset',
    'reset_of',
    'strongest',
    'waits_for_cycle',
    'waits_for_person',
    'was_cycled',
]
