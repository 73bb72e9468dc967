# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a baseline says, key by key: which rule decides, what holds without one, and what is told when it is wrong."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from baremetal_acc.cli import bmcs
from baremetal_acc.errors import DocumentError
from baremetal_acc.model.accelerator import Kind, PciIds
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.waiver import Waiver
from baremetal_acc.policy import baseline, device_demands
from baremetal_acc.policy.baseline_rules import (
    DEFAULT_RULE,
    Baseline,
    Downgrade,
    DriftAction,
    Exposure,
    Match,
    Measure,
    NodeFacts,
    OnMissing,
    Rule,
)
from baremetal_acc.policy.device_demands import HOST_PATHS, Demands, demands
from tests.unit.planning import values as v

HEAD = 'format = 1\n'


def parse(text: str):
    return baseline.parse(HEAD + text, 'baseline.toml')


def test_the_first_rule_that_says_something_decides_key_by_key():
    """A rule for one model stands above one for all and names only what differs."""
    rules = parse("""
[[rule]]
name = "h100"
match = { model = "h100*" }
firmware = { "GPU_*" = "2.0" }
[[rule]]
name = "gpus"
match = { kind = "GPU" }
firmware = { "GPU_*" = "1.0" }
security_floor = 4
[[rule]]
block = ["host-device", "bmc-network"]
accept = ["locked-verified", "locked-reported"]
on_missing = "waive"
waiver = { role = "security", reason = "as agreed", expires = 2027-01-31, paths = ["bmc-network"] }
""")
    found = demands(rules, v.gpu(), v.NODE)
    assert ((('GPU_*', '2.0'),), 'h100') == (found.firmware, found.firmware_rule)
    assert (4, 'gpus') == (found.security_floor, found.security_floor_rule)
    assert ({WritePath.HOST_DEVICE, WritePath.BMC_NETWORK}, 'rule-3') == (found.block, found.block_rule)
    assert {LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED} == found.accept
    assert OnMissing.WAIVE is found.on_missing
    ((rule, waiver),) = found.waivers
    assert ('rule-3', 'security', 'as agreed') == (rule, waiver.role, waiver.reason)
    assert (datetime(2027, 1, 31, tzinfo=UTC), {WritePath.BMC_NETWORK}) == (waiver.expires, waiver.paths)
    assert ((), DEFAULT_RULE) == (found.functions, found.functions_rule)


@pytest.mark.parametrize(
    ('exposure', 'expected'), [(Exposure.TENANT, HOST_PATHS), (Exposure.SERVICE, frozenset()), (Exposure.NONE, frozenset())]
)
def test_without_a_rule_a_tenants_machine_is_shut(exposure, expected):
    """Every host path; verified locks only; refused where there is no mechanism."""
    found = demands(parse(''), v.gpu(), NodeFacts(name='n', exposure=exposure))
    assert (expected, DEFAULT_RULE) == (found.block, found.block_rule)
    assert {LockState.LOCKED_VERIFIED} == found.accept
    assert OnMissing.REFUSE is found.on_missing


@pytest.mark.parametrize(
    ('rule', 'exposure', 'expected'),
    [
        ({}, Exposure.TENANT, CustodyDemand.REPORTED),
        ({'firmware': (('GPU_*', '2.0'),)}, Exposure.TENANT, CustodyDemand.REQUIRED),
        ({'firmware': (('GPU_*', '2.0'),)}, Exposure.SERVICE, CustodyDemand.REPORTED),
        ({'firmware': (('GPU_*', '2.0'),), 'block': v.HOST_DEVICE}, Exposure.SERVICE, CustodyDemand.REQUIRED),
        ({'firmware': (('GPU_*', '2.0'),), 'block': frozenset()}, Exposure.TENANT, CustodyDemand.REPORTED),
        (
            {'firmware': (('GPU_*', '2.0'),), 'block': frozenset({WritePath.BMC_NETWORK})},
            Exposure.TENANT,
            CustodyDemand.REPORTED,
        ),
        ({'firmware': ()}, Exposure.TENANT, CustodyDemand.REPORTED),
        ({'firmware': (('GPU_*', '2.0'),), 'custody': CustodyDemand.REPORTED}, Exposure.TENANT, CustodyDemand.REPORTED),
    ],
)
def test_a_chain_of_custody_is_needed_where_firmware_is_named_and_the_host_must_not_write_it(rule, exposure, expected):
    """Where no rule says otherwise."""
    baseline = Baseline(rules=(Rule(name='one', match=Match(), **rule),))
    assert expected is demands(baseline, v.gpu(), replace(v.NODE, exposure=exposure)).custody


def test_an_empty_block_is_said_on_purpose():
    """block = [] demands nothing, also on a tenant's machine, and its rule decided."""
    found = demands(parse('[[rule]]\nblock = []\n'), v.gpu(), v.NODE)
    assert (frozenset(), 'rule-1') == (found.block, found.block_rule)


@pytest.mark.parametrize(
    ('match', 'expected'),
    [
        ('kind = "GPU"', True),
        ('kind = "FPGA"', False),
        ('vendor = "nvid*"', True),
        ('vendor = "amd"', False),
        ('model = "H1??"', True),
        ('model = "H1?"', False),
        ('pci = "0x10DE:*"', True),
        ('pci = "0x1002:*"', False),
        ('traits = ["CUSTOM_A", "CUSTOM_B"]', True),
        ('traits = ["CUSTOM_A", "CUSTOM_C"]', False),
        ('resource_class = "g*"', True),
        ('resource_class = "silver"', False),
        ('owner = "7F3A*"', True),
        ('owner = "7f3"', False),
        ('owner = "7f3a9c", resource_class = "silver"', False),
        ('exposure = "tenant"', True),
        ('exposure = "none"', False),
        ('kind = "GPU", resource_class = "silver"', False),
        ('', True),
    ],
)
def test_a_rule_matches_when_all_that_it_names_holds(match, expected):
    """Texts are patterns without case; traits of device and machine count together."""
    rules = parse(f'[[rule]]\nmatch = {{ {match} }}\nsecurity_floor = 9\n')
    node = NodeFacts(name='n', resource_class='gold', owner='7f3a9c', traits=frozenset({'CUSTOM_B'}))
    assert expected == (9 == demands(rules, v.gpu(traits=frozenset({'CUSTOM_A'})), node).security_floor)


@pytest.mark.parametrize('asked', ['resource_class', 'owner'])
def test_a_machine_that_says_nothing_matches_no_pattern(asked):
    """Without a resource class, or without an owner, not even * holds."""
    rules = parse(f'[[rule]]\nmatch = {{ {asked} = "*" }}\nsecurity_floor = 9\n')
    assert 0 == demands(rules, v.gpu(), NodeFacts(name='n')).security_floor


@pytest.mark.parametrize(
    ('match', 'shows', 'expected'),
    [
        (Match(vendor='NVIDIA', model='H*'), {'model': None}, True),
        (Match(vendor='AMD', model='H*'), {'model': None}, False),
        (Match(pci='*'), {'pci': PciIds()}, True),
        (Match(pci='0x10de:*'), {'pci': PciIds(vendor_id='0x10de')}, True),
        (Match(pci='*:0x2330'), {'pci': PciIds(device_id='0x2330')}, True),
        (Match(pci='0x10de:*', model='B*'), {'pci': PciIds()}, False),
        (Match(kind=Kind.NIC, model='H*'), {'model': None}, False),
    ],
)
def test_a_device_that_hides_what_a_rule_asks_for_may_be_the_one(match, shows, expected):
    """The rule does not decide then, and its name is told where all that is shown fits; half a pair of PCI ids is none."""
    rules = Baseline(rules=(Rule(name='r', match=match, security_floor=9),))
    found = demands(rules, v.gpu(**shows), v.NODE)
    assert (0, ('r',) if expected else ()) == (found.security_floor, tuple(u.rule for u in found.undecided))


def test_the_owner_of_a_target_is_what_rules_ask_for():
    """bmcs.yaml says it as Ironic would."""
    text = 'format: 1\ntargets: {n: {owner: 7f3a9c, bmcs: {host: {address: "https://192.0.2.1"}}}}\n'
    (target,), _ = bmcs.parse(text, 'bmcs.yaml')
    assert '7f3a9c' == target.facts(Exposure.TENANT).owner


def test_devices_are_counted_on_the_machines_of_their_owner():
    """A rule for the machines of one project says nothing of the machines of another one."""
    match = parse('[[rule]]\nmatch = { owner = "a" }\ncount = 8\n').rules[0].match
    assert [True, False, False] == [match.node(NodeFacts(name='n', owner=owner)) for owner in ('a', 'b', None)]


DOWN = """
[[rule]]
name = "special"
match = { model = "h100*" }
firmware = { "GPU_*" = "1.0" }
%s
[[rule]]
name = "general"
firmware = { "GPU_*" = "2.0" }
%s
"""


@pytest.mark.parametrize(
    ('special', 'general', 'expected'), [('allow', None, True), ('refuse', 'allow', False), (None, 'allow', False)]
)
def test_a_downgrade_is_allowed_by_the_rule_that_demands_it_alone(special, general, expected):
    """What another rule allows for its own versions does not count for these."""
    said = [f'downgrade = "{word}"' if word else '' for word in (special, general)]
    assert expected is demands(parse(DOWN % tuple(said)), v.gpu(), v.NODE).downgrade


def test_nothing_allows_a_downgrade_where_no_rule_says_so():
    """Neither without firmware nor without a word about it."""
    assert not demands(parse(''), v.gpu(), v.NODE).downgrade
    assert not demands(parse('[[rule]]\nfirmware = { "*" = "1" }\n'), v.gpu(), v.NODE).downgrade


def test_revocations_are_named_by_a_rule_or_there_are_none():
    """Key by key, as everything else."""
    rules = parse('[[rule]]\nname = "r"\nmatch = { kind = "GPU" }\nrevocations = ["revoke-1"]\n')
    gpu, fpga = demands(rules, v.gpu(), v.NODE), demands(rules, v.fpga(), v.NODE)
    assert (('revoke-1',), 'r') == (gpu.revocations, gpu.revocations_rule)
    assert ((), DEFAULT_RULE) == (fpga.revocations, fpga.revocations_rule)


@pytest.mark.parametrize(
    ('text', 'line', 'says'),
    [
        ('[[rule]]\nfirmwar = { a = "1" }\n', 3, 'rule[0].firmwar: no such key (did you mean firmware?)'),
        ('[[rule]]\n[[rule]]\nmatch = { kid = "GPU" }\n', 4, 'rule[1].match.kid: no such key (did you mean kind?)'),
        ('[[rule]]\nmatch = { kind = "GPUS" }\n', 3, f"'GPUS' is none of {', '.join(Kind)} (did you mean GPU?)"),
        ('[[rule]]\nblock = ["host-devise"]\n', 3, 'did you mean host-device?'),
        ('[[rule]]\nblock = "host-device"\n', 3, 'rule[0].block: list of texts expected'),
        ('[[rule]]\naccept = []\n', 3, 'rule[0].accept: is empty'),
        ('[[rule]]\naccept = ["unlocked"]\n', 3, "'unlocked' is none of locked-verified, locked-reported"),
        ('[[rule]]\nname = "default"\n', 3, "'default' is reserved for the defaults"),
        ('[[rule]]\nname = "a"\n[[rule]]\nname = "a"\n', 5, "two rules are called 'a'"),
        ('[[rule]]\ncount = -1\n', 3, '-1 is less than 0'),
        ('[[rule]]\ncount = true\n', 3, 'whole number expected, a boolean found'),
        ('[[rule]]\nsecurity_floor = 1.5\n', 3, 'whole number expected, a number found'),
        ('[[rule]]\nfirmware = { a = 1 }\n', 3, 'table of texts expected'),
        ('[[rule]]\nname = ""\n', 3, 'text expected, empty text found'),
        ('[[rule]]\ndowngrade = "allow"\n', 3, 'a rule with firmware, whose versions it concerns'),
        ('[[rule]]\nfirmware = { a = "1" }\ndowngrade = true\n', 4, 'text expected, a boolean found'),
        ('[[rule]]\nfirmware = { a = "1" }\ndowngrade = "yes"\n', 4, "'yes' is none of refuse, allow"),
        ('[[rule]]\nrevocations = "revoke-1"\n', 3, 'list of texts expected'),
        ('[[rule]]\nmatch = { owner = 7 }\n', 3, 'text expected'),
        ('[rule]\nname = "a"\n', 2, 'tables [[rule]] expected'),
        ('[[rules]]\n', 2, 'rules: no such key (did you mean rule?)'),
        ('[[rule]]\nname = \n', 3, 'not valid TOML'),
    ],
)
def test_what_is_wrong_is_told_by_line(text, line, says):
    """File, line, place, and the nearest word where one was misspelt."""
    with pytest.raises(DocumentError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert line == caught.value.line
    assert str(caught.value).startswith(f'baseline.toml, line {line}: ')


def error(text: str) -> str:
    """What the reader of a wrong document is told."""
    with pytest.raises(DocumentError) as caught:
        baseline.parse(HEAD + text, 'b', now=datetime(2026, 11, 22, 12, 0, tzinfo=UTC))
    return str(caught.value)


NO_IDS = (
    'is neither a pair of vendor and device id like "0x10de:0x2330" nor a pattern that can match one: the rule would match no '
    'device'
)

NO_PATHS = (
    'paths must list the write paths that are waived (for example paths = ["host-bmc-ipmi"]; write paths are host-device, '
    'host-bmc-ipmi, host-bmc-redfish, bmc-network)'
)


@pytest.mark.parametrize(
    ('rule', 'line', 'says'),
    [
        ('name = "default"', 3, "name: 'default' is reserved for the defaults; choose another name"),
        ('name = "a"\n[[rule]]\nname = "a"', 5, "name: two rules are called 'a'"),
        ('accept = []', 3, 'accept: is empty: no lock state would be accepted'),
        ('count = 1\nmatch = { pci = "10de:2330" }', 4, f"match.pci: '10de:2330' {NO_IDS}"),
        ('count = 1\n[rule.match]\nkind = "GPU"\npci = "10de"', 6, f"match.pci: '10de' {NO_IDS}"),
        (
            'count = 1\n[rule.match]\nkind = "GPU"\ntraits = ["A", "b"]',
            6,
            "match.traits: 'b' is not a trait: capital letters, digits and underscores, no pattern: the rule would match no "
            'device',
        ),
        (
            'downgrade = "allow"',
            3,
            'downgrade: is only valid in a rule with firmware, whose versions it concerns',
        ),
        (
            'on_missing = "allow"',
            3,
            'on_missing: "allow" is no longer supported: an open path needs a responsible role and an expiry '
            '(remove the path from block, '
            'or write on_missing = "waive" and waiver = { role = "RESPONSIBLE ROLE", reason = "WHY", expires = 2027-01-31, '
            'paths = ["host-bmc-ipmi"] })',
        ),
        (
            'on_missing = "waive"',
            3,
            'on_missing: "waive" needs a waiver in the same rule (add waiver = { role = "RESPONSIBLE ROLE", reason = "WHY", '
            'expires = 2027-01-31, paths = ["host-bmc-ipmi"] })',
        ),
        (
            'waiver = { role = "w" }',
            3,
            'waiver: has no effect without on_missing = "waive" in the same rule (add that, or remove the waiver)',
        ),
        ('on_missing = "waive"\nwaiver = { role = "w" }', 4, f'waiver: {NO_PATHS}'),
        ('on_missing = "waive"\n[rule.waiver]\nrole = "w"\npaths = []', 6, f'waiver.paths: {NO_PATHS}'),
        (
            f'on_missing = "waive"\nwaiver = {{ paths = ["host-device"], role = "w", reason = "{"r" * 501}" }}',
            4,
            'waiver.reason: 501 characters are too many; at most 500 are allowed',
        ),
        (
            'on_missing = "waive"\nwaiver = { paths = ["host-device"], role = "w", reason = "r", expires = 2028-01-31 }',
            4,
            'waiver.expires: 2028-01-31 00:00:00 UTC is too far in the future '
            '(a waiver may last 366 days; renew it after a review)',
        ),
    ],
)
def test_what_is_wrong_is_said_word_by_word(rule, line, says):
    """Who wrote the document reads this sentence, and has to find the place and what to write there."""
    number = 1 if rule.count('[[rule]]') else 0
    assert f'b, line {line}: rule[{number}].{says}' == error(f'[[rule]]\n{rule}\n')


def test_every_key_of_a_rule_is_taken():
    """As it is written, and none for another."""
    text = f"""
[[rule]]
name = "all"
count = 8
security_floor = 4
firmware = {{ "GPU_*" = "2.0", "ROT_*" = "1.0" }}
downgrade = "allow"
revocations = ["revoke-1"]
functions = {{ "Slot0" = "gzip" }}
block = ["host-device", "bmc-network"]
accept = ["locked-reported"]
on_missing = "waive"
tenants_program = true
on_drift = ["notify", "maintenance"]
measure = "required"
custody = "evidenced"
[rule.match]
kind = "FPGA"
vendor = "Intel"
model = "Stratix*"
pci = "0x8086:*"
location = "Slot 3"
serial = "IN15*"
pci_address = "E3:00.0"
traits = ["CUSTOM_B", "CUSTOM_A"]
resource_class = "gold"
owner = "7f3a9c"
exposure = "service"
[rule.waiver]
role = "{'w' * 500}"
reason = "as agreed"
expires = 2027-01-31
paths = ["bmc-network"]
"""
    match = Match(
        kind=Kind.FPGA,
        vendor='Intel',
        model='Stratix*',
        pci='0x8086:*',
        location='Slot 3',
        serial='IN15*',
        pci_address='0000:e3:00.0',
        traits=frozenset({'CUSTOM_A', 'CUSTOM_B'}),
        resource_class='gold',
        owner='7f3a9c',
        exposure=Exposure.SERVICE,
    )
    rule = Rule(
        name='all',
        match=match,
        firmware=(('GPU_*', '2.0'), ('ROT_*', '1.0')),
        downgrade=Downgrade.ALLOW,
        revocations=('revoke-1',),
        functions=(('Slot0', 'gzip'),),
        block=frozenset({WritePath.HOST_DEVICE, WritePath.BMC_NETWORK}),
        accept=frozenset({LockState.LOCKED_REPORTED}),
        on_missing=OnMissing.WAIVE,
        waiver=Waiver(
            role='w' * 500,
            reason='as agreed',
            expires=datetime(2027, 1, 31, tzinfo=UTC),
            paths=frozenset({WritePath.BMC_NETWORK}),
        ),
        count=8,
        security_floor=4,
        tenants_program=True,
        on_drift=frozenset({DriftAction.NOTIFY, DriftAction.MAINTENANCE}),
        measure=Measure.REQUIRED,
        custody=CustodyDemand.EVIDENCED,
    )
    assert Baseline(rules=(rule, Rule(name='rule-2', match=Match()))) == parse(text + '[[rule]]\n')


def test_all_that_a_rule_says_is_demanded_in_its_name():
    """Key by key: a verdict names the rule that each demand is of."""
    said = {
        'firmware': (('GPU_*', '2.0'),),
        'functions': (('Slot0', 'gzip'),),
        'block': frozenset({WritePath.BMC_NETWORK}),
        'accept': frozenset({LockState.LOCKED_REPORTED}),
        'on_missing': OnMissing.WAIVE,
        'security_floor': 4,
        'revocations': ('revoke-1',),
        'tenants_program': True,
        'on_drift': frozenset({DriftAction.MAINTENANCE}),
        'measure': Measure.REQUIRED,
        'custody': CustodyDemand.REQUIRED,
    }
    rules = tuple(
        Rule(name=f'of {key}', match=Match(), waiver=v.waiver() if key == 'on_missing' else None, **{key: value})
        for key, value in said.items()
    )
    expected = Demands(
        **said, **{f'{key}_rule': f'of {key}' for key in said}, downgrade=False, waivers=(('of on_missing', v.waiver()),)
    )
    assert expected == demands(Baseline(rules=rules), v.gpu(), v.NODE)


WAIVING = """[[rule]]
name = "all"
on_missing = "waive"
%s
"""


@pytest.mark.parametrize(
    ('waiver', 'line', 'says'),
    [
        ('', 4, 'rule[0].on_missing: "waive" needs a waiver in the same rule (add waiver = { role = '),
        ('waiver = "me"', 5, 'rule[0].waiver: table expected, text found'),
        ('waiver = { reason = "r", expires = 2027-01-31, paths = ["host-device"] }', 5, 'rule[0].waiver: role is missing'),
        ('waiver = { role = "w", expires = 2027-01-31, paths = ["host-device"] }', 5, 'rule[0].waiver: reason is missing'),
        ('waiver = { role = "w", reason = "r", paths = ["host-device"] }', 5, 'rule[0].waiver: expires is missing'),
        ('waiver = { role = "w", reason = "r", expires = 2027-01-31 }', 5, 'rule[0].waiver: paths must list the write paths'),
        ('waiver = { role = "w", reason = "r", expires = 2027-01-31, paths = [] }', 5, 'rule[0].waiver.paths: paths must'),
        ('waiver = { role = "w", reason = "r", expires = 2027-01-31, paths = ["pcie"] }', 5, "'pcie' is none of host-device"),
        (
            'waiver = { role = " ", reason = "r", expires = 2027-01-31, paths = ["host-device"] }',
            5,
            'role: text expected, empty',
        ),
        (
            f'waiver = {{ role = "w", reason = "{"r" * 501}", expires = 2027-01-31, paths = ["host-device"] }}',
            5,
            'rule[0].waiver.reason: 501 characters are too many; at most 500 are allowed',
        ),
        (
            'waiver = { role = "w\\u0007", reason = "r", expires = 2027-01-31, paths = ["host-device"] }',
            5,
            'characters that cannot be printed',
        ),
        (
            'waiver = { role = "w", reason = "r", expires = "2027-01-31", paths = ["host-device"] }',
            5,
            'rule[0].waiver.expires: date expected, or date and time of UTC (write it without quotes, as 2027-01-31 (',
        ),
        ('waiver = { role = "w", reason = "r", expires = 2027-01-31T00:00:00, paths = ["host-device"] }', 5, 'time of UTC'),
        ('waiver = { role = "w", reason = "r", expires = true, paths = ["host-device"] }', 5, 'date expected'),
        (
            'waiver = { role = "w", reason = "r", expires = 2027-11-23T12:00:01Z, paths = ["host-device"] }',
            5,
            'rule[0].waiver.expires: 2027-11-23 12:00:01 UTC is too far in the future (a waiver may last 366 days',
        ),
        (
            'waiver = { role = "w", reason = "r", expires = 9999-12-31T23:59:59-12:00, paths = ["host-device"] }',
            5,
            'out of range',
        ),
        (
            'waiver = { role = "w", reason = "r", expires = 2027-01-31, path = ["host-device"] }',
            5,
            'rule[0].waiver.path: no such key (did you mean paths?)',
        ),
        ('waivers = { role = "w" }', 5, 'rule[0].waivers: no such key (did you mean waiver?)'),
        ('waiver = { role = "w", reason = "r", until = 2027-01-31, paths = ["host-device"] }', 5, 'expires is missing'),
        (
            'waiver = { role = "w", reason = "r", expires = 2027-01-31, paths = ["host-device"], for = 1 }',
            5,
            'rule[0].waiver.for: no such key',
        ),
        (
            '[rule.waiver]\nrole = "w"\nreason = "r"\nexpires = 2027-01-31\npaths = ["host-devise"]',
            9,
            'did you mean host-device?',
        ),
    ],
)
def test_a_waiver_says_who_why_until_when_and_of_what(waiver, line, says):
    """Else it is none, and the document is wrong: by line, with what to write."""
    with pytest.raises(DocumentError) as caught:
        baseline.parse(HEAD + WAIVING % waiver, 'baseline.toml', now=datetime(2026, 11, 22, 12, 0, tzinfo=UTC))
    assert says in str(caught.value)
    assert line == caught.value.line


def test_a_waiver_of_a_rule_that_misspells_on_missing_shows_that_line():
    """The waiver is not what is wrong."""
    text = HEAD + '[[rule]]\non_mising = "waive"\nwaiver = { role = "w" }\n'
    with pytest.raises(DocumentError, match=r'rule\[0\].on_mising: no such key \(did you mean on_missing\?\)') as caught:
        baseline.parse(text, 'baseline.toml')
    assert 3 == caught.value.line


def test_allow_is_no_more_and_the_error_says_what_to_write():
    """Nobody had to answer for it."""
    with pytest.raises(DocumentError, match='"allow" is no longer supported') as caught:
        parse('[[rule]]\non_missing = "allow"\n')
    assert 'write on_missing = "waive" and waiver = { role = ' in str(caught.value)
    assert 3 == caught.value.line
    # What it tells to write is taken.
    example = baseline._WAIVER
    assert OnMissing.WAIVE is parse(f'[[rule]]\non_missing = "waive"\n{example}\n').rules[0].on_missing


def test_a_waiver_alone_waives_nothing_and_is_no_baseline():
    """Whoever wrote it believes that it does."""
    with pytest.raises(DocumentError, match='has no effect without on_missing = "waive"') as caught:
        parse(f'[[rule]]\nname = "a"\n{baseline._WAIVER}\n')
    assert 4 == caught.value.line


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('2027-01-31', datetime(2027, 1, 31, tzinfo=UTC)),
        ('2027-01-31T18:00:00Z', datetime(2027, 1, 31, 18, tzinfo=UTC)),
        ('2027-01-31T18:00:00+02:00', datetime(2027, 1, 31, 16, tzinfo=UTC)),
        ('2020-01-01', datetime(2020, 1, 1, tzinfo=UTC)),
        ('2027-11-23T12:00:00Z', datetime(2027, 11, 23, 12, tzinfo=UTC)),
    ],
)
def test_a_date_ends_a_waiver_as_the_day_begins(text, expected):
    """One that has ended is no fault of the document: else all machines would stand still at that moment."""
    given = f'waiver = {{ role = "w", reason = "r", expires = {text}, paths = ["host-device"] }}'
    found = baseline.parse(HEAD + WAIVING % given, 'b', now=datetime(2026, 11, 22, 12, 0, tzinfo=UTC))
    assert expected == found.rules[0].waiver.expires


def test_the_rule_that_decides_what_is_missing_decides_its_waiver_too():
    """A waiver of a later rule, or of one for other devices, waives nothing; what was given for the node comes in addition."""
    first = Rule(name='first', match=Match(kind=Kind.GPU), on_missing=OnMissing.REFUSE)
    later = Rule(name='later', match=Match(), on_missing=OnMissing.WAIVE, waiver=v.waiver())
    assert () == demands(Baseline(rules=(first, later)), v.gpu(), v.NODE).waivers
    assert ['later'] == [name for name, _ in demands(Baseline(rules=(first, later)), v.fpga(), v.NODE).waivers]
    given = Rule(name='given', match=Match(ids=frozenset({v.GPU})), waiver=v.waiver(WritePath.BMC_NETWORK))
    both = Baseline(rules=(later,), granted=(given,))
    assert ['given', 'later'] == [name for name, _ in demands(both, v.gpu(), v.NODE).waivers]
    assert ['later'] == [name for name, _ in demands(both, v.fpga(), v.NODE).waivers]


@pytest.mark.parametrize('text', ['', 'format = 2\n', 'format = "1"\n'])
def test_another_format_is_refused(text):
    """A document of a later version is not half understood."""
    with pytest.raises(DocumentError, match='format'):
        baseline.parse(text, 'baseline.toml')


@pytest.mark.parametrize(
    'match',
    [
        'pci = "10de:2330"',
        'pci = "0x10de:0x233"',
        'pci = "0x10de"',
        'pci = "0x10dg:*"',
        'pci = "0x10de-0x2330"',
        'pci = "*:2330"',
        'pci = "0x10de:0x23[xyz]0"',
        'pci = "0x10de:0x2330*0"',
        'pci = "*:*:*"',
        'traits = ["custom_a"]',
        'traits = ["CUSTOM_A", "CUSTOM_*"]',
        'traits = ["CUSTOM-A"]',
    ],
)
def test_a_match_that_could_be_for_no_device_is_no_baseline(match):
    """It would demand nothing of the very devices that its author meant, and nobody would notice."""
    with pytest.raises(DocumentError, match='would match no device') as caught:
        parse(f'[[rule]]\nmatch = {{ {match} }}\nfirmware = {{ "GPU_*" = "9" }}\n')
    assert 3 == caught.value.line


@pytest.mark.parametrize(
    'pci', ['0x10de:0x2330', '0X10DE:0X2330', '0x10de:*', '*', '*:*', '0x10de*', '*2330', '0x????:0x23[23]?', '[!a]*', '*0x*']
)
def test_patterns_that_some_pair_of_ids_matches_are_taken(pci):
    """They match those of the GPU as well."""
    (rule,) = parse(f'[[rule]]\nmatch = {{ pci = "{pci}" }}\nfirmware = {{ "GPU_*" = "9" }}\n').rules
    assert rule.match.device(v.gpu(), v.NODE)


def test_rules_that_are_idle_here_are_known():
    """Those for machines like this one, and surely for none of its devices; where the BMC hides what is asked, nobody knows."""
    rules = parse("""
[[rule]]
name = "other-kind"
match = { kind = "NIC" }
security_floor = 1
[[rule]]
name = "misspelt"
match = { vendor = "NVDIA" }
security_floor = 1
[[rule]]
name = "other-machines"
match = { kind = "NIC", resource_class = "silver" }
security_floor = 1
[[rule]]
name = "counted"
match = { kind = "NIC" }
count = 0
[[rule]]
name = "matches"
match = { kind = "GPU" }
security_floor = 1
""")
    assert ('other-kind', 'misspelt') == device_demands.idle(rules, (v.gpu(), v.fpga()), v.NODE)
    assert ('other-kind',) == device_demands.idle(rules, (v.gpu(vendor=None),), v.NODE)
