# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The private names of pyghmi that the handshake of IPMI rests on are what they were.

Its handshake is in no public interface, and without its sockets and threads it can be had by these names alone
(:mod:`baremetal_acc.bmc.ipmi.rmcp`). A release that renames one would not log in, or would send by itself.
"""

import ast
import inspect
from importlib.metadata import version

import pytest
from pyghmi.ipmi.private import session

from baremetal_acc.bmc.ipmi import rmcp
from tests.support import inherited

SOURCE = inspect.getsource(session)

RUN = frozenset(
    {
        '_activate_session',
        '_activated_session',
        '_add_request_entry',
        '_get_channel_auth_cap',
        '_get_session_challenge',
        '_getmaxtimeout',
        '_got_channel_auth_cap',
        '_got_rakp2',
        '_got_rakp4',
        '_got_rmcp_response',
        '_got_session_challenge',
        '_initsession',
        '_ipmi15authcode',
        '_lookup_request_entry',
        '_make_bridge_request_msg',
        '_make_ipmi_payload',
        '_open_rmcpplus_request',
        '_relog',
        '_send_ipmi_net_payload',
        '_send_rakp1',
        '_send_rakp3',
        'login',
        'send_payload',
    }
)
"""Methods of pyghmi that we call, with what these may call. None of them waits, opens a socket or begins a thread."""

OURS_INSTEAD = frozenset({'_xmit_packet', '_req_priv_level', 'onlogon'})
"""Methods of pyghmi that it calls, and that are ours: what would send, and what is told of the end of the handshake."""

OF_A_SERVER = frozenset({'clientaddr', 'clientcommand', 'clientnetfn'})
"""Attributes that it asks for in server mode only, which is off."""

CONTEXTS = frozenset({'OPENSESSION', 'EXPECTINGRAKP2', 'EXPECTINGRAKP4', 'FAILED', 'ESTABLISHED'})
"""Words for how far a handshake is, by which our code decides what to take."""

TODO = (
    'Read what pyghmi/ipmi/private/session.py does now, make baremetal_acc/bmc/ipmi/rmcp.py fit it, run '
    'tests/wire/test_ipmi_session.py, and then bring this list up to date; or keep the bound of pyghmi in setup.cfg below it.'
)


def wrong(theirs: str) -> list[str]:
    """What a source of pyghmi's session has not got, or has besides, of what our code rests on."""
    ours, there = inherited.members(inspect.getsource(rmcp), 'PacketCodec'), inherited.members(theirs, 'Session')
    run = inherited.reached(ours, there)
    used = set().union(*(there.uses[name] for name in run))
    words = {node.value for node in ast.walk(ast.parse(theirs)) if isinstance(node, ast.Constant)}
    return [
        *(f'{name} is used by our code, and there is none' for name in sorted(inherited.missing(ours, there))),
        *(f'{name} runs now, and did not' for name in sorted(run - RUN)),
        *(f'{name} ran, and does not' for name in sorted(RUN - run)),
        *(f'{name} is not called any more, so ours is not' for name in sorted(OURS_INSTEAD - used)),
        *(f'{m} uses {name}, which nobody sets' for m, name in inherited.unset(ours, there) if name not in OF_A_SERVER),
        *(f'{word} is no word of the handshake any more' for word in sorted(CONTEXTS - words)),
    ]


def test_the_names_of_pyghmi_that_we_rely_on_are_there():
    """By the source of the release that is installed."""
    found = wrong(SOURCE)
    assert [] == found, f'pyghmi {version("pyghmi")}: {"; ".join(found)}. {TODO}'


@pytest.mark.parametrize(
    ('old', 'new', 'says'),
    [
        ('_got_rakp2', '_take_rakp2', '_got_rakp2 is used by our code, and there is none'),
        ('self.kg,', 'self.bmckey,', '_got_rakp2 uses bmckey, which nobody sets'),
        ('_xmit_packet', '_transmit', '_transmit runs now, and did not'),
        ('self.onlogon(', 'self.concluded(', 'onlogon is not called any more, so ours is not'),
        ('EXPECTINGRAKP2', 'AWAIT_RAKP2', 'EXPECTINGRAKP2 is no word of the handshake any more'),
    ],
)
def test_a_name_that_changed_is_found(old, new, says):
    """One that is called, one that is set, one that is ours instead, and a word."""
    assert old in SOURCE
    assert says in wrong(SOURCE.replace(old, new))
