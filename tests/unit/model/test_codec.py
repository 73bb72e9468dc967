# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Nouns survive JSON."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.job import Engage, Flash, Flow, Item, ItemState, Job, Publish, Withdraw
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
