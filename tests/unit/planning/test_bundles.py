# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A bundle is planned as one upload for all that its BMC would write, and each of its parts is judged alone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.action import CheckImage, Flash
from baremetal_acc.model.image import Bundle, BundlePart
from baremetal_acc.model.inventory import Sending, UpdateFacts, UploadWay
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import ItemState, WriteEvidence
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, AcceleratorId
from baremetal_acc.planning import bundles, job_items, job_transitions, rollback, write_outcomes
from baremetal_acc.planning.job_readings import Sight, WriteSight
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.update_states import UpdateObservation
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

IDS = tuple(AcceleratorId(f'uuid:gpu-{n}') for n in range(3))

OLDER, ROOT = '0.9', '7'


def tray(*versions: str, roots: str = ROOT, **changes):
    """GPUs of these versions, each with a root of trust."""
    cards = [
        v.gpu(
            id=IDS[n],
            primary=v.ref(f'Systems/1/Processors/GPU_{n}'),
            refs=(v.ref(f'Systems/1/Processors/GPU_{n}'),),
            firmware=(v.component(f'GPU_{n}', version), v.component(f'ROOT_{n}', roots, software_id='0xFF00')),
            locks=(v.reading(accelerator=IDS[n], place=f'Chassis/RoT_{n}'),),
        )
        for n, version in enumerate(versions)
    ]
    facts = v.facts(update=UpdateFacts(push=True, pull=False, forces=True))
    return v.inventory(*cards, **({'bmcs': (facts,)} | changes))


def bundle(name: str, gpu: str, root: str = ROOT, *, restore_to: str | None = None, alone: bool = True, **changes):
    """The images of a bundle for the GPUs and their roots of trust."""
    whole = Bundle(
        name=name,
        targets=('/redfish/v1/Chassis/Tray',),
        component_targets=alone,
        parts=(BundlePart(component='GPU_*', version=gpu), BundlePart(component='ROOT_*', version=root)),
    )
    return tuple(
        v.image(
            f'{name}.{own}',
            component=pattern,
            version=version,
            bundle=whole,
            identifier=number,
            restore=None if restore_to is None else f'{restore_to}.{own}',
            **changes,
        )
        for own, pattern, version, number in (('gpu', 'GPU_*', gpu, 0x20), ('root', 'ROOT_*', root, 0xFF00))
    )


NEW = (*bundle('new', v.NEW, restore_to='old'), *bundle('old', v.OLD))


def made(inventory, catalogue=NEW, **how):
    how = {'parts': frozenset({Part.FIRMWARE})} | how
    return plan(inventory, how.pop('baseline', v.baseline(block=frozenset())), v.NODE, catalogue, **how)


def flashes(result):
    return {a.component: a for a in result.actions if isinstance(a, Flash)}


def told(result):
    return '\n'.join(note.text for note in refusal_words.notes(result.notes))


def test_a_bundle_is_one_upload_checked_once():
    """Its parts have one upload, one order, and the restore of the older bundle; what is there already is left as it is."""
    result = made(tray(v.OLD, v.OLD, v.NEW))
    assert () == result.refusals
    found = flashes(result)
    assert ['GPU_0', 'GPU_1'] == sorted(found)
    assert {('new', HOST)} == {a.upload for a in found.values()}
    assert {('new.gpu', v.NEW, v.OLD, 'old.gpu', False)} == {
        (a.image, a.version, a.expects, a.restore, a.forced) for a in found.values()
    }
    assert ['new.gpu', 'old.gpu'] == sorted(a.image for a in result.actions if isinstance(a, CheckImage))
    assert 'Targets ["/redfish/v1/Chassis/Tray"]: 2 changed, 0 written again, 4 left as they are' in told(result)
    assert f'firmware GPU_2 is left as it is by bundle new: version {v.NEW} is already installed' in told(result)


def test_what_no_rule_asks_for_is_planned_and_told_as_well():
    """The BMC would write it anyway, so it is judged like everything else."""
    catalogue = (*bundle('new', v.NEW, '8', restore_to='old'), *bundle('old', v.OLD))
    result = made(tray(v.OLD), catalogue)
    assert {'GPU_0': v.NEW, 'ROOT_0': '8'} == {name: a.version for name, a in flashes(result).items()}
    assert 'firmware ROOT_0 is written as well, which no rule asks for: bundle new to 8' in told(result)


def test_one_forced_part_forces_all_of_them():
    """A quarantined card is written again at its version, and so is whatever else the bundle is for."""
    result = made(tray(v.NEW, v.NEW), again=frozenset({IDS[0]}))
    found = flashes(result)
    assert ['GPU_0', 'GPU_1', 'ROOT_0', 'ROOT_1'] == sorted(found)
    assert {True} == {a.forced for a in found.values()}
    assert f'firmware GPU_1 is written again, since the bundle is forced: bundle new to {v.NEW}' in told(result)
    assert '0 changed, 4 written again, 0 left as they are' in told(result)


def test_of_bundles_with_one_version_that_one_is_taken_that_contradicts_no_demand():
    """Makers leave most components as they are from one bundle to the next."""
    catalogue = (*bundle('a', v.NEW, '7'), *bundle('b', v.NEW, '8'))
    both = made(tray(v.OLD), catalogue)
    assert 'several images of the catalogue fit version 2.0: a.gpu, b.gpu' in refusal_words.reasons(both)[0]
    rules = v.baseline(block=frozenset(), firmware=(('GPU_*', v.NEW), ('ROOT_*', '8')))
    result = made(tray(v.OLD), catalogue, baseline=rules)
    assert () == result.refusals
    assert {'b.gpu', 'b.root'} == {a.image for a in flashes(result).values()}


def refusals(*args, **how):
    return [f'{r.subject}: {r.reason}' for r in refusal_words.refused(made(*args, **how))]


def test_what_would_be_written_and_must_not_be_refuses_the_bundle():
    """Another version by a rule, a device that was left out, a denied part, a second image, machines that share the BMC."""
    catalogue = (*bundle('new', v.NEW, '8', restore_to='old'), *bundle('old', v.OLD))
    rules = v.baseline(block=frozenset(), firmware=(('GPU_*', v.NEW), ('ROOT_*', ROOT)))
    assert ['firmware ROOT_0: bundle new would write 8 to it, but rule all requires 7'] == refusals(
        tray(v.OLD), catalogue, baseline=rules
    )
    left_out = refusals(tray(v.OLD, v.OLD), only=frozenset({IDS[0]}))
    assert ['firmware GPU_1: bundle new is also written to this device: name this device as well, or all devices'] == left_out
    assert [] == refusals(tray(v.OLD, v.NEW), only=frozenset({IDS[0]}))
    denied = tuple(replace(i, denied='it burns') if i.name == 'new.root' else i for i in NEW)
    assert ['bundle new: its part ROOT_* 7 is denied: it burns'] == [
        r for r in refusals(tray(v.OLD, roots='6'), denied) if r.startswith('bundle')
    ]
    beside = (*catalogue, v.image('root-9', component='ROOT_*', version='9'))
    both = refusals(tray(v.OLD), beside, baseline=v.baseline(block=frozenset(), firmware=(('GPU_*', v.NEW), ('ROOT_*', '9'))))
    assert 'firmware ROOT_0: bundle new would write 8 to it, which is also to be written with root-9' in both
    shared = tray(v.OLD, several=(HOST,))
    assert ['bundle new: BMC host serves several machines, and would write the bundle to all of them'] == refusals(shared)
    way = Sending(way=UploadWay.HPM_1, apply_time=None, obstacle=None)
    ipmi = tray(v.OLD, bmcs=(v.facts(update=UpdateFacts(push=True, pull=False, sending=way)),))
    assert ['bundle new: BMC host takes one component at a time (HPM.1)'] == refusals(ipmi)
    twice = (*NEW, replace(NEW[0], name='new.twin', version='2.1'))
    assert 'firmware GPU_1: several components of bundle new fit: new.gpu, new.twin' in refusals(
        tray(v.OLD, '1.5'), twice, baseline=v.baseline(block=frozenset(), firmware=(('GPU_0', v.NEW),))
    )


def test_a_bmc_that_can_be_told_of_no_component_takes_a_bundle_for_all_of_them():
    """One without Targets alone: any other would go elsewhere than it says."""
    way = Sending(way=UploadWay.HTTP_PUSH, apply_time=None, obstacle='it has no HttpPushUriTargets')
    facts = v.facts(update=UpdateFacts(push=True, pull=False, sending=way, untargeted=True))
    assert ['BMC host accepts no image: it has no HttpPushUriTargets'] == refusal_words.reasons(
        made(tray(v.OLD, bmcs=(facts,)))
    )
    catalogue = tuple(replace(i, bundle=replace(i.bundle, targets=None)) for i in NEW if i.bundle is not None)
    assert () == made(tray(v.OLD, bmcs=(facts,)), catalogue).refusals
    other = v.facts(update=replace(facts.update, untargeted=False))
    assert 1 == len(made(tray(v.OLD, bmcs=(other,)), catalogue).refusals)


@pytest.mark.parametrize(
    ('software_id', 'known'), [('0x0020', True), ('32', True), ('0x0021', False), ('', None), (None, None), ('GPU', None)]
)
def test_a_component_is_known_by_its_software_id_where_both_sides_tell(software_id, known):
    """Another number is another component, whatever the item is called; none leaves the name."""
    component = v.component(software_id=software_id)
    assert known is bundles.image_selection.identified(NEW[0], component)
    inventory = v.inventory(v.gpu(id=IDS[0], firmware=(component,)))
    reached = bundles.reached(NEW, 'new', HOST, inventory)
    assert ([] if known is False else ['new.gpu']) == [i.name for one in reached for i in one.images]


# --------------------------------------------------------------------------------------------------- how it goes and ends


def begun(inventory, catalogue=NEW):
    """A job whose bundle is being written."""
    job = job_transitions.begin(
        made(inventory, catalogue),
        identity='j',
        node='node-1',
        flow=Flow.CLI,
        step='apply',
        lifecycle=1,
        now=v.NOW,
        timeout=timedelta(hours=1),
    )
    for position, item in enumerate(job.items):
        if isinstance(item.action, CheckImage):
            job = job_items.ended(job, position, ItemState.DONE, v.NOW)
    return job


def writes(job):
    return [n for n, i in enumerate(job.items) if isinstance(i.action, Flash)]


def test_all_parts_are_due_at_once_however_few_updates_the_bmc_takes():
    """They are one update. A part that has failed before is none of them."""
    job = begun(tray(v.OLD, v.OLD, v.OLD))
    move = job_transitions.advance(job, Sight(foreign={HOST: 0}), v.NOW, RetryLimits())
    assert tuple(writes(job)) == move.perform
    assert tuple(writes(job)) == job_items.sharing_upload(job, writes(job)[1])
    failed = job_items.ended(job, writes(job)[1], ItemState.FAILED, v.NOW, 'no')
    assert (writes(job)[0], writes(job)[2]) == job_items.sharing_upload(failed, writes(job)[0])


def seen(job, *what):
    """The job after the BMC has told this of each part."""
    running = replace(
        job,
        items=tuple(
            replace(i, state=ItemState.RUNNING, moved=v.NOW) if isinstance(i.action, Flash) and not i.state.ended else i
            for i in job.items
        ),
    )
    sight = Sight(writes=dict(zip(writes(job), what, strict=True)), foreign={HOST: 0})
    return job_transitions.advance(running, sight, v.NOW, RetryLimits()).job


def test_the_progress_of_the_task_of_a_bundle_is_no_evidence_for_a_part():
    """A part may be skipped while others are written; a message that names it is evidence."""
    job = seen(begun(tray(v.OLD, v.OLD)), *(WriteSight(seen=UpdateObservation.WORKING, percent=40),) * 2)
    assert [None, None] == [job.items[n].evidence for n in writes(job)]
    done = seen(
        job,
        WriteSight(seen=UpdateObservation.RUNNING, told_written=True),
        WriteSight(seen=UpdateObservation.WORKING, percent=80),
    )
    assert [WriteEvidence.OUTCOME, None] == [done.items[n].evidence for n in writes(done)]


def put_back(job, inventory, catalogue=NEW):
    after = rollback.put_back(job, inventory, catalogue, v.NOW, timedelta(0))
    return [i.action for i in after.items if i.restoring and isinstance(i.action, Flash)]


FAILED, DONE, WORKING = (
    WriteSight(seen=UpdateObservation.FAILED),
    WriteSight(seen=UpdateObservation.RUNNING),
    WriteSight(seen=UpdateObservation.WORKING, percent=5),
)


def test_a_part_that_failed_is_sent_once_more_and_only_when_all_have_ended():
    """Whether the bundle is good is seen by the others."""
    now = tray(v.OLD, v.NEW, v.NEW)
    job = seen(begun(tray(v.OLD, v.OLD, v.OLD)), FAILED, DONE, WORKING)
    assert () == rollback.due(job, v.NOW)
    job = seen(begun(tray(v.OLD, v.OLD, v.OLD)), FAILED, DONE, DONE)
    (again,) = put_back(job, now)
    assert ('new.gpu', 'GPU_0', True, True, True, None) == (
        again.image,
        again.component,
        again.retry,
        again.forced,
        again.alone,
        again.upload,
    )


def test_where_only_the_whole_is_taken_all_of_it_is_sent_once_more():
    """Also what is there already, forced: the BMC writes it, so it is judged by that."""
    catalogue = (*bundle('new', v.NEW, restore_to='old', alone=False), *bundle('old', v.OLD, alone=False))
    job = seen(begun(tray(v.OLD, v.OLD), catalogue), FAILED, DONE)
    again = put_back(job, tray(v.OLD, v.NEW), catalogue)
    assert {'GPU_0': v.OLD, 'GPU_1': v.NEW, 'ROOT_0': ROOT, 'ROOT_1': ROOT} == {a.component: a.expects for a in again}
    assert {('new', HOST)} == {a.upload for a in again}
    assert {(True, True, ResetKind.POWER_CYCLE)} == {(a.retry, a.forced, a.reset) for a in again}


def test_a_bundle_that_no_part_took_goes_back_to_the_older_one():
    """That is not sent once more; alone where the BMC takes that."""
    job = seen(begun(tray(v.OLD, v.OLD)), FAILED, FAILED)
    back = put_back(job, tray(v.OLD, None))
    assert {('GPU_0', 'old.gpu', False, True), ('GPU_1', 'old.gpu', False, True)} == {
        (a.component, a.image, a.retry, a.alone) for a in back
    }


def test_a_part_that_was_sent_once_more_and_runs_is_no_failure_any_more():
    """Nobody is told of one; a part that still shows another version is."""
    job = seen(begun(tray(v.OLD, v.OLD)), FAILED, DONE)
    job = rollback.put_back(job, tray(v.OLD, v.NEW), NEW, v.NOW, timedelta(0))
    last = next(n for n, i in enumerate(job.items) if i.restoring and isinstance(i.action, Flash))
    job = job_items.ended(job, last, ItemState.DONE, v.NOW)
    assert 1 == len(job.reasons)
    assert () == write_outcomes.forgiven(job, tray(v.NEW, v.NEW)).reasons
    assert job.reasons == write_outcomes.forgiven(job, tray(v.OLD, v.NEW)).reasons
    end = write_outcomes.judge(job, tray(v.NEW, v.NEW))
    assert ((), ()) == (end.restored, end.quarantined)


def test_a_card_that_got_nothing_of_a_bundle_is_held_and_not_quarantined():
    """It proves what it runs; how far the task of the bundle came says nothing of it."""
    job = seen(begun(tray(v.OLD, v.OLD), tuple(replace(i, restore=None) for i in NEW)), FAILED, FAILED)
    job = replace(job, items=tuple(replace(i, percent=70) if isinstance(i.action, Flash) else i for i in job.items))
    end = write_outcomes.judge(job, tray(v.OLD, v.OLD))
    assert () == end.quarantined
    assert 2 == len(end.held)
    assert 'nothing shows that anything was written' in end.held[0]
