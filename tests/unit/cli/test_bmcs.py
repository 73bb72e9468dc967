# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""bmcs.yaml: what it says is understood, what is wrong is told by line, and no password gets out."""

import argparse
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.bmc.address import check_address
from baremetal_acc.bmc.driver import Setting
from baremetal_acc.cli import bmc_passwords, bmcs, session
from baremetal_acc.cli.target_entry import TargetSource
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.policy.baseline_rules import Exposure

SECRET = 'hunter2hunter2'

FULL = """\
format: 1
targets:
  node-1:
    resource_class: gold
    traits: [CUSTOM_A, CUSTOM_B]
    exposure: service
    node: 2F1C7D1E-6A3B-4D0E-9F7C-0D8B8D1F9A55
    bmcs:
      host:
        address: https://192.0.2.1/
        username: admin
        password: "hunter2hunter2"
        verify_ca: ca.pem
        system: /redfish/v1/Systems/1
        parallel_updates: 2
      dpu: {address: "https://192.0.2.2:8443", username: root, password_env: DPU_PW, verify_ca: false}
"""


def parse(text: str):
    return bmcs.parse(text, '/etc/x/bmcs.yaml')


def test_every_key_is_understood():
    """Paths are relative to the file, a UUID gets its usual form, and an address has no slash at its end."""
    (target,), line = parse(FULL)
    assert 12 == line
    assert ('node-1', 'gold', Exposure.SERVICE) == (target.name, target.resource_class, target.exposure)
    assert {'CUSTOM_A', 'CUSTOM_B'} == target.traits
    assert '2f1c7d1e-6a3b-4d0e-9f7c-0d8b8d1f9a55' == target.node
    host, dpu = target.bmcs
    assert ('host', 'https://192.0.2.1', 'admin', '/etc/x/ca.pem', '/redfish/v1/Systems/1', 2) == (
        host.name,
        host.address,
        host.username,
        host.verify_ca,
        host.system,
        host.parallel_updates,
    )
    assert (TargetSource.LITERAL, SECRET) == (host.secret.source, host.secret.text)
    assert (TargetSource.ENVIRONMENT, 'DPU_PW', False) == (dpu.secret.source, dpu.secret.text, dpu.verify_ca)


def test_a_driver_info_of_ironic_can_be_copied():
    """redfish_* is the host's BMC, acc_bmcs are the others: the same target as by bmcs."""
    text = """\
format: 1
targets:
  node-1:
    redfish_address: https://192.0.2.1
    redfish_username: admin
    redfish_password: hunter2hunter2
    redfish_system_id: /redfish/v1/Systems/1
    redfish_verify_ca: true
    acc_exposure: none
    acc_bmcs: {dpu: {address: "https://192.0.2.2", username: root, password: hunter2hunter2}}
"""
    (target,), line = parse(text)
    assert 6 == line
    assert Exposure.NONE is target.exposure
    assert ['host', 'dpu'] == [b.name for b in target.bmcs]
    assert ['/redfish/v1/Systems/1', None] == [b.system for b in target.bmcs]


IPMI = """\
format: 1
targets:
  node-1:
    ipmi_address: 192.0.2.1
    ipmi_port: 6230
    ipmi_username: admin
    ipmi_password: hunter2hunter2
    ipmi_cipher_suite: 3
    ipmi_hex_kg_key: 00112233445566778899aabbccddeeff00112233
  node-2:
    bmcs:
      host: {address: "ipmi://[2001:db8::1]", username: admin, password: hunter2hunter2}
      dpu: {address: "https://192.0.2.9", username: admin, password: hunter2hunter2}
      other: {username: admin, address: "ipmi://192.0.2.8", password: hunter2hunter2, secret_hex_kg_key: "0b"}
"""


def test_a_driver_info_for_ipmi_can_be_copied_too():
    """ipmi_* is the host's BMC; numbers may be texts, as Ironic takes them; the key is nowhere to be seen."""
    for text in (IPMI, IPMI.replace('6230', '"6230"').replace('suite: 3', 'suite: "3"')):
        (one, two), line = parse(text)
        assert 7 == line, 'the first secret: others may not read the file'
        (host,) = one.bmcs
        assert ('host', 'ipmi://192.0.2.1:6230', 'admin', 3) == (host.name, host.address, host.username, host.cipher_suite)
        assert bytes.fromhex('00112233445566778899aabbccddeeff00112233') == host.key
        (address,) = bmc_passwords.resolve(one, {}, None)
        assert (host.key, 3, 'hunter2hunter2') == (address.key, address.cipher_suite, address.password)
        assert [('ipmi://[2001:db8::1]', 17, None), ('https://192.0.2.9', 17, None), ('ipmi://192.0.2.8', 17, b'\x0b')] == [
            (b.address, b.cipher_suite, b.key) for b in two.bmcs
        ]
        for shown in (repr(one), repr(address)):
            assert 'hunter2' not in shown
            assert repr(host.key) not in shown
        assert 'ipmi_hex_kg_key in /etc/x/bmcs.yaml' == address.set_by[Setting.KEY]
        (_, dpu, other) = bmc_passwords.resolve(two, {}, None)
        assert 'verify_ca in /etc/x/bmcs.yaml' == dpu.set_by[Setting.VERIFY_CA]
        assert 'cipher_suite in /etc/x/bmcs.yaml' == other.set_by[Setting.CIPHER_SUITE]
    named = parse(IPMI.replace('192.0.2.1', '"2001:db8::2"'))[0][0].bmcs[0]
    assert 'ipmi://[2001:db8::2]:6230' == named.address


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'says'),
    [
        ('suite: 3', 'suite: 2', 8, 'cipher suite 2 is too weak or unknown (use 17, or 3 if the BMC supports nothing better)'),
        ('suite: 3', 'suite: many', 8, 'ipmi_cipher_suite: whole number expected, text found'),
        ('00112233445566778899aabbccddeeff00112233', '"0x12"', 9, 'an even number of hexadecimal digits expected'),
        ('ipmi_address: 192.0.2.1', 'ipmi_address: ipmi://192.0.2.1', 5, 'must not be set where ipmi_address is a URL'),
        ('ipmi_port: 6230', 'redfish_address: https://192.0.2.1', 4, 'redfish_address is set as well: the BMC of the host'),
        (
            'ipmi_address: 192.0.2.1\n    ipmi_port: 6230',
            'ipmi_address: https://192.0.2.1',
            4,
            'a Redfish address belongs in redfish_address',
        ),
        (
            '{address: "ipmi://',
            '{cipher_suite: 3, verify_ca: x, address: "ipmi://',
            12,
            'verify_ca: does not apply to a BMC that is used over IPMI',
        ),
        (
            '{address: "https://192',
            '{cipher_suite: 3, address: "https://192',
            13,
            'cipher_suite: does not apply to a BMC that is used over Redfish',
        ),
        ('ipmi_port: 6230', 'ipmi_port: 70000', 5, 'ipmi_port: 70000 is not a port: a number from 1 to 65535 expected'),
        ('192.0.2.8', '192.0.2.8:70000', 14, 'address: has an invalid port: a number from 1 to 65535 expected'),
        ('secret_hex', 'hex', 14, 'hex_kg_key: no such key (did you mean secret_hex_kg_key?)'),
        ('"https://192.0.2.9"', '"ipmi://192.0.2.1:6230"', 10, 'is also a BMC of target node-1'),
        ('"https://192.0.2.9"', '"ipmi://[::ffff:192.0.2.1]:6230"', 10, 'is also a BMC of target node-1'),
    ],
)
def test_what_is_wrong_with_ipmi_is_told_by_line(old, new, line, says):
    """Never the password, and never the key."""
    assert 1 == IPMI.count(old)
    with pytest.raises(DocumentError) as caught:
        parse(IPMI.replace(old, new))
    assert line == caught.value.line
    assert says in str(caught.value)
    assert 'hunter2' not in str(caught.value)


def test_redfish_address_is_not_for_ipmi():
    """Which keys there are depends on it."""
    with pytest.raises(DocumentError, match='an IPMI address belongs in ipmi_address'):
        parse('format: 1\ntargets: {a: {redfish_address: "ipmi://192.0.2.1"}}')


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'says'),
    [
        ('username: admin', 'user_name: admin', 11, 'targets.node-1.bmcs.host.user_name: no such key (did you mean username?)'),
        ('username: admin', 'colour: red', 11, 'host.colour: no such key (the keys are address, username, password, '),
        ('targets:', 'tagets:', 2, 'tagets: no such key (did you mean targets?)'),
        ('exposure: service', 'exposure: servce', 6, "'servce' is none of tenant, service, none (did you mean service?)"),
        ('format: 1', 'format: 2', 1, 'format: 1 expected, 2 found'),
        ('format: 1', 'targets: {}', 2, 'targets: occurs twice, first in line 1'),
        ('        system: /', '        username: /', 14, 'username: occurs twice, first in line 11'),
        ('address: https://192.0.2.1/', 'address: 192.0.2.1', 10, 'is not a URL such as https://192.0.2.1'),
        ('https://192.0.2.1/', 'https://admin:hunter2hunter2@192.0.2.1/', 10, 'contains credentials'),
        ('parallel_updates: 2', 'parallel_updates: many', 15, 'whole number expected, text found'),
        ('password: "hunter2hunter2"', 'password: 12345678', 12, 'text expected, a number or a date found (put it in quotes)'),
        ('password: "hunter2hunter2"', 'password: *hunter2hunter2', 12, 'special character in quotes'),
        ('        system:', '        password_env: X\n        system:', 14, 'password_env: password is set as well'),
        ('[CUSTOM_A, CUSTOM_B]', '{a: b}', 5, 'list of texts expected'),
        ('node-1:', '"../x":', 3, "'../x' is not a valid name"),
        ('    bmcs:', '    redfish_address: https://192.0.2.9\n    bmcs:', 8, 'the BMCs are already listed under bmcs'),
        ('2F1C7D1E-6A3B-4D0E-9F7C-0D8B8D1F9A55', 'abc', 7, "'abc' is not a UUID"),
        ('dpu: {address: "https://192.0.2.2:8443", ', 'dpu: {', 16, 'address is missing'),
        ('  node-1:', '\tnode-1:', 3, 'not valid YAML'),
    ],
)
def test_what_is_wrong_is_told_by_line(old, new, line, says):
    """File, line, place and what to do; never the password."""
    assert 1 == FULL.count(old)
    with pytest.raises(DocumentError) as caught:
        parse(FULL.replace(old, new))
    assert line == caught.value.line
    assert says in str(caught.value)
    assert str(caught.value).startswith(f'/etc/x/bmcs.yaml, line {line}: ')
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    'more',
    [
        'ipmi_priv_level: ADMINISTRATOR',
        'ipmi_protocol_version: 2.0',
        'ipmi_protocol_version: "2.0"',
        'ipmi_bridging: no',
        'ipmi_bridging: "no"',
        'ipmi_local_address: "0x20"',
        'ipmi_force_boot_device: true',
        'ipmi_disable_boot_timeout: false',
        'ipmi_terminal_port: 10000',
    ],
)
def test_what_ironic_has_for_ipmi_can_be_copied_to_the_letter(more):
    """What it says is what is done anyway, or is of booting and consoles; it was no such key."""
    assert parse(IPMI)[0] == parse(IPMI.replace('    ipmi_port: 6230\n', f'    ipmi_port: 6230\n    {more}\n'))[0]


@pytest.mark.parametrize('more', ['redfish_auth_type: session', 'redfish_auth_type: basic', 'redfish_tls_minimum_version: 1.2'])
def test_what_ironic_has_for_redfish_can_be_copied_to_the_letter(more):
    """We log in by a session where there are some, and speak TLS 1.2 at least."""
    text = 'format: 1\ntargets:\n  a:\n    redfish_address: https://192.0.2.1\n'
    assert parse(text) == parse(f'{text}    {more}\n')


@pytest.mark.parametrize(
    ('more', 'says'),
    [
        (
            'ipmi_priv_level: OPERATOR',
            "is 'OPERATOR'; it must be ADMINISTRATOR, or left out: it is needed to write firmware and locks",
        ),
        ('ipmi_priv_level: administrator', "is 'administrator'; it must be ADMINISTRATOR"),
        ('ipmi_protocol_version: 1.5', "is '1.5'; it must be 2.0, or left out: IPMI 1.5 encrypts nothing"),
        ('ipmi_bridging: single', 'a BMC behind another BMC is not supported'),
        ('ipmi_bridging: dual', "is 'dual'; it must be no, or left out"),
        ('ipmi_bridging: [no]', 'one word expected, a list found'),
        ('ipmi_priv_level:', 'one word expected, nothing found'),
        ('redfish_auth_type: none', "is 'none'; it must be auto or session or basic, or left out"),
        (
            'redfish_tls_minimum_version: 1.3',
            "is '1.3'; it must be 1.1 or 1.2, or left out: baremetal-acc requires TLS 1.2",
        ),
        ('redfish_tls_ciphers: HIGH', 'no such key'),
    ],
)
def test_what_ironic_has_and_is_not_done_is_refused_with_its_reason(more, says):
    """As by an Ironic node, and not as a key that there is not."""
    kind = 'redfish' if more.startswith('redfish') else 'ipmi'
    address = 'https://192.0.2.1' if kind == 'redfish' else '192.0.2.1'
    with pytest.raises(DocumentError) as caught:
        parse(f'format: 1\ntargets:\n  a:\n    {kind}_address: {address}\n    {more}\n')
    assert 5 == caught.value.line
    assert f'targets.a.{more.partition(":")[0]}: ' in str(caught.value)
    assert says in str(caught.value)


def test_one_bmc_by_two_spellings_is_told_without_looking_up_names():
    """Who lists localhost and 127.0.0.1 means one machine; two jobs would write to its cards."""
    target = '{bmcs: {host: {address: "ipmi://%s:8460", username: admin}}}'
    with pytest.raises(
        DocumentError, match=r'4: target b: its BMC host \(ipmi://127\.0\.0\.1:8460\) is also a BMC of target a'
    ):
        parse(f'format: 1\ntargets:\n  a: {target % "localhost"}\n  b: {target % "127.0.0.1"}\n')


@pytest.mark.parametrize(
    ('text', 'says'),
    [
        ('', 'is empty'),
        ('- a\n', 'mapping expected, a list found'),
        ('format: 1\ntargets: {}\n', 'names no target'),
        ('format: 1\ntargets: {a: {}}\n', 'names no BMC (list them under bmcs'),
        ('[' * 5000, 'nest'),  # libyaml may notice it first: exceeded maximum nesting depth
        ('[' * 2_000_000, 'nest'),
        ('- ' * 5000, 'nested too deeply'),
        ('format: 1\ntargets: &a {a: *a}\n', 'no such key'),
        ('format: \ud800', 'a character that YAML does not allow'),
        ('format: 1\n---\nformat: 1\n', 'not valid YAML'),
    ],
)
def test_what_is_no_list_of_targets_is_refused(text, says):
    """Also what would break a parser that trusts its input."""
    with pytest.raises(DocumentError, match=r'bmcs\.yaml') as caught:
        parse(text)
    assert says in str(caught.value)


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text):
    """Nothing but a DocumentError comes out of a text that is no list of BMCs."""
    check_or_refused(text)


def check_or_refused(text):
    """What comes out is whole: targets that could be connected to, or an error of one printable line that says where."""
    try:
        targets, _ = parse(text)
    except DocumentError as exc:
        told, targets = exc, None
    if targets is None:
        assert told.message.startswith(told.path)
        assert told.message.isprintable()
        assert len(told.message) < 1000
        return
    assert targets
    assert len(targets) == len({target.name for target in targets})
    for target in targets:
        assert target.bmcs
        assert len(target.bmcs) == len({bmc.name for bmc in target.bmcs})
        assert [None] * len(target.bmcs) == [check_address(bmc.address) for bmc in target.bmcs]
        assert all(bmc.parallel_updates is None or bmc.parallel_updates > 0 for bmc in target.bmcs)


def test_what_a_terminal_would_obey_is_written_as_an_escape():
    """A list may come from somebody else, and its keys are repeated in errors."""
    with pytest.raises(DocumentError) as caught:
        parse('format: 1\n"\\e[2Jgone": 1\n')
    assert 'line 2: \\x1b[2Jgone' in caught.value.message


LINES = """\
{"target": "node-1", "exposure": "service", "bmcs": {"host": {"address": "https://192.0.2.1", "username": "admin", \
"password": "hunter2hunter2", "verify_ca": "ca.pem", "parallel_updates": 2}}}

  {"target": "node-2", "redfish_address": "https://192.0.2.2", "redfish_verify_ca": false, "traits": ["CUSTOM_A"]}\r
"""


def test_each_line_of_json_is_a_target():
    """With the keys of bmcs.yaml and its name as target; empty lines and line ends of other systems do not matter."""
    (one, two), line = parse(LINES)
    assert 1 == line
    assert ('node-1', Exposure.SERVICE, SECRET) == (one.name, one.exposure, one.bmcs[0].secret.text)
    assert ('/etc/x/ca.pem', 2) == (one.bmcs[0].verify_ca, one.bmcs[0].parallel_updates)
    assert ('node-2', 'host', False, {'CUSTOM_A'}) == (two.name, two.bmcs[0].name, two.bmcs[0].verify_ca, two.traits)
    text = '{"format": 1, "targets": {"a": {"redfish_address": "https://192.0.2.1"}}}'
    assert ['a'] == [t.name for t in parse(text)[0]], 'a whole document on one line is one still'


@pytest.mark.parametrize(
    ('old', 'new', 'line', 'says'),
    [
        ('"target": "node-2"', '"target": "node-1"', 3, "target: 'node-1' occurs twice, first in line 1"),
        ('"target": "node-2", ', '', 3, 'target is missing (each line names its target'),
        ('"target": "node-2"', '"target": 2', 3, 'target: text expected, a number or a date found'),
        ('"target": "node-2"', '"target": "../x"', 3, "'../x' is not a valid name"),
        ('redfish_address', 'redfish_adress', 3, 'target node-2.redfish_adress: no such key (did you mean redfish_address?)'),
        ('"username"', '"user_name"', 1, 'target node-1.bmcs.host.user_name: no such key (did you mean username?)'),
        ('false', '[]', 3, 'redfish_verify_ca: text expected, a list found'),
        ('false', 'NaN', 3, 'redfish_verify_ca: text expected, a number or a date found'),
        ('["CUSTOM_A"]', '[1]', 3, 'traits: list of texts expected'),
        ('["CUSTOM_A"]}', '["CUSTOM_A"', 3, 'not valid JSON'),
        ('"parallel_updates": 2', '"parallel_updates": ' + '9' * 5000, 1, 'a number that is too long'),
        ('"username": "admin"', '"username": "admin", "username": "root"', 1, 'username: occurs twice'),
        ('  {', '  [{', 3, 'not valid JSON'),
        ('  {"target"', '  7\n {"target"', 3, 'mapping expected, a number or a date found (one target per line)'),
        ('["CUSTOM_A"]', '[' * 100_000, 3, 'nested too deeply'),
        ('"hunter2hunter2", ', '"hunter2hunter2\\q", ', 1, 'not valid JSON'),
    ],
)
def test_what_is_wrong_with_a_line_is_told_by_its_number(old, new, line, says):
    """As in bmcs.yaml: file, line, place, what to do; never the password."""
    assert 1 == LINES.count(old)
    with pytest.raises(DocumentError) as caught:
        parse(LINES.replace(old, new))
    assert says in str(caught.value)
    assert str(caught.value).startswith(f'/etc/x/bmcs.yaml, line {line}: ')
    assert SECRET not in str(caught.value)


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_lines_are_parsed_or_refused(first, second):
    """Nothing but a DocumentError comes out of lines that are no targets."""
    check_or_refused(f'{{"target": "a", {first}\n{second}\n')


@given(
    st.dictionaries(
        st.sampled_from(['target', 'bmcs', 'traits', 'node', 'exposure', 'redfish_address', 'acc_bmcs', 'x']),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
            max_leaves=6,
        ),
    )
)
def test_any_target_of_json_is_parsed_or_refused(target):
    """Whatever type stands where another one belongs."""
    check_or_refused(json.dumps({'target': 'a', **target}))


def test_a_list_from_a_pipe_may_hold_passwords(tmp_path):
    """It belongs to the two that it connects; a file given as standard input is judged by its mode as ever."""
    read, write = os.pipe()
    os.write(write, LINES.encode())
    os.close(write)
    with open(read, 'rb') as stream:
        assert 2 == len(bmcs.read(stream, 'standard input'))
    path = tmp_path / 'lines'
    path.write_text(LINES)
    path.chmod(0o640)
    with path.open('rb') as stream, pytest.raises(DocumentError, match=r'standard input, line 1: .*mode 0640'):
        bmcs.read(stream, 'standard input')


def test_what_is_no_text_is_told_by_line(tmp_path):
    """A byte that is no UTF-8 stands somewhere."""
    path = tmp_path / 'bmcs.yaml'
    path.write_bytes(FULL.encode().replace(b'gold', b'\xff'))
    with pytest.raises(DocumentError, match=r'bmcs.yaml, line 4: is not UTF-8'):
        bmcs.load(path)
    path.write_bytes(b'\xef\xbb\xbf' + FULL.encode())
    path.chmod(0o600)
    assert 1 == len(bmcs.load(path)), 'a byte order mark is no harm'


TEN_LINES = """\
  {name}:
    resource_class: gold
    bmcs:
      host:
        address: https://198.18.{rack}.{last}
        username: acc-operator
        password_file: secrets/rack-17/{name}
        verify_ca: bmc-ca.pem
        system: /redfish/v1/Systems/System.Embedded.1
        parallel_updates: 1
"""


def test_a_fleet_fits_into_one_list(tmp_path):
    """Ten thousand targets are within the bound, and a name that is there twice is told by both lines."""
    lines = [TEN_LINES.format(name=f'node-{n:05}', rack=n // 250, last=n % 250) for n in range(10_000)]
    assert sum(map(len, lines)) < bmcs.MAX_SIZE
    path = tmp_path / 'bmcs.yaml'
    text = 'format: 1\ntargets:\n' + ''.join(lines[:500])
    path.write_text(text)
    assert 500 == len(bmcs.load(path))
    path.write_text(f'{text}  node-00000: {{}}\n')
    with pytest.raises(DocumentError, match=r'line 5003: targets.node-00000: occurs twice, first in line 3'):
        bmcs.load(path)


def test_a_file_with_a_password_is_for_its_owner_alone(tmp_path):
    """Group or others may read it: refused with the line of the password; without a password the mode does not matter."""
    path = tmp_path / 'bmcs.yaml'
    path.write_text(FULL)
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(DocumentError, match=f'line 12.*mode {mode:04o}.*chmod 600'):
            bmcs.load(path)
    path.chmod(0o600)
    assert 1 == len(bmcs.load(path))
    path.write_text(FULL.replace('password: "hunter2hunter2"', 'password_env: HOST_PW'))
    path.chmod(0o644)
    assert 1 == len(bmcs.load(path))


def test_a_file_that_is_too_long_is_refused(tmp_path):
    """A gigabyte is not read into memory."""
    path = tmp_path / 'bmcs.yaml'
    path.write_text('#' * (bmcs.MAX_SIZE + 1))
    with pytest.raises(DocumentError, match='longer than'):
        bmcs.load(path)


def test_passwords_are_looked_up_when_they_are_needed(tmp_path):
    """From the document, the environment, a file, or a person; without any of them it is said what is missing."""
    (target,), _ = parse(FULL.replace('password: "hunter2hunter2"', f'password_file: {tmp_path}/pw'))
    (tmp_path / 'pw').write_text('from-file\n')
    (tmp_path / 'pw').chmod(0o600)
    host, dpu = bmc_passwords.resolve(target, {'DPU_PW': 'from-environment'}, None)
    assert ('from-file', 'from-environment') == (host.password, dpu.password)
    with pytest.raises(UsageError, match='environment variable DPU_PW for the password is not set'):
        bmc_passwords.resolve(target, {}, None)
    with pytest.raises(UsageError, match='the password in DPU_PW is not UTF-8') as caught:
        bmc_passwords.resolve(target, {'DPU_PW': 'hunter2\udcff'}, None)
    assert 'hunter2' not in str(caught.value)

    (asked,), _ = parse(FULL.replace('        password: "hunter2hunter2"\n', ''))
    questions = []
    host, _ = bmc_passwords.resolve(asked, {'DPU_PW': 'x'}, lambda text: questions.append(text) or 'typed')
    assert 'typed' == host.password
    assert ['Password of admin at BMC host of node-1 (https://192.0.2.1): '] == questions
    with pytest.raises(UsageError, match='the password of admin is missing'):
        bmc_passwords.resolve(asked, {'DPU_PW': 'x'}, None)


def test_secrets_do_not_show_in_a_repr():
    """A log or a traceback that prints an entry holds no password."""
    (target,), _ = parse(FULL)
    assert SECRET not in repr(target)
    assert SECRET not in repr(bmc_passwords.resolve(target, {'DPU_PW': SECRET}, None))


@pytest.mark.parametrize('content', ['', '\n', 'two\nlines\n', 'x' * 5000])
def test_a_file_that_is_no_password_is_refused(tmp_path, content):
    """Empty, several lines, or far too long: probably the wrong file."""
    path = tmp_path / 'pw'
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(DocumentError, match='one line with a password'):
        bmc_passwords.read_password(path)


def test_the_file_is_looked_for_in_order(tmp_path, monkeypatch):
    """--bmcs, then the variable, then the working directory, then the user's configuration."""
    monkeypatch.chdir(tmp_path)
    config = tmp_path / '.config' / 'baremetal-acc'
    config.mkdir(parents=True)
    (config / 'bmcs.yaml').touch()
    environ = {'HOME': str(tmp_path)}
    assert config / 'bmcs.yaml' == bmcs.find(None, environ)
    (tmp_path / 'bmcs.yaml').touch()
    assert 'bmcs.yaml' == os.fspath(bmcs.find(None, environ))
    assert '/named' == os.fspath(bmcs.find(None, {**environ, 'BAREMETAL_ACC_BMCS': '/named'}))
    assert '/option' == os.fspath(bmcs.find('/option', {**environ, 'BAREMETAL_ACC_BMCS': '/named'}))


def test_targets_are_chosen_by_name():
    """In the order of the file; a misspelt name is told with the nearest one."""
    second = FULL.split('targets:\n')[1].replace('node-1', 'node-2').replace('192.0.2', '198.51.100')
    targets, _ = parse(FULL + second)
    assert ['node-1', 'node-2'] == [t.name for t in bmcs.choose(targets, ())]
    assert ['node-1', 'node-2'] == [t.name for t in bmcs.choose(targets, ('node-2', 'node-1'))]
    with pytest.raises(UsageError, match=r"'nod-2'.*did you mean node-2"):
        bmcs.choose(targets, ('nod-2',))


@pytest.mark.parametrize(
    ('one', 'other', 'same'),
    [
        ('address: https://192.0.2.1, username: a', 'address: https://192.0.2.1:443/, username: a', True),
        ('address: https://bmc.example, username: a', 'address: https://BMC.example, username: a', True),
        ('address: https://192.0.2.1, username: a, system: /1', 'address: https://192.0.2.1, username: a, system: /1', True),
        ('address: https://192.0.2.1, username: a, system: /1', 'address: https://192.0.2.1, username: a', True),
        ('address: https://192.0.2.1, username: a', 'address: https://192.0.2.1, username: a, system: /1', True),
        ('address: https://192.0.2.1, username: a, system: /1', 'address: https://192.0.2.1, username: a, system: /2', False),
        ('address: https://192.0.2.1, username: a, system: /s/N1', 'address: https://192.0.2.1, username: a, system: N1', True),
        (
            'address: https://192.0.2.1, username: a, system: /s/N1/',
            'address: https://192.0.2.1, username: a, system: s/N1',
            True,
        ),
        ('address: https://192.0.2.1, username: a, system: N0', 'address: https://192.0.2.1, username: a, system: N1', False),
        (
            'address: https://192.0.2.1, username: a, system: /a/N1',
            'address: https://192.0.2.1, username: a, system: /b/N1',
            False,
        ),
        ('address: https://192.0.2.1, username: a', 'address: https://192.0.2.1:8443, username: a', False),
        ('address: https://192.0.2.1, username: a', 'address: https://192.0.2.1, username: b', False),
    ],
)
def test_two_targets_are_two_machines(one, other, same):
    """However the address is spelt; a BMC may have several Systems, and a gateway tell BMCs apart by who logs in."""
    text = f"""
format: 1
targets:
  node-1:
    bmcs:
      host: {{{one}}}
  node-2:
    bmcs:
      dpu: {{{other}}}
"""
    if not same:
        assert ['node-1', 'node-2'] == [t.name for t in parse(text)[0]]
        return
    with pytest.raises(DocumentError, match=r'line 7: target node-2: its BMC dpu .* is also a BMC of target node-1 \(line 4\)'):
        parse(text)


def test_two_lines_are_two_machines():
    """Lists that an inventory system gives are no better than those that people write."""
    line = '{{"target": "node-{}", "bmcs": {{"host": {{"address": "https://192.0.2.1", "username": "a"}}}}}}'
    with pytest.raises(DocumentError, match=r'line 2: target node-2: its BMC host .* is also a BMC of target node-1 .line 1'):
        parse('\n'.join(line.format(n) for n in (1, 2)))


@pytest.mark.parametrize(('options', 'suite'), [((), 17), (('--cipher-suite', '3'), 3)])
def test_an_address_of_ipmi_has_a_suite(options, suite):
    """That of --cipher-suite, else the stronger one."""
    parser = argparse.ArgumentParser()
    session.add_arguments(parser, writes=False)
    arguments = parser.parse_args(['--address', 'ipmi://192.0.2.1', '--username', 'admin', *options])
    (entry,) = session.begin(arguments, writes=False, environ={}).entries
    assert ('ipmi://192.0.2.1', suite) == (entry.bmcs[0].address, entry.bmcs[0].cipher_suite)
    assert ['--verify-ca', '--cipher-suite', 'secret_hex_kg_key of a BMC in bmcs.yaml'] == [
        entry.bmcs[0].set_by[one] for one in Setting
    ]
