# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Roots of trust are found and read. What they report is passed on unchanged; what is missing is not known."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from baremetal_acc import wait
from baremetal_acc.bmc.redfish import integrity
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.measurement import MeasurementReading, MeasurementState, SignedMeasurements
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from tests.unit.planning import values as v

TOP = '/redfish/v1'
COLLECTION = f'{TOP}/ComponentIntegrity'
ROT = f'{COLLECTION}/ROT_0'
ACTION = f'{ROT}/Actions/SPDMGetSignedMeasurements'
CHAIN = f'{TOP}/Chassis/ROT_0/Certificates/CertChain'
GPU = f'{TOP}/Systems/1/Processors/GPU_0'
TASK = f'{TOP}/TaskService/Tasks/95'
NOW = v.NOW
SIGNED = {
    'SignedMeasurements': base64.b64encode(b'transcript').decode(),
    'Certificate': {'@odata.id': CHAIN},
    'Version': '1.1.0',
    'HashingAlgorithm': 'TPM_ALG_SHA_384',
    'SigningAlgorithm': 'TPM_ALG_ECDSA_ECC_NIST_P384',
}
DEVICE = v.gpu(refs=(Ref(bmc=HOST, uri=GPU),), primary=Ref(bmc=HOST, uri=GPU))


@pytest.fixture
def rot(bmc: Any) -> Any:
    """A BMC with one root of trust, as GH200 has six: the target is the root of trust, the device what it protects."""
    bmc.tree[TOP]['ComponentIntegrity'] = {'@odata.id': COLLECTION}
    bmc.collection(COLLECTION, 'ROT_0')
    bmc.put(
        ROT,
        ComponentIntegrityType='SPDM',
        ComponentIntegrityTypeVersion='unknown',
        ComponentIntegrityEnabled=True,
        TargetComponentURI=f'{TOP}/Chassis/ROT_0',
        Links={'ComponentsProtected': [{'@odata.id': GPU}]},
        Actions={'#ComponentIntegrity.SPDMGetSignedMeasurements': {'target': ACTION}},
        SPDM={'IdentityAuthentication': {'ResponderAuthentication': {'ComponentCertificate': {'@odata.id': f'{CHAIN}2'}}}},
    )
    bmc.put(CHAIN, CertificateType='PEMchain', CertificateString='pem 1')
    bmc.put(f'{CHAIN}2', CertificateType='PEMchain', CertificateString='pem 2')
    bmc.put(f'{TOP}/Chassis/ROT_0')
    bmc.replies['POST', ACTION] = answering(SIGNED)
    return bmc


def answering(body: Any, status: int = 200, **headers: str) -> Callable[..., bytes]:
    """A reply with that body."""

    def reply(_: Any, context: Any) -> bytes:
        context.status_code = status
        context.headers.update(headers)
        return b'' if body is None else json.dumps(body).encode()

    return reply


def measured(bmc: Any, *devices: Accelerator, why_not: str | None = None) -> Any:
    """What comes for these devices; for the GPU if none is named."""
    with bmc.connect() as connection:
        return connection.measure(devices or (DEVICE,), NOW, why_not)


def only(found: Any) -> Any:
    """The one that there is."""
    (one,) = found
    return one


def unknown(found: Any) -> str:
    """Why the only reading is not known."""
    one = only(found)
    assert isinstance(one, MeasurementReading)
    assert (MeasurementState.UNKNOWN, ()) == (one.state, one.measurements)
    return one.reason or ''


def test_what_was_signed_is_passed_on_with_the_nonce_that_was_sent(rot: Any) -> None:
    """All of the measurements of slot 0; the chain is the one that the answer names."""
    one = only(measured(rot))
    assert isinstance(one, SignedMeasurements)
    assert (b'transcript', 'pem 1', 'ROT_0', v.GPU) == (
        one.transcript,
        one.certificates.strip(),
        one.integrity,
        one.accelerator,
    )
    assert ('1.1.0', 'TPM_ALG_SHA_384', 'TPM_ALG_ECDSA_ECC_NIST_P384') == (one.version, one.hashing, one.signing)
    assert [{'Nonce': one.nonce.hex(), 'SlotId': 0, 'MeasurementIndices': [255]}] == rot.body_of('POST')
    assert 32 == len(one.nonce)
    assert one.nonce != only(measured(rot)).nonce


def test_without_a_link_in_the_answer_the_certificates_are_those_of_the_root_of_trust(rot: Any) -> None:
    """Seen on real BMCs: the answer names none."""
    rot.replies['POST', ACTION] = answering({k: w for k, w in SIGNED.items() if k != 'Certificate'})
    assert 'pem 2' == only(measured(rot)).certificates.strip()


def test_a_single_certificate_is_followed_to_its_issuers(rot: Any) -> None:
    """Within bounds, and not in circles."""
    rot.put(CHAIN, CertificateType='PEM', CertificateString='leaf', Links={'Issuer': {'@odata.id': f'{CHAIN}2'}})
    rot.put(f'{CHAIN}2', CertificateType='PEM', CertificateString='root', Links={'Issuer': {'@odata.id': CHAIN}})
    assert ['leaf', 'root'] == only(measured(rot)).certificates.split()


@pytest.mark.parametrize('how', ['Location of the task', 'monitor', 'task in the body'])
def test_a_task_leads_to_the_measurements(rot: Any, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Seen on real BMCs: the result lies where Location among the headers of the ended task's Payload says."""
    slept: list[float] = []
    monkeypatch.setattr(wait, 'sleep', slept.append)
    running = {'@odata.id': TASK, '@odata.type': '#Task.v1_4_3.Task', 'Id': '95', 'Name': 'Task', 'TaskState': 'Running'}
    done = running | {
        'TaskState': 'Completed',
        'TaskStatus': 'OK',
        'Payload': {'HttpHeaders': ['Host: bmc', f'Location: {ACTION}/data']},
    }
    rot.tree[f'{ACTION}/data'] = SIGNED
    if how == 'task in the body':
        rot.replies['POST', ACTION] = answering(running)
        rot.replies['GET', TASK] = [answering(running), answering(done)]
    elif how == 'monitor':
        rot.replies['POST', ACTION] = answering(None, 202, Location='/monitors/1')
        rot.replies['GET', '/monitors/1'] = [answering(None, 202), answering(SIGNED)]
    else:
        rot.replies['POST', ACTION] = answering(None, 202, Location=TASK)
        rot.replies['GET', TASK] = [answering(running, 202), answering(done)]
    assert b'transcript' == only(measured(rot)).transcript
    assert 1 == len(slept)


@pytest.mark.parametrize(
    ('task', 'why'),
    [
        ({'TaskState': 'Exception', 'Messages': [{'Message': 'the bus is stuck'}]}, 'ended with Exception: the bus is stuck'),
        ({'TaskState': 'Completed', 'TaskStatus': 'OK'}, 'points to no measurements'),
        (
            {'TaskState': 'Completed', 'Payload': {'HttpHeaders': ['Location: https://192.0.2.9/x']}},
            'does not point to this BMC',
        ),
        ({'TaskState': 'Completed', 'Payload': {'HttpHeaders': 5}}, 'points to no measurements'),
        ({'TaskState': 'Running'}, 'did not end in time'),
    ],
)
def test_a_task_that_brings_nothing_is_not_known(rot: Any, monkeypatch: pytest.MonkeyPatch, task: Any, why: str) -> None:
    """And does not hold anybody up for ever."""
    monkeypatch.setattr(integrity, 'TASK_TIMEOUT', 0.0)
    rot.put(TASK, **task)
    rot.replies['POST', ACTION] = answering(None, 202, Location=TASK)
    assert why in unknown(measured(rot))


@pytest.mark.parametrize(
    ('body', 'why'),
    [
        ({}, 'neither measurements nor a task'),
        (SIGNED | {'SignedMeasurements': 'not base 64!'}, 'is not Base64'),
        (SIGNED | {'SignedMeasurements': 5}, 'is not Base64'),
        (SIGNED | {'SignedMeasurements': 'QQ==' * 200_000}, 'is not Base64'),
        (SIGNED | {'Certificate': {'@odata.id': 'https://192.0.2.9/x'}}, 'does not point to this BMC'),
        (SIGNED | {'Certificate': {'@odata.id': f'{TOP}/nowhere'}}, 'HTTP 404'),
        (SIGNED | {'Certificate': {'@odata.id': f'{TOP}/Long'}}, 'certificate chain is longer than'),
    ],
)
def test_an_answer_that_is_none_is_not_known(rot: Any, body: Any, why: str) -> None:
    """Whatever a BMC sends."""
    rot.put(f'{TOP}/Long', CertificateString='x' * 70_000)
    rot.replies['POST', ACTION] = answering(body)
    assert why in unknown(measured(rot))


def test_one_that_is_switched_off_is_not_known_and_not_asked(rot: Any) -> None:
    """SPDM must not be spoken with it. Somebody may have switched it off for a reason."""
    for said in (False, None, 'true'):
        rot.tree[ROT]['ComponentIntegrityEnabled'] = said
        assert 'but not enabled' in unknown(measured(rot))
    assert 0 == rot.count('POST')


def test_whoever_may_not_ask_is_told_who_offers(rot: Any) -> None:
    """No root is pinned, for instance."""
    assert 'no root is pinned' == unknown(measured(rot, why_not='no root is pinned'))
    assert 0 == rot.count('POST')


@pytest.mark.parametrize(
    'other',
    [
        {'ComponentIntegrityType': 'TPM'},
        {'Actions': {}},
        {'Links': {'ComponentsProtected': [{'@odata.id': f'{TOP}/Systems/1/Processors/CPU_0'}]}},
        {'Links': {'ComponentsProtected': [{'@odata.id': 'https://192.0.2.9/x'}]}},
        {'Links': {'ComponentsProtected': 7}, 'TargetComponentURI': 7},
    ],
)
def test_what_does_not_sign_for_a_device_is_passed_over(rot: Any, other: Any) -> None:
    """TPMs, roots of trust of the baseboard, and those that only show that they are there."""
    rot.tree[ROT] |= other
    assert () == measured(rot)


def test_a_device_is_found_by_its_own_resource_or_by_what_the_root_of_trust_names(rot: Any) -> None:
    """TargetComponentURI may be the device, something below it, or a component that names it itself."""
    del rot.tree[ROT]['Links']
    assert () == measured(rot)
    for target in (GPU, f'{GPU}/', f'{GPU}/TrustedComponents/ROT#/x'):
        rot.tree[ROT]['TargetComponentURI'] = target
        assert v.GPU == only(measured(rot)).accelerator
    rot.tree[ROT]['TargetComponentURI'] = f'{TOP}/Chassis/ROT_0'
    rot.put(f'{TOP}/Chassis/ROT_0', Links={'Oem': {'Maker': {'ComponentsProtected': [{'@odata.id': GPU}]}}})
    assert v.GPU == only(measured(rot)).accelerator


def test_a_device_of_another_bmc_is_not_spoken_of(rot: Any) -> None:
    """Two BMCs may have the same URIs."""
    elsewhere = replace(DEVICE, refs=(Ref(bmc=type(HOST)('dpu'), uri=GPU),))
    assert () == measured(rot, elsewhere)


def test_members_that_are_not_there_are_passed_over_and_unreadable_ones_may_be_anybodys(rot: Any) -> None:
    """GH200 lists one that is not there. One that answers 500 may be the one of this very card."""
    rot.collection(COLLECTION, 'ROT_0', 'satmc', 'broken')
    two = replace(DEVICE, id=AcceleratorId('uuid:2'), refs=(Ref(bmc=HOST, uri=f'{GPU}1'),))
    assert [v.GPU] == [one.accelerator for one in measured(rot, DEVICE, two)]
    rot.replies['GET', f'{COLLECTION}/broken'] = answering({}, 403)
    found = measured(rot, DEVICE, two)
    assert {(v.GPU, 'broken'), (two.id, 'broken'), (v.GPU, 'ROT_0')} == {(one.accelerator, one.integrity) for one in found}


def test_a_collection_that_cannot_be_read_may_hide_anybody(rot: Any) -> None:
    """Not so one that the BMC does not have: its root links to nothing."""
    rot.replies['GET', COLLECTION] = answering({}, 403)
    assert 'the ComponentIntegrity resources could not be read' in unknown(measured(rot))
    rot.replies['GET', COLLECTION] = answering({}, 404)
    assert () == measured(rot)
    del rot.tree[TOP]['ComponentIntegrity']
    assert () == measured(rot)


def test_a_look_says_whether_there_is_anybody_to_ask_and_reads_nothing_of_it(rot: Any) -> None:
    """It costs no request."""
    with rot.connect() as connection:
        assert connection.look(NOW).measures
    assert 0 == rot.count('GET', COLLECTION)
    del rot.tree[TOP]['ComponentIntegrity']
    with rot.connect() as connection:
        assert not connection.look(NOW).measures


def test_a_secret_that_a_bmc_repeats_is_not_passed_on(rot: Any) -> None:
    """In the reason of a reading that is not known."""
    rot.collection('/redfish/v1/SessionService/Sessions')
    rot.replies['POST', '/redfish/v1/SessionService/Sessions'] = answering({}, 201, **{'X-Auth-Token': 'tok3n-of-ours'})
    rot.replies['POST', ACTION] = answering({'error': {'message': 'no: tok3n-of-ours geheim-1'}}, 400)
    with rot.connect(username='admin', password='geheim-1') as connection:
        found = connection.measure((DEVICE,), NOW)
    reason = unknown(found)
    assert 'but not received' in reason
    assert not {'tok3n-of-ours', 'geheim-1'} & set(reason.split())


@pytest.mark.parametrize('encoding', ['utf-8', 'latin-1', 'utf-16-be'])
def test_a_certificate_with_our_password_in_a_name_is_not_passed_on(rot: Any, encoding: str) -> None:
    """Names of certificates are shown and stored."""
    der = b'\x30\x82\x01' + 'gehéim-1'.encode(encoding) + b'\x02'
    text = f'-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n'
    rot.put(
        CHAIN,
        CertificateType='PEMchain',
        CertificateString='-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n' + text,
    )
    rot.collection('/redfish/v1/SessionService/Sessions')
    rot.replies['POST', '/redfish/v1/SessionService/Sessions'] = answering({}, 201, **{'X-Auth-Token': 'tok3n-of-ours'})
    with rot.connect(username='admin', password='gehéim-1') as connection:
        assert 'the certificates contain our credentials' in unknown(connection.measure((DEVICE,), NOW))
    with rot.connect(username='admin', password='another-1') as connection:
        assert text in only(connection.measure((DEVICE,), NOW)).certificates


ODD = (
    None,
    True,
    5,
    1e308,
    '',
    '\x1b[2J',
    'x' * 5000,
    'https://192.0.2.9/',
    [],
    {},
    [[]],
    [{'@odata.id': 5}],
    {'@odata.id': []},
)


@pytest.mark.parametrize('resource', [ROT, CHAIN, COLLECTION, TASK, ACTION])
def test_no_odd_value_breaks_it_or_makes_a_proof_of_nothing(rot: Any, monkeypatch: pytest.MonkeyPatch, resource: str) -> None:
    """Every property of every resource that is read, each replaced by every value that a BMC should not send."""
    monkeypatch.setattr(wait, 'sleep', lambda _: None)
    monkeypatch.setattr(integrity, 'TASK_TIMEOUT', 0.0)
    done = {
        'TaskState': 'Completed',
        'TaskStatus': 'OK',
        'Payload': {'HttpHeaders': [f'Location: {ACTION}/data']},
        'Messages': [],
    }
    task = rot.put(TASK, **done, **{'@odata.type': '#Task.v1_4_3.Task'})
    rot.tree[f'{ACTION}/data'] = SIGNED
    if resource == TASK:
        rot.replies['POST', ACTION] = answering(task, 202, Location=TASK)
    body = SIGNED if resource == ACTION else rot.tree[resource]
    times = 0
    with rot.connect() as connection:
        for name, value in [(n, w) for n in body for w in ODD]:
            changed = body | {name: value}
            if resource == ACTION:
                rot.replies['POST', ACTION] = answering(changed)
            else:
                rot.tree[resource] = changed
            for one in connection.measure((DEVICE,), NOW):
                times += 1
                if isinstance(one, SignedMeasurements):
                    assert isinstance(one.certificates, str)
                else:
                    assert MeasurementState.UNKNOWN is one.state
                    assert (one.reason or '').isprintable()
                    assert one.integrity.isprintable()
    assert times


def test_time_that_is_used_up_is_told(rot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they may take long."""
    with rot.connect() as connection:
        reader = connection._reader()
        monkeypatch.setattr(type(reader), 'left', lambda self: 0.0 if rot.count('GET', ROT) else 100.0)
        found = connection.measure((DEVICE,), NOW)
    assert 'the time for the inspection is used up' in unknown(found)
