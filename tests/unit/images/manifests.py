# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Manifests of reference values as a maker signs them: an SWID tag with TCG RIM, and a CoRIM."""

from datetime import UTC, datetime
from typing import Any

import cbor2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from lxml import etree
from signxml import CanonicalizationMethod, DigestAlgorithm, SignatureMethod, XMLSigner

from tests.unit.images import spdm_device as made

NOW = made.NOW
SWID = 'http://standards.iso.org/iso/19770/-2/2015/schema.xsd'
DSIG = 'http://www.w3.org/2000/09/xmldsig#'

KEY = made.KEYS[made.P384]
PATH = (made.leaf(), made.BETWEEN, made.ROOT)
ROOTS = (made.ROOT,)


def resource(index: int, *values: str, active: str = 'True', alternatives: int | None = None, size: int = 48) -> str:
    """One Resource of a Payload; its index counts from 0."""
    hashed = ' '.join(f'h:Hash{n}="{value}"' for n, value in enumerate(values))
    count = len(values) if alternatives is None else alternatives
    head = f'<Resource type="Measurement" index="{index}" active="{active}" alternatives="{count}" size="{size}"'
    return f'{head} name="Measurement_{index}" {hashed}/>'


RESOURCES = (resource(0, 'a' * 96), resource(1, 'b' * 96, 'c' * 96), resource(2, '0' * 96, active='False'))


def tag(*resources: str, version: str = '96.00.74.00.20', prolog: str = '', more: str = '') -> bytes:
    """An SWID tag that nobody has signed."""
    payload = ''.join(resources or RESOURCES)
    names = f'xmlns="{SWID}" xmlns:h="http://www.w3.org/2001/04/xmlenc#sha384"'
    meta = f'<Meta colloquialVersion="{version}" edition="GPU" product="GH100"/>'
    head = f'{prolog}<SoftwareIdentity {names} name="GH100" tagId="tag-1">'
    return f'{head}{meta}<Payload>{payload}</Payload>{more}</SoftwareIdentity>'.encode()


def signed_tag(data: bytes | None = None, key: Any = KEY, path: tuple[x509.Certificate, ...] = PATH, **otherwise: Any) -> bytes:
    """An SWID tag as a maker signs it: enveloped, of the whole document."""
    signer = XMLSigner(
        signature_algorithm=SignatureMethod.ECDSA_SHA384,
        digest_algorithm=DigestAlgorithm.SHA384,
        c14n_algorithm=CanonicalizationMethod.CANONICAL_XML_1_1,
    )
    found = signer.sign(etree.fromstring(tag() if data is None else data), key=key, cert=list(path), **otherwise)
    return etree.tostring(found)


def digest(letter: str) -> list[Any]:
    """A digest of CoRIM: SHA-384."""
    return [7, bytes.fromhex(letter * 96)]


def reference(index: Any, *digests: list[Any], version: str | None = '1.2', raw: bytes | None = None) -> dict[int, Any]:
    """One measured element with its key."""
    element: dict[int, Any] = {} if version is None else {0: {0: version}}
    if digests:
        element[2] = list(digests)
    if raw is not None:
        element[4] = cbor2.CBORTag(560, raw)
    return {0: index, 1: element}


VALUES = (reference(1, digest('a')), reference(3, digest('b'), [1, bytes(32)]), reference(4, raw=b'\1\2'))


def corim(*values: dict[int, Any], maker: str = 'Acme', model: str = 'X1', valid: dict[int, Any] | None = None) -> bytes:
    """The payload: an unsigned CoRIM with one CoMID."""
    comid = {1: {0: 'comid-1'}, 4: {0: [[{0: {1: maker, 2: model}}, list(values or VALUES)]]}}
    body: dict[int, Any] = {0: 'corim-1', 1: [cbor2.CBORTag(506, cbor2.dumps(comid))]}
    if valid is not None:
        body[4] = valid
    return cbor2.dumps(cbor2.CBORTag(501, body))


def signed_corim(
    payload: bytes | None = None,
    *,
    key: Any = KEY,
    path: tuple[x509.Certificate, ...] = PATH,
    protected: dict[int, Any] | None = None,
    purpose: str = 'Signature1',
) -> bytes:
    """A CoRIM in COSE_Sign1, with ES384."""
    content = corim() if payload is None else payload
    der = [c.public_bytes(serialization.Encoding.DER) for c in path]
    header = cbor2.dumps({1: -35, 3: 'application/rim+cbor', 33: der} | (protected or {}))
    numbers = utils.decode_dss_signature(key.sign(cbor2.dumps([purpose, header, b'', content]), ec.ECDSA(hashes.SHA384())))
    signature = b''.join(number.to_bytes(48, 'big') for number in numbers)
    return cbor2.dumps(cbor2.CBORTag(18, [header, {}, content, signature]))


LATER = datetime(2040, 1, 1, tzinfo=UTC)
