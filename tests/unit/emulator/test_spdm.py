# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Emulated roots of trust sign only what they are asked, and their root certificate can be obtained to be pinned."""

import argparse
import base64
import json

import pytest
from cryptography import x509

from baremetal_acc.emulator import main
from baremetal_acc.emulator.fault import BadFault, Faults
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import BadParameter, Parameters
from baremetal_acc.emulator.service import Service, ServiceRequest

ROT = '/redfish/v1/ComponentIntegrity/HGX_ERoT_GPU_0'
ACTION = f'{ROT}/Actions/ComponentIntegrity.SPDMGetSignedMeasurements'
NONCE = bytes(range(32))


@pytest.fixture(scope='module')
def bmc() -> Service:
    """The BMC of a machine whose GPU signs."""
    return Service(build('gpu-server', Parameters(gpus=1, features=frozenset({'spdm'}))).views['host'], no_auth=True)


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    main.add_arguments(parser)
    return parser.parse_args(given)


def test_the_nonce_that_was_given_stands_in_what_was_signed(bmc: Service):
    """The chain that the answer names leads from the device's own certificate, the first, to the root."""
    answer = bmc.reply(ServiceRequest(method='POST', path=ACTION, body=json.dumps({'Nonce': NONCE.hex()}).encode()))
    assert (200, True) == (answer.status, NONCE in base64.b64decode(answer.body['SignedMeasurements']))
    chain = bmc.reply(ServiceRequest(method='GET', path=answer.body['Certificate']['@odata.id'])).body['CertificateString']
    leaf, between, root = x509.load_pem_x509_certificates(chain.encode())
    leaf.verify_directly_issued_by(between)
    between.verify_directly_issued_by(root)


@pytest.mark.parametrize(
    'given',
    [
        {'Nonce': 'ab'},
        {'Nonce': 'x' * 64},
        {'SlotId': 1},
        {'MeasurementIndices': [2]},
        {'MeasurementIndices': 255},
        {'Other': 1},
    ],
)
def test_what_it_cannot_do_is_refused(bmc: Service, given: dict):
    """A client that asks for something else must not take the answer for one to its question."""
    assert 400 == bmc.reply(ServiceRequest(method='POST', path=ACTION, body=json.dumps(given).encode())).status


def test_only_with_the_feature_does_anybody_sign():
    """Most BMCs have no such thing."""
    bmc = Service(build('gpu-server', Parameters(gpus=1)).views['host'], no_auth=True)
    assert 'ComponentIntegrity' not in bmc.reply(ServiceRequest(method='GET', path='/redfish/v1')).body
    assert 404 == bmc.reply(ServiceRequest(method='GET', path=ROT)).status


def test_the_root_is_written_for_those_who_pin_it(tmp_path):
    """And there is none where nobody signs."""
    path = tmp_path / 'root.pem'
    main._emulator(arguments('gpu-server', '--gpus', '1', '--feature', 'spdm', '--write-spdm-root', str(path)))
    (root,) = x509.load_pem_x509_certificates(path.read_bytes())
    assert root.subject == root.issuer
    assert 0o600 == path.stat().st_mode & 0o777
    with pytest.raises(BadParameter, match='add --feature spdm'):
        main._emulator(arguments('gpu-server', '--write-spdm-root', str(path)))


def test_a_way_to_sign_wrongly_that_there_is_not_is_refused():
    """A fault that does nothing would make a test pass that shows nothing."""
    with pytest.raises(BadFault, match='how must be one of debug-mode, '):
        Faults().add({'name': 'measurement-wrong', 'how': 'nan'})
    with pytest.raises(BadFault, match='how must be one of deep, '):
        Faults().add({'name': 'strange-json', 'how': 'replayed'})
