# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read an SWID tag with TCG RIM that XML-DSig signs, as NVIDIA publishes it for the VBIOS of its GPUs.

The document has no DTD and no entities, and nothing outside of it is fetched. Its one signature is a child of the root and
has one reference, to the whole document. Only the bytes that were digested for this reference are read for values, so that
an element that is moved or added (signature wrapping) is either covered by the signature or not seen.

Resources of type ``Measurement`` count from 0, indices of SPDM from 1: Resource 0 is measurement 1.

Source: ISO/IEC 19770-2:2015; TCG Reference Integrity Manifest (RIM) Information Model 1.01; W3C XML Signature 1.1;
NVIDIA/nvtrust 02817309, local_gpu_verifier, ``rim/__init__.py`` and ``verifier.py``.
"""

from datetime import datetime

from cryptography import x509
from lxml import etree
from signxml.algorithms import DigestAlgorithm, SignatureMethod
from signxml.exceptions import SignXMLException
from signxml.verifier import SignatureConfiguration, XMLVerifier

from baremetal_acc.images.reference.manifest import (
    HEX_DIGITS,
    MOST_CERTIFICATES,
    SIGNER,
    Malformed,
    NamedReferences,
    Signed,
    digest_value,
    once,
    text,
)
from baremetal_acc.images.trust import chains
from baremetal_acc.images.trust.keys import UNREADABLE, Untrusted
from baremetal_acc.model.image import ReferenceValue

_SWID = '{http://standards.iso.org/iso/19770/-2/2015/schema.xsd}'
_DSIG = '{http://www.w3.org/2000/09/xmldsig#}'

_HASHES = {
    '{http://www.w3.org/2001/04/xmlenc#sha256}': 'sha256',
    '{http://www.w3.org/2001/04/xmldsig-more#sha384}': 'sha384',
    '{http://www.w3.org/2001/04/xmlenc#sha384}': 'sha384',
    '{http://www.w3.org/2001/04/xmlenc#sha512}': 'sha512',
}
"""Namespaces of the attributes ``Hash0``, ``Hash1``, ... and the algorithms that they stand for."""

_MOST_ALTERNATIVES = 32
"""Most values of one measurement. The known manifests have up to five."""

_METHODS = frozenset(
    {
        SignatureMethod.ECDSA_SHA256,
        SignatureMethod.ECDSA_SHA384,
        SignatureMethod.ECDSA_SHA512,
        SignatureMethod.RSA_SHA256,
        SignatureMethod.RSA_SHA384,
        SignatureMethod.RSA_SHA512,
    }
)

_DIGESTS = frozenset({DigestAlgorithm.SHA256, DigestAlgorithm.SHA384, DigestAlgorithm.SHA512})


def signed(data: bytes, authorities: tuple[x509.Certificate, ...], at: datetime) -> Signed:
    """Verify the signature of a tag, and return what it covers.

    :raises Untrusted: the signature proves nothing.
    :raises Malformed: the tag cannot be read.
    """
    document = _parsed(data)
    signatures = document.findall(f'.//{_DSIG}Signature')
    if len(signatures) != 1 or signatures[0].getparent() is not document:
        raise Untrusted('there is not exactly one signature, as a child of the root element')
    path = chains.path(_certificates(signatures[0]), authorities, at, SIGNER)
    configuration = SignatureConfiguration(
        location='./',
        expect_references=1,
        signature_methods=_METHODS,
        digest_algorithms=_DIGESTS,
        verification_time=at,
    )
    try:
        found = XMLVerifier().verify(document, x509_cert=path[0], parser=_parser(), expect_config=configuration)
    except (SignXMLException, etree.LxmlError, ValueError, KeyError) as exc:
        raise Untrusted(f'it does not match the content ({type(exc).__name__})') from None
    if isinstance(found, list):
        raise Untrusted('it has more than one reference')
    tag = _parsed(found.signed_data)
    if tag.tag != document.tag or tag.find(f'.//{_DSIG}Signature') is not None:
        raise Untrusted('it does not cover the whole document')
    if tag.tag != f'{_SWID}SoftwareIdentity':
        raise Malformed('what is signed is no SoftwareIdentity')
    return Signed(id=text(tag.get('tagId'), 'tagId'), references=(_references(tag),), path=path)


def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False, remove_pis=True
    )


def _parsed(data: bytes) -> etree._Element:
    """Parse a document without a DTD.

    :raises Malformed: it has one, or is not XML.
    """
    try:
        root = etree.fromstring(data, parser=_parser())
    except (etree.LxmlError, ValueError) as exc:
        raise Malformed(f'it cannot be parsed ({type(exc).__name__})') from None
    info = root.getroottree().docinfo
    if info.doctype or info.internalDTD is not None or info.externalDTD is not None:
        raise Malformed('it has a document type declaration (DTD), which is not supported')
    return root


def _certificates(signature: etree._Element) -> tuple[x509.Certificate, ...]:
    """The certificates in the KeyInfo of a signature. They prove nothing before their path to a root is checked."""
    found = signature.findall(f'{_DSIG}KeyInfo/{_DSIG}X509Data/{_DSIG}X509Certificate')
    if not found:
        raise Untrusted('it names no certificate')
    if len(found) > MOST_CERTIFICATES:
        raise Untrusted(f'it names more than {MOST_CERTIFICATES} certificates')
    try:
        armored = (f'-----BEGIN CERTIFICATE-----\n{(one.text or "").strip()}\n-----END CERTIFICATE-----\n' for one in found)
        return tuple(dict.fromkeys(x509.load_pem_x509_certificate(one.encode()) for one in armored))
    except UNREADABLE:
        raise Untrusted('it names a certificate that cannot be read') from None


def _references(tag: etree._Element) -> NamedReferences:
    """The values of a tag.

    :raises Malformed: it has none, or one of them is wrong.
    """
    meta, payload = tag.findall(f'{_SWID}Meta'), tag.findall(f'{_SWID}Payload')
    if len(meta) != 1 or len(payload) != 1:
        raise Malformed('it has not exactly one Meta and one Payload')
    resources = [one for one in payload[0].findall(f'{_SWID}Resource') if one.get('type') == 'Measurement']
    if not resources:
        raise Malformed('its Payload has no Resource of type Measurement')
    names = [text(meta[0].get(key), key) for key in ('product', 'edition') if meta[0].get(key) is not None]
    if not names:
        raise Malformed('its Meta has no product')
    active, inactive = [], []
    for resource in resources:
        index = _number(resource, 'index') + 1
        match resource.get('active'):
            case 'True':
                active.append(ReferenceValue(integrity='*', index=index, values=_values(resource, index)))
            case 'False':
                inactive.append(index)
            case _:
                raise Malformed(f'measurement {index} is neither active nor not active')
    once([*(one.index for one in active), *inactive])
    if not active:
        raise Malformed('it has no active measurement')
    return NamedReferences(
        component=' '.join(names),
        version=text(meta[0].get('colloquialVersion'), 'colloquialVersion'),
        measurements=tuple(sorted(active, key=lambda one: one.index)),
        inactive=tuple(sorted(inactive)),
    )


def _values(resource: etree._Element, index: int) -> tuple[tuple[str, str], ...]:
    """The values that are accepted for a measurement: ``Hash0`` to ``HashN`` of one algorithm.

    :raises Malformed: they are not as many as the measurement says, or one is no digest.
    """
    found = {}
    for name, value in resource.attrib.items():
        namespace, brace, local = str(name).rpartition('}')
        algorithm = _HASHES.get(namespace + brace)
        if algorithm is not None:
            found[local] = digest_value(algorithm, str(value), index)
    wanted = [f'Hash{n}' for n in range(_number(resource, 'alternatives'))]
    if not wanted or set(wanted) != set(found):
        raise Malformed(f'measurement {index} has other values than its number of alternatives says')
    values = tuple(dict.fromkeys(found[name] for name in wanted))
    size = _number(resource, 'size')
    if any(2 * size != HEX_DIGITS[algorithm] for algorithm, _ in values):
        raise Malformed(f'measurement {index} has a value of another size than it says')
    return values


def _number(resource: etree._Element, key: str) -> int:
    found = resource.get(key) or ''
    most = _MOST_ALTERNATIVES if key == 'alternatives' else 999
    if not found.isascii() or not found.isdigit() or len(found) > 3 or int(found) > most:
        raise Malformed(f'a measurement has no valid {key}')
    return int(found)
