# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Verify signed SPDM measurements: the certificate chain of the device, the signature, and our nonce.

A BMC returns a transcript and a chain of certificates. The measurements are proven when the chain leads to a root that the
operator has pinned, each certificate is valid now, the key of the device's own certificate has signed the transcript, and the
signed bytes contain the nonce that we made for this one request. Everything else that a BMC says about the signature proves
nothing, but must not contradict it.

This does not prove that the device that signed is the one in that slot. A BMC that lies can forward our request to a genuine
device elsewhere (see doc/source/reference/measurements.rst).

Source: DSP0274 1.1.4, 1.2.3 and 1.3.2: signature generation and verification, signing contexts (combined_spdm_prefix), SPDM
certificate requirements; DSP8010 2025.4, ComponentIntegrity v1_3_2; TCG DICE Attestation Architecture 1.1 (2.23.133.5.4).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.spdm import opaque_fields, transcript
from baremetal_acc.images.spdm.transcript import HASHES, Transcript
from baremetal_acc.images.trust import chains, roots
from baremetal_acc.images.trust.keys import UNREADABLE, PublicKey, Untrusted, fingerprint, usable
from baremetal_acc.model.measurement import MeasurementReading, MeasurementState, SignedMeasurements

MOST_CERTIFICATES = 10
"""Most certificates in a chain. Real chains of devices with DICE layers have five to seven."""

MAX_CHAIN = 64 * 1024
"""Most characters of a PEM chain. DSP0274 allows 64 KiB of DER for a chain; the known ones take less than 8."""

_PEM = re.compile(r'-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----')

_HASHES: dict[str, hashes.HashAlgorithm] = {
    'sha256': hashes.SHA256(),
    'sha384': hashes.SHA384(),
    'sha512': hashes.SHA512(),
    'sha3_256': hashes.SHA3_256(),
    'sha3_384': hashes.SHA3_384(),
    'sha3_512': hashes.SHA3_512(),
}

_CURVES = {
    'TPM_ALG_ECDSA_ECC_NIST_P256': 'secp256r1',
    'TPM_ALG_ECDSA_ECC_NIST_P384': 'secp384r1',
    'TPM_ALG_ECDSA_ECC_NIST_P521': 'secp521r1',
}

_CONTEXT = b'responder-measurements signing'

_CONTEXT_BYTES = 36
"""Length of the context with the zeros before it. Source: DSP0274 1.2.3, signature generation."""

_RESPONDER, _REQUESTER = '1.3.6.1.4.1.412.274.3', '1.3.6.1.4.1.412.274.4'
"""Extended key usages of an SPDM certificate. Source: DSP0274 1.2.3, extended key usage authentication OIDs."""


def _answers(purposes: frozenset[str]) -> str | None:
    if _REQUESTER in purposes and _RESPONDER not in purposes:
        return 'is for an SPDM requester, not for a responder'
    return None


_DEVICE = chains.Profile(
    holder='device',
    root='pinned root',
    purpose=_answers,
    digests=frozenset({'sha256', 'sha384', 'sha512', 'sha3-256', 'sha3-384', 'sha3-512'}),
    describes=('2.23.133.5.4.', '1.3.6.1.4.1.412.274.'),  # of TCG (DICE) and of DMTF: they limit no signature
    names_usage=False,
)
"""The demands on the certificate chain of a device that signs measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpdmAttestor:
    """Checks signed measurements of devices against the roots that the operator pinned.

    :ivar authorities: the roots.
    """

    authorities: tuple[x509.Certificate, ...]

    def check(self, signed: SignedMeasurements) -> MeasurementReading:
        """Check signed measurements, and return the reading."""
        seen: Transcript | None = None
        signer = key = root = None
        try:
            seen = transcript.read(signed.transcript, signed.signing)
            _agrees(signed, seen)
            path = self._path(signed.certificates, signed.at)
            root = _digest(path[-1])
            key, signer = usable(path[0].public_key()), chains.name_of(path[0])
            _verify(key, seen, signed)
            against, told = transcript.speaks_against(seen)
        except Untrusted as exc:
            return _reading(signed, MeasurementState.REFUSED, str(exc), seen, signer, key, root)
        except UNREADABLE as exc:
            what = f'a certificate is malformed ({type(exc).__name__})'
            return _reading(signed, MeasurementState.REFUSED, what, seen, signer, key, root)
        if against is not None:
            return _reading(signed, MeasurementState.REFUSED, against, seen, signer, key, root)
        return _reading(signed, MeasurementState.PROVEN, told, seen, signer, key, root)

    def _path(self, text: str, now: datetime) -> tuple[x509.Certificate, ...]:
        """Return the certificates from the device's own up to a pinned root.

        :raises Untrusted: there is no such path, or a check of it fails.
        """
        return chains.path(_certificates(text), self.authorities, now, _DEVICE)


def attestor(paths: Iterable[str]) -> SpdmAttestor | None:
    """Return an attestor for the roots in these files and folders; None where no path is given.

    :raises DocumentError: a file cannot be read, holds something else than CA certificates, or may be written by others.
    """
    named = [Path(path) for path in paths]
    if not named:
        return None
    found = roots.trust(named)
    if found.keys:
        what = 'contains a public key, but a root of device certificates must be a CA certificate'
        raise DocumentError(path=str(named[0]), what=what, hint='set by option [baremetal_acc] spdm_trust_roots')
    return SpdmAttestor(authorities=found.authorities)


def _reading(
    signed: SignedMeasurements,
    state: MeasurementState,
    reason: str | None,
    seen: Transcript | None,
    signer: str | None,
    key: PublicKey | None,
    root: str | None,
) -> MeasurementReading:
    return MeasurementReading(
        accelerator=signed.accelerator,
        ref=signed.ref,
        integrity=signed.integrity,
        state=state,
        at=signed.at,
        session=signed.session,
        reason=reason,
        version=None if seen is None else seen.version,
        signer=signer,
        fingerprint=None if key is None else fingerprint(key),
        root=root,
        nonce=signed.nonce.hex(),
        # Unproven measurements are not kept, so that nobody can mistake them for proven ones.
        measurements=() if seen is None or state is not MeasurementState.PROVEN else seen.measurements,
        versions=() if seen is None or state is not MeasurementState.PROVEN else opaque_fields.versions(seen.opaque),
    )


def _agrees(signed: SignedMeasurements, seen: Transcript) -> None:
    """Check that the transcript is of our request, and that the BMC's own statements do not contradict it.

    :raises Untrusted: it is of another request, or they do.
    """
    if seen.nonce != signed.nonce:
        raise Untrusted('the nonce is not the one that was sent: the response is to another request')
    if seen.slot != signed.slot:
        raise Untrusted(f'the response is for certificate slot {seen.slot}, but slot {signed.slot} was requested')
    if signed.version is not None and not re.fullmatch(rf'v?{re.escape(seen.version)}(\.[0-9]+)*', signed.version.strip()):
        raise Untrusted(f'the BMC reports another SPDM version than the transcript, {seen.version}')
    said = ((seen.signing, signed.signing), (seen.hashing, signed.hashing))
    if any(negotiated is not None and told is not None and negotiated != told for negotiated, told in said):
        raise Untrusted('the BMC reports other algorithms than the device negotiated')


# ------------------------------------------------------------------------------------------------------------- the signature


def _verify(key: PublicKey, seen: Transcript, signed: SignedMeasurements) -> None:
    """Check that the device's key has signed the transcript.

    :raises Untrusted: it has not, or the algorithm does not match the key.
    """
    signing = seen.signing or signed.signing or ''
    name = HASHES.get(seen.hashing or signed.hashing or '')
    if name is None:
        raise Untrusted('the hash algorithm of the transcript is not supported')
    algorithm = _HASHES[name]
    message = seen.signed
    if seen.version != '1.1':
        digest = hashes.Hash(algorithm)
        digest.update(seen.signed)
        message = prefix(seen.version) + digest.finalize()
    try:
        match key:
            case ec.EllipticCurvePublicKey() if _CURVES.get(signing) == key.curve.name:
                half = len(seen.signature) // 2
                numbers = (int.from_bytes(part, 'big') for part in (seen.signature[:half], seen.signature[half:]))
                key.verify(encode_dss_signature(*numbers), message, ec.ECDSA(algorithm))
            case rsa.RSAPublicKey() if signing == f'TPM_ALG_RSASSA_{key.key_size}':
                key.verify(seen.signature, message, padding.PKCS1v15(), algorithm)
            case rsa.RSAPublicKey() if signing == f'TPM_ALG_RSAPSS_{key.key_size}':
                pss = padding.PSS(mgf=padding.MGF1(algorithm), salt_length=padding.PSS.DIGEST_LENGTH)
                key.verify(seen.signature, message, pss, algorithm)
            case ed25519.Ed25519PublicKey() if signing == 'EdDSA ed25519' and seen.version != '1.1':
                key.verify(seen.signature, message)
            case _:
                raise Untrusted(f'the key of the device certificate is not for {signing}')
    except InvalidSignature:
        raise Untrusted('the signature does not match: another key signed, or the transcript was changed') from None


def prefix(version: str) -> bytes:
    """Return the bytes before the digest of a transcript when it is signed: combined_spdm_prefix. SPDM 1.1 has none."""
    return f'dmtf-spdm-v{version}.*'.encode() * 4 + _CONTEXT.rjust(_CONTEXT_BYTES, b'\0')


# ------------------------------------------------------------------------------------------------------------- the chain


def _certificates(text: str) -> tuple[x509.Certificate, ...]:
    """Parse the certificates of a chain.

    :raises Untrusted: there are none, or too many, or one cannot be read.
    """
    if len(text) > MAX_CHAIN:
        raise Untrusted(f'the certificate chain has more than {MAX_CHAIN} characters')
    blocks = _PEM.findall(text)
    if not blocks:
        raise Untrusted('the response contains no certificate')
    if len(blocks) > MOST_CERTIFICATES:
        raise Untrusted(f'the certificate chain has more than {MOST_CERTIFICATES} certificates')
    try:
        return tuple(dict.fromkeys(x509.load_pem_x509_certificate(block.encode()) for block in blocks))
    except UNREADABLE:
        raise Untrusted('the certificate chain contains a certificate that cannot be read') from None


def _digest(certificate: x509.Certificate) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(certificate.public_bytes(serialization.Encoding.DER))
    return f'sha256:{digest.finalize().hex()}'
