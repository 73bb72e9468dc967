# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A System is reset by a ResetType that it offers, and never by one that means something else."""

from collections.abc import Callable
from typing import Any

import pytest
import requests

from baremetal_acc.errors import BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import HostReading, PowerState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, Ref
from tests.wire.conftest import NOW

SYSTEM = Ref(bmc=HOST, uri='/redfish/v1/Systems/1')
TARGET = '/redfish/v1/Systems/1/Actions/ComputerSystem.Reset'


def _action(bmc: Any, values: Any = None, **more: Any) -> None:
    action = {'target': TARGET, **({} if values is None else {'ResetType@Redfish.AllowableValues': values}), **more}
    bmc.tree[SYSTEM.uri]['Actions'] = {'#ComputerSystem.Reset': action}


@pytest.mark.parametrize(
    ('offered', 'kind', 'sent'),
    [
        (['On', 'ForceRestart', 'GracefulRestart', 'PowerCycle'], ResetKind.SYSTEM_RESET, 'ForceRestart'),
        (['GracefulRestart', 'PowerCycle'], ResetKind.SYSTEM_RESET, 'GracefulRestart'),
        (['PowerCycle'], ResetKind.SYSTEM_RESET, 'PowerCycle'),
        (['ForceRestart', 'PowerCycle'], ResetKind.POWER_CYCLE, 'PowerCycle'),
        (None, ResetKind.POWER_CYCLE, 'PowerCycle'),
    ],
)
def test_a_reset_uses_the_first_word_that_is_offered(bmc: Any, offered: Any, kind: ResetKind, sent: str) -> None:
    """Where nothing is advertised, the usual word is tried."""
    _action(bmc, offered)
    with bmc.connect() as connection:
        connection.reset(SYSTEM, kind)
    assert [{'ResetType': sent}] == bmc.body_of('POST')
    assert 1 == bmc.count('POST', TARGET)


def test_a_restart_is_no_power_cycle(bmc: Any) -> None:
    """What needs a power cycle is not in force after a restart: it is refused, and the message says what is offered."""
    _action(bmc, ['On', 'ForceOff', 'ForceRestart', 'GracefulRestart'])
    with bmc.connect() as connection, pytest.raises(BmcUnsupported, match='ForceOff, ForceRestart'):
        connection.reset(SYSTEM, ResetKind.POWER_CYCLE)
    assert 0 == bmc.count('POST')


def test_the_words_may_be_in_the_action_info(bmc: Any) -> None:
    """As on BlueField and GH200."""
    _action(bmc, **{'@Redfish.ActionInfo': INFO})
    bmc.put(
        INFO,
        Parameters=[None, {'Name': 'ResetType', 'AllowableValues': ['GracefulRestart']}],
    )
    with bmc.connect() as connection:
        connection.reset(SYSTEM, ResetKind.SYSTEM_RESET)
    assert [{'ResetType': 'GracefulRestart'}] == bmc.body_of('POST')


INFO = '/redfish/v1/Systems/1/ResetActionInfo'
BOTH = ['On', 'ForceOff']
ANY = frozenset({ResetKind.NONE, ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE})


@pytest.mark.parametrize(
    ('values', 'info', 'expected', 'asked'),
    [
        (None, {'Parameters': [{'Name': 'ResetType', 'AllowableValues': ['PushPowerButton']}]}, frozenset(), 1),
        (None, {'Parameters': [None, {'Name': 'ResetType', 'AllowableValues': BOTH}]}, ANY, 1),
        (None, {'Parameters': [{'Name': 'Other', 'AllowableValues': ['PushPowerButton']}]}, None, 1),
        (None, None, None, 1),
        (BOTH, {'Parameters': [{'Name': 'ResetType', 'AllowableValues': ['PushPowerButton']}]}, ANY, 0),
        (['PushPowerButton'], None, frozenset(), 0),
    ],
)
def test_an_inspection_reads_an_action_info_only_where_the_action_does_not_list_its_words(
    bmc: Any, values: Any, info: Any, expected: Any, asked: int
) -> None:
    """One request more, and only there; one that is missing tells nothing, and hides no device."""
    _action(bmc, values, **{'@Redfish.ActionInfo': INFO})
    if info is not None:
        bmc.put(INFO, **info)
    with bmc.connect() as connection:
        for times in (1, 2):
            look = connection.look(NOW)
            assert (expected, asked * times) == (look.facts.resets, bmc.count('GET', INFO))
            assert not [gap for gap in look.gaps if 'ActionInfo' in str(gap)]


def test_no_reset_asks_for_none(bmc: Any) -> None:
    """ResetKind none."""
    with bmc.connect() as connection:
        connection.reset(SYSTEM, ResetKind.NONE)
    assert 0 == bmc.count('POST')


def test_a_system_without_reset_is_refused(bmc: Any) -> None:
    """A baseboard System."""
    with bmc.connect() as connection, pytest.raises(BmcUnsupported, match='no Reset action'):
        connection.reset(SYSTEM, ResetKind.SYSTEM_RESET)


@pytest.mark.parametrize(('wanted', 'word'), [(PowerState.ON, 'On'), (PowerState.OFF, 'ForceOff')])
def test_switching(bmc: Any, wanted: PowerState, word: str) -> None:
    """Off is off: not a graceful shutdown that a tenant may ignore."""
    _action(bmc, ['On', 'ForceOff', 'GracefulShutdown', 'ForceOn'])
    with bmc.connect() as connection:
        connection.set_power(SYSTEM, wanted)
    assert [{'ResetType': word}] == bmc.body_of('POST')


def test_a_switch_whose_answer_is_lost_may_have_arrived(bmc: Any) -> None:
    """Nobody knows whether the host goes off: the error says so."""
    _action(bmc, BOTH)
    bmc.replies['POST', TARGET] = [requests.exceptions.ReadTimeout('cut')]
    with bmc.connect() as connection, pytest.raises(BmcUnreachable, match='; ForceOff may have arrived'):
        connection.set_power(SYSTEM, PowerState.OFF)
    assert 1 == bmc.count('POST', TARGET)


@pytest.mark.parametrize(
    ('shown', 'means'),
    [('On', PowerState.ON), ('Off', PowerState.OFF), ('Odd', PowerState.UNKNOWN), (None, PowerState.UNKNOWN)],
)
def test_the_power_state_is_read_now(bmc: Any, shown: Any, means: PowerState) -> None:
    """An unknown word is Unknown."""
    bmc.tree[SYSTEM.uri]['PowerState'] = shown
    with bmc.connect() as connection:
        assert means == connection.power(SYSTEM)


def test_the_last_reset_is_text_to_compare(bmc: Any) -> None:
    """Real BMCs say 1970 or 0000-00-00: it is only compared."""
    bmc.tree[SYSTEM.uri]['LastResetTime'] = '0000-00-00T00:00:00Z'
    with bmc.connect() as connection:
        assert '0000-00-00T00:00:00Z' == connection.last_reset(SYSTEM)
        del bmc.tree[SYSTEM.uri]['LastResetTime']
        assert connection.last_reset(SYSTEM) is None


PROGRESS: tuple[tuple[Any, str | None], ...] = (
    (None, None),
    ({}, None),
    ({'LastState': 'OSRunning', 'LastStateTime': '2026-11-22T10:00:00Z'}, 'OSRunning 2026-11-22T10:00:00Z'),
    ({'LastState': 'None'}, 'None'),
    ({'LastState': 'None', 'LastStateTime': '2026-11-22T10:00:00Z'}, 'None 2026-11-22T10:00:00Z'),
    ({'LastState': 'OEM', 'OemLastState': 'OsIsRunning'}, 'OEM OsIsRunning'),
    ({'LastState': 'OSRunning', 'LastBootTimeSeconds': 114}, 'OSRunning 114.000 s'),
    ({'LastState': 'OSRunning', 'LastBootTimeSeconds': 114.0}, 'OSRunning 114.000 s'),
    ({'LastState': 'OSRunning', 'LastBootTimeSeconds': True}, 'OSRunning'),
    ({'LastState': 'OSRunning', 'LastBootTimeSeconds': '114'}, 'OSRunning'),
    ({'LastState': 'OSRunning', 'LastBootTimeSeconds': -1}, 'OSRunning'),
    ({'LastState': 'OSRunning', 'LastBootTimeSeconds': 10**400}, 'OSRunning'),
    ({'LastState': 5, 'LastStateTime': None, 'LastBootTimeSeconds': None}, None),
    ('OSRunning', None),
    ([], None),
)


@pytest.mark.parametrize(('shown', 'means'), PROGRESS)
def test_a_poll_of_the_host_tells_how_far_it_has_booted_in_the_one_request(bmc: Any, shown: Any, means: str | None) -> None:
    """Of a host that is off the state is the word None, which is a value; what has the wrong type says nothing."""
    bmc.tree[SYSTEM.uri] |= {'PowerState': 'Off', 'LastResetTime': '2026-11-22T09:59:00Z', 'BootProgress': shown}
    with bmc.connect() as connection:
        before = len(bmc.seen)
        found = connection.host(SYSTEM)
        assert [('GET', SYSTEM.uri)] == bmc.seen[before:]
        facts = connection.look(NOW).facts
    assert HostReading(power=PowerState.OFF, last_reset='2026-11-22T09:59:00Z', boot_progress=means) == found
    assert found == facts.host


MANAGER = '/redfish/v1/Managers/bmc'
OTHER = '/redfish/v1/Managers/other'


@pytest.mark.parametrize(
    ('provider', 'managed_by', 'shown'),
    [
        (None, [MANAGER], 'sunday'),
        (MANAGER, [OTHER], 'sunday'),
        (MANAGER, [], 'sunday'),
        (None, [MANAGER, OTHER], None),
        (None, [], None),
        ('/redfish/v1/Managers/gone', [MANAGER], None),
        ('https://evil.example/redfish/v1/Managers/bmc', [], None),
    ],
)
def test_a_look_tells_when_the_bmc_itself_was_reset(bmc: Any, provider: Any, managed_by: Any, shown: Any) -> None:
    """Of the Manager that answers us, and of no other; at most the Managers are read, and no gap hides a device for them."""
    bmc.collection('/redfish/v1/Managers', 'bmc', 'other')
    bmc.put(MANAGER, LastResetTime='sunday')
    bmc.put(OTHER, LastResetTime='never')
    if provider is not None:
        bmc.tree['/redfish/v1']['Links'] = {'ManagerProvidingService': {'@odata.id': provider}}
    bmc.tree[SYSTEM.uri]['Links'] = {'ManagedBy': [{'@odata.id': uri} for uri in managed_by]}
    with bmc.connect() as connection:
        look = connection.look(NOW)
        assert connection.host(SYSTEM).bmc_reset is None
    assert (shown, shown) == (look.facts.bmc_reset, look.facts.host.bmc_reset)
    assert () == tuple(gap for gap in look.gaps if gap.hides)
    assert 2 >= sum('/Managers' in uri for _, uri in bmc.seen)


def test_managers_that_cannot_be_read_are_no_gap_of_a_look(bmc: Any) -> None:
    """Locks tell that, where they need them."""
    bmc.tree[SYSTEM.uri]['Links'] = {'ManagedBy': [{'@odata.id': MANAGER}]}
    del bmc.tree['/redfish/v1/Managers']
    with bmc.connect() as connection:
        look = connection.look(NOW)
    assert (None, ()) == (look.facts.bmc_reset, look.gaps)


def test_a_reset_target_off_the_bmc_is_not_posted_to(bmc: Any, reply: Callable[..., Any]) -> None:
    """The action's target comes from the BMC, and may only lead to it."""
    _action(bmc, ['On'])
    bmc.tree[SYSTEM.uri]['Actions']['#ComputerSystem.Reset']['target'] = 'https://evil.example/reset'
    with bmc.connect() as connection, pytest.raises(Exception, match='does not point to this BMC'):
        connection.set_power(SYSTEM, PowerState.ON)
    assert 0 == bmc.count('POST')


OFF_ON = {ResetKind.NONE, ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE}


@pytest.mark.parametrize(
    ('offered', 'kinds'),
    [
        (['On', 'ForceOff', 'PowerCycle', 'ForceRestart'], OFF_ON),
        (['On', 'ForceOff', 'GracefulShutdown', 'ForceRestart', 'Nmi', 'ForceOn', 'PushPowerButton'], OFF_ON),
        (['ForceOn', 'ForceOff'], OFF_ON),
        (['ForceOff', 'ForceRestart'], {ResetKind.SYSTEM_RESET}),
        (['On', 'GracefulShutdown', 'PowerCycle'], {ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE}),
        (['PushPowerButton', 'Nmi'], set()),
        ([], None),
        (None, None),
        ('PowerCycle', None),
    ],
)
def test_a_look_says_which_resets_a_system_takes(bmc: Any, offered: Any, kinds: set[ResetKind] | None) -> None:
    """A plan that needs another one is refused before anything is done; a power cycle can be had by off and on."""
    _action(bmc, offered)
    with bmc.connect() as connection:
        assert (None if kinds is None else frozenset(kinds)) == connection.look(NOW).facts.resets


@pytest.mark.parametrize(
    ('offered', 'offers'), [(['On', 'ForceOff', 'ForceRestart'], False), (['PowerCycle'], True), (None, True)]
)
def test_a_reset_that_is_not_offered_is_not_asked_for(bmc: Any, offered: Any, offers: bool) -> None:
    """Whoever needs it powers the System off and on."""
    _action(bmc, offered)
    with bmc.connect() as connection:
        assert offers is connection.offers_reset(SYSTEM, ResetKind.POWER_CYCLE)
