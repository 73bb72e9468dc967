# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The in-toto statement of a hand-over certificate: the certificate is its predicate, the node and the cards are its subjects.

Programs that check in-toto statements compare the digest of a subject with the digest of what they have. So each subject is the
SHA-256 of an identity document, which everyone can write who knows what it names:

* of the node, as it is handed over: node, lifecycle, deployment and instance. The statement of an earlier lifecycle, of another
  deployment, instance or node has another digest.
* of each card: what identifies it, wherever it is plugged in. A card that is known by its URI alone is named with its node.

Source: in-toto Attestation Framework 1.1, spec/v1/statement.md and spec/v1/digest_set.md.
"""

import hashlib

from baremetal_acc.errors import CertificateInvalid
from baremetal_acc.model import canonical
from baremetal_acc.model.accelerator import IdentitySource
from baremetal_acc.model.canonical import Json
from baremetal_acc.model.certificate import Certificate, CertifiedAccelerator, document, read

STATEMENT_TYPE = 'https://in-toto.io/Statement/v1'

PREDICATE_TYPE = 'urn:baremetal-acc:predicate:hand-over:1'
"""Names the form of the predicate. It changes with ``format`` of the certificate."""


def statement(certificate: Certificate) -> Json:
    """Return the JSON of the statement."""
    return {
        '_type': STATEMENT_TYPE,
        'subject': _subjects(certificate),
        'predicateType': PREDICATE_TYPE,
        'predicate': document(certificate),
    }


def read_statement(data: Json) -> Certificate:
    """Return the certificate that :func:`statement` made the JSON from.

    :raises CertificateInvalid: the JSON is no such statement, or its subjects are not those of the certificate.
    """
    if not isinstance(data, dict) or set(data) != {'_type', 'subject', 'predicateType', 'predicate'}:
        raise CertificateInvalid('the payload is not an object of _type, subject, predicateType and predicate')
    if data['_type'] != STATEMENT_TYPE:
        raise CertificateInvalid(f'the payload is not a statement of type {STATEMENT_TYPE}')
    if data['predicateType'] != PREDICATE_TYPE:
        hint = 'check it with the version that issued it'
        raise CertificateInvalid(f'the predicate of the statement is not of type {PREDICATE_TYPE}', hint=hint)
    certificate = read(data['predicate'])
    if data['subject'] != _subjects(certificate):
        raise CertificateInvalid('the subjects of the statement are not the node and the cards of the certificate')
    return certificate


def node_identity(certificate: Certificate) -> Json:
    """Return the identity document of the node as it is handed over; ``node`` is the name where there is no UUID."""
    return {
        'deployment': certificate.deployment,
        'instance': certificate.node.instance,
        'lifecycle': certificate.lifecycle,
        'node': certificate.node.uuid or certificate.node.name,
    }


def card_identity(certificate: Certificate, card: CertifiedAccelerator) -> Json:
    """Return the identity document of a card; ``node`` is None where the card has a UUID or a serial number."""
    node = certificate.node.uuid or certificate.node.name
    return {
        'accelerator': str(card.id),
        'model': card.model,
        'node': node if card.identity is IdentitySource.URI else None,
        'part_number': card.part_number,
        'serial': card.serial,
        'uuid': card.uuid,
        'vendor': card.vendor,
    }


def _subjects(certificate: Certificate) -> list[Json]:
    named = [(f'node/{certificate.node.uuid or certificate.node.name}', node_identity(certificate))]
    named += [(f'accelerator/{card.id}', card_identity(certificate, card)) for card in certificate.accelerators]
    return [
        {'name': name, 'digest': {'sha256': hashlib.sha256(canonical.encode(identity)).hexdigest()}} for name, identity in named
    ]
