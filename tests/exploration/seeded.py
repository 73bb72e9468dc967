# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Guards of the product, taken away one at a time, and what leads to where each of them stands.

The oracle has to find a violation without the guard, and none with it. Where a second guard stands behind the first, so that
nothing would come of the loss of the first, it is taken away, too, or the rules go without it (``custody = "reported"``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from ironic.common import states
from ironic.conductor import manager as conductor_manager
from ironic.drivers.modules.noop import NoFirmware
from ironic.drivers.modules.redfish.power import RedfishPower

from baremetal_acc import execution
from baremetal_acc.certificates import validity
from baremetal_acc.execution import custody_feed
from baremetal_acc.model.custody import Cover, Custody, Interval, Strength
from baremetal_acc.model.job_item import WriteEvidence
from baremetal_acc.model.lock import LockState
from baremetal_acc.planning import custody, custody_intervals, interference, lock_evidence
from baremetal_acc.planning import watch as decide_watch
from baremetal_acc_ironic import hardware
from baremetal_acc_ironic.authorization import api_guard, interface_overrides, rights
from baremetal_acc_ironic.host_power import gate, left_off
from baremetal_acc_ironic.host_power.gate import Reason
from baremetal_acc_ironic.power import AccPower
from baremetal_acc_ironic.state import node_store, proof
from tests.exploration.machine import GPU
from tests.exploration.verbs import BY_NAME, HAPPENINGS
from tests.exploration.world import World

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """A guard that is missing.

    :ivar take_away: takes it away.
    :ivar story: what leads to where it stands.
    :ivar custody: of the rule, where custody itself would stand behind it.
    :ivar says: words of the violation.
    """

    what: str
    take_away: Callable[[Patch], None]
    story: Callable[[World], None]
    custody: str = 'required'
    says: str


# ------------------------------------------------------------------------------------------------------------------ words


def ask(world: World, role: str, verb: str, wanted: int | None = None) -> int:
    """A request, which has to be answered so."""
    code = BY_NAME[verb].do(world, role)
    assert wanted in (None, code), '\n'.join(world.story)
    world.settle_down()
    world.tell(f'   {world.stands()}')
    return code


def happens(world: World, what: str, seconds: float = 0.0) -> None:
    """Something happens, and time passes."""
    world.tell(f'-- {what}')
    HAPPENINGS[what](world)
    world.pass_time(seconds) if seconds else world.site.go_on(timedelta(seconds=45))
    world.site.look_around()
    world.tell(f'   {world.stands()}')


def state(world: World, wanted: str) -> None:
    """The node has come to a state."""
    assert wanted == world.node.provision_state, '\n'.join(world.story)


def available(world: World) -> None:
    """Cleaned."""
    ask(world, 'system admin', 'provide', 202)
    state(world, states.AVAILABLE)


def active(world: World) -> None:
    """Cleaned and handed over, its host on."""
    available(world)
    ask(world, 'nova', 'deploy', 202)
    state(world, states.ACTIVE)
    world.pass_time(60)
    ask(world, 'lessee member', 'power on', 202)


def spoil(world: World) -> None:
    """While the node is free its BMC loses the locks, and its host wakes and writes the cards."""
    ask(world, 'system admin', 'power off')
    happens(world, 'the BMC loses the locks quickly')
    happens(world, 'the host wakes and goes off')
    assert world.site.foul


# ---------------------------------------------------------------------------------------------------------------- the kinds


def _a_start_while_we_have_opened(world: World) -> None:
    active(world)
    ask(world, 'system admin', 'service: unlock', 202)
    ask(world, 'lessee member', 'power on')


def _deploy_of_spoilt_cards(world: World) -> None:
    available(world)
    spoil(world)
    ask(world, 'nova', 'deploy', 202)


def _host_beside_a_job(world: World) -> None:
    """The host wakes while a job has the cards open, after it has written one part of them."""
    world.provision('system admin', 'provide')
    for _ in range(200):
        written = [c for c in world.site.cards_of.values() if c.component != GPU and str(c.active.digest).startswith('h100')]
        if written and world.site.open_since:
            break
        world.pass_time(1.0)
    happens(world, 'the host wakes and goes off')
    world.settle_down()
    world.request('system admin', 'delete', 'maintenance')
    if world.node.provision_state == states.AVAILABLE:
        ask(world, 'nova', 'deploy', 202)


def _locks_that_do_not_close(world: World) -> None:
    available(world)
    happens(world, 'the BMC loses the locks quickly')
    rule = world.site.machine.add_fault({'name': 'lock-ignored'})
    ask(world, 'nova', 'deploy', 202)
    world.site.machine.faults.remove(rule.id)


def _another_interface(world: World) -> None:
    active(world)
    happens(world, 'the BMC loses the locks quickly')
    assert world.site.foul
    ask(world, 'lessee manager', 'replace the firmware interface')
    ask(world, 'lessee admin', 'rebuild')


def _sync_starts(world: World) -> None:
    """Ironic has the host as on; a service has opened the locks."""
    active(world)
    ask(world, 'system admin', 'service: unlock', 202)
    world.node.power_state = states.POWER_ON
    world.node.save()
    world.pass_time(200)


def _left_off_and_woken(world: World) -> None:
    world.site.keeps_time = False
    available(world)
    ask(world, 'system admin', 'manage', 202)
    ask(world, 'system admin', 'clean: unlock', 202)
    world.node.power_state = states.POWER_OFF
    world.node.save()
    happens(world, 'the host wakes', 130)
    ask(world, 'system admin', 'clean: lock', 202)
    world.node.provision_state = states.AVAILABLE
    world.node.save()
    ask(world, 'nova', 'deploy', 202)


def _image_that_is_skipped(world: World) -> None:
    """The cards run other bytes under the very version that the baseline wants; the BMC finds nothing to do."""
    machine = world.site.machine
    world.site.press_off()
    happens(world, 'the host wakes and goes off')
    flash = machine.flash_seconds
    machine.flash_seconds = 0.001
    rule = machine.add_fault({'name': 'task-completed-version-unchanged'})
    try:
        ask(world, 'system admin', 'provide', 202)
        machine.faults.remove(rule.id)
        if world.node.provision_state == states.AVAILABLE:
            ask(world, 'nova', 'deploy', 202)
    finally:
        machine.flash_seconds = flash


def _unseen_between_two_polls(world: World) -> None:
    world.site.keeps_time = False
    available(world)
    ask(world, 'system admin', 'manage', 202)
    ask(world, 'system admin', 'clean: unlock', 202)
    HAPPENINGS['the host wakes and goes off'](world)
    world.site.go_on(timedelta(seconds=30))
    ask(world, 'system admin', 'clean: lock', 202)
    ask(world, 'system admin', 'provide', 202)
    ask(world, 'nova', 'deploy')


def _adopted_with_what_was_proven(world: World) -> None:
    world.edit('system admin', ('add', '/automated_clean', False))
    ask(world, 'system admin', 'clean: reconcile', 202)
    ask(world, 'system admin', 'provide', 202)
    ask(world, 'nova', 'deploy', 202)
    state(world, states.ACTIVE)
    ask(world, 'nova', 'delete', 202)
    state(world, states.AVAILABLE)
    spoil(world)
    ask(world, 'system admin', 'manage', 202)
    ask(world, 'system admin', 'adopt')
    ask(world, 'system admin', 'power on')


def _lock_that_nobody_misses(world: World) -> None:
    active(world)
    ask(world, 'lessee member', 'power off', 202)
    happens(world, 'the BMC loses the locks quickly')
    world.pass_time(2000)
    ask(world, 'lessee member', 'power on')


# ------------------------------------------------------------------------------------------------------------ taking away


def _gate_says_yes(patch: Patch) -> None:
    patch.setattr(gate, 'decide', lambda _: Reason.PROVEN)


def _nothing_breaks(patch: Patch) -> None:
    def between(before: Any, after: Any, *_a: Any, **_k: Any) -> Interval:
        return Interval(since=before.at, until=after.at, cover=Cover.LOCKED, strength=Strength.EVIDENCED)

    patch.setattr(custody, 'between', between)


def _nothing_ran_unseen(patch: Patch) -> None:
    patch.setattr(interference, 'ran_since', lambda *_a, **_k: None)


def _locks_believed(patch: Patch) -> None:
    judge = lock_evidence.judge
    patch.setattr(
        lock_evidence, 'judge', lambda reading, *a, **k: replace(judge(reading, *a, **k), state=LockState.LOCKED_VERIFIED)
    )


def _nothing_unmet(patch: Patch) -> None:
    check = execution.check

    def checked(*args: Any, **named: Any) -> Any:
        inventory, verdict = check(*args, **named)
        return inventory, replace(verdict, findings=())

    patch.setattr(execution, 'check', checked)
    patch.setattr(custody_feed, 'judged', lambda verdict, *_: verdict)
    patch.setattr(validity, 'holds', lambda *_a, **_k: ())


def _overrides_believed(patch: Patch) -> None:
    patch.setattr(interface_overrides, 'standing', lambda _: ())
    patch.setattr(api_guard, 'find_overrides', lambda *_a, **_k: ())
    ours = hardware.RedfishAccHardware.supported_firmware_interfaces.fget
    assert ours is not None
    also = property(lambda self: [*ours(self), NoFirmware])
    patch.setattr(hardware.RedfishAccHardware, 'supported_firmware_interfaces', also)


def _sync_passes_the_gate_by(patch: Patch) -> None:
    patch.setattr(AccPower, 'supports_power_sync', lambda *_: True)
    forced = conductor_manager.utils.node_power_action

    def without_the_gate(task: Any, wanted: str, *args: Any, **named: Any) -> None:
        if task._purpose == 'power state sync':
            RedfishPower.set_power_state(task.driver.power, task, wanted)
        else:
            forced(task, wanted, *args, **named)

    patch.setattr(conductor_manager.utils, 'node_power_action', without_the_gate)


def _power_offs_tell_nothing(patch: Patch) -> None:
    for name in ('woke', 'note'):
        patch.setattr(left_off, name, lambda *_: None)


def _version_is_proof(patch: Patch) -> None:
    patch.setattr(custody_feed, 'evidence_of', lambda _: WriteEvidence.VERSION)


def _no_blind_limit(patch: Patch) -> None:
    between = custody_intervals.between

    def without_limit(before: Any, after: Any, conditions: Any, **named: Any) -> Any:
        return between(before, after, replace(conditions, blind_limit=timedelta(days=9)), **named)

    patch.setattr(custody, 'between', without_limit)


def _proof_stays(patch: Patch) -> None:
    patch.setattr(proof, 'end', lambda _: None)
    patch.setattr(rights, 'forget_proof', lambda _: None)
    patch.setattr(proof, 'undeploy_begins', lambda _: None)
    patch.setattr(node_store, 'of_deployment', lambda _: False)


def _chains_begin_with_the_end_of_a_write(patch: Patch) -> None:
    ended = custody.write_ended

    def unbroken(kept: Custody, accelerator: Any, at: Any, **named: Any) -> Custody:
        card = ended(kept, accelerator, at, **named).of(accelerator)
        chain = None if card.chain is None else replace(card.chain, broken=None)
        return custody._with(kept, replace(card, chain=chain))

    patch.setattr(custody, 'write_ended', unbroken)
    _nothing_ran_unseen(patch)


def _watch_sees_nothing(patch: Patch) -> None:
    patch.setattr(decide_watch, 'troubles', lambda *_a, **_k: ())


KINDS: Mapping[str, Seeded] = {
    'gate': Seeded(
        what='the gate allows every start',
        take_away=_gate_says_yes,
        story=_a_start_while_we_have_opened,
        says='by our leave, and the way to',
    ),
    'custody': Seeded(
        what='nothing that happens between two readings breaks a chain of custody',
        take_away=_nothing_breaks,
        story=_deploy_of_spoilt_cards,
        says='with a certificate',
    ),
    'host beside a job': Seeded(
        what='that a host ran while a job had the cards open is not seen',
        take_away=_nothing_ran_unseen,
        story=_host_beside_a_job,
        custody='reported',
        says='with a certificate',
    ),
    'read-back': Seeded(
        what='a lock counts as closed and proven whatever it reads',
        take_away=_locks_believed,
        story=_locks_that_do_not_close,
        custody='reported',
        says='with a certificate',
    ),
    'verification': Seeded(
        what='the verification of a deploy finds nothing unmet',
        take_away=_nothing_unmet,
        story=_deploy_of_spoilt_cards,
        says='with a certificate',
    ),
    'interface overrides': Seeded(
        what='interfaces that instance_info names are believed',
        take_away=_overrides_believed,
        story=_another_interface,
        says='with a certificate',
    ),
    'power synchronisation': Seeded(
        what="Ironic's power synchronisation passes the gate by",
        take_away=_sync_passes_the_gate_by,
        story=_sync_starts,
        says='by our leave, and the way to',
    ),
    'left off': Seeded(
        what="that Ironic's own power-off has met a running host beside open cards is not kept",
        take_away=_power_offs_tell_nothing,
        story=_left_off_and_woken,
        custody='reported',
        says='with a certificate',
    ),
    'version alone': Seeded(
        what='a write at an equal version counts as proven though nothing shows that it has reached the card',
        take_away=_version_is_proof,
        story=_image_that_is_skipped,
        says='with a certificate',
    ),
    'blind limit': Seeded(
        what='two readings that find the host off cover any time between them',
        take_away=_no_blind_limit,
        story=_unseen_between_two_polls,
        says='with a certificate',
    ),
    'stale proof': Seeded(
        what='what was proven for a deployment stays when it is over',
        take_away=_proof_stays,
        story=_adopted_with_what_was_proven,
        says='handed over',
    ),
    'time of the write': Seeded(
        what='a chain begins with the end of a write, not with the last reading before it',
        take_away=_chains_begin_with_the_end_of_a_write,
        story=_host_beside_a_job,
        says='with a certificate',
    ),
    'watch': Seeded(
        what='the watch sees nothing',
        take_away=_watch_sees_nothing,
        story=_lock_that_nobody_misses,
        says='by our leave, and the way to',
    ),
}


# ------------------------------------------------------------------------------------------------------- faults that are known


def certificate_of_the_tenant_before(world: World) -> None:
    """A cleaning that could not begin leaves the certificate; then the node is adopted."""
    active(world)
    ask(world, 'system admin', 'service: unlock', 202)
    HAPPENINGS['the mains fail'](world)
    ask(world, 'lessee admin', 'delete', 202)
    state(world, states.CLEANFAIL)
    world.site.go_on(timedelta(seconds=60))
    ask(world, 'system admin', 'no maintenance')
    ask(world, 'system admin', 'manage', 202)
    if ask(world, 'system admin', 'adopt') == 409:  # until the conductor has forgotten the deployment before
        world.pass_time(60)
        ask(world, 'system admin', 'adopt', 202)
    state(world, states.ACTIVE)
