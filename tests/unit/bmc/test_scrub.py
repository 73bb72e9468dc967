# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What identifies is replaced wherever it stands, alike where it is alike, and nothing else is touched."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc.redfish.own_credentials import SECRET, Own
from baremetal_acc.bmc.redfish.scrub import LONGEST_TEXT, Scrubber
from baremetal_acc.bmc.redfish.scrub_patterns import trie_pattern
from baremetal_acc.bmc.redfish.scrubbed_kinds import DEEPEST

KEY = b'a key of these tests'


def scrubbed(body: Any, *, own: Own | None = None, key: bytes = KEY) -> Any:
    """A body after both passes."""
    scrubber = Scrubber(key, own)
    scrubber.learn(body)
    return scrubber.body(body)


@pytest.mark.parametrize(
    ('name', 'value', 'shape'),
    [
        ('SerialNumber', 'MT2242X0AB12', r'[A-Z]{2}\d{4}[A-Z]\d[A-Z]{2}\d{2}'),
        ('ServiceTag', 'w07n0p1', r'[a-z]\d{2}[a-z]\d[a-z]\d'),
        ('UUID', 'B4D6525A-79D6-CFB8-143F-41B286E76A84', r'[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}'),
        ('NodeGUID', '02b3:a803:0029:6e68', r'[0-9a-f]{4}(:[0-9a-f]{4}){3}'),
        ('BaseGUID', '0x02cf1c03006083f9', r'0x[0-9a-f]{16}'),
        ('MACAddress', 'B8:3F:D2:AB:CD:EF', r'02(:[0-9A-F]{2}){5}'),
        ('PermanentMACAddress', 'b8-3f-d2-ab-cd-ef', r'02(-[0-9a-f]{2}){5}'),
        ('WWPN', '20:00:00:25:b5:aa:00:0f', r'[0-9a-f]{2}(:[0-9a-f]{2}){7}'),
        ('DurableName', '5000c500a1b2c3d4', r'[0-9a-f]{16}'),
        ('AssetTag', 'Rack-12/Unit 7', r'[A-Z][a-z]{3}-\d{2}/[A-Z][a-z]{3} \d'),
        ('HostName', 'node17', r'[a-z]{4}\d{2}'),
        ('FQDN', 'node17.corp.local', r'[a-z]{4}\d{2}\.[a-z]{4}\.local'),
        ('UserName', 'jdoe', r'[a-z]{4}'),
        ('Address', '10.20.30.40', r'(192\.0\.2|198\.51\.100|203\.0\.113)\.\d{1,3}'),
        ('Address', '2a00:1450:4001::200e', r'2001:db8:.*'),
        ('Address', 'fe80::ba3f:d2ff:feab:cdef', r'fe80::.*'),
        ('Fingerprint', 'AA:BB:CC:DD:EE:FF:00:11:22:33', r'[0-9A-F]{2}(:[0-9A-F]{2}){9}'),
        ('HashValue', '358e18e61df6244359d44614cb6b5cc9', r'[0-9a-f]{32}'),
        ('SessionId', 'a1b2c3d4e5', r'[a-z]\d[a-z]\d[a-z]\d[a-z]\d[a-z]\d'),
        ('LicenseKey', '35DPH-SVSXJ-HGBJN', r'\d{2}[A-Z]{3}-[A-Z]{5}-[A-Z]{5}'),
        ('Password', 'hunter2', SECRET),
        ('Users.3.SHA256Password', '6A3F', SECRET),
        ('SNMP.1.AgentCommunity', 'public', SECRET),
        ('IPMIKey', '0011223344', SECRET),
        ('SSHHostKey', 'abc', SECRET),
        ('AlertMailEmail', 'joe@corp.example', r'[a-z]{3}@[a-z]{4}\.[a-z]{7}'),
    ],
)
def test_a_property_tells_what_its_value_is(name, value, shape):
    """The value becomes another one of the same shape."""
    made = scrubbed({name: value})[name]
    assert value != made
    assert re.fullmatch(shape, made)


@pytest.mark.parametrize(
    'body',
    [
        {'SerialNumber': 'N/A'},
        {'SerialNumber': '0000000000'},
        {'SerialNumber': ''},
        {'SerialNumber': None},
        {'UUID': '00000000-0000-0000-0000-000000000000'},
        {'UUID': 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'},
        {'MACAddress': '00:00:00:00:00:00'},
        {'AssetTag': 'To be filled by O.E.M.'},
        {'HostName': 'localhost'},
        {'Address': '0.0.0.0', 'SubnetMask': '255.255.255.0', 'Gateway': '127.0.0.1'},
        {'Other': '169.254.3.1', 'Group': '239.1.1.1'},
        {'IPv6': ['::', '::1', 'ff02::1']},
        {'Password': ''},
        {'Password': None},
        {'BaseHash': 'TPM_ALG_SHA_512'},
        {'Version': '10.20.30.40', 'FirmwareVersion': '96.00.74.00.0D'},
        {'SoftwareId': '3a2f9e1c-0b11-4c2d-9a55-aabbccddeeff', 'VendorId': '0x10DE', 'ClassCode': '0x030200'},
        {'Address': '0000:3b:00.0', 'Slot': '65:00:00'},
        {'DateTime': '2026-11-21T10:20:30+00:00', '@odata.type': '#Processor.v1_20_0.Processor'},
        {'Model': 'NVIDIA H100 80GB HBM3', 'PartNumber': '900-21010-0000-000', 'Manufacturer': 'NVIDIA'},
        {'@odata.id': '/redfish/v1/Systems/System.Embedded.1/Processors/Video.Slot.7-1#/FPGA/ReconfigurationSlots/0'},
        {'$schema': 'https://redfish.dmtf.org/schemas/v1/Chassis.json'},
        {'Password@Redfish.AllowableValues': ['Set'], 'PasswordMinLength': 8, 'UserPowerCap': True},
    ],
)  # fmt: skip
def test_what_identifies_nothing_stays(body):
    """Sentinels, constants, versions and the numbers of products."""
    assert body == scrubbed(body)


def test_equal_stays_equal_and_different_stays_different_wherever_it_stands():
    """In its own place, padded, in another case, in URIs, Ids, names of properties and longer texts."""
    made = scrubbed({
        'SerialNumber': 'MT2242X0AB12   ',
        'Other': {'SerialNumber': 'MT2242X0AB13'},
        '@odata.id': '/redfish/v1/Chassis/Card_MT2242X0AB12/Assembly',
        'Description': 'card mt2242x0ab12 (MT2242X0AB12)',
        'Slots': {'Slot_MT2242X0AB12': 1},
        'MACAddress': 'B8:3F:D2:AB:CD:EF',
        'DevicePath': 'PciRoot(0x0)/MAC(B83FD2ABCDEF,0x1)',
        'Name': 'enp1s0-b8-3f-d2-ab-cd-ef',
        'Encoded': '/redfish/v1/Things/B8%3A3F%3Ad2%3AAB%3ACD%3AEF',
    })  # fmt: skip
    serial = made['SerialNumber'].strip()
    assert f'{serial}   ' == made['SerialNumber']
    assert serial != made['Other']['SerialNumber']
    assert f'/redfish/v1/Chassis/Card_{serial}/Assembly' == made['@odata.id']
    assert f'card {serial.lower()} ({serial})' == made['Description']
    assert {f'Slot_{serial}': 1} == made['Slots']
    digits = made['MACAddress'].replace(':', '')
    assert f'PciRoot(0x0)/MAC({digits},0x1)' == made['DevicePath']
    assert digits.lower() == made['Name'].removeprefix('enp1s0-').replace('-', '')
    assert digits.lower() == made['Encoded'].rpartition('/')[2].replace(':', '').lower()


@pytest.mark.parametrize('around', ['mac:{}', 'MAC-{}-f', '({})', 'eth0-{}', '_{}_', '/{}/', 'a{}', '"{}",', '{}:80', '{}.'])
@pytest.mark.parametrize(
    'value', ['b8:3f:d2:ab:cd:ef', 'b4d6525a-79d6-cfb8-143f-41b286e76a84', '10.1.2.3', '02b3:a803:0029:6e68']
)
def test_no_neighbour_hides_a_form(around, value):
    """Whatever stands before and after it, but for what would make it another form."""
    text = around.format(value)
    if text[1:] != value or value[0] == '1':
        assert value not in scrubbed({'Text': text})['Text']


def test_a_uuid_is_one_in_all_its_forms():
    """With marks, without, in capitals, behind a prefix."""
    made = scrubbed({
        'UUID': 'b4d6525a-79d6-cfb8-143f-41b286e76a84',
        'Id': 'GPU_B4D6525A79D6CFB8143F41B286E76A84',
        'Text': 'GPU-b4d6525a-79d6-cfb8-143f-41b286e76a84 it is',
    })  # fmt: skip
    assert f'GPU_{made["UUID"].replace("-", "").upper()}' == made['Id']
    assert f'GPU-{made["UUID"]} it is' == made['Text']


def test_free_text_is_searched_for_telling_forms():
    """Addresses, mail, links with a login, certificates, tokens, hosts that some property names, with an unknown domain."""
    secrets = ('joe@', 'corp.example', 'u:pw@', 'bmc7', '10.1.2', '2a00:1', 'node17', 'lab.corp', 'MIIB', 'eyJh', 'AAAAB3')
    note = (
        'ask joe@corp.example, https://u:pw@bmc7.corp.example:8443/x, 10.1.2.3, [2a00:1:2::7], node17.lab.corp, '
        '-----BEGIN CERTIFICATE-----\nMIIBIjAN\n-----END CERTIFICATE-----, eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln, '
        'ssh-rsa AAAAB3NzaC1yc2EAAAA=='
    )
    made = scrubbed({'HostName': 'node17', 'Note': note})
    assert [] == [s for s in secrets if s in made['Note']]
    assert ':8443/x' in made['Note']


def test_a_pair_of_name_and_value_tells_too():
    """As in tables of vital product data."""
    made = scrubbed({'Data': [{'Name': 'SerialNumber', 'Value': 'ABC1234567'}, {'Name': 'Width', 'Value': 'x16'}]})
    assert 'ABC1234567' != made['Data'][0]['Value']
    assert 'x16' == made['Data'][1]['Value']


def test_numbers_are_replaced_as_texts_are():
    """A serial number may be a number, and stand elsewhere as text."""
    made = scrubbed({'SerialNumber': 12345678, 'Description': 'number 12345678', 'Count': 12345678})
    assert 12345678 != made['SerialNumber']
    assert f'number {made["SerialNumber"]}' == made['Description']
    assert 12345678 == made['Count']


def test_where_a_machine_stands_is_not_told():
    """All texts below a postal address, and the coordinates."""
    place = {
        'PostalAddress': {'City': 'Portland', 'Street': {'Name': 'Main'}},
        'Latitude': 45.5,
        'PartLocation': {'ServiceLabel': 'PCIe 7'},
    }
    made = scrubbed({'Location': place, 'Description': 'in Portland'})
    assert 'Portland' not in json.dumps(made)
    assert 0.0 == made['Location']['Latitude']
    assert 'PCIe 7' == made['Location']['PartLocation']['ServiceLabel']


def test_a_tag_is_told_from_the_number_of_a_product():
    """SKU is the service tag on some machines, a product's number on others, and a serial number on yet others."""
    made = scrubbed({'A': {'SKU': 'W07N0P1'}, 'B': {'SKU': '02YE083', 'PartNumber': '02YE083'}, 'C': {'SKU': 'P47952-001'}})
    assert 'W07N0P1' != made['A']['SKU']
    assert ('02YE083', 'P47952-001') == (made['B']['SKU'], made['C']['SKU'])
    made = scrubbed({'SerialNumber': '321434WDY19H', 'SKU': '321434WDY19H'})
    assert made['SerialNumber'] == made['SKU'] != '321434WDY19H'


def test_a_learned_number_is_replaced_where_its_form_alone_would_stay():
    """In a version and in a register too, with 0x before it and without."""
    made = scrubbed(
        {'BaseGUID': '00000002036B0241', 'Version': '0x00000002036B0241', 'IdentificationRegisters': '00000002036b0241'}
    )
    digits = made['BaseGUID']
    assert digits != '00000002036B0241'
    assert (f'0x{digits}', digits.lower()) == (made['Version'], made['IdentificationRegisters'])


def test_another_key_gives_other_values_and_the_same_key_the_same():
    """So two recordings agree only for who has the key file."""
    body = {'SerialNumber': 'MT2242X0AB12', 'UUID': 'b4d6525a-79d6-cfb8-143f-41b286e76a84', 'Address': '10.1.2.3'}
    assert scrubbed(body) == scrubbed(body)
    other = scrubbed(body, key=b'another')
    assert {} == {k: v for k, v in scrubbed(body).items() if other[k] == v}


def test_our_own_credentials_go_wherever_they_stand():
    """User name as a word, password and token anywhere, both encoded as Basic authentication does."""
    own = Own('operator7', 'S3cret!pw', lambda text: text.replace('t0ken', '***'))
    body = {
        'A': 'by operator7',
        'B': 'xS3cret!pwx',
        'C': 'is t0ken',
        'D': 'Basic b3BlcmF0b3I3OlMzY3JldCFwdw==',
        'E': {'operator7': 1},
        'F': 'operator77',
    }
    made = json.dumps(scrubbed(body, own=own))
    assert None is own.stands_in(made)
    assert 'operator77' in made
    for name, value in body.items():
        assert (name == 'F') == (own.stands_in(json.dumps(value)) is None), name


def test_a_word_of_the_standard_is_told_apart():
    """Whoever is called like a property cannot be replaced everywhere."""
    scrubber = Scrubber(KEY, Own('Members', None))
    scrubber.learn({'Members': [], 'HostName': 'Members', 'members': 1})
    assert scrubber.is_property('Members')
    assert not scrubber.is_property('members')
    assert {'Members': []} == scrubber.body({'Members': []})


def test_too_deep_a_body_is_refused():
    """Before the stack ends."""
    body: Any = 'x'
    for _ in range(DEEPEST + 2):
        body = {'a': [body]}
    with pytest.raises(ValueError, match='nested'):
        Scrubber(KEY).learn(body)
    with pytest.raises(ValueError, match='nested'):
        Scrubber(KEY).body(body)


def test_a_text_that_nobody_looks_through_goes_as_a_whole():
    """So that no text of a BMC makes the search endless."""
    made = scrubbed({'Text': 'x' * (LONGEST_TEXT + 1), 'SerialNumber': 'x' * (LONGEST_TEXT + 1), 'Other': 'x' * LONGEST_TEXT})
    assert (SECRET, SECRET, 'x' * LONGEST_TEXT) == (made['Text'], made['SerialNumber'], made['Other'])


def test_what_was_replaced_is_counted_by_kind():
    """Each value once."""
    scrubber = Scrubber(KEY)
    body = {'SerialNumber': 'MT2242X0AB12', 'Again': 'MT2242X0AB12', 'MACAddress': ['b8:3f:d2:ab:cd:ef', 'b8:3f:d2:ab:cd:ee']}
    scrubber.learn(body)
    scrubber.body(body)
    assert {'serial': 1, 'mac': 2} == scrubber.counts


def test_a_leak_is_seen():
    """A longer value that was learned, in any text."""
    scrubber = Scrubber(KEY)
    scrubber.learn({'SerialNumber': 'MT2242X0AB12'})
    assert not scrubber.leaks(json.dumps(scrubber.body({'SerialNumber': 'MT2242X0AB12'})))
    assert scrubber.leaks('xmt2242x0ab12x')


VALUES = st.text('ABCDEF0123456789xyz-', min_size=8, max_size=20).filter(lambda v: sum(c.isdigit() for c in v) > 2)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(VALUES, min_size=1, max_size=20, unique_by=str.lower), st.text(max_size=30))
def test_no_learned_serial_number_survives(values, glue):
    """Whatever the values are, and whatever stands between them."""
    scrubber = Scrubber(KEY)
    body = {'All': [{'SerialNumber': v} for v in values], 'Text': glue.join(values), 'Keys': {f'a_{v}_b': 1 for v in values}}
    scrubber.learn(body)
    made = scrubber.body(body)
    new = [item['SerialNumber'] for item in made['All']]
    assert len(set(new)) == len(set(values))
    assert [len(v) for v in values] == [len(v) for v in new]
    assert not scrubber.leaks(json.dumps(made, ensure_ascii=False))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.text('ab1.-', min_size=1, max_size=6), min_size=1, max_size=15))
def test_the_pattern_of_many_values_finds_each_of_them(values):
    """The longest that fits, and nothing else."""
    pattern = re.compile(trie_pattern(values))
    for value in values:
        assert pattern.fullmatch(value)
    assert not pattern.fullmatch('c')


NAMES = st.text() | st.sampled_from(['SerialNumber', 'Password', 'HostName', 'Contacts', 'Name', 'Value', '@odata.id'])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)))
def test_no_body_breaks_it(body):
    """Whatever JSON a BMC sends, the result is JSON of the same build."""
    made = scrubbed(body)
    assert type(body) is type(made)
