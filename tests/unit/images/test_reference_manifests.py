# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reference values come from a manifest that a pinned maker signed, and only what the signature covers is used."""

import sys
from datetime import UTC, datetime

import pytest

REASON = "needs the libraries of the extra: pip install 'baremetal-acc[reference]'"
cbor2 = pytest.importorskip('cbor2', reason=REASON)
pytest.importorskip('signxml', reason=REASON)

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from lxml import etree  # noqa: E402

from baremetal_acc.errors import DocumentError, LocalError  # noqa: E402
from baremetal_acc.images.reference import manifest  # noqa: E402
from baremetal_acc.images.reference.manifest import ManifestFormat  # noqa: E402
from baremetal_acc.model.image import ReferenceValue  # noqa: E402
from baremetal_acc.model.measurement import MeasurementState  # noqa: E402
from baremetal_acc.model.reference import NoReference, ReferenceCompared  # noqa: E402
from baremetal_acc.planning.reference_values import compared  # noqa: E402
from tests.unit.images import genuine, spdm_device  # noqa: E402
from tests.unit.images import manifests as made  # noqa: E402
from tests.unit.images.manifests import DSIG, NOW, ROOTS, SWID, corim, reference, resource, signed_corim, signed_tag, tag  # noqa: E402


def read(data: bytes, roots=ROOTS, at=NOW):
    return manifest.read(data, 'gpu.manifest', roots, at)


def refused(data: bytes, **otherwise) -> str:
    with pytest.raises(DocumentError) as caught:
        read(data, **otherwise)
    assert 'gpu.manifest' == caught.value.path
    assert caught.value.hint
    return caught.value.what


def test_a_signed_tag_gives_its_values_by_version():
    """Its indices count from 0, those of SPDM from 1; what is not active has no value to compare with."""
    found = read(signed_tag())
    assert (ManifestFormat.SWID, 'tag-1', 'CN=device', 'CN=root') == (found.format, found.id, found.signer, found.root)
    (one,) = found.references
    assert ('GH100 GPU', '96.00.74.00.20', (3,)) == (one.component, one.version, one.inactive)
    first = ReferenceValue(integrity='*', index=1, values=(('sha384', 'a' * 96),))
    second = ReferenceValue(integrity='*', index=2, values=(('sha384', 'b' * 96), ('sha384', 'c' * 96)))
    assert (first, second) == one.measurements
    (named,) = found.for_roots_of_trust('HGX_*')
    assert ['HGX_*', 'HGX_*'] == [value.integrity for value in named.measurements]
    assert f'swid tag-1 {found.digest}' == named.source


def test_a_signed_corim_gives_its_values_by_version():
    """Digests of several algorithms, and a value that is no digest."""
    found = read(signed_corim())
    assert (ManifestFormat.CORIM, 'corim-1', 'CN=device') == (found.format, found.id, found.signer)
    (one,) = found.references
    assert ('Acme X1', '1.2', ()) == (one.component, one.version, one.inactive)
    assert [
        (1, (('sha384', 'a' * 96),)),
        (3, (('sha384', 'b' * 96), ('sha256', '0' * 64))),
        (4, (('raw', '0102'),)),
    ] == [(value.index, value.values) for value in one.measurements]


def test_a_version_that_a_corim_says_once_is_that_of_the_environment():
    """Another version beside it makes two references; none at all is none."""
    found = read(signed_corim(corim(reference(1, made.digest('a')), reference(2, made.digest('b'), version=None))))
    assert [('1.2', 2)] == [(one.version, len(one.measurements)) for one in found.references]
    two = read(signed_corim(corim(reference(1, made.digest('a')), reference(1, made.digest('b'), version='1.3'))))
    assert ['1.2', '1.3'] == [one.version for one in two.references]
    assert 'names no version' in refused(signed_corim(corim(reference(1, made.digest('a'), version=None))))


OTHER = spdm_device.KEYS[spdm_device.P256]
LATE = spdm_device.leaf(days=(-10, -1))

UNTRUSTED = {
    'swid, another key': (signed_tag(key=OTHER), 'does not match the content'),
    'swid, a value changed': (signed_tag().replace(b'b' * 96, b'd' * 96), 'does not match the content'),
    'swid, made active': (signed_tag().replace(b'"False"', b'"True"'), 'does not match the content'),
    'swid, no signature': (tag(), 'not exactly one signature'),
    'swid, expired': (signed_tag(path=(LATE, spdm_device.BETWEEN)), 'is valid only from'),
    'swid, a CA as the signer': (
        signed_tag(key=spdm_device.BETWEEN_KEY, path=(spdm_device.BETWEEN, spdm_device.ROOT)),
        'is a CA certificate',
    ),
    'swid, for servers only': (
        signed_tag(path=(spdm_device.leaf(purposes=('1.3.6.1.5.5.7.3.1',)), spdm_device.BETWEEN)),
        'is not for signing manifests',
    ),
    'corim, another key': (signed_corim(key=spdm_device.ROOT_KEY), 'does not match the content'),
    'corim, another context': (signed_corim(purpose='Signature'), 'does not match the content'),
    'corim, a value changed': (signed_corim().replace(b'\xaa' * 48, b'\xab' * 48), 'does not match the content'),
    'corim, no certificate': (signed_corim(protected={33: []}), 'names no certificate'),
    'corim, other algorithm': (signed_corim(protected={1: -7}), 'does not match the content'),
    'corim, no algorithm': (signed_corim(protected={1: None}), 'its algorithm is not supported'),
    'corim, critical header': (signed_corim(protected={2: [99], 99: 1}), 'critical header parameters'),
    'corim, expired': (signed_corim(path=(LATE, spdm_device.BETWEEN)), 'is valid only from'),
    'corim, no longer valid': (
        signed_corim(corim(valid={0: cbor2.CBORTag(1, 0), 1: cbor2.CBORTag(1, 1_600_000_000)})),
        'the manifest is valid only from',
    ),
}


@pytest.mark.parametrize('case', UNTRUSTED)
def test_what_no_pinned_maker_signed_is_refused(case: str):
    """Each with its reason; no value of it is used."""
    data, why = UNTRUSTED[case]
    what = refused(data)
    assert what.startswith('its signature is not trusted: ')
    assert why in what


@pytest.mark.parametrize('data', [signed_tag(), signed_corim()])
def test_the_root_has_to_be_pinned_and_the_certificates_valid_at_the_given_time(data: bytes):
    """A root of another maker, no root, a time after the end."""
    assert 'not issued by a pinned root' in refused(data, roots=())
    assert 'is valid only from' in refused(data, at=made.LATER)
    assert read(data).signer


def wrapped(outside: str, inside: bytes) -> bytes:
    """A document with other values, which has the signed one inside."""
    return tag(resource(0, 'e' * 96), more=outside.format(inside.decode()))


def moved() -> bytes:
    """The signature of a genuine tag under a root with other values, and the genuine tag as an Object in it."""
    genuine_tag = etree.fromstring(signed_tag())
    signature = genuine_tag.find(f'{{{DSIG}}}Signature')
    genuine_tag.remove(signature)
    signature.append(etree.fromstring(f'<Object xmlns="{DSIG}"/>'))
    signature[-1].append(genuine_tag)
    evil = etree.fromstring(tag(resource(0, 'e' * 96)))
    evil.append(signature)
    return etree.tostring(evil)


WRAPPED = {
    'below an element': wrapped('<Evidence>{}</Evidence>', signed_tag()),
    'in the signature': moved(),
    'two signatures': signed_tag().replace(b'</SoftwareIdentity>', signed_tag()[signed_tag().index(b'<ds:Signature') :]),
    'only an element': signed_tag(tag(more='<Evidence Id="x">y</Evidence>'), reference_uri='x'),
    'a value after it': signed_tag().replace(b'</SoftwareIdentity>', resource(5, 'e' * 96).encode() + b'</SoftwareIdentity>'),
}


@pytest.mark.parametrize('case', WRAPPED)
def test_a_signature_does_not_count_for_what_it_does_not_cover(case: str):
    """Signature wrapping: the genuine document is there, and so are other values."""
    assert 'signature is not trusted' in refused(WRAPPED[case])


def test_comments_and_instructions_split_no_value():
    """The canonical form that is signed has no comments: what is read is that form."""
    data = signed_tag().replace(b'<Payload>', b'<Payload><!-- <Resource/> -->')
    assert read(signed_tag()).references == read(data).references


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
REMOTE = '<!DOCTYPE x SYSTEM "http://192.0.2.1/x.dtd">'

MALFORMED = {
    'entities': (tag(prolog=BOMB), 'document type declaration'),
    'external entity': (tag(prolog=OUTSIDE), 'document type declaration'),
    'external DTD': (tag(prolog=REMOTE), 'document type declaration'),
    'no XML': (b'<SoftwareIdentity', 'cannot be parsed'),
    'no SWID': (signed_tag(b'<a/>'), 'is no SoftwareIdentity'),
    'no measurement': (signed_tag(tag('<Resource type="File"/>')), 'no Resource of type Measurement'),
    'nothing active': (signed_tag(tag(resource(0, 'a' * 96, active='False'))), 'no active measurement'),
    'neither': (signed_tag(tag(resource(0, 'a' * 96, active='true'))), 'neither active nor not'),
    'twice': (signed_tag(tag(resource(0, 'a' * 96), resource(0, 'b' * 96))), 'listed twice'),
    'too high': (signed_tag(tag(resource(254, 'a' * 96))), '255 is not an index'),
    'fewer values': (signed_tag(tag(resource(0, 'a' * 96, alternatives=2))), 'than its number of alternatives'),
    'more values': (signed_tag(tag(resource(0, 'a' * 96, 'b' * 96, alternatives=1))), 'than its number of alternatives'),
    'short value': (signed_tag(tag(resource(0, 'a' * 94))), 'is not a sha384 digest'),
    'other size': (signed_tag(tag(resource(0, 'a' * 96, size=32))), 'another size'),
    'no version': (signed_tag(tag(version='')), 'colloquialVersion'),
    'no CBOR': (b'\xff\x00', 'not valid CBOR'),
    'empty': (b'', 'not valid CBOR'),
    'deep': (b'\x81' * 500 + b'\x01', 'not valid CBOR'),
    'unsigned': (corim(), 'an unsigned CoRIM is not read'),
    'detached': (cbor2.dumps(cbor2.CBORTag(18, [b'', {}, None, b''])), 'with its content'),
    'other content': (signed_corim(protected={3: 'text/plain'}), 'the content type'),
    'other payload': (signed_corim(cbor2.dumps({})), 'is not an unsigned CoRIM'),
    'no values': (signed_corim(cbor2.dumps(cbor2.CBORTag(501, {0: 'x', 1: [1]}))), 'no reference values'),
    'no index': (signed_corim(corim(reference('text', made.digest('a')))), 'not for the index'),
    'no value': (signed_corim(corim(reference(1))), 'neither a digest nor a raw value'),
    'unknown digest': (signed_corim(corim(reference(1, [99, b'x']))), 'not supported'),
    'wrong digest': (signed_corim(corim(reference(1, [7, b'x']))), 'is not a sha384 digest'),
    'index twice': (signed_corim(corim(reference(1, made.digest('a')), reference(1, made.digest('b')))), 'listed twice'),
    'control characters': (signed_corim(corim(maker='a\x1b[2J')), 'printable'),
}


@pytest.mark.parametrize('case', MALFORMED)
def test_what_is_no_manifest_is_refused_and_says_why(case: str):
    """No entity is expanded, and nothing outside of the file is read."""
    data, why = MALFORMED[case]
    what = refused(data)
    assert why in what, what


def test_a_file_that_is_too_long_is_not_read():
    """A manifest has kilobytes."""
    assert 'longer than' in refused(b'<' * (manifest.MAX_SIZE + 1))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([b'', b'<', b'\xd2\x84', signed_corim()[:40], signed_tag()[:200]]))
def test_no_bytes_make_the_reader_fail(data: bytes, start: bytes):
    """It refuses."""
    refused(start + data)


@pytest.mark.parametrize('data', [signed_tag(), signed_corim()])
def test_a_byte_of_a_signed_manifest_that_was_changed_gives_no_other_values(data: bytes):
    """It is refused; a byte that the signature does not cover, such as a blank in a certificate, changes nothing."""
    whole = read(data)
    for at in range(0, len(data), 67):
        other = data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        try:
            assert whole.references == read(other).references, at
        except DocumentError:
            continue


def test_without_the_libraries_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    """Nothing else of the package needs them."""
    for name, data in (('signxml', signed_tag()), ('cbor2', signed_corim())):
        with monkeypatch.context() as patched:
            loaded = [one for one in sys.modules if one.startswith(f'{name}.')]
            for module in (*loaded, 'baremetal_acc.images.reference.swid', 'baremetal_acc.images.reference.corim'):
                patched.delitem(sys.modules, module, raising=False)
            patched.setitem(sys.modules, name, None)
            with pytest.raises(LocalError, match=f'{name} is not installed') as caught:
                read(data)
            assert "pip install 'baremetal-acc[reference]'" == caught.value.hint


# ------------------------------------------------------------------------------------------------------ what makers publish


TAGS = sorted(genuine.FOLDER.glob('*/rim/*.swidtag'))

published = pytest.mark.skipif(not TAGS, reason=genuine.WHY_NOT)

SIGNED_IN = datetime(2024, 6, 30, tzinfo=UTC)
"""A day at which the certificates of all published manifests were valid."""


def roots_of_maker(path):
    return genuine.certificates(path.parent.with_name('verifier_RIM_root.pem'))


@published
@pytest.mark.parametrize('path', TAGS, ids=lambda path: path.stem)
def test_a_published_manifest_is_verified_up_to_the_root_of_its_maker(path):
    """With certificates that have expired since; a changed value is refused."""
    data = path.read_bytes()
    (one,) = read(data, roots_of_maker(path), SIGNED_IN).references
    assert ('GH100 GPU', 12, 52) == (one.component, len(one.measurements), len(one.inactive))
    assert one.version.replace('.', '') == path.stem.split('_')[3]
    assert 'is valid only from' in refused(data, roots=roots_of_maker(path), at=genuine.AT)
    changed = data.replace(one.measurements[1].values[0][1].encode(), b'0' * 96)
    assert 'does not match the content' in refused(changed, roots=roots_of_maker(path), at=SIGNED_IN)
    assert 'not issued by a pinned root' in refused(data, roots=ROOTS, at=SIGNED_IN)


@published
def test_genuine_evidence_names_its_versions_and_is_compared_with_the_published_manifest_of_that_version():
    """One piece of evidence has a manifest here: 11 of its 12 values match, and measurement 10 differs.

    Users of H100 saw the same difference (NVIDIA/nvtrust issue 90, index 9 from 0). The other evidence has no manifest here.
    """
    references = tuple(
        reference
        for path in TAGS
        for reference in read(path.read_bytes(), roots_of_maker(path), SIGNED_IN).for_roots_of_trust('*')
    )
    pairs = {}
    for one in genuine.evidence():
        reading = one.reading()
        assert MeasurementState.PROVEN is reading.state
        versions = {named.part: named.version for named in reading.versions}
        results = compared(reading, references)
        match one.arch, one.name:
            case 'LS10', _:
                assert {'vbios': '96.10.55.00.01'} == versions
            case _, 'hopperAttestationReport.txt':
                assert {'vbios': '96.00.74.00.20', 'driver': '580.159.03'} == versions
            case _:
                assert {'vbios': '96.00.A5.00.01', 'driver': '590.12'} == versions
        pairs.update((one.name, result) for result in results if isinstance(result, ReferenceCompared))
        assert all(isinstance(result, NoReference) for result in results if one.name not in pairs)
    assert ['hopperAttestationReport.txt'] == list(pairs)
    (result,) = pairs.values()
    assert (11, [10], 52) == (
        len(result.matching),
        [fact.index for fact in result.differing],
        len(result.facts) - len(result.matching) - len(result.differing),
    )


def test_namespaces_are_compared_and_not_prefixes():
    """A Resource of another namespace has no values."""
    other = tag('<x:Resource xmlns:x="urn:x" type="Measurement" index="0"/>')
    assert SWID.encode() in other
    assert 'no Resource of type Measurement' in refused(signed_tag(other))
