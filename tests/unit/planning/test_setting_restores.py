# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which differing settings of a BMC are restored, and which are kept, as values."""

from dataclasses import replace

import pytest

from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import (
    RESTORED_TO,
    BmcSetting,
    BmcState,
    KeptReason,
    ShownAccount,
    ShownValue,
    UnreadSetting,
)
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.planning import bmc_settings
from baremetal_acc.planning.action_descriptions import describe
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.planning.setting_restores import MOST, is_link_local, resembles
from baremetal_acc.policy import baseline
from baremetal_acc.render.bmc_settings import kept_words
from baremetal_acc.render.findings import words
from baremetal_acc.render.refusals import sentence
from tests.unit.planning import values as v

AT = Ref(bmc=HOST, uri='/redfish/v1/X')
S, K = BmcSetting, KeptReason
OWN = ShownAccount(ref=replace(AT, uri='/a/own'), name='own', role='Administrator', is_own=True, may_be_own=True)
OTHER = ShownAccount(ref=replace(AT, uri='/a/other'), name='other', role='Operator')
LISTED = 'accounts = ["own=Administrator"]'


def state(setting, *shown, accounts=(), unread=()):
    """What a BMC shows of one setting."""
    return BmcState(
        asked=frozenset({setting}),
        present=frozenset({setting}),
        values=tuple(ShownValue(setting=setting, ref=AT, field='F', value=one) for one in shown),
        accounts=tuple(accounts),
        unread=tuple(UnreadSetting(setting=setting, ref=AT, reason='HTTP 500') for _ in unread),
    )


def both(rule, shown, address='https://192.0.2.1', *, several=False, over_ipmi=False, ramdisk=False):
    """The plan and the one finding."""
    inventory = v.inventory(v.gpu())
    bmcs = (replace(inventory.bmcs[0], state=shown, address=address), *inventory.bmcs[1:])
    inventory = replace(inventory, bmcs=bmcs, several=(HOST,) if several else ())
    setting = rule.partition(' ')[0]
    text = f'format = 1\n[bmc]\nname = "b"\nmatch = {{ bmc = "host" }}\n{rule}\nrestore = ["{setting}"]\n'
    rules = baseline.parse(f'{text}[[rule]]\nblock = []\n', 'baseline.toml')
    node = replace(v.NODE, over_ipmi=over_ipmi)
    made = plan(inventory, rules, node, (), parts=frozenset({Part.SETTINGS}), ramdisk=ramdisk)
    [finding] = bmc_settings.findings(inventory, rules, node)
    return made, finding


CASES = [
    ('ipmi_over_lan = "disabled"', state(S.IPMI_OVER_LAN, 'enabled', 'disabled'), {}, ['enabled'], [], []),
    ('ipmi_over_lan = "disabled"', state(S.IPMI_OVER_LAN, 'enabled'), {'over_ipmi': True}, [], [K.OWN_IPMI], [K.OWN_IPMI]),
    ('ipmi_over_lan = "disabled"', state(S.IPMI_OVER_LAN, 'enabled'), {'address': 'ipmi://h'}, [], [K.OWN_IPMI], [K.OWN_IPMI]),
    ('serial_over_lan = "disabled"', state(S.SERIAL_OVER_LAN, 'enabled'), {'over_ipmi': True}, [], [K.OWN_IPMI], [K.OWN_IPMI]),
    ('host_interfaces = "disabled"', state(S.HOST_INTERFACES, 'enabled', None), {}, ['enabled'], [], []),
    (
        'host_interfaces = "disabled"',
        state(S.HOST_INTERFACES, 'enabled'),
        {'address': 'https://169.254.0.17'},
        [],
        [K.OWN_INTERFACE],
        [K.OWN_INTERFACE],
    ),
    ('virtual_media = "ejected"', state(S.VIRTUAL_MEDIA, 'inserted'), {}, ['inserted'], [], []),
    ('virtual_media = "ejected"', state(S.VIRTUAL_MEDIA, 'inserted'), {'ramdisk': True}, [], [], []),
    ('boot_override = ["None", "Hdd"]', state(S.BOOT_OVERRIDE, 'Pxe'), {}, ['Pxe'], [], []),
    ('boot_override = ["None", "Hdd"]', state(S.BOOT_OVERRIDE, 'Hdd'), {}, [], [], []),
    ('event_subscriptions = ["https://a*"]', state(S.EVENT_SUBSCRIPTIONS, 'https://a', 'http://b'), {}, ['http://b'], [], []),
    (
        'event_subscriptions = []',
        state(S.EVENT_SUBSCRIPTIONS, 'http://b'),
        {'several': True},
        [],
        [K.SEVERAL_MACHINES],
        [],
    ),
    (LISTED, state(S.ACCOUNTS, accounts=(OWN, OTHER)), {}, ['other'], [], []),
    (LISTED, state(S.ACCOUNTS, accounts=(OTHER,)), {}, [], [K.UNCERTAIN_ACCOUNT], []),
    (LISTED, state(S.ACCOUNTS, accounts=(OWN, OTHER), unread=[1]), {}, [], [K.UNCERTAIN_ACCOUNT], []),
    (LISTED, state(S.ACCOUNTS, accounts=(OWN, replace(OTHER, may_be_own=True))), {}, [], [K.UNCERTAIN_ACCOUNT], []),
    (LISTED, state(S.ACCOUNTS, accounts=(OWN, replace(OTHER, name=' '))), {}, [], [K.UNCERTAIN_ACCOUNT], []),
    (LISTED, state(S.ACCOUNTS, accounts=(OWN, replace(OWN, ref=AT))), {}, [], [K.LISTED_ACCOUNT], []),
    ('accounts = ["own=ReadOnly"]', state(S.ACCOUNTS, accounts=(OWN, OTHER)), {}, ['other'], [K.LISTED_ACCOUNT], []),
    ('accounts = ["x"]', state(S.ACCOUNTS, accounts=(OWN, OTHER)), {}, ['other'], [K.OWN_ACCOUNT], [K.OWN_ACCOUNT]),
]


@pytest.mark.parametrize(('rule', 'shown', 'options', 'restored', 'kept', 'refused'), CASES)
def test_what_differs_is_restored_unless_the_target_rests_on_it(rule, shown, options, restored, kept, refused):
    """What is kept is named by the finding; what the target rests on refuses the plan."""
    made, finding = both(rule, shown, **options)
    assert restored == [a.expects for a in made.actions]
    assert {'b'} >= {a.rule for a in made.actions}
    assert kept == list(finding.fact.kept)
    assert refused == [r.reason.why for r in made.refusals]
    said = words(finding.fact).found
    assert all(kept_words(why) in said for why in kept) or finding.fact.rests_on_it
    assert all(
        f'node-1, BMC setting {rule.partition(" ")[0]} of host: rule b says to restore it' in sentence(r) for r in made.refusals
    )


def test_a_hostile_bmc_does_not_make_a_job_of_any_size():
    """It may show as many accounts as it likes: the rest remains a finding."""
    many = tuple(replace(OTHER, ref=replace(AT, uri=f'/a/{n}'), name=f'm{n}') for n in range(MOST + 1))
    made, finding = both(LISTED, state(S.ACCOUNTS, accounts=(OWN, *many)))
    assert (MOST, (K.TOO_MANY,)) == (len(made.actions), finding.fact.kept)


def test_only_a_plan_for_all_devices_that_may_touch_settings_restores_them():
    """A setting belongs to no single card, and a step that only locks changes nothing else."""
    inventory = v.inventory(v.gpu())
    shown = state(S.IPMI_OVER_LAN, 'enabled')
    inventory = replace(inventory, bmcs=(replace(inventory.bmcs[0], state=shown), *inventory.bmcs[1:]))
    text = 'format = 1\n[bmc]\nipmi_over_lan = "disabled"\nrestore = ["ipmi_over_lan"]\n[[rule]]\nblock = []\n'
    rules = baseline.parse(text, 'baseline.toml')

    def restores(**options):
        return [a for a in plan(inventory, rules, v.NODE, (), **options).actions if isinstance(a, RestoreSetting)]

    [one] = restores()
    assert 'restore ipmi_over_lan of BMC host at /redfish/v1/X' == describe(one)
    assert one == decode(RestoreSetting, encode(one))
    assert [] == restores(parts=frozenset({Part.LOCK, Part.FIRMWARE, Part.FUNCTIONS}))
    assert [] == restores(only=frozenset({v.gpu().id}))


def test_every_setting_is_restored_to_what_a_rule_may_demand_or_not_at_all():
    """The two that Redfish has no standard way for are left out."""
    assert {S.FIRMWARE_VERSION, S.TLS_CERTIFICATE} == set(S) - RESTORED_TO.keys()


@pytest.mark.parametrize(
    ('address', 'expected'),
    [
        ('https://169.254.1.1', True),
        ('https://[fe80::1%25usb0]:8443', True),
        ('https://192.0.2.1', False),
        ('https://bmc.example.org', False),
        ('https://', False),
    ],
)
def test_a_host_interface_is_known_by_its_link_local_address(address, expected):
    """DSP0270 uses them."""
    assert expected is is_link_local(address)


@pytest.mark.parametrize(('name', 'expected'), [('root', True), (' ROOT', True), ('root2', False), ('', False)])
def test_a_name_resembles_a_login_in_any_case_and_with_blanks(name, expected):
    """BMCs differ in whether they tell such names apart."""
    assert expected is resembles(name, ('root', 'admin'))
