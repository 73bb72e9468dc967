# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a CoRIM (Concise Reference Integrity Manifest) that COSE_Sign1 signs: its reference values for indices of measurements.

Read are CoMID tags (tag 506) and their reference values whose measurement key is a whole number: the index of an SPDM
measurement. The maker and the model of the environment name the component, the version of the measured element is the
version. Only the payload that the signature covers is read for values.

Source: draft-ietf-rats-corim-08, corim-map, concise-mid-tag, reference-triple-record; RFC 9052, COSE_Sign1 and
Sig_structure; RFC 9053, ECDSA, EdDSA; RFC 8230, RSASSA-PSS; RFC 9360, x5chain; IANA Named Information Hash Algorithm
Registry.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import cbor2
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from baremetal_acc.images.reference.manifest import (
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
from baremetal_acc.images.trust.keys import PublicKey, Untrusted, usable
from baremetal_acc.model.image import ReferenceValue

_MAX_DEPTH = 24
"""Most levels of nested CBOR. A CoRIM has some twelve, its tags count anew."""

_LONGEST_RAW = 64
"""Most bytes of a value that is no digest."""

_SIGN1, _CORIM, _COMID, _OLD_CORIM, _BYTES = 18, 501, 506, 500, 560
"""Tags of CBOR."""

_ALGORITHM, _CRITICAL, _CONTENT_TYPE, _X5CHAIN = 1, 2, 3, 33
"""Header parameters of COSE."""

_CONTENT_TYPES = (None, 'application/rim+cbor', 'application/corim-unsigned+cbor')

_ECDSA: Mapping[int, hashes.HashAlgorithm] = {-7: hashes.SHA256(), -35: hashes.SHA384(), -36: hashes.SHA512()}
_PSS: Mapping[int, hashes.HashAlgorithm] = {-37: hashes.SHA256(), -38: hashes.SHA384(), -39: hashes.SHA512()}
_EDDSA = -8

_HASHES: Mapping[object, str] = {
    1: 'sha256', 7: 'sha384', 8: 'sha512', 10: 'sha3_256', 11: 'sha3_384', 12: 'sha3_512',
    'sha-256': 'sha256', 'sha-384': 'sha384', 'sha-512': 'sha512',
    'sha3-256': 'sha3_256', 'sha3-384': 'sha3_384', 'sha3-512': 'sha3_512',
}  # fmt: skip

Map = Mapping[Any, Any]


def _as_it_is(value: Any, immutable: bool) -> Any:
    """What a tag contains, without the tag."""
    return value


_PLAIN = dict.fromkeys((0, 1, 4, 5, 30, 35, 36, 37, 100, 258, 260, 261, 1004), _as_it_is)
"""Tags that the library would turn into other types, such as regular expressions, before any signature is checked."""


def signed(data: bytes, authorities: tuple[x509.Certificate, ...], at: datetime) -> Signed:
    """Verify the signature of a CoRIM, and return what it covers.

    :raises Untrusted: the signature proves nothing.
    :raises Malformed: the CoRIM cannot be read.
    """
    message = _decoded(data)
    while isinstance(message, cbor2.CBORTag) and message.tag in (_OLD_CORIM, _SIGN1):
        message = message.value
    if not isinstance(message, list | tuple) or len(message) != 4:
        raise Malformed('it is not a COSE_Sign1 message: an unsigned CoRIM is not read')
    protected_bytes, unprotected, payload, signature = message
    if not all(isinstance(one, bytes) for one in (protected_bytes, payload, signature)) or not isinstance(unprotected, Mapping):
        raise Malformed('it is not a COSE_Sign1 message with its content')
    protected = _map(_decoded(protected_bytes), 'the protected header')
    if _CRITICAL in protected:
        raise Untrusted('it has critical header parameters, which are not supported')
    if protected.get(_CONTENT_TYPE) not in _CONTENT_TYPES:
        raise Malformed('the content type of its payload is not that of a CoRIM')
    path = chains.path(_certificates(protected.get(_X5CHAIN, unprotected.get(_X5CHAIN))), authorities, at, SIGNER)
    # Sig_structure: https://www.rfc-editor.org/rfc/rfc9052#section-4.4
    covered = cbor2.dumps(['Signature1', protected_bytes, b'', payload])
    _verify(usable(path[0].public_key()), protected.get(_ALGORITHM), signature, covered)
    corim = _decoded(payload)
    if not isinstance(corim, cbor2.CBORTag) or corim.tag != _CORIM:
        raise Malformed('its payload is not an unsigned CoRIM')
    body = _map(corim.value, 'corim-map')
    _in_force(body.get(4), at)
    return Signed(id=_id(body.get(0)), references=tuple(_references(body)), path=path)


def _verify(key: PublicKey, algorithm: object, signature: bytes, covered: bytes) -> None:
    """Check that the key has signed.

    :raises Untrusted: it has not, or the algorithm is not one for the key.
    """
    try:
        match key:
            case ec.EllipticCurvePublicKey() if isinstance(algorithm, int) and algorithm in _ECDSA:
                size = (key.curve.key_size + 7) // 8
                if len(signature) != 2 * size:
                    raise Untrusted('it has a wrong length')
                numbers = (int.from_bytes(part, 'big') for part in (signature[:size], signature[size:]))
                key.verify(encode_dss_signature(*numbers), covered, ec.ECDSA(_ECDSA[algorithm]))
            case rsa.RSAPublicKey() if isinstance(algorithm, int) and algorithm in _PSS:
                hashing = _PSS[algorithm]
                pss = padding.PSS(mgf=padding.MGF1(hashing), salt_length=padding.PSS.DIGEST_LENGTH)
                key.verify(signature, covered, pss, hashing)
            case ed25519.Ed25519PublicKey() if algorithm == _EDDSA:
                key.verify(signature, covered)
            case _:
                raise Untrusted('its algorithm is not supported, or not one for the key of its certificate')
    except InvalidSignature:
        raise Untrusted('it does not match the content') from None


def _decoded(data: bytes) -> Any:
    """Decode CBOR.

    :raises Malformed: it is not CBOR, or is nested too deeply.
    """
    try:
        return cbor2.loads(data, max_depth=_MAX_DEPTH, allow_duplicate_keys=False, semantic_decoders=_PLAIN)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as exc:
        raise Malformed(f'it is not valid CBOR ({type(exc).__name__})') from None


def _certificates(found: object) -> tuple[x509.Certificate, ...]:
    """The certificates of x5chain: one, or a list. They prove nothing before their path to a root is checked."""
    listed = [found] if isinstance(found, bytes) else found
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(one, bytes) for one in listed):
        raise Untrusted('it names no certificate (x5chain)')
    if len(listed) > MOST_CERTIFICATES:
        raise Untrusted(f'it names more than {MOST_CERTIFICATES} certificates')
    return tuple(dict.fromkeys(chains.decoded(tuple(listed))))


def _map(found: object, what: str) -> Map:
    if not isinstance(found, Mapping):
        raise Malformed(f'{what} is not a map')
    return found


def _list(found: object, what: str) -> list[Any]:
    if not isinstance(found, list | tuple) or not found:
        raise Malformed(f'{what} is not a list')
    return list(found)


def _id(found: object) -> str:
    while isinstance(found, cbor2.CBORTag):
        found = found.value
    return found.hex() if isinstance(found, bytes) and 0 < len(found) <= 32 else text(found, 'the id of the CoRIM')


def _in_force(found: object, at: datetime) -> None:
    """Check the period for which the maker says that the manifest is valid.

    :raises Untrusted: the time is outside of it.
    """
    if found is None:
        return
    period = _map(found, 'rim-validity')
    begins, ends = (_moment(period[key]) if key in period else at for key in (0, 1))
    if not begins <= at <= ends:
        raise Untrusted(f'the manifest is valid only from {begins:%Y-%m-%d %H:%M}Z to {ends:%Y-%m-%d %H:%M}Z')


def _moment(found: object) -> datetime:
    try:
        if isinstance(found, int | float) and not isinstance(found, bool):
            return datetime.fromtimestamp(found, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise Malformed('rim-validity has a time that cannot be read')


def _references(body: Map) -> Iterator[NamedReferences]:
    """The values of all CoMID tags, by component and version.

    :raises Malformed: there are none, or one of them is wrong.
    """
    found: dict[tuple[str, str], list[ReferenceValue]] = {}
    for tag in _list(body.get(1), 'the list of tags'):
        if not isinstance(tag, cbor2.CBORTag) or tag.tag != _COMID or not isinstance(tag.value, bytes):
            continue  # CoSWID and others: no reference values of measurements
        triples = _map(_map(_decoded(tag.value), 'concise-mid-tag').get(4), 'the triples of a CoMID')
        for triple in _list(triples.get(0), 'the reference values of a CoMID') if 0 in triples else ():
            environment, claims = (*_list(triple, 'a reference triple'), None, None)[:2]
            component = _component(environment)
            values = [_map(one, 'a reference value') for one in _list(claims, 'the reference values of an environment')]
            versions = [_version(one) for one in values]
            whole = {version for version in versions if version is not None}
            for value, version in zip(values, versions, strict=True):
                # A version that is said once is said of the environment.
                of = version if version is not None else next(iter(whole)) if len(whole) == 1 else None
                if of is None:
                    raise Malformed(f'a reference value of {component} names no version')
                found.setdefault((component, of), []).append(_value(value))
    if not found:
        raise Malformed('it has no reference values of measurements')
    for (component, version), measurements in found.items():
        once(one.index for one in measurements)
        ordered = tuple(sorted(measurements, key=lambda one: one.index))
        yield NamedReferences(component=component, version=version, measurements=ordered)


def _component(environment: object) -> str:
    """The maker and the model of an environment."""
    kind = _map(_map(environment, 'an environment').get(0), 'the class of an environment')
    names = [text(kind[key], 'the class of an environment') for key in (1, 2) if key in kind]
    if not names:
        raise Malformed('an environment names neither maker nor model')
    return text(' '.join(names), 'the class of an environment')


def _measured(value: Map) -> Map:
    return _map(value.get(1), 'a measured element')


def _version(value: Map) -> str | None:
    found = _measured(value).get(0)
    return None if found is None else text(_map(found, 'a version').get(0), 'a version')


def _value(value: Map) -> ReferenceValue:
    """The values of one index: digests of several algorithms, or what is no digest."""
    index = value.get(0)
    if not isinstance(index, int) or isinstance(index, bool):
        raise Malformed('a reference value is not for the index of a measurement')
    measured = _measured(value)
    values: list[tuple[str, str]] = []
    for digest in _list(measured[2], 'digests') if 2 in measured else ():
        name, digits = (*_list(digest, 'a digest'), None, None)[:2]
        algorithm = _HASHES.get(name) if isinstance(name, int | str) else None
        if algorithm is None or not isinstance(digits, bytes):
            raise Malformed(f'measurement {index} has a digest of an algorithm that is not supported')
        values.append(digest_value(algorithm, digits.hex(), index))
    raw = measured.get(4)
    if isinstance(raw, cbor2.CBORTag) and raw.tag == _BYTES and isinstance(raw.value, bytes):
        if not 0 < len(raw.value) <= _LONGEST_RAW:
            raise Malformed(f'measurement {index} has a raw value of more than {_LONGEST_RAW} bytes, or none')
        values.append(('raw', raw.value.hex()))
    if not values:
        raise Malformed(f'measurement {index} has neither a digest nor a raw value')
    return ReferenceValue(integrity='*', index=index, values=tuple(dict.fromkeys(values)))
