# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the resets that a plan's actions need: power the host off and on again, cycle standby power, restart BMCs."""

from collections.abc import Iterator
from dataclasses import replace

from baremetal_acc.model import note as n
from baremetal_acc.model import refusal as r
from baremetal_acc.model import subject as subjects
from baremetal_acc.model.action import Engage, Reset, ResetPurpose
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning import activation
from baremetal_acc.planning.plan_draft import PlanDraft, normal_place


def would_power_on(draft: PlanDraft) -> bool:
    """Whether a planned reset is of a host that is off."""
    off = {normal_place(host) for host in host_systems(draft) if _power(draft, host) is PowerState.OFF}
    return any(normal_place(system) in off for system in draft.resets)


def plan_resets(draft: PlanDraft, *, hold: bool, give_back: bool, left: frozenset[AcceleratorId]) -> None:
    """Plan the resets; if the host is held, also power off each host of the target and give it back.

    :param left: quarantined devices that the plan does not write.
    """
    hosts = host_systems(draft) if hold else ()
    if hold and not hosts:
        draft.refuse(None, subjects.HOST, r.NoHost())
    _refuse_missing_resets(draft, hosts)
    _cycles(draft, hosts)
    held = ('the host must not run while locks are open',)
    draft.actions += (Reset(system=host, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=held) for host in hosts)
    asked: dict[tuple[str, str], tuple[ResetKind, list[str]]] = {normal_place(host): (ResetKind.NONE, []) for host in hosts}
    for system, (kind, reasons) in draft.resets.items():
        if normal_place(system) in asked:
            asked[normal_place(system)] = (kind, reasons)
        else:
            draft.actions.append(Reset(system=system, purpose=ResetPurpose.ENFORCE, kind=kind, why=tuple(sorted(set(reasons)))))
    # After an unlock the host stays off: otherwise the tenant's code could reach open locks.
    for host in hosts if give_back else ():
        kind, reasons = asked[normal_place(host)]
        if _power(draft, host) is PowerState.OFF and not reasons:
            continue
        if left:
            _not_given_back(draft, left, reasons)
            continue
        why = (activation.GIVE_BACK, *sorted(set(reasons)))
        draft.actions.append(Reset(system=host, purpose=ResetPurpose.RESUME, kind=kind, why=why))


def _cycles(draft: PlanDraft, held: tuple[Ref, ...]) -> None:
    """Plan the losses of standby power, for all that need one; they also replace restarts of the same BMC."""
    managers = activation.covered({ref: kind for ref, (kind, _) in draft.resets.items()}, draft.cycles)
    for system, (kind, reasons) in sorted(draft.cycles.items()):
        mine = sorted(ref for ref in managers if ref.bmc == system.bmc)
        why = {*reasons, *(reason for ref in mine for reason in draft.resets.pop(ref)[1])}
        facts = draft.inventory.bmc(system.bmc)
        draft.actions.append(activation.cycle(facts, system, kind, tuple(sorted(why))))
        is_held = normal_place(system) in map(normal_place, held)
        for reason in () if facts is None else activation.not_offered(facts, system, kind, held=is_held):
            draft.refuse(None, subjects.HOST, reason)
        if kind is activation.BY_HAND:
            draft.notes.append(Note(label=draft.inventory.target, content=n.PowerCordPulled(system=system)))
        if (
            not is_held
            and _power(draft, system) is not PowerState.OFF
            and not any(normal_place(s) == normal_place(system) for s in draft.resets)
        ):
            draft.actions.append(activation.given_back(system))
    draft.actions += _closed_again(draft)


def _closed_again(draft: PlanDraft) -> Iterator[Engage]:
    """Yield the locks that a BMC may lose by its planned restart: they are engaged again after it."""
    restarted = {a.system.bmc for a in draft.actions if isinstance(a, Reset) and a.kind.restarts_bmc}
    restarted |= {ref.bmc for ref, (kind, _) in draft.resets.items() if kind.restarts_bmc}
    places = {r.place for a in draft.inventory.accelerators for r in a.locks if r.volatile and r.ref.bmc in restarted}
    for action in tuple(draft.actions):
        if isinstance(action, Engage) and (action.mechanism, action.ref, action.field) in places:
            yield replace(action, again=True)


def _refuse_missing_resets(draft: PlanDraft, held: tuple[Ref, ...]) -> None:
    """Refuse resets that a System does not offer, before an image is staged or the host is off."""
    wanted = {system: kind for system, (kind, _) in draft.resets.items() if kind is not ResetKind.BMC_RESET}
    wanted |= {system: ResetKind.NONE for system in draft.cycles if system not in wanted}
    wanted |= dict.fromkeys(held, ResetKind.NONE)
    if any(_power(draft, host) is PowerState.UNKNOWN for host in held):
        draft.refuse(None, subjects.HOST, r.PowerStateUnknown())
    for system, kind in sorted(wanted.items()):
        facts = draft.inventory.bmc(system.bmc)
        if facts is None or facts.resets is None or facts.system != system or kind in facts.resets:
            continue
        draft.refuse(None, subjects.HOST, r.ResetNotOffered(system=system, kind=kind))


def _not_given_back(draft: PlanDraft, left: frozenset[AcceleratorId], reasons: list[str]) -> None:
    """Keep a host with a quarantined device off; refuse what needs it to start."""
    cards = tuple((a.label, a.id) for a in draft.inventory.accelerators if a.id in left)
    if reasons:
        draft.refuse(None, subjects.HOST, r.QuarantinedNeedsStart(reasons=tuple(sorted(set(reasons))), cards=cards))
    else:
        draft.notes.append(Note(label=draft.inventory.target, content=n.LeftOff(cards=cards)))


def host_systems(draft: PlanDraft) -> tuple[Ref, ...]:
    """Return the Systems of the target's hosts; none if one of them is not reported."""
    found = [facts.system for facts in draft.inventory.hosts]
    return () if None in found else tuple(system for system in found if system is not None)


def _power(draft: PlanDraft, system: Ref) -> PowerState:
    facts = draft.inventory.bmc(system.bmc)
    return PowerState.UNKNOWN if facts is None else facts.power
