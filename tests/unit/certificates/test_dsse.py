# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A certificate is an in-toto statement in a DSSE envelope, for us and for the libraries of in-toto; nothing else is one.

Each alteration is made of a genuine certificate, the same ones in each run. Of each it is said for which reason we refuse it.
The libraries refuse it, too: securesystemslib checks the signature, in-toto-attestation reads the statement, and whoever has a
node compares the digest of the subject with that of the node's identity document. They may accept what has the payload that was
signed, in another form, and what an issuer signed that contradicts itself.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import jsonschema
import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from baremetal_acc.certificates import dsse, envelope, in_toto
from baremetal_acc.certificates.validity import holds
from baremetal_acc.errors import CertificateAltered, CertificateInvalid, CertificateUntrusted
from baremetal_acc.model import canonical
from baremetal_acc.model.accelerator import IdentitySource
from baremetal_acc.model.certificate import Certificate, CertifiedNode, document
from tests.cli.test_schemas import closed
from tests.unit.certificates.test_envelope import ORDER
from tests.unit.certificates.test_statement import ALL_MET, LATER, OCCASION, TWO_PATHS, WAIVED, issued
from tests.unit.certificates.values import altered, certificate, sealed_as_before, sealer

OURS, THEIRS = sealer(1), sealer(2)


def _genuine() -> Certificate:
    """One with a waiver, so that it has whatever a certificate may have."""
    made = issued(baseline=TWO_PATHS, verdict=replace(ALL_MET, waived=(WAIVED,)))
    return replace(made, key=OURS.name)


GENUINE = _genuine()
SEALED = envelope.seal(GENUINE, OURS)
PAYLOAD = base64.b64decode(json.loads(SEALED)['payload'])
STATEMENT = json.loads(PAYLOAD)
NOW = OCCASION.issued + timedelta(hours=1)
ASKED = {'node': GENUINE.node.uuid, 'lifecycle': GENUINE.lifecycle, 'deployment': 'd-1', 'instance': 'vm-1'}
"""What a tenant knows of the node."""

IDENTITY = b'{"deployment":"d-1","instance":"vm-1","lifecycle":8,"node":"6f1a7c1e-0000-4000-8000-000000000001"}'
"""The identity document of the node, as the documentation writes it."""


def judged_by_us(data: bytes) -> tuple[str, ...]:
    """The kinds of the reasons for which ``certificate verify`` refuses a certificate; empty if it is valid."""
    try:
        found = envelope.opened(data, OURS.trust)
    except CertificateInvalid as exc:
        return (exc.kind,)
    return tuple(fault.kind for fault in holds(found, now=NOW, **ASKED))


def judged_by_others(data: bytes) -> bytes | None:
    """The payload that the libraries of in-toto accept for the node; None if they refuse the certificate."""
    public = OURS.private.public_key()
    key = SSlibKey.from_crypto(public, keyid=OURS.name)
    try:
        found = Envelope.from_dict(json.loads(data))
        found.verify([key], 1)
        assert found.payload_type == 'application/vnd.in-toto+json'
        parsed = Statement.copy_from_pb(json_format.Parse(found.payload, statement_pb2.Statement()))
        parsed.validate()
        assert parsed.pb.predicate_type == in_toto.PREDICATE_TYPE
        wanted = hashlib.sha256(IDENTITY).hexdigest()
        assert any(subject.digest['sha256'] == wanted for subject in parsed.pb.subject)
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError, json_format.Error, VerificationError):
        return None
    return found.payload


def test_a_genuine_one_is_accepted_by_us_and_by_the_libraries_of_in_toto():
    """By securesystemslib, by in-toto's statement, and by whoever compares the digest of the node."""
    assert () == judged_by_us(SEALED) == judged_by_us(SEALED + b'\n')
    assert PAYLOAD == judged_by_others(SEALED)
    assert GENUINE == envelope.opened(SEALED, OURS.trust) == envelope.unchecked(SEALED)


def test_what_securesystemslib_has_signed_is_accepted():
    """Another program's signature over the same payload, with the same key."""
    from securesystemslib.signer import CryptoSigner

    key = SSlibKey.from_crypto(OURS.private.public_key(), keyid=OURS.name)
    theirs = Envelope(PAYLOAD, dsse.PAYLOAD_TYPE, {})
    theirs.sign(CryptoSigner(OURS.private, key))
    assert theirs.pae() == dsse.pae(PAYLOAD)
    assert SEALED == canonical.encode(theirs.to_dict())


def test_the_statement_has_the_node_and_each_card_as_subjects():
    """Each digest is that of a document that everybody can write, with printf and sha256sum."""
    card = GENUINE.accelerators[0]
    of_card = f'{{"accelerator":"{card.id}","model":"H100","node":null,"part_number":null,"serial":null,"uuid":null,'
    of_card += '"vendor":"NVIDIA"}'
    assert [
        ('node/6f1a7c1e-0000-4000-8000-000000000001', {'sha256': hashlib.sha256(IDENTITY).hexdigest()}),
        (f'accelerator/{card.id}', {'sha256': hashlib.sha256(of_card.encode()).hexdigest()}),
    ] == [(subject['name'], subject['digest']) for subject in STATEMENT['subject']]
    assert 'https://in-toto.io/Statement/v1' == STATEMENT['_type']
    assert 'urn:baremetal-acc:predicate:hand-over:1' == STATEMENT['predicateType']
    assert document(GENUINE) == STATEMENT['predicate']


def test_a_card_is_named_with_its_node_where_nothing_but_its_uri_identifies_it():
    """Two nodes have such cards with the same id; a target without UUID goes by its name."""
    card = GENUINE.accelerators[0]
    by_uri = replace(card, identity=IdentitySource.URI)
    assert GENUINE.node.uuid == in_toto.card_identity(GENUINE, by_uri)['node']
    nameless = replace(GENUINE, node=CertifiedNode(uuid=None, name='rack1-node7'))
    assert 'rack1-node7' == in_toto.card_identity(nameless, by_uri)['node'] == in_toto.node_identity(nameless)['node']
    assert in_toto.card_identity(nameless, card)['node'] is None
    again = replace(nameless, key=OURS.name, accelerators=(by_uri,))
    assert again == envelope.opened(envelope.seal(again, OURS), OURS.trust)


def test_the_schemas_of_the_documentation_say_what_it_is(tree):
    """Of the envelope, of the statement, and of the certificate in it, which ``certificate show`` prints."""
    schemas = {
        name: json.loads((tree / 'doc/source/schemas' / f'{name}.json').read_text())
        for name in ('certificate', 'certificate-envelope', 'certificate-statement')
    }
    for name, body in (('certificate-envelope', json.loads(SEALED)), ('certificate-statement', STATEMENT)):
        strict = closed(schemas[name])
        jsonschema.Draft202012Validator.check_schema(strict)
        jsonschema.Draft202012Validator(strict).validate(body)
        for key in body:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.Draft202012Validator(strict).validate(
                    {other: value for other, value in body.items() if other != key}
                )
    whole = schemas['certificate']['properties']['certificate']
    assert whole | {'description': ''} == schemas['certificate-statement']['properties']['predicate'] | {'description': ''}


def test_one_in_the_form_of_earlier_versions_still_verifies():
    """With the same key; and neither signature is good in the other form."""
    before = sealed_as_before(GENUINE, OURS)
    assert () == judged_by_us(before) == judged_by_us(before + b'\n')
    value = json.loads(before)['signature']['value']
    new = json.loads(SEALED)
    moved = {**new, 'signatures': [{'keyid': OURS.name, 'sig': value}]}
    assert ('altered',) == judged_by_us(canonical.encode(moved))
    back = json.loads(before)
    back['signature']['value'] = new['signatures'][0]['sig']
    assert ('altered',) == judged_by_us(canonical.encode(back))
    of_dsse = sealed_as_before(GENUINE, OURS, purpose=dsse.pae(PAYLOAD)[: -len(PAYLOAD)])
    assert ('altered',) == judged_by_us(of_dsse)


# -------------------------------------------------------------------------------------------------------------- alterations


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """A certificate that is not the genuine one.

    :ivar why: the kind of the reason for which we refuse it; None: any.
    :ivar same: it has the payload and the signature that were signed, in another form, which the libraries may read.
    :ivar by_issuer: the issuer signed it, and it contradicts itself, which the libraries do not look at.
    """

    name: str
    data: bytes
    why: str | None = None
    same: bool = False
    by_issuer: bool = False


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value of a document, objects and arrays included."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _leaves(inner, (*path, key))


def _other(value: Any) -> list[Any]:
    """Values of the same type and of others that are not this one."""
    match value:
        case bool():
            return [not value, None]
        case int():
            return [value + 1, str(value)]
        case str():
            return [f'{value}x', value[:-1], None]
        case None:
            return ['x', 0]
        case list():
            return [[*value, 'x'], value[:-1]] if value else [['x'], {}]
        case dict():
            return [{**value, 'unknown': 1}, {}] if value else [{'unknown': 1}]
    raise AssertionError(value)


def _changed(document: Any, path: tuple[Any, ...], to: Any) -> Any:
    whole = json.loads(json.dumps(document))
    place = whole
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return whole


def _without(document: Any, path: tuple[Any, ...]) -> Any:
    whole = json.loads(json.dumps(document))
    place = whole
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return whole


def _enveloped(**changes: Any) -> bytes:
    return canonical.encode({**json.loads(SEALED), **changes})


def _payload(body: Any) -> bytes:
    """The statement with other content, under the old signature."""
    data = body if isinstance(body, bytes) else canonical.encode(body)
    return _enveloped(payload=base64.b64encode(data).decode())


def _signed(payload: bytes, *, by: Any = OURS, message: bytes | None = None, keyid: str | None = None) -> bytes:
    """A payload that the issuer has signed: by this test, not by our code."""
    value = base64.b64encode(by.private.sign(dsse.pae(payload) if message is None else message)).decode()
    body = {'payload': base64.b64encode(payload).decode(), 'payloadType': dsse.PAYLOAD_TYPE}
    return canonical.encode({**body, 'signatures': [{'keyid': keyid or by.name, 'sig': value}]})


def _of_each_value() -> Iterator[Alteration]:
    """Each value of the statement changed and left out, without a new signature."""
    for path in _leaves(STATEMENT):
        value = STATEMENT
        for key in path:
            value = value[key]
        name = '/'.join(map(str, path))
        for number, to in enumerate(_other(value)):
            if to != value:
                yield Alteration(name=f'{name} changed {number}', data=_payload(_changed(STATEMENT, path, to)), why='altered')
        yield Alteration(name=f'{name} left out', data=_payload(_without(STATEMENT, path)), why='altered')


def _of_each_signed_value() -> Iterator[Alteration]:
    """What binds the statement to a node changed, and signed again by the issuer: an issuer contradicts itself."""
    for path in (
        ('_type',),
        ('predicateType',),
        ('subject', 0, 'name'),
        ('subject', 0, 'digest', 'sha256'),
        ('subject', 1, 'name'),
        ('subject', 1, 'digest', 'sha256'),
        ('predicate', 'format'),
        ('predicate', 'node', 'uuid'),
        ('predicate', 'node', 'instance'),
        ('predicate', 'lifecycle'),
        ('predicate', 'deployment'),
        ('predicate', 'key'),
        ('predicate', 'accelerators', 0, 'id'),
        ('predicate', 'accelerators', 0, 'serial'),
        ('predicate', 'accelerators', 0, 'uuid'),
    ):
        value = STATEMENT
        for key in path:
            value = value[key]
        to = value + 1 if isinstance(value, int) else f'{value}x'
        data = _signed(canonical.encode(_changed(STATEMENT, path, to)))
        yield Alteration(name=f'{"/".join(map(str, path))} signed', data=data, why='malformed', by_issuer=True)
    for name, body in (
        ('a subject less', {**STATEMENT, 'subject': STATEMENT['subject'][:1]}),
        ('a subject more', {**STATEMENT, 'subject': [*STATEMENT['subject'], STATEMENT['subject'][0]]}),
        ('subjects in another order', {**STATEMENT, 'subject': STATEMENT['subject'][::-1]}),
        ('no subject', {**STATEMENT, 'subject': []}),
        ('an unknown field', {**STATEMENT, 'unknown': 1}),
        ('an unknown field of the predicate', _changed(STATEMENT, ('predicate', 'unknown'), 1)),
        ('a second digest', _changed(STATEMENT, ('subject', 0, 'digest', 'sha1'), '0')),
        ('a list', [STATEMENT]),
        ('the certificate alone', STATEMENT['predicate']),
    ):
        yield Alteration(name=f'{name}, signed', data=_signed(canonical.encode(body)), why='malformed', by_issuer=True)
    twice = PAYLOAD.replace(b'"lifecycle":8', b'"lifecycle":8,"lifecycle":8', 1)
    for name, payload in (
        ('a key twice', twice),
        ('blanks between', json.dumps(STATEMENT, sort_keys=True, ensure_ascii=False).encode()),
        ('a byte order mark', b'\xef\xbb\xbf' + PAYLOAD),
        ('a newline', PAYLOAD + b'\n'),
        ('no JSON', PAYLOAD[:-1]),
        ('nothing', b''),
    ):
        yield Alteration(name=f'{name} in the payload, signed', data=_signed(payload), why='malformed', by_issuer=True)


def _of_each_signature_bit() -> Iterator[Alteration]:
    """Each bit of the signature, its lengths, and another scalar for the same equation."""
    value = base64.b64decode(json.loads(SEALED)['signatures'][0]['sig'])
    variants = {f'bit {n}': bytes(b ^ (1 << n % 8) * (n // 8 == i) for i, b in enumerate(value)) for n in range(8 * len(value))}
    variants |= {f'{length} bytes': value[:length] for length in range(0, len(value), 7)}
    variants['a byte more'] = value + b'\0'
    variants['nought'] = bytes(64)
    variants['another scalar'] = value[:32] + (int.from_bytes(value[32:], 'little') + ORDER).to_bytes(32, 'little')
    for name, changed in variants.items():
        sig = {'keyid': OURS.name, 'sig': base64.b64encode(changed).decode()}
        yield Alteration(name=f'signature: {name}', data=_enveloped(signatures=[sig]), why='altered')


def _of_what_is_signed() -> Iterator[Alteration]:
    """A signature of the issuer over something else than the encoding of DSSE."""
    length = len(PAYLOAD)
    kind = dsse.PAYLOAD_TYPE.encode()
    for name, message in {
        'the payload': PAYLOAD,
        'its base64': base64.b64encode(PAYLOAD),
        'its digest': hashlib.sha256(PAYLOAD).digest(),
        'no version': dsse.pae(PAYLOAD).removeprefix(b'DSSEv1 '),
        'another version': dsse.pae(PAYLOAD).replace(b'DSSEv1', b'DSSEv2', 1),
        'another length': b'DSSEv1 %d %b %d %b' % (len(kind), kind, length + 1, PAYLOAD),
        'a length with a nought': b'DSSEv1 %d %b 0%d %b' % (len(kind), kind, length, PAYLOAD),
        'another type': b'DSSEv1 16 application/json %d %b' % (length, PAYLOAD),
        'no type': b'DSSEv1 0  %d %b' % (length, PAYLOAD),
        'a newline more': dsse.pae(PAYLOAD) + b'\n',
        'lengths in bytes': b'DSSEv1' + len(kind).to_bytes(8, 'little') + kind + length.to_bytes(8, 'little') + PAYLOAD,
        'the purpose of earlier versions': b'baremetal-acc hand-over certificate 1\n' + canonical.encode(document(GENUINE)),
        'the purpose of catalogues': b'baremetal-acc catalogue 1\n' + PAYLOAD,
    }.items():
        yield Alteration(name=f'signed: {name}', data=_signed(PAYLOAD, message=message), why='altered')
    yield Alteration(name='another key', data=_signed(PAYLOAD, by=THEIRS), why='untrusted-key')
    yield Alteration(name='another key under our name', data=_signed(PAYLOAD, by=THEIRS, keyid=OURS.name), why='altered')
    named = canonical.encode(document(replace(GENUINE, key=THEIRS.name)))
    theirs = canonical.encode({**STATEMENT, 'predicate': json.loads(named)})
    yield Alteration(name='another key named inside', data=_signed(theirs), why='malformed', by_issuer=True)


def _of_the_envelope() -> Iterator[Alteration]:
    """Other fields, types, signatures and encodings of the envelope."""
    whole = json.loads(SEALED)
    [sig] = whole['signatures']
    text = whole['payload']
    for to in (
        'application/json',
        'application/vnd.in-toto+JSON',
        'application/vnd.in-toto+json ',
        '',
        'text/plain',
        None,
        1,
        [],
    ):
        yield Alteration(name=f'payloadType {to!r}', data=_enveloped(payloadType=to), why='malformed')
    for field in whole:
        yield Alteration(
            name=f'{field} left out',
            data=canonical.encode({key: value for key, value in whole.items() if key != field}),
            why='malformed',
        )
        for to in (None, 1, True, {}, [[]]):
            yield Alteration(name=f'{field} is {to!r}', data=_enveloped(**{field: to}), why='malformed')
    for field in ('unknown', 'certificate', 'signature', '_type', 'Payload'):
        yield Alteration(name=f'field {field}', data=_enveloped(**{field: 'x'}), why='malformed', same=True)
    theirs = base64.b64encode(THEIRS.private.sign(dsse.pae(PAYLOAD))).decode()
    second = {'keyid': THEIRS.name, 'sig': theirs}
    for name, given in {
        'a second signature': [sig, second],
        'a second signature first': [second, sig],
        'the signature twice': [sig, sig],
        'a wrong signature first': [{**sig, 'keyid': 'x'}, sig],
        'an empty signature more': [sig, {}],
        'no keyid': [{'sig': sig['sig']}],
        'a field of the signature more': [{**sig, 'alg': 'none'}],
        'a certificate with the signature': [{**sig, 'cert': 'x'}],
    }.items():
        yield Alteration(name=name, data=_enveloped(signatures=given), why='malformed', same=True)
    for name, given in {
        'no signature': [],
        'no sig': [{'keyid': OURS.name}],
        'a sig that is a number': [{**sig, 'sig': 1}],
        'a signature that is a text': [sig['sig']],
        'signatures by name': {OURS.name: sig['sig']},
    }.items():
        yield Alteration(name=name, data=_enveloped(signatures=given), why='malformed')
    for keyid in ('', 'x', OURS.name.upper(), OURS.name[7:], THEIRS.name):
        yield Alteration(name=f'keyid {keyid}', data=_enveloped(signatures=[{**sig, 'keyid': keyid}]), why='untrusted-key')
    for name, given in _base64_variants(text):
        yield Alteration(name=f'payload {name}', data=_enveloped(payload=given), why='malformed', same=True)
    for name, given in _base64_variants(sig['sig']):
        yield Alteration(
            name=f'signature {name}', data=_enveloped(signatures=[{**sig, 'sig': given}]), why='malformed', same=True
        )


def _base64_variants(text: str) -> Iterator[tuple[str, str]]:
    """Other texts that some readers of base64 take for the same bytes."""
    yield 'without padding', text.rstrip('=') if text.endswith('=') else text + '='
    yield 'with more padding', text + '===='
    yield 'in lines', '\n'.join(re.findall('.{1,76}', text))
    yield 'with a blank', f'{text[:8]} {text[8:]}'
    yield 'with a newline', f'{text}\n'
    yield 'with a letter of no alphabet', f'{text[:8]}!{text[8:]}'
    yield 'twice', text + text
    if re.search(r'[+/]', text):
        yield 'of the URL alphabet', text.replace('+', '-').replace('/', '_')
    if text.endswith('='):
        body, letters = text.rstrip('='), 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
        last = letters[letters.index(body[-1]) + 1]
        yield 'with loose bits', body[:-1] + last + '=' * (len(text) - len(body))


def _of_the_text() -> Iterator[Alteration]:
    """The envelope in other JSON, or in none."""
    whole = json.loads(SEALED)
    for name, data in {
        'blanks between': json.dumps(whole, sort_keys=True).encode(),
        'lines': json.dumps(whole, sort_keys=True, indent=1).encode(),
        'keys in another order': json.dumps(dict(reversed(whole.items())), separators=(',', ':')).encode(),
        'a payload twice': SEALED.replace(b'{"payload":', b'{"payload":"e30=","payload":', 1),
        'signatures twice': SEALED.replace(b'"signatures":', b'"signatures":[],"signatures":', 1),
        'a payloadType twice': SEALED.replace(b'"payloadType":', b'"payloadType":"text/plain","payloadType":', 1),
        'a keyid twice': SEALED.replace(b'{"keyid":', b'{"keyid":"x","keyid":', 1),
        'a key in escapes': SEALED.replace(b'"payload":', b'"pay\\u006coad":', 1),
        'a byte order mark': b'\xef\xbb\xbf' + SEALED,
        'two newlines': SEALED + b'\n\n',
        'a carriage return': SEALED + b'\r\n',
    }.items():
        yield Alteration(name=f'text: {name}', data=data, why='malformed', same=True)
    yield Alteration(name='text: another payload last', data=SEALED[:-1] + b',"payload":"e30="}', why='malformed')
    yield Alteration(name='text: twice', data=SEALED + SEALED, why='malformed')
    yield Alteration(name='text: a list', data=b'[' + SEALED + b']', why='malformed')
    yield Alteration(name='text: in another encoding', data=SEALED.decode().encode('utf-16'), why='malformed', same=True)
    yield Alteration(name='text: nothing', data=b'', why='malformed')
    for length in range(1, len(SEALED), len(SEALED) // 20):
        yield Alteration(name=f'text: {length} bytes', data=SEALED[:length], why='malformed')
    for position in range(0, len(SEALED), len(SEALED) // 60):
        flipped = bytearray(SEALED)
        flipped[position] ^= 1
        yield Alteration(name=f'text: bit of byte {position}', data=bytes(flipped))


def _of_others() -> Iterator[Alteration]:
    """Genuine certificates, which the issuer has signed: of other lifecycles, deployments, nodes and tenants."""
    for number in range(1, 60):
        of_then = replace(GENUINE, lifecycle=number, proven_in=number - 1, deployment=f'd-{number}')
        if number != GENUINE.lifecycle:
            yield Alteration(name=f'lifecycle {number}', data=envelope.seal(of_then, OURS), why='another-lifecycle')
        again = replace(GENUINE, deployment=f'd-{number + 1}')
        yield Alteration(name=f'deployment {number}', data=envelope.seal(again, OURS), why='another-deployment')
        uuid = f'6f1a7c1e-0000-4000-8000-{number + 1:012}'
        other = replace(GENUINE, node=replace(GENUINE.node, uuid=uuid))
        yield Alteration(name=f'node {number}', data=envelope.seal(other, OURS), why='another-node')
        tenant = replace(GENUINE, node=replace(GENUINE.node, instance=f'vm-{number + 1}'))
        yield Alteration(name=f'instance {number}', data=envelope.seal(tenant, OURS), why='another-instance')
    nobody = replace(GENUINE, node=replace(GENUINE.node, instance=None))
    yield Alteration(name='no instance', data=envelope.seal(nobody, OURS), why='another-instance')
    by_name = replace(GENUINE, node=replace(GENUINE.node, uuid=None))
    yield Alteration(name='a node by its name', data=envelope.seal(by_name, OURS), why='another-node')


FAMILIES: dict[str, Callable[[], Iterator[Alteration]]] = {
    'each value': _of_each_value,
    'values signed again': _of_each_signed_value,
    'signatures': _of_each_signature_bit,
    'what is signed': _of_what_is_signed,
    'envelopes': _of_the_envelope,
    'texts': _of_the_text,
    'replayed and re-bound': _of_others,
}


@pytest.mark.parametrize('family', FAMILIES)
def test_what_was_altered_replayed_or_bound_to_another_node_is_refused(family):
    """By us, each for its reason; by the libraries of in-toto, unless what it says is what was signed."""
    made = list(FAMILIES[family]())
    assert made
    assert len(made) == len({one.name for one in made})
    for one in made:
        assert one.data != SEALED, one.name
        found = judged_by_us(one.data)
        assert found, f'{one.name} is accepted'
        assert one.why in (None, found[0]), (one.name, found)
        theirs = judged_by_others(one.data)
        assert theirs is None or (one.same and theirs == PAYLOAD) or one.by_issuer, one.name


def test_there_are_a_thousand_of_them():
    """All different, and the same in each run."""
    first, second = ([one.data for make in FAMILIES.values() for one in make()] for _ in range(2))
    assert first == second
    assert 1000 <= len(set(first)), len(set(first))


def test_the_errors_are_of_their_own_types():
    """A program that asks for one needs no sentence."""
    with pytest.raises(CertificateUntrusted):
        envelope.opened(SEALED, THEIRS.trust)
    with pytest.raises(CertificateAltered):
        envelope.opened(altered(SEALED, lambda data: data.replace(b'"d-1"', b'"d-2"')), OURS.trust)
    assert holds(GENUINE, now=LATER)
    assert certificate().key == OURS.name
