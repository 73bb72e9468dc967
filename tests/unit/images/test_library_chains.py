# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Why chains of certificates are checked by our own code: what cryptography's own verification refuses, and we have to take.

Each case is the least that shows it, with extension policies that permit all that the library lets one permit: its lists of
algorithms are those of the web, and no policy adds to them. When one of these tests fails, the library has learned it: with all
of them gone, baremetal_acc/images/trust/chains.py can be its ``PolicyBuilder``, with our profiles as extension policies.
"""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509 import verification

from baremetal_acc.images.spdm import signed_measurements
from baremetal_acc.images.trust import chains
from tests.unit.images import spdm_device
from tests.unit.images.keys import NOW, certificate, key

if not hasattr(verification, 'ExtensionPolicy'):
    pytest.skip('cryptography 45 brought the policies that these tests need; the product needs none', allow_module_level=True)

EC = ec.generate_private_key(ec.SECP384R1())
EDWARDS = ed25519.Ed25519PrivateKey.generate()


def by_library(root: x509.Certificate, leaf: x509.Certificate) -> None:
    """Verify by the library, as liberally as it can be.

    :raises VerificationError: it refuses.
    """
    everything = verification.ExtensionPolicy.permit_all()
    ca = everything.require_present(x509.BasicConstraints, verification.Criticality.AGNOSTIC, None)
    builder = verification.PolicyBuilder().time(NOW).store(verification.Store([root]))
    builder.extension_policies(ca_policy=ca, ee_policy=everything).build_client_verifier().verify(leaf, [])


def device(key: object, digest: hashes.HashAlgorithm) -> tuple[x509.Certificate, x509.Certificate]:
    """The root of a maker, and the certificate of a device."""
    root = spdm_device.certificate('root', key, 'root', key, ca=True)
    leaf = spdm_device.certificate('device', EC, 'root', key, ca=False)
    if digest.name != 'sha384':
        leaf = rehashed(leaf, key, digest)
    return root, leaf


def rehashed(of: x509.Certificate, key: object, digest: hashes.HashAlgorithm) -> x509.Certificate:
    """The same certificate, signed by way of another digest."""
    made = x509.CertificateBuilder(of.issuer, of.subject, of.public_key(), of.serial_number, NOW, of.not_valid_after_utc)
    for one in of.extensions:
        made = made.add_extension(one.value, one.critical)
    return made.sign(key, digest)


SIGNERS = {
    'a CA with an Ed25519 key, which doc/source/reference/catalogue.rst has': (
        lambda: (certificate('Root', EDWARDS, ca=True), certificate('R', key('p256'), ('Root', EDWARDS))),
        'Forbidden public key algorithm',
    ),
}

DEVICES = {
    'a maker that signs by SHA-3, as SPDM 1.2 has it': (
        lambda: device(EC, hashes.SHA3_384()),
        'Forbidden signature algorithm',
    ),
    'a maker with an Ed25519 key': (lambda: device(EDWARDS, hashes.SHA384()), 'Forbidden public key algorithm'),
}


@pytest.mark.parametrize('case', SIGNERS)
def test_what_the_library_refuses_of_signers(case):
    """And we take."""
    make, says = SIGNERS[case]
    root, leaf = make()
    chains.check((leaf,), (root,), NOW)
    with pytest.raises(verification.VerificationError, match=says):
        by_library(root, leaf)


@pytest.mark.parametrize('case', DEVICES)
def test_what_the_library_refuses_of_devices(case):
    """And we take."""
    make, says = DEVICES[case]
    root, leaf = make()
    chains.check_path((leaf, root), spdm_device.NOW, signed_measurements._DEVICE)
    with pytest.raises(verification.VerificationError, match=says):
        by_library(root, leaf)


def test_what_both_take_is_no_matter_of_the_test_itself():
    """The same calls succeed with a chain that the library knows."""
    by_library(*device(EC, hashes.SHA384()))
