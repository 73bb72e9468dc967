# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Nouns survive JSON."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.accelerator import (
    COMPUTATIONAL_STORAGE,
    Accelerator,
    Function,
    IdentitySource,
    Kind,
    MergeBasis,
    MergeEvidence,
    PciIds,
    ReconfigurationSlot,
)
from baremetal_acc.model.action import Engage, Flash, Publish, Withdraw
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import UploadProgress
from baremetal_acc.model.inventory import Complaint, Gap, Inventory, ManagerReading, Objection
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item, ItemState, PartReading, WriteEvidence
from baremetal_acc.model.lock import Engagement, ResetKind, WritePath
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CARD = AcceleratorId('uuid:1')
REF = Ref(bmc=HOST, uri='/redfish/v1/UpdateService/FirmwareInventory/GPU_0')


def job() -> Job:
    actions = (
        Withdraw(accelerators=(CARD,)),
        Flash(
            accelerator=CARD,
            component='GPU_0',
            ref=REF,
            image='gpu',
            version='2',
            expects='1',
            reset=ResetKind.POWER_CYCLE,
        ),
        Engage(
            accelerator=CARD,
            mechanism='write_protected',
            ref=REF,
            field='WriteProtected',
            blocks=frozenset({WritePath.HOST_DEVICE, WritePath.BMC_NETWORK}),
        ),
        Publish(),
    )
    return Job(
        id='j1',
        target='node-1',
        node='node-1',
        flow=Flow.CLEAN,
        step='reconcile_accelerators',
        lifecycle=3,
        created=NOW,
        deadline=NOW + timedelta(hours=1),
        items=tuple(Item(action=a, since=NOW) for a in actions),
        engagements=(
            Engagement(
                mechanism='write_protected',
                accelerator=CARD,
                ref=REF,
                field='WriteProtected',
                lifecycle=3,
                flow='clean',
                session='s1',
                at=NOW,
            ),
        ),
    )


def test_a_job_survives_json():
    """What is stored is what is loaded, every action with its own class."""
    text = json.dumps(encode(job()))
    assert job() == decode(Job, json.loads(text))


def test_states_and_times_survive_json():
    """A state that moved and a time in another zone come back equal."""
    moved = job().items[1].to(ItemState.RUNNING, NOW + timedelta(seconds=5), 'half way')
    assert moved == decode(Item, json.loads(json.dumps(encode(moved))))


@pytest.mark.parametrize(
    'change',
    [
        {'unheard_of': 1},
        {'lifecycle': '3'},
        {'flow': 'party'},
        {'items': {}},
        {'created': 'yesterday'},
        {'items': [{'type': 'Item', 'since': NOW.isoformat(), 'action': {'type': 'Explode'}}]},
    ],
)
def test_a_changed_job_is_refused(change):
    """A stored job of another shape is refused, never half read."""
    data = encode(job())
    with pytest.raises(StaleJob):
        decode(Job, {**data, **change})


def test_a_missing_field_is_refused():
    """Only fields with defaults may be absent."""
    data = encode(job())
    del data['lifecycle']
    with pytest.raises(StaleJob, match='lifecycle'):
        decode(Job, data)


def test_an_inventory_survives_with_every_field_of_a_device():
    """What Ironic stores and drift compares; fields that an older version did not write have their defaults."""
    component = Component(id='FW', ref=REF, name='FW', version='1', staged='2', lowest_supported='0', write_protected=True)
    held = Function(
        ref=REF, id='F', name='F', type='Encryption', uuid='u', version='1', manufacturer='M', state='Enabled', health='OK'
    )
    slot = ReconfigurationSlot(slot_id='S', index=0, uuid='u', programmable_from_host=False, function=held, item=component)
    device = Accelerator(
        id=CARD, kind=Kind.FPGA, identity=IdentitySource.SERIAL, primary=REF, refs=(REF,), vendor='V', model='M',
        part_number='P', serial='S', uuid='u', location='Slot 1', firmware=(component,),
        pci=PciIds(vendor_id='0x10ee', address='0000:01:00.0'),
        slots=(slot,), functions=(held,), traits=frozenset({COMPUTATIONAL_STORAGE}), system=REF, health='OK',
        health_rollup='Critical', state='Disabled', merged_by=(MergeEvidence(basis=MergeBasis.UUID, refs=(REF, REF)),),
    )  # fmt: skip
    gap = Gap(ref=REF, reason='odd', field='Version', accelerator=CARD, hides=True)
    whole = Inventory(target='node-1', at=NOW, bmcs=(), accelerators=(device,), gaps=(gap,))
    stored = json.loads(json.dumps(encode(whole)))
    assert whole == decode(Inventory, stored)
    for name in ('state', 'health_rollup', 'merged_by'):
        del stored['accelerators'][0][name]
    older = decode(Inventory, stored).accelerators[0]
    assert (None, None, 'OK', ()) == (older.state, older.health_rollup, older.health, older.merged_by)
    assert 'merged_by' not in encode(older)


def test_a_sparse_field_is_left_out_at_its_default_and_comes_back():
    """What is stored has its bounds; every other field is there."""
    item = Item(action=Publish(), since=NOW)
    always = {'action', 'since', 'state'}
    assert always == encode(item).keys() - {'type'}
    assert item == decode(Item, encode(item))
    told = replace(item, cancelled=NOW, uncancelled='no', waits=True, unconditional=True, rejected=2, again=NOW)
    told = replace(told, objection=Objection(text='bad', fails=True), task_failed=True, strayed=True, shown=True)
    bmc = Ref(bmc='host', uri='/redfish/v1/Managers/1')
    manager = ManagerReading(ref=bmc, last_reset='2026-11-21T12:00:00Z')
    told = replace(told, pushed=NOW, managers=(manager,), told_busy=True, cut=True, task_started='2026-11-21T12:00:00Z')
    told = replace(told, task=bmc, percent=5, before='1.0', message='said', moved=NOW, stalled=True, untouched=True)
    told = replace(told, waiting=NOW, busy=NOW, restoring=True, silent=True, unsure=True, follows=True)
    told = replace(told, started=True, complaints=(Complaint(names=('HGX_FW_NVSwitch_0',), text='bad'),))
    told = replace(told, others=(PartReading(component='HGX_FW_CPLD_0', expected='0.23'),))
    told = replace(told, progress=UploadProgress(task=bmc), evidence=WriteEvidence.PROGRESS)
    assert {f.name for f in fields(Item)} == encode(told).keys() - {'type'}
    assert told == decode(Item, encode(told))
