# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The lock by IPMI's firmware firewall, on documents as the driver of IPMI gives them."""

import pytest

from baremetal_acc.bmc.driver import Document
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.host_interface import HostInterface
from baremetal_acc.locks.ipmi_firmware_firewall import URI, FirmwareFirewall
from baremetal_acc.locks.mechanism import StatefulMechanism
from baremetal_acc.model.lock import LockState, Scope, WritePath
from baremetal_acc.model.ref import BmcName, Ref
from tests.unit.locks.documents import NOW, Tree, device


class Ipmi(Tree):
    """A BMC that is spoken to by IPMI: a look has read all that there is."""

    def peek(self, uri):
        return Document(ref=Ref(bmc=BmcName(self.name), uri=uri), body=self.bodies[uri]) if uri in self.bodies else None


def shown(state, *opened, fixed=(), reason=None, closes='06/0:34'):
    said = {'State': state, 'Open': list(opened), 'Fixed': list(fixed), 'Reason': reason, 'Closes': closes}
    return {**said, 'Leaves': 'a1b2'}


def read(body):
    tree = Ipmi(name='host', **({} if body is None else {URI: body}))
    return tree, FirmwareFirewall().read(device('/ipmi/fru/3', bmc='host'), [tree], NOW)


@pytest.mark.parametrize(
    ('body', 'state', 'closable', 'reason'),
    [
        (shown('locked-reported', closes=''), LockState.LOCKED_REPORTED, True, None),
        (shown('unlocked', 'one', 'two'), LockState.UNLOCKED, True, 'open: one, two'),
        (shown('partial', 'one', 'two', fixed=['two']), LockState.PARTIAL, False, 'cannot be closed: two; open: one'),
        (shown('unknown', reason='no answer'), LockState.UNKNOWN, True, 'no answer'),
        (shown('locked-verified'), LockState.UNKNOWN, True, None),
        ({}, LockState.UNKNOWN, True, 'the firewall does not show its state'),
    ],
)
def test_a_reading_says_what_the_firewall_says(body, state, closable, reason):
    """What is no state of a mechanism is unknown; what cannot be closed is named, and is not planned with."""
    _, [found] = read(body)
    assert (state, closable, reason) == (found.state, found.closable, found.reason)
    assert (Scope.BMC, frozenset({WritePath.HOST_BMC_IPMI})) == (found.scope, found.blocks)
    assert (Ref(bmc=BmcName('host'), uri=URI), 'reading-session') == (found.ref, found.session)
    # An empty word where nothing is known: that it is opened by who remembers alone is told in any case.
    assert (body.get('Closes') or '', body.get('Leaves')) == (found.closes, found.leaves)


def test_many_open_commands_are_counted():
    """A reason has room for six."""
    _, [found] = read(shown('unlocked', *'abcdefgh'))
    assert 'open: a, b, c, d, e, f and 2 more' == found.reason


def test_another_command_that_is_open_is_another_value():
    """The plan refuses to release what it did not see."""
    assert read(shown('partial', 'one'))[1][0].value != read(shown('partial', 'two'))[1][0].value


def test_a_bmc_without_one_has_no_reading_and_is_not_asked():
    """Neither one of IPMI that has no firewall, nor one of Redfish."""
    tree, found = read(None)
    assert ((), []) == (found, tree.asked)


def test_it_is_closed_and_opened_by_what_was_written_down():
    """Nothing else is sent; releasing without a record is refused, and sends nothing."""
    tree, [found] = read(shown('unlocked', 'one'))
    lock = FirmwareFirewall()
    lock.engage(tree, found, ('06/0:34', '0A/0:12'))
    lock.reopen(tree, found, ('06/0:34', '0A/0:12'))
    closed, opened = ({name: ['06/0:34', '0A/0:12']} for name in ('Before', 'Open'))
    assert [(URI, {'Closed': True, **closed}), (URI, opened)] == tree.wrote
    with pytest.raises(BmcUnsupported, match='no record of what was closed'):
        lock.release(tree, found)
    assert 2 == len(tree.wrote)


def test_it_is_one_of_those_that_need_a_memory():
    """Others are not."""
    assert (True, False) == (isinstance(FirmwareFirewall(), StatefulMechanism), isinstance(HostInterface(), StatefulMechanism))
