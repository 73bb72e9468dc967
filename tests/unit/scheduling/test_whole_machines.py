# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A lock of a whole machine: each way through each BMC has to be closed, once for all devices, a lockdown around the others."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import Engage, Flash, Release, Reset, ResetPurpose, Stage
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import Engagement, LockState, LockUndoRecord, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.planning.job_items import ended, with_item
from baremetal_acc.planning.job_readings import Sight
from baremetal_acc.planning.job_transitions import advance, begin, current, sent
from baremetal_acc.planning.lock_evidence import WritablePart, coverage, doubted, in_the_way, judge
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.policy.baseline_rules import Baseline, Match, Rule
from baremetal_acc.render.refusals import is_unrecorded
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import verify

IPMI, REDFISH, NETWORK = WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH, WritePath.BMC_NETWORK
LOCKED, OPEN, NONE = LockState.LOCKED_REPORTED, LockState.UNLOCKED, LockState.UNSUPPORTED
OTHER = BmcName('dpu')
MANAGER = v.ref('Managers/1')
ALL_BY_BMC = frozenset({IPMI, REDFISH, NETWORK})
UNLOCK = frozenset({Part.UNLOCK})


def whole(name, state=LOCKED, *blocks, place='Managers/1', bmc=None, **other):
    found = v.reading(state, mechanism=name, blocks=frozenset(blocks or {REDFISH}), place=place, scope=Scope.BMC, **other)
    return found if bmc is None else _on(found, bmc)


def _on(reading, bmc):
    return replace(reading, ref=Ref(bmc=bmc, uri=reading.ref.uri))


def lockdown(state=LOCKED, **other):
    return whole('lockdown', state, *ALL_BY_BMC, place='Managers/1/Lockdown', wraps=True, **other)


def states(path, *locks, **gpu):
    return [(c.subject.part, c.state) for c in coverage(v.gpu(locks=locks, **gpu), path, locks)]


# ---- what is closed ----


@pytest.mark.parametrize(
    ('second', 'expected'),
    [
        (LOCKED, LOCKED),
        (OPEN, OPEN),
        (LockState.UNKNOWN, LockState.UNKNOWN),
        (LockState.PENDING_RESET, LockState.PENDING_RESET),
    ],
)
def test_every_way_through_a_bmc_has_to_be_closed(second, expected):
    """A host interface that is off helps nothing beside a virtual card that is on: the worst of all ways counts."""
    assert [('host', expected)] == states(REDFISH, whole('interface'), whole('nic', second, place='Managers/1/Nic'))
    assert [('host', expected)] == states(REDFISH, whole('interface'), whole('interface', second, place='Managers/2'))


def test_a_lockdown_closes_all_that_it_declares():
    """Whatever switches beside it say; and what it does not declare it does not close."""
    assert [('host', LOCKED)] == states(REDFISH, whole('interface', OPEN), lockdown())
    assert [('host', LOCKED)] == states(IPMI, whole('interface', OPEN), lockdown())
    assert [('host', OPEN)] == states(REDFISH, whole('interface', OPEN), lockdown(OPEN))
    assert [('host', LOCKED)] == states(REDFISH, whole('interface'), lockdown(OPEN))


def test_each_bmc_that_shows_a_device_is_a_way_to_it():
    """A card with a BMC of its own is open where that one has no lock, and closed where both have."""
    refs = (v.ref('Systems/1/Processors/GPU_0'), Ref(bmc=OTHER, uri='/redfish/v1/Systems/Card'))
    host = whole('kcs', LOCKED, IPMI)
    assert [('dpu', NONE), ('host', LOCKED)] == states(IPMI, host, refs=refs)
    assert [('dpu', LOCKED), ('host', LOCKED)] == states(IPMI, host, _on(host, OTHER), refs=refs)
    assert [('dpu', OPEN), ('host', LOCKED)] == states(IPMI, host, whole('kcs', OPEN, IPMI, bmc=OTHER), refs=refs)


def test_no_lock_of_a_machine_closes_the_cards_own_way_to_the_host():
    """However it is declared: PCIe does not go through the BMC."""
    liar = whole('kcs', LOCKED, IPMI, WritePath.HOST_DEVICE)
    assert [('GPU_0', NONE)] == states(WritePath.HOST_DEVICE, liar)


def test_what_a_card_protects_itself_needs_no_lock_of_the_machine():
    """Nobody alters a write-protected image, by whatever way; what has no such lock beside it is as open as the BMC."""
    protected = v.reading(mechanism='wp', blocks=frozenset(WritePath), scope=Scope.COMPONENT, part='GPU_0')
    both = (v.component('GPU_0'), v.component('RoT_0'))
    assert [('GPU_0', LOCKED)] == states(IPMI, protected, whole('kcs', OPEN, IPMI))
    assert [('host', OPEN), ('GPU_0', LOCKED)] == states(IPMI, protected, whole('kcs', OPEN, IPMI), firmware=both)


def test_a_lock_of_another_bmc_is_in_nobodys_way():
    """A lockdown of the host's BMC keeps no image from a card that has a BMC of its own."""
    subject = WritablePart(scope=Scope.COMPONENT, part='GPU_0')
    assert in_the_way(lockdown(), subject, v.ref('x'))
    assert not in_the_way(lockdown(), subject, Ref(bmc=OTHER, uri='/redfish/v1/x'))
    assert not in_the_way(lockdown(OPEN), subject, v.ref('x'))
    assert not in_the_way(whole('kcs', LOCKED, IPMI), subject, v.ref('x'))


# ---- evidence ----


def test_one_engagement_is_proof_for_every_device_of_the_bmc():
    """The place is the BMC's; of a lock of a card's own another card's record proves nothing."""
    mine = whole('kcs', LOCKED, IPMI)
    record = v.engagement(mine, accelerator=v.FPGA, scope=Scope.BMC)
    assert LockState.LOCKED_VERIFIED is judge(mine, [record], lifecycle=v.LIFECYCLE).state
    own = v.reading()
    assert LOCKED is judge(own, [v.engagement(own, accelerator=v.FPGA)], lifecycle=v.LIFECYCLE).state
    assert LOCKED is judge(mine, [v.engagement(_on(mine, OTHER))], lifecycle=v.LIFECYCLE).state


WAYS = ('interface', 'nic')
FIRST, SECOND = AcceleratorId('uuid:a'), AcceleratorId('uuid:b')


def judged_after(*shown, asks=SECOND, records=None, **other):
    """What a deploy misses of two devices, one of which has to be closed; both ways were engaged in the name of the first."""
    engaged = (
        [v.engagement(whole(w, place=w), accelerator=FIRST, scope=Scope.BMC) for w in WAYS] if records is None else records
    )
    locks = tuple(whole(w, place=w) for w in shown)
    cards = [
        v.gpu(id=i, model='asked' if i == asks else 'free', locks=tuple(replace(r, accelerator=i) for r in locks), **other)
        for i in (FIRST, SECOND)
    ]
    baseline = Baseline(
        rules=(
            Rule(name='free', match=Match(model='free'), block=frozenset({IPMI})),
            Rule(name='asked', match=Match(), block=frozenset({IPMI, REDFISH})),
        )
    )
    found = verify(v.inventory(*cards), baseline, v.NODE, (), engaged, lifecycle=v.LIFECYCLE, flow=Flow.DEPLOY)
    return [(f.accelerator, str(f.subject)) for f in found.unmet if 'ipmi' not in str(f.subject)]


@pytest.mark.parametrize('asks', [FIRST, SECOND])
def test_a_way_that_vanishes_is_missed_on_every_device_that_needs_it_closed(asks):
    """Whichever device the one record names: of that one the rules may demand nothing, or only other paths."""
    assert [] == judged_after(*WAYS, asks=asks)
    assert [(asks, 'lock nic')] == judged_after('interface', asks=asks)


def test_a_way_of_a_bmc_that_does_not_show_the_device_is_not_missed():
    """It is none to that device."""
    elsewhere = [v.engagement(whole(w, place=w, bmc=OTHER), accelerator=FIRST, scope=Scope.BMC) for w in WAYS]
    mine = [v.engagement(whole(w, place=w), accelerator=FIRST, scope=Scope.BMC) for w in WAYS]
    assert [] == judged_after(*WAYS, records=mine + elsewhere)
    both = (v.ref('Systems/1/Processors/GPU_0'), Ref(bmc=OTHER, uri='/redfish/v1/Systems/Card'))
    assert (SECOND, 'lock nic') in judged_after(*WAYS, records=mine + elsewhere, refs=both)


def test_a_record_that_does_not_say_what_it_blocks_is_of_every_path():
    """Earlier versions have kept none: a lock that has vanished is missed wherever anything is demanded."""
    old = [v.engagement(whole(w, place=w), accelerator=FIRST, scope=Scope.BMC, blocks=frozenset()) for w in WAYS]
    assert [(FIRST, 'lock nic'), (SECOND, 'lock nic')] == judged_after('interface', records=old)
    stored = encode(old[0])
    del stored['blocks']
    assert old[0] == decode(Engagement, stored)


def test_what_comes_with_the_start_of_a_host_counts_for_giving_it_back_and_for_nothing_else():
    """The BIOS brings it in force before any code of the host runs; it is ours, of this lifecycle, and of that System."""
    waits = whole('bios', LockState.PENDING_RESET, IPMI, needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM, with_start=v.SYSTEM)
    record = v.engagement(waits, reset_at=None, scope=Scope.BMC)
    life = v.LIFECYCLE
    assert LockState.PENDING_RESET is judge(waits, [record], lifecycle=life).state
    assert LockState.LOCKED_VERIFIED is judge(waits, [record], lifecycle=life, starting=v.SYSTEM).state
    assert LockState.PENDING_RESET is judge(waits, [record], lifecycle=life, starting=v.ref('Systems/2')).state
    assert LockState.LOCKED_VERIFIED is not judge(waits, [], lifecycle=life, starting=v.SYSTEM).state
    assert LockState.LOCKED_VERIFIED is not judge(waits, [record], lifecycle=life + 1, starting=v.SYSTEM).state
    other = whole('bios', LockState.PENDING_RESET, IPMI, needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM)
    assert LockState.PENDING_RESET is judge(other, [record], lifecycle=life, starting=v.SYSTEM).state


@pytest.mark.parametrize('severity', ['MessageSeverity', 'Severity', None])
@pytest.mark.parametrize('where', ['resource', 'property'])
def test_a_lock_that_could_not_be_read_is_unknown(where, severity):
    """Closed, beside a message that something went wrong; a message that says OK is none."""
    reading = replace(whole('nic'), field='Oem/Hpe/VirtualNICEnabled')
    message = {'MessageId': 'Base.1.19.InternalError'} | ({} if severity is None else {severity: 'Critical'})

    def body(found):
        inner = {'VirtualNICEnabled': False}
        if where == 'property':
            return {'Oem': {'Hpe': inner | {'VirtualNICEnabled@Message.ExtendedInfo': [found]}}}
        return {'Oem': {'Hpe': inner}, '@Message.ExtendedInfo': [found]}

    found = doubted(reading, body(message))
    assert LockState.UNKNOWN is found.state
    assert 'InternalError' in found.reason
    assert reading == doubted(reading, body({'MessageSeverity': 'OK', 'MessageId': 'Base.1.19.Success'}))
    assert reading == doubted(reading, {'Oem': None})
    open_one = replace(reading, state=OPEN)
    assert open_one == doubted(open_one, body(message))


# ---- plans ----


def machine(*locks, count=2):
    """Devices with images of their own, that share the locks of their machine."""
    cards = []
    for number in range(count):
        name = v.GPU if not number else type(v.GPU)(f'uuid:gpu-{number}')
        own = v.reading(LockState.UNLOCKED, accelerator=name, place=f'Chassis/RoT_{number}')
        firmware = (v.component(f'GPU_{number}'),)
        primary = v.ref(f'Systems/1/Processors/GPU_{number}')
        shared = tuple(replace(lock, accelerator=name) for lock in locks)
        cards.append(v.gpu(id=name, primary=primary, refs=(primary,), firmware=firmware, locks=(own, *shared)))
    return v.inventory(*cards)


def rules(*paths, **other):
    return Baseline(rules=(Rule(name='gpus', match=Match(), block=frozenset(paths), **other),))


def made(seen, baseline, catalogue=(), parts=EVERYTHING, **how):
    return plan(seen, baseline, v.NODE, catalogue, parts=parts - {Part.PUBLISH}, **how)


def kinds(actions, kind):
    return [a.mechanism for a in actions if isinstance(a, kind)]


def test_a_lock_of_a_machine_is_engaged_once_whatever_the_order_of_devices():
    """Two devices, one switch: one write, and its record is proof for both."""
    seen = machine(whole('kcs', OPEN, IPMI))
    found = made(seen, rules(IPMI))
    assert ['kcs'] == kinds(found.actions, Engage)
    assert found.actions == made(replace(seen, accelerators=seen.accelerators[::-1]), rules(IPMI)).actions


def test_a_lock_of_a_machine_is_opened_and_closed_in_the_name_of_the_same_card():
    """Whoever is asked for: what was unlocked for one card alone is known to be locked again when all are locked."""
    seen = machine(whole('kcs', LOCKED, IPMI))
    last = seen.accelerators[-1].id
    opened = made(seen, rules(IPMI), parts=frozenset({Part.UNLOCK}), only=frozenset({last}))
    closed = made(seen, rules(IPMI), parts=frozenset({Part.LOCK}))
    first = min(a.id for a in seen.accelerators)
    assert [first] == [a.accelerator for a in opened.actions if isinstance(a, Release)]
    assert [first] == [a.accelerator for a in closed.actions if isinstance(a, Engage) and a.mechanism == 'kcs']


def test_a_lockdown_is_opened_first_and_closed_last():
    """Under it nothing else can be closed; it is closed again though no rule asks for it."""
    seen = machine(whole('kcs', OPEN, IPMI), lockdown())
    found = made(seen, rules(WritePath.HOST_DEVICE, IPMI))
    assert ['lockdown'] == kinds(found.actions, Release)
    assert ['kcs', 'rot', 'rot', 'lockdown'] == sorted(kinds(found.actions, Engage)[:-1]) + kinds(found.actions, Engage)[-1:]
    only_device = made(seen, rules(WritePath.HOST_DEVICE))
    assert ('lockdown', ['lockdown']) == (kinds(only_device.actions, Engage)[-1], kinds(only_device.actions, Release))


def test_a_lockdown_alone_is_engaged_without_being_opened():
    """Nothing else is changed on that BMC, so that nothing has to be opened."""
    seen = v.inventory(v.gpu(locks=(lockdown(),)))
    found = made(seen, rules(IPMI, REDFISH))
    assert ([], ['lockdown']) == (kinds(found.actions, Release), kinds(found.actions, Engage))


def test_a_lockdown_is_opened_for_a_flash_and_closed_again():
    """It keeps images from the BMC; one release for two cards, before the locks of cards."""
    protect = v.reading(mechanism='wp', blocks=frozenset(WritePath), scope=Scope.COMPONENT, part='GPU_0', place='Items/GPU_0')
    seen = machine(lockdown())
    first, second = seen.accelerators
    seen = replace(seen, accelerators=(replace(first, locks=(*first.locks, protect)), second))
    baseline = rules(WritePath.HOST_DEVICE, firmware=(('GPU_*', v.NEW),))
    found = made(seen, baseline, (v.image(), v.image('gpu-old', version=v.OLD)))
    assert [] == refusal_words.sentences(found)
    assert ['lockdown', 'wp'] == kinds(found.actions, Release)
    assert 2 == sum(isinstance(a, Flash) for a in found.actions)
    assert 'lockdown' == kinds(found.actions, Engage)[-1]
    assert 1 == kinds(found.actions, Engage).count('lockdown')


def test_a_host_is_held_before_a_lockdown_is_opened():
    """A tenant's code never meets it open."""
    found = made(machine(whole('kcs', OPEN, IPMI), lockdown()), rules(IPMI), hold=True)
    purposes = [a.purpose for a in found.actions if isinstance(a, Reset)]
    assert [ResetPurpose.HOLD, ResetPurpose.RESUME] == purposes


def test_a_reset_of_the_bmc_is_of_the_manager_and_one():
    """Two devices, one BMC, one reset; and none of the host."""
    nic = whole('nic', OPEN, REDFISH, needs=ResetKind.BMC_RESET, reset=MANAGER)
    resets = [a for a in made(machine(nic), rules(REDFISH)).actions if isinstance(a, Reset)]
    assert [(MANAGER, ResetKind.BMC_RESET, ('BMC host nic',))] == [(r.system, r.kind, r.why) for r in resets]


# ---- jobs ----

PATIENCE = RetryLimits()


def job_of(seen, baseline, **how):
    return begin(
        made(seen, baseline, **how),
        identity='j', node='n', flow=Flow.DEPLOY, step='s', lifecycle=v.LIFECYCLE, now=v.NOW, timeout=timedelta(hours=1),
    )  # fmt: skip


def run_through(job):
    """The names of what is due, stage by stage, each turn's together; everything succeeds."""
    turns = []
    while current(job) not in (None, Stage.VERIFY):
        came = {n: True for n, i in enumerate(job.items) if i.state is ItemState.RUNNING}
        move = advance(job, Sight(resets=came), v.NOW, PATIENCE)
        job = sent(move.job, move.perform, v.NOW)
        names = []
        for position in move.perform:
            action = job.items[position].action
            if isinstance(action, Reset):
                names.append(f'{action.purpose} {action.kind}')
                item = job.items[position].to(ItemState.RUNNING, v.NOW)
                job = with_item(job, position, item)
            else:
                names.append(action.mechanism)
                job = ended(job, position, ItemState.DONE, v.NOW)
        if names:
            turns.append(sorted(names))
    return turns


def test_a_job_waits_with_the_others_until_the_lockdown_is_open_and_with_it_until_they_are_closed():
    """Not the same turn: one that fails and is tried again must not be overtaken by the lockdown."""
    turns = run_through(job_of(machine(whole('kcs', OPEN, IPMI), lockdown()), rules(WritePath.HOST_DEVICE, IPMI)))
    assert [['lockdown'], ['kcs', 'rot', 'rot'], ['lockdown']] == turns


def test_bmcs_are_reset_before_systems():
    """A BMC that restarts cannot be asked to reset anything."""
    nic = whole('nic', OPEN, REDFISH, needs=ResetKind.BMC_RESET, reset=MANAGER)
    bios = whole('bios', OPEN, IPMI, place='Bios', needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM)
    turns = run_through(job_of(machine(nic, bios, count=1), rules(IPMI, REDFISH)))
    assert [['bios', 'nic'], ['enforce bmc-reset'], ['enforce system-reset']] == turns


def test_no_reset_of_a_system_stands_for_one_of_the_bmc():
    """Nor the other way round."""
    nic = whole('nic', OPEN, REDFISH, needs=ResetKind.BMC_RESET, reset=MANAGER)
    job = job_of(machine(nic, count=1), rules(REDFISH))
    position = next(n for n, i in enumerate(job.items) if isinstance(i.action, Reset))
    record = v.engagement(nic, reset_at=None, scope=Scope.BMC)
    for kind, done in ((ResetKind.BMC_RESET, True), (ResetKind.POWER_CYCLE, False), (ResetKind.SYSTEM_RESET, False)):
        item = replace(job.items[position], state=ItemState.RUNNING, action=replace(job.items[position].action, kind=kind))
        engaged = tuple(i.to(ItemState.DONE, v.NOW) if isinstance(i.action, Engage) else i for i in job.items)
        ready = replace(job, engagements=(record,), items=(*engaged[:position], item, *engaged[position + 1 :]))
        after = advance(ready, Sight(resets={position: True}), v.NOW, PATIENCE).job
        assert (v.NOW if done else None) == after.engagements[0].reset_at


def test_a_bmc_that_falls_silent_after_its_reset_is_remembered_as_silent():
    """Where no time of the reset is shown that is what shows that it came."""
    nic = whole('nic', OPEN, REDFISH, needs=ResetKind.BMC_RESET, reset=MANAGER)
    job = job_of(machine(nic, count=1), rules(REDFISH))
    items = tuple(i.to(ItemState.RUNNING if isinstance(i.action, Reset) else ItemState.DONE, v.NOW) for i in job.items)
    position = next(n for n, i in enumerate(items) if isinstance(i.action, Reset))
    after = advance(replace(job, items=items), Sight(resets={position: None}), v.NOW, PATIENCE).job
    assert (True, ItemState.RUNNING) == (after.items[position].silent, after.items[position].state)


# ---- what needs a memory to be opened ----


def unlocked_by_plan(*locks, undos=()):
    inventory = v.inventory(v.gpu(locks=locks))
    return plan(inventory, rules(IPMI), v.NODE, (), parts=UNLOCK, undos=undos, hold=True)


@pytest.mark.parametrize('state', [LOCKED, LockState.UNKNOWN])
def test_a_lock_that_needs_a_memory_is_opened_by_who_remembers_alone(state):
    """Where nobody does, the plan refuses, and no host is powered off for it; other locks need no memory."""
    wall = whole('wall', state, IPMI, closes='')
    refused = unlocked_by_plan(wall, whole('kcs', state, IPMI, place='Managers/1/Kcs'))
    (why,) = refusal_words.refused(refused)
    assert ('BMC host', 'lock wall', True) == (why.label, why.subject, is_unrecorded(refused))
    assert f'Managers/1 reads {state}, and there is no record of what we engaged' in why.reason
    assert ['kcs'] == [a.mechanism for a in refused.actions if isinstance(a, Release)]
    alone = unlocked_by_plan(wall)
    assert () == alone.actions
    assert not any('wall' in n.text for n in refusal_words.notes(alone.notes))

    mechanism, ref, field = wall.place
    made = unlocked_by_plan(wall, undos=(LockUndoRecord(mechanism=mechanism, ref=ref, field=field, closed=('06/0:34',)),))
    assert (['wall'], ()) == ([a.mechanism for a in made.actions if isinstance(a, Release)], made.refusals)
    assert not is_unrecorded(made)


def test_what_others_have_closed_of_a_lock_in_part_is_left_and_told():
    """Its way is open: there is nothing to unlock, and nothing to refuse."""
    made = unlocked_by_plan(whole('wall', LockState.PARTIAL, IPMI, closes='06/0:34'))
    assert ((), ()) == (made.actions, made.refusals)
    (note,) = (n for n in refusal_words.notes(made.notes) if 'wall' in n.text)
    assert note.text.endswith('no part of it was engaged by us')
