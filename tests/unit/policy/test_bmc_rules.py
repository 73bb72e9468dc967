# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of [bmc]: what they may say, which one decides, and what is told when one is wrong."""

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.bmc_state import BmcSetting
from baremetal_acc.model.ref import HOST, BmcName
from baremetal_acc.policy import baseline
from baremetal_acc.policy.baseline_rules import BmcDemand, BmcProtocol, NodeFacts
from baremetal_acc.policy.bmc_rules import decided, protocol_of, roles

NODE = NodeFacts(name='node-1', resource_class='gold')


def parse(text: str):
    return baseline.parse(f'format = 1\n{text}', 'baseline.toml')


def asked(text: str, bmc: str = HOST, address: str = 'https://192.0.2.1', node: NodeFacts = NODE):
    """The demands on a BMC."""
    return decided(parse(text).bmc, BmcName(bmc), address, node)


def test_a_setting_is_a_value_a_list_or_a_table():
    """The short form is what most rules need; the table has the options."""
    found = asked("""
[bmc]
ipmi_over_lan = "disabled"
accounts = ["ironic=Administrator", "monitor"]
host_interfaces = { expect = "disabled", if_absent = "accept" }
tls_certificate = { expect = ["Example CA *", "Other"], days_left = 14 }
""")
    expected = {
        BmcSetting.ACCOUNTS: BmcDemand(setting=BmcSetting.ACCOUNTS, expected=('ironic=Administrator', 'monitor')),
        BmcSetting.IPMI_OVER_LAN: BmcDemand(setting=BmcSetting.IPMI_OVER_LAN, expected=('disabled',)),
        BmcSetting.HOST_INTERFACES: BmcDemand(setting=BmcSetting.HOST_INTERFACES, expected=('disabled',), accepts_absent=True),
        BmcSetting.TLS_CERTIFICATE: BmcDemand(
            setting=BmcSetting.TLS_CERTIFICATE, expected=('Example CA *', 'Other'), days_left=14
        ),
    }
    assert {setting: (demand, 'bmc') for setting, demand in expected.items()} == found


def test_a_rule_says_which_of_its_settings_are_restored():
    """The others are compared; and a rule restores only what it decides itself."""
    found = asked("""
[[bmc]]
boot_override = ["None", "Hdd"]
event_subscriptions = []
restore = ["boot_override"]
[[bmc]]
boot_override = "None"
event_subscriptions = []
virtual_media = "ejected"
restore = ["event_subscriptions", "virtual_media"]
""")
    assert {'boot_override': True, 'event_subscriptions': False, 'virtual_media': True} == {
        str(setting): demand.restore for setting, (demand, _) in found.items()
    }


def test_a_baseline_without_the_section_demands_nothing_of_a_bmc():
    """So no BMC is asked anything."""
    assert () == parse('[[rule]]\nblock = []\n').bmc
    assert {} == asked('[[rule]]\nblock = []\n')


SEVERAL = """
[[bmc]]
name = "cards"
match = { bmc = "dpu*", protocol = "redfish" }
boot_override = "UefiHttp"
[[bmc]]
match = { resource_class = "GOLD" }
boot_override = "None"
firmware_version = ["1.0", "1.1"]
[[bmc]]
match = { exposure = "service" }
ipmi_over_lan = "enabled"
"""


@pytest.mark.parametrize(
    ('bmc', 'address', 'node', 'expected'),
    [
        ('host', 'https://192.0.2.1', NODE, {'boot_override': 'bmc-2', 'firmware_version': 'bmc-2'}),
        ('DPU1', 'https://192.0.2.1', NODE, {'boot_override': 'cards', 'firmware_version': 'bmc-2'}),
        ('dpu1', 'ipmi://192.0.2.1', NODE, {'boot_override': 'bmc-2', 'firmware_version': 'bmc-2'}),
        ('dpu1', 'https://192.0.2.1', NodeFacts(name='n'), {'boot_override': 'cards'}),
        ('host', 'https://192.0.2.1', NodeFacts(name='n', resource_class='tin'), {}),
    ],
)
def test_the_first_rule_that_matches_and_has_the_key_decides(bmc, address, node, expected):
    """Key by key, as for devices; patterns ignore case."""
    assert expected == {str(setting): rule for setting, (_, rule) in asked(SEVERAL, bmc, address, node).items()}


@pytest.mark.parametrize(
    ('text', 'says'),
    [
        ('[bmc]\n', 'line 2: bmc: demands nothing (add one of firmware_version, accounts'),
        ('[bmc]\nipmi_over_lan = "off"\n', "line 3: bmc.ipmi_over_lan: 'off' is none of disabled, enabled"),
        ('[bmc]\nipmi_over_lan = false\n', 'line 3: bmc.ipmi_over_lan: text expected, a boolean found'),
        ('[bmc]\nipmi = "disabled"\n', 'line 3: bmc.ipmi: no such key'),
        ('[bmc]\nvirtual_media = "inserted"\n', "bmc.virtual_media: 'inserted' is none of ejected"),
        ('[bmc]\nfirmware_version = []\n', 'bmc.firmware_version: is empty: nothing would be accepted (for example "2.19")'),
        ('[bmc]\nboot_override = { if_absent = "accept" }\n', 'line 3: bmc.boot_override: expect is missing'),
        ('[bmc]\nboot_override = { expect = "Hdd", days_left = 4 }\n', 'bmc.boot_override.days_left: no such key'),
        ('[bmc]\naccounts = ["a", "a=Operator"]\n', "bmc.accounts: 'a' is named twice"),
        ('[bmc]\naccounts = ["a="]\n', "bmc.accounts: 'a=' has no role directly after the"),
        ('[bmc]\naccounts = ["a =Operator"]\n', "bmc.accounts: 'a =Operator' has blanks around the name"),
        ('[bmc]\ntls_certificate = { expect = "x", days_left = 9999 }\n', '9999 days are too many; at most 3660 are allowed'),
        ('[bmc]\nname = "default"\naccounts = []\n', "bmc.name: 'default' is reserved"),
        ('[[bmc]]\nname = "x"\naccounts = []\n[[bmc]]\nname = "x"\naccounts = []\n', "bmc[1].name: two rules are called 'x'"),
        ('[[rule]]\nname = "bmc"\nblock = []\n[bmc]\naccounts = []\n', "bmc.name: two rules are called 'bmc'"),
        ('[bmc]\nmatch = { model = "x" }\naccounts = []\n', 'bmc.match.model: no such key'),
        ('[bmc]\nmatch = { protocol = "ssh" }\naccounts = []\n', "bmc.match.protocol: 'ssh' is none of redfish, ipmi"),
        ('bmc = 4\n', 'bmc: tables [[bmc]] expected'),
        ('[bmc]\naccounts = ["a"]\nrestore = ["account"]\n', "line 4: bmc.restore: 'account' is none of"),
        ('[bmc]\naccounts = ["a"]\nrestore = "accounts"\n', 'bmc.restore: list of texts expected'),
        ('[bmc]\naccounts = ["a"]\nrestore = ["boot_override"]\n', 'this rule does not say what boot_override has to be'),
        (
            '[bmc]\nfirmware_version = "1"\nrestore = ["firmware_version"]\n',
            'firmware_version cannot be restored: Redfish has no',
        ),
        (
            '[bmc]\nipmi_over_lan = "enabled"\nrestore = ["ipmi_over_lan"]\n',
            'ipmi_over_lan is only ever restored to "disabled"',
        ),
        ('[bmc]\nboot_override = "Hdd"\nrestore = ["boot_override"]\n', 'boot_override is only ever restored to "None"'),
        ('[bmc]\naccounts = []\nrestore = ["accounts"]\n', 'accounts lists no account: the account that baremetal-acc logs in'),
        (
            '[bmc]\nmatch = { protocol = "ipmi" }\nipmi_over_lan = "disabled"\nrestore = ["ipmi_over_lan"]\n',
            'settings of a BMC that is used over IPMI are not restored (match protocol = "redfish")',
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text, says):
    """Nothing that an author may have meant otherwise is taken."""
    with pytest.raises(DocumentError) as caught:
        parse(text)
    assert says in str(caught.value)


def test_a_name_may_contain_the_sign_before_the_role():
    """Then it is written with its role."""
    assert {'a=b': 'Operator', 'c': None} == roles(['a=b=Operator', 'c'])


def test_the_protocol_is_that_of_the_address():
    """Every address has a scheme."""
    assert (BmcProtocol.IPMI, BmcProtocol.REDFISH) == (protocol_of('ipmi://h'), protocol_of('https://h'))
