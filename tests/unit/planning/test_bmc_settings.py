# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of BMCs against the rules of [bmc]: what meets a demand, and what does not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.model.bmc_state import (
    BmcSetting,
    BmcState,
    ShownAccount,
    ShownCertificate,
    ShownValue,
    UnreadSetting,
)
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.finding import SettingResult
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning import bmc_settings
from baremetal_acc.policy import baseline
from baremetal_acc.render.findings import words
from tests.unit.planning import values as v

AT = Ref(bmc=HOST, uri='/redfish/v1/X')
S, R = BmcSetting, SettingResult


def shown(setting, *found, present=True):
    """A state that shows these values of a setting."""
    return BmcState(
        asked=frozenset({setting}),
        present=frozenset({setting} if present else ()),
        values=tuple(ShownValue(setting=setting, ref=AT, field='F', value=value) for value in found),
    )


def accounts(*found):
    """A state with accounts, each with a role."""
    return BmcState(
        asked=frozenset({S.ACCOUNTS}),
        present=frozenset({S.ACCOUNTS}),
        accounts=tuple(
            ShownAccount(ref=replace(AT, uri=f'/a/{n}'), name=name, role=role) for n, (name, role) in enumerate(found)
        ),
    )


def certificate(issuer, days):
    """A state with a certificate that ends in so many days."""
    end = None if days is None else v.NOW + timedelta(days=days)
    return BmcState(
        asked=frozenset({S.TLS_CERTIFICATE}),
        present=frozenset({S.TLS_CERTIFICATE}),
        certificates=(ShownCertificate(ref=AT, issuer=issuer, not_after=end),),
    )


def found(rule, state, address='https://192.0.2.1', **options):
    """The one finding."""
    inventory = v.inventory(v.gpu())
    bmcs = (replace(inventory.bmcs[0], state=state, address=address), *inventory.bmcs[1:])
    rules = baseline.parse(f'format = 1\n[bmc]\nname = "b"\nmatch = {{ bmc = "host" }}\n{rule}\n', 'baseline.toml')
    [one] = bmc_settings.findings(replace(inventory, bmcs=bmcs), rules, v.NODE, **options)
    return one


CASES = [
    ('ipmi_over_lan = "disabled"', shown(S.IPMI_OVER_LAN, 'disabled', 'disabled'), R.MATCHES, 'disabled'),
    ('ipmi_over_lan = "disabled"', shown(S.IPMI_OVER_LAN, 'disabled', 'enabled'), R.DIFFERS, 'enabled (host:/redfish/v1/X F)'),
    ('ipmi_over_lan = "enabled"', shown(S.IPMI_OVER_LAN, 'disabled'), R.DIFFERS, 'disabled (host:/redfish/v1/X F)'),
    ('ipmi_over_lan = "disabled"', shown(S.IPMI_OVER_LAN, present=False), R.NOT_SHOWN, 'not shown by the BMC'),
    ('host_interfaces = "disabled"', shown(S.HOST_INTERFACES), R.MATCHES, 'as expected'),
    (
        'host_interfaces = "disabled"',
        shown(S.HOST_INTERFACES, None),
        R.NOT_SHOWN,
        'not shown by the BMC (host:/redfish/v1/X F)',
    ),
    ('host_interfaces = "disabled"', shown(S.HOST_INTERFACES, None, 'enabled'), R.DIFFERS, 'enabled (host:/redfish/v1/X F)'),
    (
        'host_interfaces = { expect = "disabled", if_absent = "accept" }',
        shown(S.HOST_INTERFACES, None, 'disabled'),
        R.ABSENT_ACCEPTED,
        'not shown by the BMC, which the rule accepts',
    ),
    (
        'host_interfaces = { expect = "disabled", if_absent = "accept" }',
        shown(S.HOST_INTERFACES, 'enabled'),
        R.DIFFERS,
        'enabled (host:/redfish/v1/X F)',
    ),
    ('firmware_version = "2.1"', shown(S.FIRMWARE_VERSION, 'v2.1 '), R.MATCHES, 'v2.1 '),
    ('firmware_version = ["2.1", "2.2"]', shown(S.FIRMWARE_VERSION, '2.3'), R.DIFFERS, '2.3 (host:/redfish/v1/X F)'),
    ('boot_override = ["None", "Hdd"]', shown(S.BOOT_OVERRIDE, 'Hdd'), R.MATCHES, 'Hdd'),
    ('boot_override = "None"', shown(S.BOOT_OVERRIDE, 'Pxe'), R.DIFFERS, 'Pxe (host:/redfish/v1/X F)'),
    ('event_subscriptions = []', shown(S.EVENT_SUBSCRIPTIONS), R.MATCHES, 'as expected'),
    (
        'event_subscriptions = ["https://*.example.org"]',
        shown(S.EVENT_SUBSCRIPTIONS, 'https://a.example.org', 'https://b.test'),
        R.DIFFERS,
        'https://b.test (host:/redfish/v1/X F)',
    ),
    ('accounts = ["a", "b=Operator"]', accounts(('a', 'Odd'), ('b', 'ReadOnly')), R.MATCHES, 'as expected'),
    ('accounts = ["a"]', accounts(('a', 'Operator'), ('A', None)), R.DIFFERS, "'A' (role not shown)"),
    (
        'accounts = ["a"]',
        accounts(('a', 'x'), ('a', 'y')),
        R.DIFFERS,
        "'a' (x): one of several accounts with this name; 'a' (y):",
    ),
    (
        'accounts = ["a=Operator"]',
        accounts(('a', 'Administrator')),
        R.DIFFERS,
        "'a' (Administrator): allowed role is at most Operator",
    ),
    ('accounts = ["a=Operator"]', accounts(('a', 'Custom')), R.DIFFERS, "'a' (Custom): allowed role is at most Operator"),
    ('accounts = ["a=Operator"]', accounts(('a', None)), R.DIFFERS, "'a' (role not shown): allowed role is at most Operator"),
    ('accounts = ["a=Custom"]', accounts(('a', 'Custom')), R.MATCHES, 'as expected'),
    ('accounts = ["a=Custom"]', accounts(('a', 'ReadOnly')), R.DIFFERS, "'a' (ReadOnly): allowed role is at most Custom"),
    ('accounts = []', accounts(*((f'm{n}', 'x') for n in range(9))), R.DIFFERS, "'m3' (x); and 5 more"),
    ('tls_certificate = "CA *"', certificate('CA 1', 1), R.MATCHES, 'as expected'),
    ('tls_certificate = "CA *"', certificate('CA 1', -1), R.DIFFERS, 'valid until 2026-'),
    ('tls_certificate = "CA *"', certificate('Other', 90), R.DIFFERS, 'issued by Other, valid until'),
    ('tls_certificate = "CA *"', certificate(None, 90), R.DIFFERS, 'issued by nobody that the BMC shows, valid until'),
    ('tls_certificate = "*"', certificate('CA 1', None), R.DIFFERS, 'its end is not shown'),
    ('tls_certificate = { expect = "*", days_left = 30 }', certificate('CA 1', 29), R.DIFFERS, 'valid until'),
    ('tls_certificate = { expect = "*", days_left = 30 }', certificate('CA 1', 31), R.MATCHES, 'as expected'),
    ('accounts = []', None, R.NOT_READ, 'not read in this inspection'),
    ('accounts = []', shown(S.BOOT_OVERRIDE), R.NOT_READ, 'not read in this inspection'),
]


@pytest.mark.parametrize(('rule', 'state', 'result', 'says'), CASES)
def test_a_setting_is_compared_with_its_rule(rule, state, result, says):
    """Only what is shown as demanded, or absent where the rule accepts that, meets it."""
    one = found(rule, state)
    assert result is one.fact.result
    assert (Met.YES if result in (R.MATCHES, R.ABSENT_ACCEPTED) else Met.NO, 'b') == (one.met, one.rule)
    assert says in words(one.fact).found
    assert f'BMC setting {one.fact.setting} of host' == str(one.subject)


@pytest.mark.parametrize('values', [(), ('disabled',)])
def test_what_could_not_be_read_does_not_meet_a_demand(values):
    """Whatever else is shown as demanded, and also where the rule accepts that the BMC shows nothing."""
    state = replace(
        shown(S.IPMI_OVER_LAN, *values, present=bool(values)),
        unread=(UnreadSetting(setting=S.IPMI_OVER_LAN, ref=AT, reason='HTTP 500'),),
    )
    one = found('ipmi_over_lan = { expect = "disabled", if_absent = "accept" }', state)
    assert (Met.NO, R.UNREAD) == (one.met, one.fact.result)
    assert 'could not be read: host:/redfish/v1/X: HTTP 500' == words(one.fact).found


def test_what_was_not_read_of_another_setting_is_no_concern():
    """Each setting has its own result."""
    state = replace(shown(S.IPMI_OVER_LAN, 'disabled'), unread=(UnreadSetting(setting=S.ACCOUNTS, ref=AT, reason='HTTP 403'),))
    assert Met.YES is found('ipmi_over_lan = "disabled"', state).met


@pytest.mark.parametrize(('address', 'is_told'), [('ipmi://192.0.2.1', True), ('https://192.0.2.1', False)])
def test_ipmi_over_lan_cannot_be_disabled_where_the_target_is_read_over_it(address, is_told):
    """The demand is not met either way; the finding says that the target itself rests on it."""
    one = found('ipmi_over_lan = "disabled"', shown(S.IPMI_OVER_LAN, 'enabled'), address)
    assert (Met.NO, is_told) == (one.met, one.fact.rests_on_it)
    assert is_told is words(one.fact).found.endswith(
        'the target itself is read over IPMI, so IPMI over LAN cannot be disabled on it'
    )


@pytest.mark.parametrize(
    ('rule', 'state', 'met'),
    [
        ('virtual_media = "ejected"', shown(S.VIRTUAL_MEDIA, 'inserted'), Met.YES),
        ('boot_override = "None"', shown(S.BOOT_OVERRIDE, 'Pxe'), Met.YES),
        ('host_interfaces = "disabled"', shown(S.HOST_INTERFACES, 'enabled'), Met.NO),
        ('virtual_media = "ejected"', shown(S.VIRTUAL_MEDIA, None), Met.NO),
    ],
)
def test_what_may_have_started_the_ramdisk_is_accepted_while_it_runs(rule, state, met):
    """Ironic starts its ramdisk from virtual media, or by a boot override; nothing else is accepted by that."""
    assert met is found(rule, state, ramdisk=True).met
    assert Met.NO is found(rule, state).met


def test_a_state_is_stored_and_read_back():
    """Inventories of a target are stored with it."""
    state = replace(accounts(('a', None)), certificates=certificate('CA', 3).certificates)
    assert state == decode(BmcState, encode(state))
