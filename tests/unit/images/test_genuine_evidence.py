# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What real cards have signed is proven, up to the root that their maker publishes; any other byte of it is refused.

The evidence is in no repository of ours: BAREMETAL_ACC_SHARED names the folder that holds it.
"""

import base64
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from baremetal_acc.images.spdm.signed_measurements import SpdmAttestor
from baremetal_acc.model.measurement import MeasurementState, SignedMeasurements
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref

FOLDER = Path(os.environ.get('BAREMETAL_ACC_SHARED', Path(__file__).parents[4] / 'shared')) / 'evidence'

ROOTS = sorted(FOLDER.glob('*/verifier_device_root.pem'))

AT = datetime(2026, 11, 28, tzinfo=UTC)

pytestmark = pytest.mark.skipif(not ROOTS, reason=f'no evidence of real cards in {FOLDER} (BAREMETAL_ACC_SHARED)')


def evidence() -> list[tuple[str, Path, SignedMeasurements]]:
    """Every piece of evidence: its name, its root, and what a BMC would bring."""
    found = []
    for root in ROOTS:
        for path in sorted(root.parent.glob('*.json')):
            for n, one in enumerate(json.loads(path.read_text())):
                transcript, chain = (base64.b64decode(one[key]) for key in ('evidence', 'certificate'))
                brought = SignedMeasurements(
                    accelerator=AcceleratorId('card'),
                    ref=Ref(bmc=BmcName('host'), uri='/redfish/v1/ComponentIntegrity/1'),
                    integrity='1',
                    nonce=bytes.fromhex(one['nonce']),
                    slot=0,
                    transcript=transcript,
                    certificates=chain.decode(),
                    version=None,
                    hashing='TPM_ALG_SHA_384',
                    signing='TPM_ALG_ECDSA_ECC_NIST_P384',
                    at=AT,
                    session='s',
                )
                found.append((f'{path.stem}[{n}]', root, brought))
    return found


ALL = evidence()


@pytest.mark.parametrize(('root', 'brought'), [pytest.param(root, brought, id=name) for name, root, brought in ALL])
def test_what_a_real_card_signed_is_proven(root, brought):
    """And is no more once a byte of it, or of the certificates, is another."""
    attestor = SpdmAttestor(authorities=tuple(x509.load_pem_x509_certificates(root.read_bytes())))
    reading = attestor.check(brought)
    assert (MeasurementState.PROVEN, None) == (reading.state, reading.reason)
    for at in range(0, len(brought.transcript), 97):
        other = bytearray(brought.transcript)
        other[at] ^= 1
        assert MeasurementState.REFUSED == attestor.check(replace(brought, transcript=bytes(other))).state
    assert MeasurementState.REFUSED == SpdmAttestor(authorities=()).check(brought).state
