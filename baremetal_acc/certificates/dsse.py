# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The DSSE envelope of a hand-over certificate: a payload in base64, its type, and one signature over both.

::

    {"payload": "...", "payloadType": "application/vnd.in-toto+json", "signatures": [{"keyid": "sha256:...", "sig": "..."}]}

Only what :func:`wrap` writes is read: one signature, base64 of the standard alphabet with padding, no other fields. DSSE allows
verifiers to read more. An envelope in another form was written by another program, and is none of ours.

Source: DSSE 1.0 (secure-systems-lab/dsse: envelope.md, protocol.md); in-toto Attestation Framework 1.1, spec/v1/envelope.md.
"""

import base64
import binascii
from dataclasses import dataclass

from baremetal_acc.errors import CertificateInvalid
from baremetal_acc.model.canonical import Json

PAYLOAD_TYPE = 'application/vnd.in-toto+json'

FIELDS = frozenset({'payload', 'payloadType', 'signatures'})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """The content of an envelope.

    :ivar keyid: name of the key, which nothing protects: the payload names the same key.
    """

    payload: bytes
    keyid: str
    signature: bytes


def pae(payload: bytes) -> bytes:
    """Return the bytes that are signed for a payload of an in-toto statement: DSSE's pre-authentication encoding."""
    return b'DSSEv1 %d %b %d %b' % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def wrap(wrapped: Wrapped) -> Json:
    """Return the JSON of an envelope."""
    signature = {'keyid': wrapped.keyid, 'sig': to_base64(wrapped.signature)}
    return {'payload': to_base64(wrapped.payload), 'payloadType': PAYLOAD_TYPE, 'signatures': [signature]}


def unwrap(envelope: Json) -> Wrapped:
    """Return what :func:`wrap` made the JSON from. The signature is not checked here.

    :raises CertificateInvalid: the JSON is no such envelope.
    """
    if not isinstance(envelope, dict) or set(envelope) != FIELDS:
        raise CertificateInvalid('the envelope is not an object of payload, payloadType and signatures')
    if envelope['payloadType'] != PAYLOAD_TYPE:
        raise CertificateInvalid(f'the payload is not of type {PAYLOAD_TYPE}')
    signatures = envelope['signatures']
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise CertificateInvalid('the envelope does not have exactly one signature')
    [signature] = signatures
    if not isinstance(signature, dict) or set(signature) != {'keyid', 'sig'}:
        raise CertificateInvalid('the signature is not an object of keyid and sig')
    if not all(type(text) is str for text in (envelope['payload'], *signature.values())):
        raise CertificateInvalid('the payload or a value of the signature is not a text')
    return Wrapped(
        payload=from_base64(envelope['payload'], 'the payload'),
        keyid=signature['keyid'],
        signature=from_base64(signature['sig'], 'the value of the signature'),
    )


def to_base64(data: bytes) -> str:
    """Return bytes in base64."""
    return base64.b64encode(data).decode()


def from_base64(text: str, what: str) -> bytes:
    """Return the bytes that :func:`to_base64` made the text from.

    :param what: what the text is, for the error.
    :raises CertificateInvalid: the text is something else, or another encoding of the same bytes.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise CertificateInvalid(f'{what} is not base64') from None
    if to_base64(data) != text:
        raise CertificateInvalid(f'{what} is not canonical base64')
    return data
