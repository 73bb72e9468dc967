# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How one setting of a BMC is restored: what is sent, when nothing is, and what BMCs answer that are odd or hostile."""

from typing import Any

import pytest

from baremetal_acc.bmc.settings_reader import SettingSight
from baremetal_acc.errors import BmcError, BmcUnsupported
from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import BmcSetting
from baremetal_acc.model.ref import HOST, Ref
from tests.wire.conftest import ADDRESS, FakeBmc, status

AT = '/redfish/v1/Thing'
ETHERNET = '/redfish/v1/Managers/BMC/EthernetInterfaces/usb0'
S = BmcSetting


def action(setting: BmcSetting, expects: str, field: str = 'F') -> RestoreSetting:
    return RestoreSetting(setting=setting, ref=Ref(bmc=HOST, uri=AT), field=field, expects=expects, rule='b')


def restore(bmc: FakeBmc, one: RestoreSetting, *, send: bool = True, **address: Any) -> SettingSight:
    with bmc.connect(**address) as connection:
        return connection.restore(one, send=send)


def writes(bmc: FakeBmc) -> list[tuple[str, str]]:
    return [one for one in bmc.seen if one[0] != 'GET']


INTERFACE = action(S.HOST_INTERFACES, 'enabled', 'InterfaceEnabled')
MEDIUM = action(S.VIRTUAL_MEDIA, 'inserted', 'Inserted')
ACCOUNT = action(S.ACCOUNTS, 'mallory', 'Enabled')
HOOK = action(S.EVENT_SUBSCRIPTIONS, 'https://hook.test', 'Destination')
BOOT = action(S.BOOT_OVERRIDE, 'Pxe', 'Boot/BootSourceOverrideTarget')

UNTOUCHED: list[tuple[RestoreSetting, dict[str, Any], bool, str | None]] = [
    (INTERFACE, {'InterfaceEnabled': False}, True, 'disabled'),
    (INTERFACE, {}, False, None),
    (INTERFACE, {'InterfaceEnabled': 'true'}, False, None),
    (MEDIUM, {'Inserted': False}, True, 'ejected'),
    (ACCOUNT, {'UserName': 'mallory', 'Enabled': False}, True, 'mallory'),
    (ACCOUNT, {'UserName': 'admin', 'Enabled': True}, False, 'admin'),
    (ACCOUNT, {'UserName': None, 'Enabled': True}, False, None),
    (ACCOUNT, {'UserName': ['mallory']}, False, None),
    (ACCOUNT, {'UserName': 'mallory' * 99}, False, None),
    (HOOK, {'Destination': 'https://events.example.org/x'}, False, 'https://events.example.org'),
    (HOOK, {'Destination': 7}, False, None),
    (BOOT, {'Boot': {'BootSourceOverrideEnabled': 'Disabled', 'BootSourceOverrideTarget': 'Pxe'}}, True, 'None'),
    (BOOT, {'Boot': {'BootSourceOverrideEnabled': 'Once', 'BootSourceOverrideTarget': 'Cd'}}, False, 'Cd'),
    (BOOT, {'Boot': {'BootSourceOverrideEnabled': 'Sometimes', 'BootSourceOverrideTarget': 'Pxe'}}, False, None),
]


@pytest.mark.parametrize(('one', 'body', 'restored', 'value'), UNTOUCHED)
def test_nothing_is_sent_for_what_is_not_as_the_plan_saw_it(
    bmc: FakeBmc, one: RestoreSetting, body: dict[str, Any], restored: bool, value: str | None
) -> None:
    """It is restored already, or somebody has changed it, or the BMC shows nonsense."""
    bmc.put(AT, **body)
    assert SettingSight(restored=restored, value=value) == restore(bmc, one)
    assert [] == writes(bmc)


def test_an_account_that_is_called_like_a_value_is_not_taken_for_it(bmc: FakeBmc) -> None:
    """Its name is no state: it is disabled, and a BMC that does not do so is found out."""
    bmc.put(AT, UserName='disabled', Enabled=True)
    sight = restore(bmc, action(S.ACCOUNTS, 'disabled', 'Enabled'))
    assert (False, True) == (sight.restored, sight.sent)
    assert [{'Enabled': False}] == bmc.body_of('PATCH')


@pytest.mark.parametrize('one', [ACCOUNT, HOOK])
def test_what_is_gone_is_restored(bmc: FakeBmc, one: RestoreSetting) -> None:
    """An account or a subscription that somebody has deleted."""
    assert SettingSight(restored=True, value=None) == restore(bmc, one)
    assert [] == writes(bmc)


@pytest.mark.parametrize('one', [INTERFACE, MEDIUM, BOOT])
def test_any_other_resource_that_is_gone_is_an_error(bmc: FakeBmc, one: RestoreSetting) -> None:
    """Nobody knows what became of its setting."""
    with pytest.raises(BmcError, match='not there'):
        restore(bmc, one)


def test_a_write_has_the_etag_of_what_was_read_and_only_one_property(bmc: FakeBmc) -> None:
    """So no change of somebody else is lost."""
    bmc.put(AT, InterfaceEnabled=True)
    bmc.etags[AT] = '"7"'
    assert restore(bmc, INTERFACE).sent
    [sent] = [r for r in bmc.requests if r.method == 'PATCH']
    assert ('"7"', [{'InterfaceEnabled': False}]) == (sent.headers['If-Match'], bmc.body_of('PATCH'))


def test_a_read_that_fails_after_the_write_is_no_reason_to_write_again(bmc: FakeBmc) -> None:
    """It was sent; the next turn reads."""
    bmc.put(AT, InterfaceEnabled=True)
    bmc.replies['GET', AT] = [status(200, bmc.tree[AT]), *(status(500) for _ in range(9))]
    assert SettingSight(restored=False, value=None, sent=True) == restore(bmc, INTERFACE)
    assert [('PATCH', AT)] == writes(bmc)


def test_what_was_sent_before_is_only_read(bmc: FakeBmc) -> None:
    """A write is not repeated."""
    bmc.put(AT, InterfaceEnabled=True)
    assert SettingSight(restored=False, value='enabled') == restore(bmc, INTERFACE, send=False)
    assert [] == writes(bmc)


@pytest.mark.parametrize('target', ['https://elsewhere.test/eject', '//elsewhere.test/eject', [], None, ''])
def test_a_medium_is_ejected_by_an_action_of_this_bmc_only(bmc: FakeBmc, target: object) -> None:
    """A link that leads elsewhere is not followed, and nothing is sent in its place."""
    bmc.put(AT, Inserted=True, Actions={'#VirtualMedia.EjectMedia': {'target': target}})
    with pytest.raises(BmcError):
        restore(bmc, MEDIUM)
    assert [] == writes(bmc)


USED: list[tuple[dict[str, Any], str, dict[str, Any] | None]] = [
    ({'ExternallyAccessible': True}, ADDRESS, None),
    ({'ManagerEthernetInterface': {'@odata.id': ETHERNET}}, ADDRESS, {'IPv4Addresses': [{'Address': '192.0.2.1'}]}),
    (
        {'ManagerEthernetInterface': {'@odata.id': ETHERNET}},
        'https://[2001:db8::1]',
        {'IPv6Addresses': [None, {'Address': '?'}, {'Address': '2001:db8:0::1'}]},
    ),
    ({}, 'https://169.254.0.17', None),
]


@pytest.mark.parametrize(('more', 'address', 'ethernet'), USED)
def test_a_host_interface_that_the_session_may_use_is_not_disabled(
    bmc: FakeBmc, more: dict[str, Any], address: str, ethernet: dict[str, Any] | None
) -> None:
    """The job would cut itself off."""
    bmc.put(AT, InterfaceEnabled=True, **more)
    if ethernet is not None:
        bmc.put(ETHERNET, **ethernet)
    with pytest.raises(BmcUnsupported, match='nothing was written'):
        restore(bmc, INTERFACE, address=address)
    assert [] == writes(bmc)


def test_a_host_interface_whose_addresses_cannot_be_read_is_not_disabled(bmc: FakeBmc) -> None:
    """It may be the one in use."""
    bmc.put(AT, InterfaceEnabled=True, ManagerEthernetInterface={'@odata.id': ETHERNET})
    with pytest.raises(BmcError):
        restore(bmc, INTERFACE)
    assert [] == writes(bmc)


def test_an_objection_in_an_answer_of_success_is_kept(bmc: FakeBmc) -> None:
    """It is part of the reason if the setting does not change."""
    bmc.put(AT, Destination='https://hook.test/x')
    told = {'@Message.ExtendedInfo': [{'MessageId': 'Base.1.0.GeneralError', 'Severity': 'Critical', 'Message': 'No.'}]}
    bmc.replies['DELETE', AT] = status(200, told)
    sight = restore(bmc, HOOK)
    assert (False, True) == (sight.restored, sight.sent)
    assert sight.objection is not None
    assert 'No.' in sight.objection.text
