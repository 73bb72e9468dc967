# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A card does not take its firmware: cleaning fails by what is read back, locks are closed, and nothing is offered."""

import pytest

from tests.journey.conftest import GPU_NEW, GPU_OLD, Enrol

pytestmark = pytest.mark.journey

CARD = 'host/HGX_FW_GPU_0'


@pytest.mark.parametrize(
    ('fault', 'words', 'images'),
    [
        pytest.param(
            {'name': 'task-vanishes', 'at_percent': 90},
            ['no longer shows the update, nothing proves that its write has ended', 'is held: whether the write of image'],
            1,
            id='the task vanishes, and nothing shows whether the write has ended',
        ),
        pytest.param(
            {'name': 'bmc-restart', 'at_percent': 95},
            ['no longer shows the update', 'new version is not shown'],
            2,
            id='the BMC restarts, and its Manager shows that',
        ),
        pytest.param(
            {'name': 'task-completed-version-unchanged'}, [f'expected {GPU_NEW}', GPU_OLD], 2, id='the task completes, and lies'
        ),
    ],
)
def test_a_card_that_keeps_its_firmware_fails_the_cleaning(
    enrol: Enrol, fault: dict[str, object], words: list[str], images: int
) -> None:
    """Clean failed with card, component and reason; no image sent twice; the host's ways closed; not published.

    What was there before is put back once, where the write is known to have ended.
    """
    # The task lives for longer than a conductor that is busy takes to look at it: one that nobody saw run proves nothing.
    node = enrol('gpu-server', 'flash', parameters={'gpus': 1, 'flash_seconds': 5})
    node.machine.fault(device='GPU_0', count=1, **fault)
    node.provision('provide')
    found = node.settle()
    assert 'clean failed' == found['provision_state'], found
    assert 'available' not in node.seen
    error = found['last_error']
    assert [] == [w for w in (*words, node.name, 'HGX_FW_GPU_0') if w not in error], error
    assert GPU_OLD == node.versions()[CARD]
    sent = [upload['digest'] for upload in node.uploads()]
    assert (images, images) == (len(sent), len(set(sent))), 'the image once, and what was there before no more than once'
    assert [] == node.open_ways()
    assert [] == node.offers()


def test_after_the_repair_the_node_becomes_available(enrol: Enrol) -> None:
    """A task that fails says why; maintenance is cleared, and nothing of the failed job stands in the way."""
    node = enrol('gpu-server', 'flash', parameters={'gpus': 1})
    node.machine.fault('task-fails', device='GPU_0', count=1)
    node.provision('provide')
    found = node.settle()
    assert ('clean failed', True) == (found['provision_state'], found['maintenance'])
    words = ('The device refused the image', 'HGX_FW_GPU_0', node.name)
    assert [] == [w for w in words if w not in found['last_error']], found['last_error']
    assert (GPU_OLD, [], []) == (node.versions()[CARD], node.open_ways(), node.offers())
    node.recover()
    node.to('provide', 'available')
    first, back, again, *more = [upload['digest'] for upload in node.uploads()]
    assert (GPU_NEW, first, []) == (node.versions()[CARD], again, more)
    assert back != first, 'what was there before was put back in between'
    assert ([], ['PGPU']) == (node.open_ways(), node.offers())


@pytest.mark.parametrize(
    'fault',
    [
        pytest.param({'name': 'task-vanishes', 'completes': True}, id='the task vanishes, and the write goes on'),
        pytest.param({'name': 'bmc-restart', 'completes': True}, id='the BMC restarts, and the image is in'),
    ],
)
def test_what_was_written_is_found_without_a_task(enrol: Enrol, fault: dict[str, object]) -> None:
    """Nothing is taken for granted, and nothing is sent twice: the slot is looked at, and it holds the function."""
    node = enrol('fpga-server', 'functions')
    node.machine.fault(device='FPGA1', count=1, **fault)
    node.to('provide', 'available')
    slots = {e['body']['Targets'][0].rsplit('/', 1)[-1] for e in node.uploads()}
    assert ({'FPGA1_Slot0', 'FPGA1_Slot1'}, 2) == (slots, len(node.uploads()))
    assert ([], ['CUSTOM_ACC_FN_AES', 'CUSTOM_ACC_FN_GZIP']) == (node.open_ways(), node.offers())


def test_an_upload_that_was_cut_is_not_taken_for_done(enrol: Enrol) -> None:
    """Whether the image arrived cannot be told from the answer, for there is none; the card still has its old version."""
    node = enrol('gpu-server', 'flash', parameters={'gpus': 1})
    node.machine.fault('upload-cut', count=1)
    node.provision('provide')
    found = node.settle()
    assert 'clean failed' == found['provision_state'], found
    assert 'HGX_FW_GPU_0' in found['last_error'], found['last_error']
    assert (GPU_OLD, [], []) == (node.versions()[CARD], node.open_ways(), node.offers())
