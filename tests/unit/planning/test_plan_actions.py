# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The actions of a plan, each with all that it says: what is printed is what is executed, so it is compared as a whole."""

from dataclasses import replace

import pytest

from baremetal_acc.model.action import CheckImage, Engage, Flash, Program, Publish, Release, Reset, ResetPurpose, Withdraw
from baremetal_acc.model.image import Digest, DigestAlgorithm, ImageKind
from baremetal_acc.model.inventory import PowerState, UpdateFacts
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName, Ref
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.policy.baseline_rules import Baseline, Downgrade, Match, Rule
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

OPEN = v.baseline(block=frozenset())
MANAGER = v.ref('Managers/1')
DPU = BmcName('nic')
DPU_SYSTEM = Ref(bmc=DPU, uri='/redfish/v1/Systems/Bluefield')
TWIN = AcceleratorId('uuid:gpu-1')
WHOLE = frozenset(WritePath)


def digest(digit):
    return Digest(algorithm=DigestAlgorithm.SHA256, value=digit * 64)


def content(kind, digit, security=5):
    return f'{kind} {security} sha256:{digit * 64}'


def made(*accelerators, rules=None, catalogue=(), bmcs=None, parts=EVERYTHING - {Part.PUBLISH}, **how):
    """A plan that refuses nothing."""
    seen = v.inventory(*accelerators, bmcs=(v.facts(),) if bmcs is None else bmcs)
    found = plan(seen, rules or v.baseline(), v.NODE, catalogue, parts=parts, **how)
    assert () == found.refusals
    return found


def reset(*why, system=v.SYSTEM, purpose=ResetPurpose.ENFORCE, kind=ResetKind.POWER_CYCLE):
    return Reset(system=system, purpose=purpose, kind=kind, why=why)


HOLD = reset('the host must not run while locks are open', purpose=ResetPurpose.HOLD, kind=ResetKind.NONE)


def resume(*why, kind=ResetKind.NONE):
    return reset('return the host to service', *why, purpose=ResetPurpose.RESUME, kind=kind)


def without_identity(action):
    """By what an item is known again is the subject of tests/unit/planning/test_succession.py."""
    return replace(action, item=None) if isinstance(action, Flash) else action


def resets(found):
    return tuple(a for a in found.actions if isinstance(a, Reset))


def engage(reading, needs=ResetKind.NONE):
    return Engage(
        accelerator=reading.accelerator,
        mechanism=reading.mechanism,
        ref=reading.ref,
        field='Closed',
        blocks=reading.blocks,
        needs=needs,
        scope=reading.scope,
        wraps=reading.wraps,
    )


def release(reading):
    return Release(
        accelerator=reading.accelerator,
        mechanism=reading.mechanism,
        ref=reading.ref,
        field='Closed',
        expects='false',
        scope=reading.scope,
        wraps=reading.wraps,
    )


def test_a_whole_plan_of_two_cards():
    """Nothing is offered; images and what would be put back are checked; the host is held; locks are opened, all is written,
    all is locked, the host comes back, and what is verified then is offered.
    """
    item = v.component(staged='1.7')
    protect = v.reading(
        LockState.LOCKED_REPORTED, mechanism='wp', blocks=WHOLE, scope=Scope.COMPONENT, part='GPU_0', place='Items/GPU_0'
    )
    lockdown = v.reading(
        mechanism='lockdown', blocks=WHOLE, place='Managers/1/Lockdown', scope=Scope.BMC, wraps=True,
        needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM,
    )  # fmt: skip
    gpu = v.gpu(firmware=(item,), locks=(protect, lockdown))
    slot = replace(v.slot(0, None, v.OLD), item=replace(v.slot(0, None, v.OLD).item, staged='1.9'))
    own = v.reading(
        mechanism='fpga', accelerator=v.FPGA, blocks=WHOLE, place='Processors/FPGA1/0', scope=Scope.SLOT, part='Slot0'
    )
    other = v.reading(mechanism='fpga', accelerator=v.FPGA, place='Processors/FPGA1', scope=Scope.FIRMWARE)
    fpga = v.fpga(slots=(slot,), locks=(own, other))
    catalogue = (
        v.image(restore='gpu-1.5', order=3),
        v.image('gpu-1.5', version='1.5', digest=digest('1')),
        v.function_image(digest=digest('2'), restore='blank', order=4),
        v.function_image('blank', function='blank', version='0', digest=digest('3')),
        v.image('unused', component='Nothing'),
    )
    rules = Baseline(
        rules=(
            Rule(name='gpus', match=Match(vendor='NVIDIA'), firmware=(('GPU_*', v.NEW),), block=v.HOST_DEVICE),
            Rule(name='fpgas', match=Match(vendor='Intel'), functions=(('Slot*', 'gzip'),), block=v.HOST_DEVICE),
        )
    )
    flash = Flash(
        accelerator=v.GPU,
        component='GPU_0',
        ref=item.ref,
        image='gpu-new',
        version=v.NEW,
        expects=v.OLD,
        reset=ResetKind.POWER_CYCLE,
        order=3,
        content=content('firmware', '0'),
        restore='gpu-1.5',
        staged='1.7',
        restore_content=content('firmware', '1'),
    )
    program = Program(
        accelerator=v.FPGA,
        slot='Slot0',
        ref=slot.item.ref,
        image='gzip-2',
        function='gzip',
        version=v.NEW,
        expects=v.OLD,
        order=4,
        content=content('function', '2'),
        staged='1.9',
    )
    found = made(
        gpu, fpga, rules=rules, catalogue=catalogue, parts=EVERYTHING, hold=True,
        bmcs=(v.facts(update=UpdateFacts(push=True, pull=True, parallel=2)), v.facts(name=DPU, update=None)),
    )  # fmt: skip
    assert replace(found, notes=(), actions=tuple(map(without_identity, found.actions))) == Plan(
        target='node-1',
        actions=(
            Withdraw(accelerators=(v.FPGA, v.GPU)),
            CheckImage(image='blank', content=content('function', '3')),
            CheckImage(image='gpu-1.5', content=content('firmware', '1')),
            CheckImage(image='gpu-new', content=content('firmware', '0')),
            CheckImage(image='gzip-2', content=content('function', '2')),
            HOLD,
            release(lockdown),
            release(own),
            release(protect),
            flash,
            program,
            engage(other),
            engage(own),
            engage(protect),
            engage(lockdown, ResetKind.SYSTEM_RESET),
            resume('BMC host lockdown', 'H100 GPU_0 firmware GPU_0', kind=ResetKind.POWER_CYCLE),
            Publish(),
        ),
        parallel=((HOST, 2),),
    )


# ------------------------------------------------------------------------------------------------------------------- writes


def flash(image, over, **changes):
    """Of the one component of the GPU."""
    values = {
        'accelerator': v.GPU,
        'component': 'GPU_0',
        'ref': v.component().ref,
        'image': image.name,
        'version': image.version,
        'expects': over,
        'reset': image.reset,
        'order': image.order,
        'content': image.content,
    }
    return Flash(**(values | changes))


def writes(found):
    return tuple(without_identity(a) for a in found.actions if isinstance(a, Flash | Program))


def test_steps_are_written_one_after_the_other():
    """Each over what the one before left, and each with its own way back."""
    last = v.image(via=('1.5',), restore='middle', order=2, security_version=7)
    middle = v.image('middle', version='1.5', via=('1.2',), reset=ResetKind.NONE, restore='first', order=9)
    first = v.image('first', version='1.2', reset=ResetKind.NONE, order=4)
    found = made(catalogue=(first, middle, last), rules=OPEN)
    assert (
        flash(first, v.OLD, order=4),
        flash(middle, '1.2', order=9, restore='first', restore_content=first.content, goes_back=True),
        flash(last, '1.5', order=10, restore='middle', restore_content=middle.content, goes_back=True),
    ) == writes(found)
    assert (reset('H100 GPU_0 firmware GPU_0'),) == resets(found)


@pytest.mark.parametrize(
    ('kept', 'restore', 'again', 'expected'),
    [
        (v.OLD, 'gpu-old', (), True),
        # Another version than what would be put back, or nothing that would be.
        ('0.9', 'gpu-old', (), False),
        (v.OLD, None, (), False),
        # Whoever had it may have written what it calls by that version.
        (v.OLD, 'gpu-old', (v.GPU,), False),
    ],
)
def test_a_device_may_go_back_to_what_is_in_no_doubt(kept, restore, again, expected):
    """What ran when it was planned has to be the very version that would be put back, and nobody doubts the device."""
    images = (v.image(restore=restore), v.image('gpu-old', version=v.OLD))
    card = v.gpu(firmware=(v.component(version=kept),), locks=())
    (found,) = writes(made(card, catalogue=images, rules=OPEN, again=frozenset(again)))
    assert expected is found.goes_back


@pytest.mark.parametrize('version', [v.NEW, 'v2.0 '])
@pytest.mark.parametrize('restore', [None, 'gpu-old'])
def test_what_nobody_believes_is_written_though_it_shows_what_is_demanded(version, restore):
    """Of a quarantined card. What is put back is what was there, if there is a way back at all."""
    image, old = v.image(restore=restore), v.image('gpu-old', version=v.OLD)
    card = v.gpu(firmware=(v.component(version=version),))
    back = {} if restore is None else {'restore': 'gpu-new', 'restore_content': image.content}
    assert () == writes(made(card, rules=OPEN, catalogue=(image, old)))
    found = made(card, rules=OPEN, catalogue=(image, old), again=frozenset({v.GPU}))
    assert (flash(image, version, **back),) == writes(found)
    assert (CheckImage(image='gpu-new', content=image.content),) == tuple(a for a in found.actions if isinstance(a, CheckImage))


@pytest.mark.parametrize('judges', [True, False])
def test_images_are_judged_where_they_are_written_and_put_back(judges):
    """By the BMCs that do so; of any other it shows when they are sent."""
    image, old = v.image(restore='gpu-old'), v.image('gpu-old', version=v.OLD)
    facts = v.facts(update=UpdateFacts(push=True, pull=False, judges=judges))
    found = made(v.gpu(firmware=(v.component(),)), rules=OPEN, catalogue=(image, old), bmcs=(facts,))
    places = (v.component().ref,) if judges else ()
    checks = {a.image: a.places for a in found.actions if isinstance(a, CheckImage)}
    assert {'gpu-new': places, 'gpu-old': places} == checks


def test_a_slot_that_nobody_believes_is_programmed_though_it_shows_what_is_demanded():
    """As firmware is."""
    card = v.fpga(slots=(v.slot(),), locks=())
    rules = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),), block=frozenset())
    image = v.function_image()
    program = Program(
        accelerator=v.FPGA,
        slot='Slot0',
        ref=card.slots[0].item.ref,
        image='gzip-2',
        function='gzip',
        version=v.NEW,
        expects=v.NEW,
        content=image.content,
    )
    assert () == writes(made(card, rules=rules, catalogue=(image,)))
    assert (program,) == writes(made(card, rules=rules, catalogue=(image,), again=frozenset({v.FPGA})))


@pytest.mark.parametrize(
    ('version', 'staged', 'written'),
    [
        (v.NEW, None, False),
        (v.NEW, v.NEW, False),
        (v.NEW, v.OLD, True),
        (v.OLD, None, True),
        (v.OLD, v.NEW, True),
    ],
)
def test_a_component_is_written_unless_it_runs_what_is_demanded_and_nothing_else_waits(version, staged, written):
    """What is staged now and is right may still be another one than the catalogue's."""
    card = v.gpu(firmware=(v.component(version=version, staged=staged),))
    found = writes(made(card, rules=OPEN, catalogue=(v.image(), v.image('gpu-old', version=v.OLD))))
    assert ((flash(v.image(), version, staged=staged),) if written else ()) == found


def test_a_revocation_is_written_with_no_way_back():
    """Where another one than that of the rule waits for a reset it is written over, too."""
    revoke = v.image('revoke', kind=ImageKind.REVOCATION, component='Keys', version='7', order=1)
    rules = v.baseline(revocations=('revoke',), block=frozenset())
    for there in (v.component('Keys', '6'), v.component('Keys', '7', staged='8')):
        card = v.gpu(firmware=(v.component(version=v.NEW), there))
        expected = flash(revoke, there.version, component='Keys', ref=there.ref, staged=there.staged)
        assert (expected,) == writes(made(card, rules=rules, catalogue=(v.image(), revoke)))
    done = v.gpu(firmware=(v.component(version=v.NEW), v.component('Keys', '7', staged='7')))
    assert () == writes(made(done, rules=rules, catalogue=(v.image(), revoke)))


def test_a_version_that_a_revocation_brings_is_no_version_that_must_not_run():
    """It is demanded, so what is denied of that component is written over."""
    revoke = v.image('revoke', kind=ImageKind.REVOCATION, component='Keys', version='7')
    denied = v.image('keys-6', component='Keys', version='6', denied='CVE-1')
    card = v.gpu(firmware=(v.component('Keys', '6'),))
    rules = v.baseline(firmware=None, revocations=('revoke',), block=frozenset())
    assert ['revoke'] == [a.image for a in writes(made(card, rules=rules, catalogue=(denied, revoke)))]


def test_a_revocation_goes_to_all_components_that_it_fits():
    """One after the other does not matter: none is the firmware of the device."""
    revoke = v.image('revoke', kind=ImageKind.REVOCATION, component='Keys_*', version='7')
    card = v.gpu(firmware=tuple(v.component(f'Keys_{n}', version) for n, version in enumerate(('6', '7', '5'))))
    rules = v.baseline(firmware=None, revocations=('revoke',), block=frozenset())
    assert [('Keys_0', '6'), ('Keys_2', '5')] == [
        (a.component, a.expects) for a in writes(made(card, rules=rules, catalogue=(revoke,)))
    ]


def test_a_downgrade_that_a_rule_allows_frees_no_revocation():
    """The rule speaks of its versions; what revokes keys never goes down."""
    revoke = v.image('revoke', kind=ImageKind.REVOCATION, component='Keys', version='7', security_version=4)
    before = v.image('before', kind=ImageKind.REVOCATION, component='Keys', version='6')
    card = v.gpu(firmware=(v.component('Keys', '6'),), locks=())
    rules = v.baseline(firmware=None, revocations=('revoke',), block=frozenset(), downgrade=Downgrade.ALLOW)
    found = plan(v.inventory(card), rules, v.NODE, (revoke, before), parts=frozenset({Part.FIRMWARE}))
    said = (
        'image revoke has security version 4, the floor is 5, that of 6, which runs (security_version of image before in the '
        'catalogue): no revocation with a lower one is written'
    )
    assert [said] == refusal_words.reasons(found)


def test_orders_stay_those_of_the_catalogue_where_no_component_takes_steps():
    """Equal ones may run together, whatever lies between."""
    twin = v.gpu(id=TWIN, primary=v.ref('P/1'), refs=(v.ref('P/1'),), firmware=(v.component('GPU_1'), v.component('Late')))
    rules = v.baseline(firmware=(('GPU_*', v.NEW), ('Late', v.NEW)), match=Match(ids=frozenset({TWIN})), block=frozenset())
    rules = Baseline(rules=(*rules.rules, Rule(name='rest', match=Match(), firmware=(('GPU_*', v.NEW),), block=frozenset())))
    catalogue = (v.image(order=2), v.image('late', component='Late', order=7))
    assert [('GPU_0', 2), ('GPU_1', 2), ('Late', 7)] == [
        (a.component, a.order) for a in writes(made(v.gpu(), twin, rules=rules, catalogue=catalogue))
    ]


# ------------------------------------------------------------------------------------------------------------------- resets


def test_a_system_is_reset_in_the_strongest_way_that_anything_asks_for():
    """For all reasons, each told once, whatever asks first."""
    locks = tuple(
        v.reading(mechanism=name, place=name, needs=needs, reset=v.SYSTEM)
        for name, needs in (('a', ResetKind.SYSTEM_RESET), ('b', ResetKind.POWER_CYCLE), ('c', ResetKind.SYSTEM_RESET))
    )
    again = replace(locks[0], ref=v.ref('again'))
    for shown in ((*locks, again), (again, *locks[::-1])):
        found = made(v.gpu(locks=shown), rules=v.baseline(firmware=None))
        assert (reset('H100 GPU_0 a', 'H100 GPU_0 b', 'H100 GPU_0 c'),) == resets(found)


def test_each_system_and_each_manager_is_reset_for_itself():
    """The host, the card's own computer, and the BMC."""
    item = replace(v.component('DPU_NIC'), ref=Ref(bmc=DPU, uri='/redfish/v1/UpdateService/FirmwareInventory/DPU_NIC'))
    nic = v.reading(
        mechanism='nic', accelerator=TWIN, blocks=WHOLE, place='Managers/1', scope=Scope.BMC,
        needs=ResetKind.BMC_RESET, reset=MANAGER,
    )  # fmt: skip
    locks = (nic, replace(NO_RESET, accelerator=TWIN))
    dpu = v.gpu(id=TWIN, primary=DPU_SYSTEM, refs=(DPU_SYSTEM,), model='BlueField', firmware=(item,), locks=locks)
    found = made(
        v.gpu(), dpu,
        rules=v.baseline(firmware=(('*', v.NEW),)),
        catalogue=(v.image(component='*', fits=tuple(replace(f, model=None) for f in v.image().fits)),),
        bmcs=(v.facts(), v.facts(name=DPU, system=DPU_SYSTEM, power=PowerState.OFF)),
        hold=True,
    )  # fmt: skip
    assert (
        HOLD,
        reset('BMC host nic', system=MANAGER, kind=ResetKind.BMC_RESET),
        reset('BlueField Bluefield firmware DPU_NIC', system=DPU_SYSTEM),
        resume('H100 GPU_0 firmware GPU_0', kind=ResetKind.POWER_CYCLE),
    ) == resets(found)


NEEDS_RESET = v.reading(needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM)
IN_FORCE = replace(NEEDS_RESET, in_force=True)
NO_RESET = v.reading()
IN_THE_WAY = v.reading(mechanism='wp', blocks=WHOLE, scope=Scope.COMPONENT, part='GPU_0', place='Items/GPU_0')
UP_TO_DATE = (v.component(version=v.NEW),)


@pytest.mark.parametrize(
    ('power', 'locks', 'firmware', 'image_reset', 'expected'),
    [
        # Nothing is opened or written: the host is not held for locks alone, unless a reset would start it.
        ('On', (NO_RESET,), UP_TO_DATE, ResetKind.NONE, ()),
        ('Off', (NO_RESET,), UP_TO_DATE, ResetKind.NONE, ()),
        ('On', (NEEDS_RESET,), UP_TO_DATE, ResetKind.NONE, (reset('H100 GPU_0 rot'),)),
        ('Off', (NEEDS_RESET,), UP_TO_DATE, ResetKind.NONE, (HOLD, resume('H100 GPU_0 rot', kind=ResetKind.POWER_CYCLE))),
        ('Off', (IN_FORCE,), UP_TO_DATE, ResetKind.NONE, ()),
        # Something is written.
        ('On', (NO_RESET,), (v.component(),), ResetKind.NONE, (HOLD, resume())),
        ('Off', (NO_RESET,), (v.component(),), ResetKind.NONE, (HOLD,)),
        (
            'Off',
            (NEEDS_RESET,),
            (v.component(),),
            ResetKind.SYSTEM_RESET,
            (HOLD, resume('H100 GPU_0 firmware GPU_0', 'H100 GPU_0 rot', kind=ResetKind.POWER_CYCLE)),
        ),
    ],
)
def test_a_host_is_held_and_given_back_where_something_is_written_or_a_reset_would_start_it(
    power, locks, firmware, image_reset, expected
):
    """One that is off stays off, unless something needs its start."""
    found = made(
        v.gpu(locks=locks, firmware=firmware),
        catalogue=(v.image(reset=image_reset),),
        bmcs=(v.facts(power=PowerState(power)),),
        hold=True,
    )
    assert expected == resets(found)


def test_nothing_is_held_where_it_was_not_asked_for():
    """A service's machine: the resets that are needed, and no others."""
    found = made(v.gpu(locks=(IN_THE_WAY,)), catalogue=(v.image(),))
    assert (reset('H100 GPU_0 firmware GPU_0'),) == resets(found)


def test_a_host_is_held_to_open_a_lock_though_nothing_is_written():
    """Who unlocks on purpose gets it powered off, and it stays so."""
    found = made(v.gpu(locks=(IN_THE_WAY,), firmware=UP_TO_DATE), parts=frozenset({Part.UNLOCK}), hold=True)
    assert (HOLD, release(IN_THE_WAY)) == found.actions


def test_only_what_the_job_does_not_write_keeps_the_host_off():
    """A quarantined card that is written is none any more; one that is not there is none of this machine."""
    gone = AcceleratorId('uuid:gone')
    found = made(catalogue=(v.image(),), hold=True, spoilt=frozenset({v.GPU, gone}))
    assert (HOLD, resume('H100 GPU_0 firmware GPU_0', kind=ResetKind.POWER_CYCLE)) == resets(found)


# -------------------------------------------------------------------------------------------------------------------- locks


def test_all_that_blocks_what_the_rules_speak_of_is_unlocked():
    """And the host's own way to the card. What is open stays so, and what needs a reset gets it."""
    ipmi = frozenset({WritePath.HOST_BMC_IPMI})
    shown = {
        'asked': v.reading(mechanism='asked', place='a', blocks=ipmi, needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM),
        'device': v.reading(LockState.UNKNOWN, mechanism='device', place='b'),
        'other': v.reading(mechanism='other', place='c', blocks=frozenset({WritePath.HOST_BMC_REDFISH})),
        'open': v.reading(LockState.UNLOCKED, mechanism='open', place='d', needs=ResetKind.POWER_CYCLE, reset=v.SYSTEM),
        'lost': v.reading(LockState.PARTIAL, mechanism='lost', place='e', needs=ResetKind.POWER_CYCLE),
    }
    found = made(
        v.gpu(locks=tuple(shown.values())), rules=v.baseline(block=ipmi), parts=frozenset({Part.UNLOCK}), catalogue=(v.image(),)
    )
    assert (
        *(release(shown[name]) for name in ('asked', 'device', 'lost')),
        reset('H100 GPU_0 asked', kind=ResetKind.SYSTEM_RESET),
    ) == found.actions


@pytest.mark.parametrize('part', [Part.LOCK, Part.FIRMWARE, Part.FUNCTIONS])
def test_whatever_is_done_to_a_card_it_is_locked_with_it(part):
    """But not by publishing alone."""
    card = v.gpu(firmware=UP_TO_DATE)
    assert (engage(NO_RESET),) == made(card, parts=frozenset({part})).actions
    assert (Publish(),) == made(card, parts=frozenset({Part.PUBLISH})).actions


@pytest.mark.parametrize(
    ('state', 'in_the_way'),
    [
        (LockState.LOCKED_REPORTED, True),
        (LockState.PENDING_RESET, True),
        (LockState.UNKNOWN, True),
        (LockState.UNLOCKED, False),
        (LockState.UNSUPPORTED, False),
    ],
)
def test_a_lockdown_is_opened_for_what_is_changed_on_its_bmc_and_closed_after_it(state, in_the_way):
    """Unless it is open; that of another BMC is left alone, and so is one where nothing is changed."""
    of = {'blocks': frozenset({WritePath.HOST_BMC_IPMI}), 'scope': Scope.BMC, 'wraps': True}
    here = v.reading(state, mechanism='lockdown', place='Managers/1', **of)
    there = replace(v.reading(state, mechanism='lockdown', **of), ref=Ref(bmc=DPU, uri='/redfish/v1/Managers/1'))
    switch = v.reading(mechanism='kcs', place='Managers/1/Kcs', blocks=of['blocks'], scope=Scope.BMC)
    bmcs = (v.facts(), v.facts(name=DPU))
    found = made(v.gpu(locks=(here, there, NO_RESET), firmware=UP_TO_DATE), bmcs=bmcs)
    assert ((release(here), engage(NO_RESET), engage(here)) if in_the_way else (engage(NO_RESET),)) == found.actions
    unlocked = made(v.gpu(locks=(here, switch), firmware=UP_TO_DATE), bmcs=bmcs, parts=frozenset({Part.UNLOCK}))
    assert () == unlocked.actions
    asked = v.baseline(block=of['blocks'])
    unlocked = made(v.gpu(locks=(here, switch)), rules=asked, parts=frozenset({Part.UNLOCK}))
    opened = state is not LockState.UNLOCKED
    assert ((release(here), release(switch)) if opened else (release(switch),)) == unlocked.actions


def test_a_lock_that_holds_again_without_a_reset_needs_none_unless_it_was_opened():
    """What the BMC says is in force is closed again as it is; what we open for a write is not."""
    held = replace(IN_THE_WAY, needs=ResetKind.SYSTEM_RESET, reset=v.SYSTEM, in_force=True)
    still = made(v.gpu(locks=(held,), firmware=UP_TO_DATE))
    assert (engage(held),) == still.actions
    opened = made(v.gpu(locks=(held,)), catalogue=(v.image(reset=ResetKind.NONE),), rules=v.baseline(block=v.HOST_DEVICE))
    assert (
        CheckImage(image='gpu-new', content=v.image().content),
        release(held),
        flash(v.image(), v.OLD, reset=ResetKind.NONE),
        engage(held, ResetKind.SYSTEM_RESET),
        reset('H100 GPU_0 wp', kind=ResetKind.SYSTEM_RESET),
    ) == tuple(map(without_identity, opened.actions))


def test_what_is_opened_for_a_write_is_closed_though_no_rule_asks_for_it():
    """And what was not opened is not touched."""
    found = made(v.gpu(locks=(IN_THE_WAY, NO_RESET)), rules=OPEN, catalogue=(v.image(reset=ResetKind.NONE),))
    assert [release(IN_THE_WAY), engage(IN_THE_WAY)] == [a for a in found.actions if isinstance(a, Release | Engage)]


def test_a_lock_of_a_machine_is_opened_and_closed_once_for_all_its_devices():
    """In the name of the first; locks of cards that stand at one place are each card's own."""
    switch = v.reading(mechanism='kcs', blocks=WHOLE, place='Managers/1/Kcs', scope=Scope.BMC)
    protect = v.reading(mechanism='wp', blocks=WHOLE, place='Shared')
    cards = [
        v.gpu(
            id=AcceleratorId(f'uuid:{n}'),
            primary=v.ref(f'P/{n}'),
            refs=(v.ref(f'P/{n}'),),
            firmware=(v.component(f'GPU_{n}'),),
            locks=tuple(replace(r, accelerator=AcceleratorId(f'uuid:{n}')) for r in (switch, protect)),
        )
        for n in range(3)
    ]
    for shown in (cards, cards[::-1]):
        found = made(*shown, catalogue=(v.image(reset=ResetKind.NONE),))
        for kind, action in ((Release, release), (Engage, engage)):
            assert [
                action(replace(switch, accelerator=AcceleratorId('uuid:0'))),
                *(action(replace(protect, accelerator=c.id)) for c in cards),
            ] == sorted((a for a in found.actions if isinstance(a, kind)), key=lambda a: (a.mechanism, a.accelerator))


def test_a_card_that_is_not_chosen_is_locked_where_the_host_is_held():
    """And is neither written nor opened."""
    other = v.gpu(
        id=TWIN,
        primary=v.ref('P/1'),
        refs=(v.ref('P/1'),),
        firmware=(v.component('GPU_1'),),
        locks=(replace(NO_RESET, accelerator=TWIN),),
    )
    only = {'only': frozenset({v.GPU}), 'catalogue': (v.image(reset=ResetKind.NONE),)}
    expected = [CheckImage(image='gpu-new', content=v.image().content), flash(v.image(), v.OLD, reset=ResetKind.NONE)]
    assert (*expected, engage(NO_RESET)) == tuple(map(without_identity, made(v.gpu(), other, **only).actions))
    check, write = expected
    assert (
        check,
        HOLD,
        write,
        engage(NO_RESET),
        engage(replace(NO_RESET, accelerator=TWIN)),
        resume(),
    ) == tuple(map(without_identity, made(v.gpu(), other, hold=True, **only).actions))


@pytest.mark.parametrize(('staged', 'written'), [(None, False), (v.NEW, False), (v.OLD, True)])
def test_a_slot_is_programmed_where_the_next_reset_would_put_something_else_into_it(staged, written):
    """Though it holds what is demanded."""
    there = replace(v.slot(), item=replace(v.slot().item, staged=staged))
    rules = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),), block=frozenset())
    found = made(v.fpga(slots=(there,), locks=()), rules=rules, catalogue=(v.function_image(),))
    assert ([('Slot0', v.NEW, staged)] if written else []) == [(a.slot, a.expects, a.staged) for a in writes(found)]


def test_a_lockdown_of_its_bmc_is_opened_for_a_slot_that_is_programmed():
    """That of another BMC is not."""
    of = {'accelerator': v.FPGA, 'blocks': WHOLE, 'scope': Scope.BMC, 'wraps': True}
    here = v.reading(mechanism='lockdown', place='Managers/1', **of)
    there = replace(here, ref=Ref(bmc=DPU, uri='/redfish/v1/Managers/1'))
    rules = v.baseline(firmware=None, functions=(('Slot0', 'gzip'),), block=frozenset())
    card = v.fpga(slots=(v.slot(0, None, v.OLD),), locks=(here, there))
    found = made(card, rules=rules, catalogue=(v.function_image(),), bmcs=(v.facts(), v.facts(name=DPU)))
    assert (release(here), engage(here)) == tuple(a for a in found.actions if isinstance(a, Release | Engage))


def test_a_lock_that_is_in_the_way_of_two_components_is_opened_once():
    """It is one place."""
    card = v.gpu(firmware=(v.component('GPU_0'), v.component('GPU_1')), locks=(v.reading(blocks=WHOLE),))
    found = made(card, catalogue=(v.image(reset=ResetKind.NONE),))
    assert [release(card.locks[0]), engage(card.locks[0])] == [a for a in found.actions if isinstance(a, Release | Engage)]
    assert 2 == len(writes(found))
