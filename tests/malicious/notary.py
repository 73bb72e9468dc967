# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sign a catalogue, rightly and wrongly. Written from the documented form, sharing no code with what checks it."""

import base64
import hashlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.malicious.workshop import Workshop

CATALOGUE = b'baremetal-acc catalogue 1\n'
"""What a signature of a catalogue is over, before its bytes."""

DAY = timedelta(days=1)

NOW = datetime.now(UTC)

Key = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def fingerprint(key: Key) -> str:
    """How a file of signatures names a key."""
    der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f'sha256:{hashlib.sha256(der).hexdigest()}'


def public(key: Key) -> bytes:
    """A public key in PEM."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def signed(key: Key, statement: bytes) -> bytes:
    """A signature."""
    return key.sign(statement) if isinstance(key, ed25519.Ed25519PrivateKey) else key.sign(statement, ec.ECDSA(hashes.SHA256()))


def by_key(value: bytes, named: str) -> str:
    """One entry of a file of signatures, by the fingerprint of a key."""
    return f'[[signature]]\nkey = "{named}"\nvalue = "{base64.b64encode(value).decode()}"\n'


def by_chain(value: bytes, chain: list[x509.Certificate]) -> str:
    """One entry, by certificates."""
    encoded = ', '.join(f'"{base64.b64encode(c.public_bytes(serialization.Encoding.DER)).decode()}"' for c in chain)
    return f'[[signature]]\ncertificates = [{encoded}]\nvalue = "{base64.b64encode(value).decode()}"\n'


@dataclass(kw_only=True)
class Notary:
    """An operator's Ed25519 key and CA, both trust roots, and the signing of the catalogue of a workshop."""

    shop: Workshop
    key: ed25519.Ed25519PrivateKey = field(default_factory=ed25519.Ed25519PrivateKey.generate)
    authority: 'Authority' = field(default_factory=lambda: Authority())

    @property
    def roots(self) -> Path:
        """The file of trust roots."""
        return self.shop.folder.with_name('roots.pem')

    @property
    def catalogue(self) -> Path:
        """What is signed."""
        return self.shop.path('catalogue.toml')

    @property
    def file(self) -> Path:
        """The file of signatures."""
        return self.shop.path('catalogue.toml.sig')

    def sign(self) -> None:
        """Rightly."""
        self.put(by_key(signed(self.key, CATALOGUE + self.catalogue.read_bytes()), fingerprint(self.key)))

    def trust(self, *authorities: 'Authority') -> None:
        """Trust these CAs and no key."""
        self.roots.write_bytes(b''.join(a.certificate.public_bytes(serialization.Encoding.PEM) for a in authorities))

    def put(self, *entries: str) -> None:
        """A file of signatures."""
        self.file.write_text('\n'.join(('format = 1', *entries)))

    def by_leaf(self, **certificate: object) -> None:
        """Sign with a certificate of the CA, of whatever kind."""
        leaf = self.authority.issue(**certificate)
        self.put(by_chain(signed(leaf.key, CATALOGUE + self.catalogue.read_bytes()), [leaf.certificate]))


def notarised(shop: Workshop, then: Callable[[Notary], object] | None = None, *, sign: bool = True) -> Notary:
    """A workshop whose catalogue has to be signed, and is.

    :param then: what the attacker does when everything is on disk, the signature too.
    """
    notary = Notary(shop=shop)
    shop.head = ['format = 1', 'serial = 7', f'expires = {NOW + DAY:%Y-%m-%dT%H:%M:%SZ}']
    notary.roots.write_bytes(public(notary.key) + notary.authority.certificate.public_bytes(serialization.Encoding.PEM))
    shop.conf['trust_roots'] = str(notary.roots)
    if sign:
        shop.after.append(notary.sign)
    if then is not None:
        shop.after.append(lambda: then(notary))
    return notary


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A certificate with its key."""

    key: Key
    certificate: x509.Certificate


class Authority:
    """A CA: its root, and whatever it issues."""

    def __init__(
        self,
        name: str = 'Operator CA',
        path_length: int | None = 0,
        *,
        start: timedelta = -DAY,
        end: timedelta = DAY,
        key: Key | None = None,
    ) -> None:
        self.key: Key = key or ec.generate_private_key(ec.SECP256R1())
        self.certificate = _certificate(name, self.key, name, self.key, ca=True, path_length=path_length, start=start, end=end)

    def issue(
        self,
        *,
        name: str = 'Signer',
        ca: bool = False,
        start: timedelta = -DAY,
        end: timedelta = DAY,
        purpose: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CODE_SIGNING,
        key: Key | None = None,
        critical: bool = False,
        names: tuple[str, ...] = (),
    ) -> Leaf:
        """A certificate.

        :param critical: with a critical extension that nobody knows.
        :param names: addresses of the server that it is for.
        """
        key = key or ec.generate_private_key(ec.SECP256R1())
        issuer = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        made = _certificate(
            name,
            key,
            str(issuer),
            self.key,
            ca=ca,
            start=start,
            end=end,
            purpose=purpose,
            critical=critical,
            path_length=None,
            names=names,
        )
        return Leaf(key=key, certificate=made)


def _certificate(
    name: str,
    key: Key,
    issuer: str,
    issuer_key: Key,
    *,
    ca: bool,
    path_length: int | None,
    start: timedelta = -DAY,
    end: timedelta = DAY,
    purpose: x509.ObjectIdentifier | None = None,
    critical: bool = False,
    names: tuple[str, ...] = (),
) -> x509.Certificate:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    usage = dict.fromkeys(
        (
            'content_commitment',
            'key_encipherment',
            'data_encipherment',
            'key_agreement',
            'crl_sign',
            'encipher_only',
            'decipher_only',
        ),
        False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + start)
        .not_valid_after(NOW + end)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length if ca else None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=not ca, key_cert_sign=ca, **usage), critical=True)
    )
    if purpose is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if names:
        addresses = [x509.IPAddress(ipaddress.ip_address(one)) for one in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    if critical:
        unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier('1.3.6.1.4.1.99999.1'), b'\x05\x00')
        builder = builder.add_extension(unknown, critical=True)
    return builder.sign(issuer_key, None if isinstance(issuer_key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
