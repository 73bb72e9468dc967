# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the watch finds wrong with a machine that a tenant has, when it is reported, and what is done about it."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.action import Flash, Program, Release
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.planning import remembered_inventory, watch, watch_alarms
from baremetal_acc.planning.trouble import TroubleText
from baremetal_acc.planning.verify import judged
from baremetal_acc.planning.watch_alarms import Alarm, TroubleKind
from baremetal_acc.policy import baseline as rules
from baremetal_acc.policy.baseline_rules import Baseline, DriftAction, Match, Rule
from baremetal_acc.policy.device_demands import HOST_PATHS
from baremetal_acc.render.troubles import not_closed, recorded
from tests.unit.planning import trouble_words as said
from tests.unit.planning import values as v

RECORDS = (v.engagement(),)
LATER = v.NOW + timedelta(minutes=5)
FRESH = {'at': LATER, 'session': 'another'}


def handed(*devices, records=RECORDS):
    """What was handed over, as it is stored."""
    return remembered_inventory.remembered(None, judged(v.inventory(*devices), records, lifecycle=v.LIFECYCLE))


def wrong(before, *devices, records=RECORDS, **changes):
    """The troubles of a look at these devices."""
    return said.troubles(before, v.inventory(*devices, at=LATER, **changes), records, lifecycle=v.LIFECYCLE)


def gpu(state=LockState.LOCKED_REPORTED, **changes):
    reading = v.reading(state, **FRESH, **changes.pop('lock', {}))
    return v.gpu(**({'locks': (reading,)} | changes))


def test_a_machine_that_is_as_it_was_handed_over_has_no_trouble():
    """The lock reads closed by another session at another time, and our record is of this card."""
    assert LockState.LOCKED_VERIFIED is handed().accelerators[0].locks[0].state
    assert () == wrong(handed(), gpu())


@pytest.mark.parametrize('state', [LockState.UNLOCKED, LockState.PARTIAL])
def test_a_lock_that_is_open_is_a_trouble_at_once(state):
    """It names the card, the mechanism, the place and the value."""
    (found,) = wrong(handed(), gpu(state))
    assert (TroubleKind.LOCK, v.GPU, True) == (found.kind, found.device, found.certain)
    assert v.reading().place == found.lock
    assert 'rot at host:/redfish/v1/Chassis/RoT_0 Closed: was locked-verified, is ' in found.fact.text


def test_a_lock_that_reads_closed_and_was_not_closed_by_us_on_this_card_is_a_trouble():
    """Without our record, or with one of another card, a value proves nothing."""
    (found,) = wrong(handed(), gpu(), records=())
    assert found.kind is TroubleKind.LOCK
    assert 'not engaged by us' in found.fact.text
    (found,) = wrong(handed(), gpu(), records=(v.engagement(accelerator=AcceleratorId('uuid:other')),))
    assert 'another card' in found.fact.text


def test_a_lock_that_nobody_can_read_is_no_certain_trouble_and_not_nothing():
    """Unknown, or behind a gap; a lock that is simply not there any more is certain."""
    (found,) = wrong(handed(), gpu(LockState.UNKNOWN))
    assert (TroubleKind.UNREADABLE, False) == (found.kind, found.certain)
    bare = v.gpu(locks=())
    gap = Gap(ref=v.reading().ref, reason='HTTP 500')
    (found,) = wrong(handed(), bare, gaps=(gap,))
    assert (TroubleKind.UNREADABLE, False) == (found.kind, found.certain)
    assert 'HTTP 500' in found.fact.text
    (found,) = wrong(handed(), bare)
    assert (TroubleKind.LOCK, True) == (found.kind, found.certain)


def test_a_lock_that_came_in_force_with_the_start_of_the_host_holds_without_a_reset_in_our_records():
    """Closed since, by the record of this card; pending still is not certain, for the host may not have started yet."""
    needs = {'needs': ResetKind.SYSTEM_RESET, 'reset': v.SYSTEM, 'in_force': True}
    record = v.engagement(v.reading(**needs), reset_at=None)
    before = handed(records=(record,))
    before = replace(
        before,
        accelerators=(replace(before.accelerators[0], locks=(v.reading(LockState.LOCKED_VERIFIED, **needs),)),),
    )
    assert () == wrong(before, gpu(lock=needs), records=(record,))
    (found,) = wrong(before, gpu(LockState.PENDING_RESET, lock=needs), records=(record,))
    assert (TroubleKind.LOCK, False) == (found.kind, found.certain)
    only_set = gpu(lock=needs | {'in_force': False})
    (found,) = wrong(before, only_set, records=(record,))
    assert (TroubleKind.LOCK, True) == (found.kind, found.certain)
    assert 'is pending-reset' in found.fact.text, 'closed again without the reset that it needs: the alarm is not over'


def interface(number, state=LockState.LOCKED_REPORTED, accelerator=v.GPU, **changes):
    """A way of the host to the BMC."""
    place = f'Managers/1/HostInterfaces/{number}'
    blocks = frozenset({WritePath.HOST_BMC_REDFISH})
    return v.reading(
        state, mechanism='host_interface', place=place, blocks=blocks, scope=Scope.BMC, accelerator=accelerator, **changes
    )


def test_a_way_that_was_not_there_at_the_hand_over_and_is_open_is_a_trouble_and_is_closed():
    """A second interface: no lock of then says anything of it. Each is told once, however many cards show it."""
    records = (v.engagement(interface(1), scope=Scope.BMC), v.engagement(interface(1), scope=Scope.BMC, accelerator=v.FPGA))
    before = handed(v.gpu(locks=(interface(1),)), v.fpga(locks=(interface(1, accelerator=v.FPGA),), slots=()), records=records)

    def look(*further, first=LockState.LOCKED_REPORTED):
        both = {
            card: tuple(replace(r, accelerator=card) for r in (interface(1, first, **FRESH), *further))
            for card in (v.GPU, v.FPGA)
        }
        return v.inventory(v.gpu(locks=both[v.GPU]), v.fpga(locks=both[v.FPGA], slots=()))

    def found(seen):
        return said.troubles(before, seen, records, lifecycle=v.LIFECYCLE)

    assert () == found(look())
    assert () == found(look(interface(2)))
    opened = interface(2, LockState.UNLOCKED)
    (one,) = found(look(opened))
    assert (TroubleKind.LOCK, None, True, opened.place) == (one.kind, one.device, one.certain, one.lock)
    assert one.subject.startswith('write path host-bmc-redfish')
    assert {v.GPU, v.FPGA} == watch.exposed([one])
    assert [opened.place] == [r.place for r in watch.closable([one], look(opened))[0]]
    for state, kind in ((LockState.UNKNOWN, TroubleKind.UNREADABLE), (LockState.PENDING_RESET, TroubleKind.LOCK)):
        (one,) = found(look(interface(2, state)))
        assert (kind, False) == (one.kind, one.certain)
    three = found(look(opened, interface(3, LockState.UNLOCKED), first=LockState.UNLOCKED))
    assert {interface(n).place for n in (1, 2, 3)} == {t.lock for t in three}
    assert 3 == len(three), 'one that was lost hides none that is new'


def test_a_part_that_nothing_closes_is_a_new_way_too():
    """Where something could not be read, it is not certain."""
    lock = {'scope': Scope.COMPONENT, 'part': 'GPU_0'}
    record = (v.engagement(v.reading(**lock)),)
    before = handed(v.gpu(locks=(v.reading(**lock),)), records=record)
    more = gpu(lock=lock, firmware=(v.component(), v.component('ROT')))
    assert (TroubleKind.LOCK, True) in {(t.kind, t.certain) for t in wrong(before, more, records=record)}
    less = gpu(lock=lock, firmware=())
    gap = Gap(ref=v.component().ref, reason='HTTP 500')
    ways = [t for t in wrong(before, less, records=record, gaps=(gap,)) if t.subject.startswith('write path')]
    assert [(TroubleKind.UNREADABLE, False)] == [(t.kind, t.certain) for t in ways]


def test_a_job_of_ours_hands_over_no_way_that_was_opened_beside_it():
    """What is new and open stays a trouble; what is new and closed does not."""
    records = (v.engagement(interface(1), scope=Scope.BMC),)
    before = handed(v.gpu(locks=(interface(1),)), records=records)
    for state, expected in ((LockState.UNLOCKED, 1), (LockState.LOCKED_REPORTED, 0)):
        seen = v.inventory(v.gpu(locks=(interface(1, **FRESH), interface(2, state, **FRESH))))
        after = watch.accepted(before, judged(seen, records, lifecycle=v.LIFECYCLE), [flash()])
        assert expected == len(said.troubles(after, seen, records, lifecycle=v.LIFECYCLE))


@pytest.mark.parametrize(
    ('device', 'kind'),
    [
        (gpu(firmware=(v.component(version='6.6'),)), TroubleKind.FIRMWARE),
        (gpu(firmware=(replace(v.component(), staged='6.6'),)), TroubleKind.FIRMWARE),
        (gpu(firmware=()), TroubleKind.FIRMWARE),
        (gpu(id=AcceleratorId('uuid:other'), uuid='other', serial='1'), TroubleKind.CARD),
        (gpu(model='H800'), TroubleKind.CONFIGURATION),
    ],
)
def test_other_firmware_another_card_and_other_properties_are_troubles(device, kind):
    """Each of a kind of its own."""
    found = wrong(
        handed(v.gpu(uuid='gpu-0', serial='0')), replace(device, uuid=device.uuid or 'gpu-0', serial=device.serial or '0')
    )
    assert kind in {t.kind for t in found}
    assert all(t.certain for t in found)


def test_a_card_that_is_gone_is_a_trouble_and_one_that_could_not_be_seen_is_an_uncertain_one():
    """A gap behind which devices may lie makes the difference."""
    (found,) = wrong(handed(v.gpu(), v.fpga()), v.fpga())
    assert (TroubleKind.CARD, True) == (found.kind, found.certain)
    assert 'is gone' in found.fact.text
    gap = Gap(ref=v.ref('Systems/1/Processors'), reason='HTTP 503', hides=True)
    (found,) = wrong(handed(v.gpu(), v.fpga()), v.fpga(), gaps=(gap,))
    assert (TroubleKind.UNREADABLE, False) == (found.kind, found.certain)


def test_a_function_changes_only_where_the_host_may_program():
    """A slot that was handed over for the host is the tenant's business; any other one is not."""
    for may, expected in ((True, []), (False, [TroubleKind.FUNCTION]), (None, [TroubleKind.FUNCTION])):
        before = handed(v.fpga(slots=(replace(v.slot(0), programmable_from_host=may),)), records=())
        now = v.fpga(slots=(replace(v.slot(0, 'aes'), programmable_from_host=may),))
        assert expected == [t.kind for t in wrong(before, now, records=()) if t.kind is not TroubleKind.LOCK][:1]


def test_a_lock_of_a_whole_machine_is_one_trouble_and_exposes_all_of_its_devices():
    """However many devices show it; it is closed once."""
    both = [v.reading(accelerator=a, scope=Scope.BMC, mechanism='kcs', place='Managers/1') for a in (v.GPU, v.FPGA)]
    record = (v.engagement(both[0]),)
    before = handed(v.gpu(locks=(both[0],)), v.fpga(locks=(both[1],)), records=record)
    now = [replace(r, state=LockState.UNLOCKED, **FRESH) for r in both]
    seen = v.inventory(v.gpu(locks=(now[0],)), v.fpga(locks=(now[1],)))
    (found,) = said.troubles(before, seen, record, lifecycle=v.LIFECYCLE)
    assert (None, {v.GPU, v.FPGA}) == (found.device, found.of)
    assert 'the machine, kcs at' in found.fact.text
    assert {v.GPU, v.FPGA} == watch.exposed([found])
    readings, why = watch.closable([found], seen)
    assert (1, ()) == (len(readings), why)
    assert 1 == len(said.open_locks(seen, v.baseline(), v.NODE))


# ---------------------------------------------------------------------------------------------------------------- rounds


def trouble(kind=TroubleKind.LOCK, device=v.GPU, certain=True, text='open'):
    return said.trouble(kind=kind, device=device, subject='lock rot', text=text, certain=certain)


def test_a_trouble_is_told_once_and_again_when_it_is_over():
    """However often it is seen in between, with whatever words."""
    first = watch_alarms.next_round((), [trouble()], v.NOW, patience=3)
    assert [v.NOW] == [a.since for a in first.begun]
    second = watch_alarms.next_round(first.alarms, [trouble(text='still open')], LATER, patience=3)
    assert ((), ()) == (second.begun, second.ended)
    assert [(v.NOW, 2, 'still open')] == [(a.since, a.rounds, a.trouble.fact.text) for a in second.alarms]
    third = watch_alarms.next_round(second.alarms, [], LATER, patience=3)
    assert ((), ['still open']) == (third.alarms, [a.trouble.fact.text for a in third.ended])


def test_what_cannot_be_read_is_told_when_it_stays_and_not_before():
    """The third round of three; one good round in between begins the count anew, and says nothing."""
    unread = said.unreadable('silent')
    alarms, told = (), []
    for found in ([unread], [unread], [], [unread], [unread], [unread], [unread]):
        came = watch_alarms.next_round(alarms, found, v.NOW, patience=3)
        alarms = came.alarms
        told.append((len(came.begun), len(came.ended)))
    assert [(0, 0)] * 5 + [(1, 0), (0, 0)] == told


def test_nothing_is_over_because_it_could_not_be_seen():
    """A lost lock stays an alarm while its BMC is silent, or its card unreadable; a gap elsewhere does not keep it."""
    lost = watch_alarms.next_round((), [trouble()], v.NOW, patience=3).alarms
    blind = watch_alarms.next_round(lost, [said.unreadable('silent')], LATER, patience=3, blind=True)
    assert ((), 2) == (blind.ended, len(blind.alarms))
    dark = trouble(TroubleKind.UNREADABLE, certain=False)
    assert () == watch_alarms.next_round(lost, [dark], LATER, patience=3).ended
    elsewhere = trouble(TroubleKind.UNREADABLE, device=v.FPGA, certain=False)
    assert 1 == len(watch_alarms.next_round(lost, [elsewhere], LATER, patience=3).ended)


def test_alarms_survive_being_stored():
    """A restarted conductor tells nothing twice."""
    alarm = Alarm(trouble=replace(trouble(), lock=v.reading().place), since=v.NOW, rounds=2, told=True)
    assert alarm == decode(Alarm, encode(alarm))


# ------------------------------------------------------------------------------------------------------------- reactions


def test_the_rules_say_what_is_done_and_without_one_locks_are_closed_and_somebody_is_told():
    """Of the device that it is about; of all of them where it is about the node."""
    strict = Baseline(
        rules=(
            Rule(name='fpgas', match=Match(model='Stratix'), on_drift=frozenset({DriftAction.MAINTENANCE})),
            Rule(name='none', match=Match(model='H100'), on_drift=frozenset()),
        )
    )
    known = v.inventory(v.gpu(), v.fpga())
    assert frozenset() == watch.reactions(strict, v.NODE, known, trouble())
    assert {DriftAction.MAINTENANCE} == watch.reactions(strict, v.NODE, known, trouble(device=v.FPGA))
    assert {DriftAction.MAINTENANCE} == watch.reactions(strict, v.NODE, known, said.unproven())
    default = {DriftAction.NOTIFY, DriftAction.REENGAGE}
    assert default == watch.reactions(Baseline(rules=()), v.NODE, known, trouble())
    assert default == watch.reactions(strict, v.NODE, None, trouble())


def test_only_locks_that_need_no_reset_are_closed_again_and_a_lockdown_comes_last():
    """The others are told, with what to do."""
    plain, wide = v.reading(LockState.UNLOCKED), v.reading(LockState.UNLOCKED, mechanism='down', place='A', wraps=True)
    late = v.reading(LockState.UNLOCKED, mechanism='bios', place='B', needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM)
    seen = v.inventory(v.gpu(locks=(wide, late, plain)))
    found = [replace(trouble(), subject=r.mechanism, lock=r.place) for r in (wide, late, plain)]
    readings, why = watch.closable(found, seen)
    assert [plain, wide] == list(readings)
    assert 1 == len(why)
    assert 'power-cycle' in not_closed(why[0])
    assert 'lock_accelerators' in not_closed(why[0])
    gone = replace(trouble(), lock=('other', v.SYSTEM, 'x'))
    assert ((), 1) == (watch.closable([gone], seen)[0], len(watch.closable([gone], seen)[1]))


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('on_drift = ["maintenance"]', frozenset({DriftAction.MAINTENANCE})),
        ('on_drift = []', frozenset()),
        ('block = []', None),
    ],
)
def test_a_rule_may_say_what_is_done_about_drift(text, expected):
    """A list of words; an empty one asks for nothing."""
    (rule,) = rules.parse(f'format = 1\n[[rule]]\nname = "a"\n{text}\n', 'baseline.toml').rules
    assert expected == rule.on_drift


def test_a_word_that_is_none_is_an_error_of_its_line():
    """Whoever misspells an action would get none."""
    with pytest.raises(DocumentError, match=r'line 3.*re-engage.*did you mean reengage'):
        rules.parse('format = 1\n[[rule]]\non_drift = ["re-engage"]\n', 'baseline.toml')


# ------------------------------------------------------------------------------------------------------- after a service


def flash(**changes):
    values = {
        'accelerator': v.GPU,
        'component': 'GPU_0',
        'ref': v.component().ref,
        'image': 'gpu-new',
        'version': v.NEW,
        'expects': v.OLD,
        'reset': ResetKind.NONE,
    }
    return Flash(**(values | changes))


def test_what_a_job_of_ours_did_is_what_later_looks_are_compared_with():
    """The new version is no drift then; a change that came beside it keeps the whole device as it was handed over."""
    now = v.gpu(firmware=(v.component(version=v.NEW),))
    after = watch.accepted(handed(), v.inventory(now), [flash()])
    assert v.NEW == after.accelerators[0].firmware[0].version
    assert LockState.LOCKED_VERIFIED is after.accelerators[0].locks[0].state
    both = v.gpu(firmware=(v.component(version=v.NEW), v.component('ROT', version='6.6')))
    before = handed(v.gpu(firmware=(v.component(), v.component('ROT', version='1'))))
    assert before.accelerators == watch.accepted(before, v.inventory(both), [flash()]).accelerators
    assert None is watch.accepted(None, v.inventory(now), [flash()])


def test_a_part_that_could_not_be_read_beside_what_a_job_did_keeps_nothing_back():
    """Else the next look would take our own new version for somebody else's; the part itself stays as it was handed over."""
    before = handed(v.gpu(firmware=(v.component(), v.component('ROT', version='1'))))
    unread = v.gpu(firmware=(v.component(version=v.NEW), v.component('ROT', version=None)))
    after = watch.accepted(before, v.inventory(unread), [flash()])
    assert [v.NEW, '1'] == [c.version for c in after.accelerators[0].firmware]
    again = v.inventory(v.gpu(firmware=(v.component(version=v.NEW), v.component('ROT', version='1'))))
    assert [] == [t for t in said.troubles(after, again, None, lifecycle=v.LIFECYCLE) if t.kind is TroubleKind.FIRMWARE]


def test_a_lock_that_a_job_opened_still_has_to_be_closed():
    """What was closed at the hand-over is what every later look asks for."""
    place = v.reading()
    release = Release(accelerator=v.GPU, mechanism='rot', ref=place.ref, field=place.field, expects='false')
    after = watch.accepted(handed(), v.inventory(v.gpu(locks=(v.reading(LockState.UNLOCKED),))), [release])
    assert LockState.LOCKED_VERIFIED is after.accelerators[0].locks[0].state


def test_a_function_that_was_programmed_for_the_tenant_is_as_it_was_handed_over():
    """By our own step."""
    before = handed(v.fpga(), records=())
    now = v.fpga(slots=(v.slot(0, 'aes'), v.slot(1, None, None)))
    program = Program(
        accelerator=v.FPGA, slot='Slot0', ref=v.slot(0).item.ref, image='aes', function='aes', version=v.NEW, expects=v.NEW
    )
    assert [TroubleKind.FUNCTION] == [t.kind for t in wrong(before, now, records=()) if t.kind is TroubleKind.FUNCTION]
    after = watch.accepted(before, v.inventory(now), [program])
    assert not [t for t in wrong(after, now, records=()) if t.kind is TroubleKind.FUNCTION]


# ------------------------------------------------------------------------------------------------------------------ when


def test_each_node_has_its_moment_once_in_every_interval_and_they_are_spread():
    """Counted over an hour in steps of five seconds, for many nodes."""
    interval = timedelta(minutes=5)
    moments = set()
    for number in range(40):
        node, last, rounds = f'node-{number}', v.NOW, []
        for tick in range(720):
            now = v.NOW + timedelta(seconds=5 * (tick + 1))
            if watch_alarms.due(node, last, now, interval):
                last = now
                rounds.append(now)
        assert len(rounds) in (12, 13)
        assert {interval} == {b - a for a, b in itertools.pairwise(rounds)}
        moments.add(rounds[0])
    assert len(moments) > 20, 'they come at different times'


# --------------------------------------------------------------------------------------------------------- when it is back


def test_after_these_nobody_can_say_what_a_card_runs():
    """Locks that we have opened ourselves, with the host off, expose none; what could not be seen does not either."""
    kinds = [trouble(kind, device=AcceleratorId(kind)) for kind in TroubleKind]
    assert {'lock', 'firmware', 'card', 'configuration'} == watch.exposed(kinds)
    assert {'firmware', 'card', 'configuration'} == watch.exposed(kinds, opened=True)
    assert frozenset() == watch.exposed([trouble(certain=False), said.unproven()])


def test_a_machine_that_is_ours_again_is_compared_without_records():
    """They are of another life: a lock that reads closed is as it was, one that does not stood open."""
    seen = v.inventory(gpu(), at=LATER)
    assert () == said.troubles(handed(), seen, None, lifecycle=v.LIFECYCLE)
    (found,) = said.troubles(handed(), v.inventory(gpu(LockState.UNLOCKED)), None, lifecycle=v.LIFECYCLE)
    assert v.GPU == found.device


def test_cards_that_were_handed_over_open_are_written_where_there_are_images():
    """Of all firmware that the rules demand; where nothing is demanded nothing is written."""
    open_one = handed(v.gpu(locks=(v.reading(LockState.UNLOCKED),)), records=())
    assert {v.GPU} == watch.unlocked(open_one)
    assert frozenset() == watch.unlocked(handed())
    seen, rules_ = v.inventory(), v.baseline()
    assert {v.GPU} == watch.rewritable(seen, {v.GPU}, rules_, v.NODE, [v.image()])
    assert frozenset() == watch.rewritable(seen, {v.GPU}, rules_, v.NODE, [])
    assert frozenset() == watch.rewritable(seen, {v.GPU}, v.baseline(firmware=()), v.NODE, [v.image()])
    assert frozenset() == watch.rewritable(seen, {v.FPGA}, rules_, v.NODE, [v.image()])


def test_a_machine_that_nobody_handed_over_has_its_open_locks_told():
    """Those that the rules demand, and that do not read closed."""
    (found,) = said.open_locks(v.inventory(gpu(LockState.UNLOCKED)), v.baseline(), v.NODE)
    assert (TroubleKind.LOCK, v.reading().place) == (found.kind, found.lock)
    assert [] == list(said.open_locks(v.inventory(gpu()), v.baseline(), v.NODE))
    assert [] == list(said.open_locks(v.inventory(gpu(LockState.UNLOCKED)), v.baseline(block=frozenset()), v.NODE))
    (found,) = said.open_locks(v.inventory(gpu(LockState.UNKNOWN)), v.baseline(), v.NODE)
    assert (TroubleKind.UNREADABLE, False) == (found.kind, found.certain)


# ------------------------------------------------------------------------------------------------------- what is told of it


AT = 'host:/redfish/v1/Chassis/RoT_0'
CARD = 'H100 GPU_0 (uuid:gpu-0)'


def lock_trouble(text, **changes):
    """Of the lock of the GPU."""
    values = {'kind': TroubleKind.LOCK, 'device': v.GPU, 'subject': f'lock rot {AT} Closed', 'lock': v.reading().place}
    return said.trouble(text=f'{CARD}, rot at {AT} Closed: was locked-verified{text}', **(values | changes))


UNREAD = {'kind': TroubleKind.UNREADABLE, 'certain': False}


@pytest.mark.parametrize(
    ('device', 'gaps', 'expected'),
    [
        (gpu(LockState.UNLOCKED), (), lock_trouble(', is unlocked (false)')),
        (gpu(LockState.PARTIAL, lock={'reason': 'half'}), (), lock_trouble(', is partial (false), half')),
        (gpu(LockState.UNKNOWN, lock={'reason': 'HTTP 500'}), (), lock_trouble(', is unknown (false), HTTP 500', **UNREAD)),
        (gpu(LockState.PENDING_RESET), (), lock_trouble(', is pending-reset (false)', certain=False)),
        (
            replace(gpu(), locks=(replace(v.reading(LockState.UNLOCKED), value=None),)),
            (),
            lock_trouble(', is unlocked'),
        ),
        (gpu(locks=()), (), lock_trouble(', but the BMC no longer shows it')),
        (
            gpu(locks=()),
            (Gap(ref=v.ref('Systems/2'), reason='HTTP 404'),),
            lock_trouble(', but the BMC no longer shows it'),
        ),
        (
            gpu(locks=()),
            (Gap(ref=v.reading().ref, reason='HTTP 500'),),
            lock_trouble(', but could not be read: HTTP 500', **UNREAD),
        ),
        (
            gpu(locks=()),
            (Gap(ref=v.ref('Chassis'), reason='HTTP 503', hides=True),),
            lock_trouble(', but could not be read: HTTP 503', **UNREAD),
        ),
    ],
)
def test_a_lock_that_is_not_as_it_was_is_told_word_by_word(device, gaps, expected):
    """Card, mechanism, place, what it was and is, and why: one trouble, whatever else of the look shows it."""
    assert (expected,) == wrong(handed(), device, gaps=gaps)


def test_what_is_told_of_a_lock_has_an_end():
    """A BMC may name things at any length; what tells two troubles apart is longer than what is only read."""
    long = replace(v.reading(), field='x' * 500, value='y' * 500)
    (found,) = wrong(
        handed(gpu(locks=(long,)), records=(v.engagement(long),)), gpu(locks=(replace(long, state=LockState.UNLOCKED),))
    )
    assert f'lock rot {AT} {"x" * 500}'[:237] + '...' == found.subject
    name = f'{CARD}, rot at {AT} {"x" * 117}...'
    assert f'{name}: was locked-verified, is unlocked ({"y" * 117}...)' == found.fact.text
    (found,) = said.open_locks(v.inventory(gpu(locks=(replace(long, state=LockState.UNLOCKED),))), v.baseline(), v.NODE)
    assert f'lock rot {AT} {"x" * 500}'[:237] + '...' == found.subject
    assert f'{name}: is unlocked' == found.fact.text


def test_every_lock_of_a_card_is_compared_whatever_is_said_of_the_one_before():
    """One that was open, one that is gone, one that holds, and one that was lost."""
    states = {'open': LockState.UNLOCKED, 'gone': LockState.LOCKED_REPORTED, 'kept': LockState.LOCKED_REPORTED}
    before = [v.reading(s, mechanism=m, place=m) for m, s in (states | {'lost': LockState.LOCKED_REPORTED}).items()]
    records = tuple(map(v.engagement, before))
    now = [replace(r, **FRESH) for r in before if r.mechanism != 'gone']
    now[-1] = replace(now[-1], state=LockState.UNLOCKED)
    found = wrong(handed(v.gpu(locks=tuple(before)), records=records), gpu(locks=tuple(now)), records=records)
    assert ['gone', 'lost'] == [t.lock[0] for t in found if t.subject.startswith('lock ')]


def test_a_change_of_a_card_is_a_trouble_of_that_card():
    """In the words of the difference."""
    expected = said.trouble(
        kind=TroubleKind.FIRMWARE,
        device=v.GPU,
        subject='firmware GPU_0',
        text='H100 GPU_0, firmware GPU_0: 1.0 before, 6.6 now',
    )
    assert (expected,) == wrong(handed(), gpu(firmware=(v.component(version='6.6'),)))


def test_who_may_program_a_slot_is_a_matter_of_its_lock():
    """It is told as that, not as a function that has changed."""
    before = handed(v.fpga(slots=(replace(v.slot(0), programmable_from_host=False),)), records=())
    now = v.fpga(slots=(replace(v.slot(0), programmable_from_host=True),))
    assert () == tuple(t for t in wrong(before, now, records=()) if t.kind is TroubleKind.FUNCTION)


def test_a_function_of_a_card_that_shows_another_identity_is_told():
    """Nothing says of such a card that its host might program it."""
    before = handed(v.fpga(slots=(replace(v.slot(0), programmable_from_host=True),)), records=())
    other = AcceleratorId('uuid:other')
    found = wrong(before, v.fpga(id=other, slots=(replace(v.slot(0, 'aes'), programmable_from_host=True),)), records=())
    assert {(TroubleKind.FUNCTION, other)} <= {(t.kind, t.device) for t in found}


ROT_1 = 'host:/redfish/v1/Chassis/RoT_1'


@pytest.mark.parametrize(
    ('state', 'how', 'text', 'changes'),
    [
        (LockState.UNLOCKED, {}, 'unlocked', {}),
        (LockState.PARTIAL, {'reason': 'half'}, 'partial, half', {}),
        (LockState.UNKNOWN, {'reason': 'HTTP 500'}, 'unknown, HTTP 500', UNREAD),
        (LockState.PENDING_RESET, {}, 'pending-reset', {'certain': False}),
        (
            LockState.LOCKED_REPORTED,
            {'needs': ResetKind.SYSTEM_RESET, 'reset': v.SYSTEM},
            'pending-reset, in effect only after a system-reset',
            {'certain': False},
        ),
    ],
)
def test_another_place_of_a_lock_that_is_not_closed_is_told_word_by_word(state, how, text, changes):
    """As a way that was not there; a reading counts by what our own records say of it."""
    further = v.reading(state, place='Chassis/RoT_1', **FRESH, **how)
    records = (*RECORDS, v.engagement(further, reset_at=None))
    values = {
        'kind': TroubleKind.LOCK,
        'device': v.GPU,
        'subject': f'write path host-device lock rot {ROT_1} Closed',
        'text': f'{CARD}, rot at {ROT_1} Closed: '
        f'write path host-device was blocked, but this, which is new since then, is {text}',
        'lock': further.place,
    }
    now = gpu(locks=(v.reading(**FRESH), further))
    assert (said.trouble(**(values | changes)),) == wrong(handed(), now, records=records)
    if state is LockState.LOCKED_REPORTED:
        assert () == said.troubles(handed(), v.inventory(now), None, lifecycle=v.LIFECYCLE)


def test_a_further_way_into_a_whole_machine_is_told_of_the_machine():
    """With the cards that it leads to; its name has an end."""
    further = replace(interface(2, LockState.UNLOCKED, **FRESH), field='x' * 500)
    records = (v.engagement(interface(1), scope=Scope.BMC),)
    before = handed(v.gpu(locks=(interface(1),)), records=records)
    at = 'host:/redfish/v1/Managers/1/HostInterfaces/2'
    expected = said.trouble(
        kind=TroubleKind.LOCK,
        device=None,
        subject=f'write path host-bmc-redfish lock host_interface {at} {"x" * 500}'[:237] + '...',
        text=(
            f'the machine, host_interface at {at} {"x" * 117}...: write path host-bmc-redfish was blocked, but this, '
            'which is new since then, is unlocked'
        ),
        lock=further.place,
        of=frozenset({v.GPU}),
    )
    assert (expected,) == wrong(before, gpu(locks=(interface(1, **FRESH), further)), records=records)


def test_a_part_that_nothing_closes_is_told_for_every_way_to_it():
    """Each of the host's, whatever was said of the one before."""
    lock = {'scope': Scope.COMPONENT, 'part': 'GPU_0', 'blocks': v.ALL_PATHS}
    record = (v.engagement(v.reading(**lock)),)
    before = handed(v.gpu(locks=(v.reading(**lock),)), records=record)
    found = wrong(before, gpu(lock=lock, firmware=(v.component(), v.component('ROT'))), records=record)
    expected = [
        said.trouble(
            kind=TroubleKind.LOCK,
            device=v.GPU,
            subject=f'write path {path}',
            text=f'{CARD}, ROT: write path {path} was blocked, but this, which is new since then, is unsupported',
        )
        for path in ('host-bmc-ipmi', 'host-bmc-redfish', 'host-device')
    ]
    assert expected == [t for t in found if t.kind is TroubleKind.LOCK]


def test_a_lock_that_two_parts_share_by_name_is_told_once_for_every_way():
    """Nobody can say which of the two it closes, however often it is asked."""
    lock = {'scope': Scope.COMPONENT, 'part': 'GPU_0', 'blocks': v.ALL_PATHS}
    record = (v.engagement(v.reading(**lock)),)
    before = handed(v.gpu(locks=(v.reading(**lock),)), records=record)
    twin = replace(v.component(), ref=v.ref('UpdateService/FirmwareInventory/twin'))
    found = wrong(before, gpu(lock=lock, firmware=(v.component(), twin)), records=record)
    ways = [t for t in found if t.subject.startswith('write path ')]
    assert [('write path host-bmc-ipmi lock rot ' + AT + ' Closed', v.reading().place)] == [(t.subject, t.lock) for t in ways]
    assert ways[0].fact.text.endswith('is unknown, the BMC shows several parts of the device with the id GPU_0')
    more = v.reading(mechanism='more', part='ROT', scope=Scope.COMPONENT, blocks=HOST_PATHS - v.HOST_DEVICE, **FRESH)
    seen = gpu(firmware=(v.component(), twin, v.component('ROT')), locks=(v.reading(**lock, **FRESH), more))
    found = [t.subject for t in wrong(before, seen, records=record) if t.subject.startswith('write path ')]
    assert [ways[0].subject, 'write path host-device'] == found, 'what only another way shows is told as well'


def test_a_lock_that_closes_less_than_it_did_leaves_a_way_open():
    """It reads closed, and no more of what it blocked than the one path."""
    both = {'blocks': frozenset({WritePath.HOST_DEVICE, WritePath.HOST_BMC_IPMI})}
    record = (v.engagement(v.reading(**both)),)
    found = wrong(handed(v.gpu(locks=(v.reading(**both),)), records=record), gpu(), records=record)
    assert ['write path host-bmc-ipmi'] == [t.subject for t in found]


def test_an_open_lock_of_a_machine_that_nobody_handed_over_is_told_whole():
    """Of its card; one of a whole machine of all cards that it is for."""
    mine = v.reading(LockState.UNLOCKED)
    (found,) = said.open_locks(v.inventory(v.gpu(locks=(mine,))), v.baseline(), v.NODE)
    assert found == replace(lock_trouble(''), fact=TroubleText(text=f'{CARD}, rot at {AT} Closed: is unlocked'))
    whole = replace(mine, scope=Scope.BMC)
    seen = v.inventory(v.gpu(locks=(whole,)), v.fpga(locks=(replace(whole, accelerator=v.FPGA),)))
    expected = said.trouble(
        kind=TroubleKind.LOCK,
        device=None,
        subject=f'lock rot {AT} Closed',
        text=f'the machine, rot at {AT} Closed: is unlocked',
        lock=mine.place,
        of=frozenset({v.GPU, v.FPGA}),
    )
    assert (expected,) == said.open_locks(seen, v.baseline(), v.NODE)
    unread = said.open_locks(v.inventory(v.gpu(locks=(replace(mine, state=LockState.UNKNOWN),))), v.baseline(), v.NODE)
    assert (replace(found, fact=TroubleText(text=f'{CARD}, rot at {AT} Closed: is unknown'), **UNREAD),) == unread


def test_troubles_of_a_whole_node_are_told_word_by_word():
    """What is told apart by its subject stays the same trouble, with whatever reason."""
    text = 'the accelerators cannot be compared with their state at hand-over: HTTP 503'
    expected = said.trouble(kind=TroubleKind.UNREADABLE, device=None, subject='all', text=text, certain=False)
    assert expected == said.unreadable('HTTP 503')
    assert text.replace('HTTP 503', 'x' * 477 + '...') == said.unreadable('x' * 500).fact.text
    adopted = (
        'the node is active, but its state at hand-over is unknown: it was adopted, or deployed without '
        'verify_accelerators; undeploy it, or deploy it again'
    )
    expected = said.trouble(kind=TroubleKind.UNPROVEN, device=None, subject='hand-over', text=adopted)
    assert expected == said.unproven()
    text = 'locks have been open since 2026-11-21 12:00:00 UTC (by unlock)'
    expected = said.trouble(kind=TroubleKind.OPENED, device=None, subject='locks', text=text)
    assert (expected,) == recorded([watch.opened(v.NOW, 'by unlock')])


def test_why_a_lock_cannot_be_closed_again_is_told_word_by_word():
    """What is no lock, or none that has a place, is left out; the lock behind them is closed."""
    plain = v.reading(LockState.UNLOCKED)
    late = v.reading(LockState.UNLOCKED, mechanism='bios', place='B', needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM)
    found = [
        replace(trouble(TroubleKind.UNREADABLE), lock=plain.place),
        trouble(),
        replace(trouble(), lock=('gone', v.SYSTEM, 'x')),
        replace(trouble(device=None), lock=('down', v.SYSTEM, 'x')),
        replace(trouble(device=v.FPGA), lock=plain.place),
        replace(trouble(), lock=late.place),
    ]
    why = (
        'uuid:gpu-0: gone is not shown, so it cannot be engaged',
        'the machine: down is not shown, so it cannot be engaged',
        'uuid:fpga-1: rot is not shown, so it cannot be engaged',
        f'{CARD}, bios at host:/redfish/v1/B Closed: it takes effect only after a power-cycle, which is not done to '
        'the host of a tenant: have the node serviced with lock_accelerators',
    )
    seen = v.inventory(v.gpu(locks=(late, plain)), v.fpga())
    for more, closed in ((), ()), ((replace(trouble(), lock=plain.place),), (plain,)):
        readings, left = watch.closable([*found, *more], seen)
        assert (closed, why) == (readings, tuple(map(not_closed, left)))


# --------------------------------------------------------------------------------------------------- what counts from now on


def test_what_counts_after_a_job_of_ours_is_made_of_what_was_and_what_was_proven():
    """Card by card: one with another change stays as it was handed over, be it the first."""
    firmware = (v.component(), v.component('ROT', version='1'))
    before = handed(v.fpga(), v.gpu(firmware=firmware), records=RECORDS)
    fpga, card = before.accelerators
    assert (v.FPGA, v.GPU) == (fpga.id, card.id)
    new = v.reading(mechanism='other', place='Chassis/Other', **FRESH, reason='found locked, but not engaged by us')
    again = v.reading(LockState.LOCKED_VERIFIED, **FRESH, reason='takes effect with the start of the host')
    opened = v.reading(LockState.UNLOCKED, mechanism='third', place='Chassis/Third', **FRESH)
    now = v.gpu(firmware=(v.component(version=v.NEW), firmware[1]), locks=(again, new, opened))
    after = watch.accepted(before, v.inventory(v.fpga(model='Agilex'), now, at=LATER), [flash()])
    locks = tuple(replace(r, session='', reason=None) for r in (again, new))
    written = replace(card.firmware[0], version=v.NEW)
    assert replace(before, accelerators=(fpga, replace(card, firmware=(written, card.firmware[1]), locks=locks))) == after


def test_what_a_job_of_ours_could_not_see_stays_as_it_was_handed_over():
    """Where a card is, or the whole card: by that it is known when it calls itself something else."""
    before = handed(v.gpu(location='PCIe slot 3'), v.fpga(), records=())
    gap = Gap(ref=v.ref('Systems/1/Processors'), reason='HTTP 500', hides=True)
    now = v.inventory(v.gpu(firmware=(v.component(version=v.NEW),)), gaps=(gap,))
    after = watch.accepted(before, now, [flash()])
    card = after.accelerator(v.GPU)
    assert ('PCIe slot 3', v.NEW) == (card.location, card.firmware[0].version)
    assert before.accelerator(v.FPGA) == after.accelerator(v.FPGA)


def test_the_moment_of_a_node_is_the_same_in_every_conductor():
    """Of this release and the next: it is made of its UUID, and falls into any part of the interval."""
    interval = timedelta(minutes=5)

    def moment(node):
        """So many seconds after the whole five minutes."""
        return next(
            n
            for n in range(300)
            if watch_alarms.due(node, v.NOW + timedelta(seconds=n), v.NOW + timedelta(seconds=n + 1), interval)
        )

    assert [145, 62, 27, 197] == [moment(f'node-{n}') for n in range(4)]
    assert {0, 1, 2, 3, 4} == {moment(f'node-{n}') // 60 for n in range(40)}


def test_what_a_slot_holds_is_told_though_another_slot_is_named_alike_and_may_be_programmed():
    """Of Slot1 and Slot10 the host may program Slot1: a change of Slot10 is a trouble."""
    slots = (replace(v.slot(0), slot_id='Slot1', programmable_from_host=True), replace(v.slot(0), slot_id='Slot10'))
    before = handed(v.fpga(slots=slots), records=())
    now = v.fpga(slots=(slots[0], replace(slots[1], function=v.slot(0, 'aes').function)))
    assert ['function Slot10'] == [t.subject for t in wrong(before, now, records=()) if t.kind is TroubleKind.FUNCTION]
