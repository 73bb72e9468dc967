# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Assertions on a node whose conductor died, or was taken for dead, during a flash."""

from tests.journey.api import Node
from tests.journey.conftest import GPU_NEW

CLOSED = {'HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled': False, 'HGX_FW_GPU_0/WriteProtected': True}
"""Settings of a machine from the beginning: the second blocks the BMC's own way, too, and has to be released."""


MAY_FAIL = ('write', 'cleaning')
"""What a conductor may have died in that fails the node: a write that was stored as sent, and what Ironic resumes nowhere."""


def finished(node: Node, stage: str) -> None:
    """Whoever goes on has brought it to its end: no image was sent twice, all is closed, the card is right.

    A write that was stored as sent and never was is not sent again by itself: the node fails, locked; one retry finishes it.
    """
    found = node.settle()
    assert [] == node.open_ways(), found
    sent_once(node)
    if found['provision_state'] != 'available':
        assert 'clean failed' == found['provision_state'], found
        assert stage in MAY_FAIL, found
        node.recover()
        node.machine.reset_log()
        node.to('provide', 'available')
    right(node)


def right(node: Node) -> None:
    """Available, with the right version that was sent once, closed and offered."""
    assert 'available' == node.show()['provision_state']
    sent_once(node)
    assert GPU_NEW == node.versions()['host/HGX_FW_GPU_0']
    assert ([], ['PGPU']) == (node.open_ways(), node.offers())


def sent_once(node: Node) -> None:
    """No image was sent twice; what an operator's retry sends is counted for itself."""
    sent = [upload['digest'] for upload in node.uploads()]
    assert len(set(sent)) == len(sent), 'an image was sent twice'
