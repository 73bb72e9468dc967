# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Evidence and reference values of real devices that their makers publish: what BAREMETAL_ACC_SHARED has of them."""

import base64
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from baremetal_acc.images.spdm.signed_measurements import SpdmAttestor
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref

FOLDER = Path(os.environ.get('BAREMETAL_ACC_SHARED') or Path(__file__).parents[4] / 'shared') / 'evidence'

WHY_NOT = f'no evidence of real devices in {FOLDER} (BAREMETAL_ACC_SHARED)'

AT = datetime(2026, 11, 28, tzinfo=UTC)
"""A time at which all certificates of the devices are valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one device has signed.

    :ivar arch: as the maker calls the kind of device: ``HOPPER`` or ``LS10``.
    :ivar blocks: how many measurements such a device reports.
    """

    name: str
    arch: str
    blocks: int
    roots: tuple[x509.Certificate, ...]
    signed: SignedMeasurements

    def reading(self) -> MeasurementReading:
        """The checked measurements."""
        return SpdmAttestor(authorities=self.roots).check(self.signed)


def certificates(path: Path) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM file."""
    return tuple(x509.load_pem_x509_certificates(path.read_bytes()))


def evidence() -> tuple[Evidence, ...]:
    """Every piece of evidence that is there."""
    found = []
    for root in sorted(FOLDER.glob('*/verifier_device_root.pem')):
        roots = certificates(root)
        for path in sorted(root.parent.glob('*.json')):
            for n, one in enumerate(json.loads(path.read_text())):
                transcript, chain = (base64.b64decode(one[key]) for key in ('evidence', 'certificate'))
                found.append(_evidence(f'{path.name}[{n}]', one['arch'], roots, transcript, chain, bytes.fromhex(one['nonce'])))
        report, chain_file = root.with_name('hopperAttestationReport.txt'), root.with_name('hopperCertChain.txt')
        if report.exists():
            transcript = bytes.fromhex(report.read_text())
            found.append(_evidence(report.name, 'HOPPER', roots, transcript, chain_file.read_bytes(), transcript[4:36]))
    return tuple(found)


def _evidence(
    name: str, arch: str, roots: tuple[x509.Certificate, ...], transcript: bytes, chain: bytes, nonce: bytes
) -> Evidence:
    signed = SignedMeasurements(
        accelerator=AcceleratorId('card'),
        ref=Ref(bmc=BmcName('host'), uri='/redfish/v1/ComponentIntegrity/1'),
        integrity='1',
        nonce=nonce,
        slot=0,
        transcript=transcript,
        certificates=chain.decode(),
        version=None,
        hashing='TPM_ALG_SHA_384',
        signing='TPM_ALG_ECDSA_ECC_NIST_P384',
        at=AT,
        session='s',
    )
    return Evidence(name=name, arch=arch, blocks={'HOPPER': 64, 'LS10': 31}[arch], roots=roots, signed=signed)
