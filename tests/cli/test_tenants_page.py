# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A tenant gets and checks a certificate with the commands of the page, which refuse what was altered, replayed or re-bound."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from baremetal_acc.certificates import envelope
from baremetal_acc.model.certificate import Certificate
from tests.page_runs import run_on
from tests.pages import block_with
from tests.terminal import Terminal
from tests.unit.certificates.test_statement import UUID, issued
from tests.unit.certificates.values import altered, sealer, write_key

OURS, THEIRS = sealer(1), sealer(2)
GENUINE = replace(issued(), key=OURS.name)
KNOWN = {'DEPLOYMENT': 'd-1', 'INSTANCE': 'vm-1', 'NODE': UUID}


def known(words: str) -> str:
    """A command with what the tenant knows of the node."""
    for name, value in KNOWN.items():
        words = words.replace(f'"{name}"', f'"{value}"').replace(f' {name}', f' {value}')
    return words


class Tenant:
    """A terminal with a certificate and the issuer's public key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.terminal = Terminal(folder)
        write_key(folder / 'issuer.pub', OURS, public=True, mode=0o644)

    def judged(self, data: bytes) -> tuple[int, int, int]:
        """The exit codes of the checks: the signature by openssl, the hand-over, and in-toto's library."""
        _, _, _, split, signature, subject, _ = run_on('tenants')
        (self.folder / 'certificate.json').write_bytes(data)
        library = block_with('tenants', 'python', 'securesystemslib').replace('sha256:...', OURS.name)
        (self.folder / 'library.py').write_text(library)
        self.terminal.must(split.words)
        signature_code = self.terminal.say(signature.words).code
        subject_code = self.terminal.say(known(subject.words)).code
        return signature_code, subject_code, self.terminal.say('python library.py').code


@pytest.fixture
def tenant(tmp_path: Path) -> Tenant:
    """One who has the key of the issuer."""
    return Tenant(tmp_path)


def test_a_tenant_gets_the_certificate_and_compares_the_key(tenant):
    """From the config drive, or from what Ironic shows; the name of the key is what openssl says of it."""
    fingerprint, drive, extract, *_ = run_on('tenants')
    assert OURS.name == f'sha256:{tenant.terminal.must(fingerprint.words).split()[0]}'
    data = envelope.seal(GENUINE, OURS)
    (tenant.folder / 'vendor_data2.json').write_text(json.dumps({'baremetal_acc': {'certificate': data.decode()}}))
    tenant.terminal.must(drive.words.replace('/mnt/openstack/latest/', ''))
    assert data + b'\n' == (tenant.folder / 'certificate.json').read_bytes()
    (tenant.folder / 'certificate.json').unlink()
    kept = {'packed': envelope.packed(data), 'digest': envelope.digest(data), 'superseded': False, 'where': []}
    node = {'driver_internal_info': {'baremetal_acc': {'certificate': kept}}}
    (tenant.folder / 'node.json').write_text(json.dumps(node))
    tenant.terminal.must(extract.words)
    assert data + b'\n' == (tenant.folder / 'certificate.json').read_bytes()


def test_the_commands_of_the_page_accept_a_genuine_one(tenant):
    """With the output that the page shows."""
    assert (0, 0, 0) == tenant.judged(envelope.seal(GENUINE, OURS) + b'\n')
    *_, signature, subject, verify = run_on('tenants')
    assert signature.output.strip() == tenant.terminal.must(signature.words).strip()
    assert subject.output.strip() == tenant.terminal.must(known(subject.words)).strip()
    tenant.terminal.must(known(verify.words))
    (tenant.folder / 'certificate.json').write_bytes(_of(replace(GENUINE, lifecycle=6)))
    tenant.terminal.must(known(verify.words), code=3)


def _of(certificate: Certificate) -> bytes:
    return envelope.seal(certificate, OURS)


@pytest.mark.parametrize(
    ('data', 'codes'),
    [
        (altered(_of(GENUINE), lambda body: body.replace(b'"unsupported"', b'"locked-verified"')), (1, 0, 1)),
        (envelope.seal(replace(GENUINE, key=THEIRS.name), THEIRS), (1, 0, 1)),
        (_of(replace(GENUINE, lifecycle=6)), (0, 1, 0)),
        (_of(replace(GENUINE, deployment='d-0')), (0, 1, 0)),
        (_of(replace(GENUINE, node=replace(GENUINE.node, instance='vm-2'))), (0, 1, 0)),
        (_of(replace(GENUINE, node=replace(GENUINE.node, uuid=UUID[:-1] + '2'))), (0, 1, 0)),
    ],
    ids=[
        'altered',
        'of another key',
        'of an earlier lifecycle',
        'of another deployment',
        'of another tenant',
        'of another node',
    ],
)
def test_the_commands_of_the_page_refuse_what_is_not_of_this_hand_over(tenant, data, codes):
    """By the signature, or by the comparison with the hand-over; test_dsse.py shows that our command does both."""
    assert codes == tenant.judged(data)
