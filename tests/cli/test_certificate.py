# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Everybody who has the issuer's public key can verify a certificate, without a network, and nobody else can."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from baremetal_acc.certificates import envelope
from baremetal_acc.cli.commands import certificate as verbs
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import certificate_rows
from baremetal_acc.cli.output.report import Report
from baremetal_acc.errors import CertificateInvalid, DocumentError, UsageError
from baremetal_acc.model.certificate import CertifiedCustody, CertifiedNode
from baremetal_acc.model.custody import Break, BreakCause, Cover, CustodyDemand, Interval, Origin, Strength
from baremetal_acc.model.lock import Scope
from baremetal_acc.model.measurement import MeasurementReading, MeasurementState
from tests.cli.desk import Desk
from tests.cli.test_schemas import closed
from tests.unit.certificates.test_statement import ALL_MET, OCCASION, TWO_PATHS, UUID, WAIVED, issued
from tests.unit.certificates.values import altered, sealed_as_before, sealer, write_key
from tests.unit.planning import values as v

OURS, THEIRS = sealer(1), sealer(2)
WHEN = datetime.now(UTC) - timedelta(minutes=1)
"""Waivers are of this day: those that are over do not hold."""


def made(**how: Any) -> bytes:
    """A signed certificate."""
    return envelope.seal(replace(issued(**how), key=OURS.name), OURS)


@pytest.fixture
def files(tmp_path: Path) -> SimpleNamespace:
    """A certificate, and the keys of two issuers."""
    (tmp_path / 'c.json').write_bytes(made() + b'\n')
    return SimpleNamespace(
        folder=tmp_path,
        certificate=str(tmp_path / 'c.json'),
        ours=str(write_key(tmp_path / 'ours.pub', OURS, public=True, mode=0o644)),
        theirs=str(write_key(tmp_path / 'theirs.pub', THEIRS, public=True, mode=0o644)),
    )


def ran(verb: Callable[..., Any], *arguments: str) -> Report:
    """What a verb has to report."""
    command = verb(SimpleNamespace(options=SimpleNamespace(debug=False)), None)
    report = command.work(command.get_parser('baremetal-acc certificate').parse_args(list(arguments)))
    assert isinstance(report, Report)
    return report


def valid(tree: Path, name: str, document: Any) -> None:
    """As the documentation says."""
    schema = closed(json.loads((tree / 'doc/source/schemas' / f'{name}.json').read_text()))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(document)))


def test_it_holds_for_whoever_trusts_its_issuer(files, tree, capsys):
    """And is what was asked for."""
    asked = ('--node', UUID, '--lifecycle', '8', '--deployment', 'd-1', '--instance', 'vm-1')
    report = ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours, *asked)
    assert Exit.HOLDS is report.code
    assert report.document is not None
    assert (True, [], []) == (report.document['holds'], report.document['reasons'], report.document['kinds'])
    assert envelope.digest(made()) == report.document['digest']
    valid(tree, 'certificate-verify', report.document)
    assert '' == capsys.readouterr().err
    proves, leaves = (' '.join(report.document[key]) for key in ('proves', 'does_not_prove'))
    assert 'host-device was blocked by locks that were engaged in this lifecycle and read back: H100 GPU_0' in proves
    assert 'baseline.toml (sha256:1111' in proves
    assert 'that a write from the host fails' in leaves
    assert 'host-bmc-ipmi is blocked, which no rule demands: H100 GPU_0 (unsupported, rule all)' in leaves


def test_one_of_an_earlier_version_is_verified_and_shown(files, tree, capsys):
    """With the same key, and for the same node alone."""
    Path(files.certificate).write_bytes(sealed_as_before(replace(issued(), key=OURS.name), OURS) + b'\n')
    asked = ('--node', UUID, '--lifecycle', '8', '--deployment', 'd-1')
    assert Exit.HOLDS is ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours, *asked).code
    assert Exit.NOT_MET is ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours, '--node', 'x').code
    valid(tree, 'certificate', ran(verbs.CertificateShowCommand, files.certificate).document)


def test_what_was_not_asked_is_told(files, capsys):
    """A good signature alone says nothing of this node."""
    assert Exit.HOLDS is ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours).code
    err = capsys.readouterr().err
    assert f'is of node {UUID}, lifecycle 8, deployment d-1; give --node, --lifecycle, --deployment to check' in err


@pytest.mark.parametrize(
    ('arguments', 'kind', 'why'),
    [
        (('--node', 'node-1'), 'another-node', 'the certificate is for node'),
        (('--lifecycle', '9'), 'another-lifecycle', 'the certificate is for lifecycle 8'),
        (('--deployment', 'd-2'), 'another-deployment', 'the certificate is for deployment d-1'),
        (('--instance', 'vm-2'), 'another-instance', 'the certificate is for instance vm-1, not for vm-2'),
    ],
)
def test_it_holds_for_nothing_else(files, tree, capsys, arguments, kind, why):
    """Exit code 3, each reason told."""
    report = ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours, *arguments)
    assert Exit.NOT_MET is report.code
    assert report.document is not None
    assert (False, [], [kind]) == (report.document['holds'], report.document['proves'], report.document['kinds'])
    assert why in report.document['reasons'][0]
    assert why in capsys.readouterr().err
    valid(tree, 'certificate-verify', report.document)


@pytest.mark.parametrize(
    ('spoil', 'kind', 'why'),
    [
        (
            lambda data: altered(data, lambda body: body.replace(b'"lifecycle":8', b'"lifecycle":9')),
            'altered',
            'does not match',
        ),
        (lambda data: data[:-20], 'malformed', 'not JSON'),
        (lambda data: b'', 'malformed', 'not JSON'),
        (lambda data: b'\xff\x00' * 100, 'malformed', 'not UTF-8'),
    ],
)
def test_a_touched_one_proves_nothing(files, tree, capsys, spoil, kind, why):
    """Nothing of what it says is repeated."""
    Path(files.certificate).write_bytes(spoil(made()))
    report = ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours)
    assert Exit.NOT_MET is report.code
    assert report.document is not None
    assert (None, [], [kind]) == (report.document['node'], report.document['proves'], report.document['kinds'])
    assert why in capsys.readouterr().err
    valid(tree, 'certificate-verify', report.document)


def test_another_issuer_is_not_believed(files, capsys):
    """It names the key that was used."""
    assert Exit.NOT_MET is ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.theirs).code
    assert f'key {OURS.name}, which is not trusted' in capsys.readouterr().err
    both = ('--trust', files.theirs, '--trust', files.ours)
    assert Exit.HOLDS is ran(verbs.CertificateVerifyCommand, files.certificate, *both).code


def test_wrong_use_is_told(files, monkeypatch):
    """Exit code 2: nobody to believe, no file, no number, a private key in place of a public one."""
    monkeypatch.setenv('HOME', str(files.folder))
    empty = files.folder / 'empty.conf'
    empty.write_text('')
    with pytest.raises(UsageError, match='names no public key of an issuer'):
        ran(verbs.CertificateVerifyCommand, files.certificate, '--config-file', str(empty))
    with pytest.raises(DocumentError, match='No such file'):
        ran(verbs.CertificateVerifyCommand, str(files.folder / 'none'), '--trust', files.ours)
    for number in ('-1', '1.5', 'x', '9' * 30, '\u0661'):
        with pytest.raises(UsageError, match=r'not a whole number|no such argument|expected one argument'):
            ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours, f'--lifecycle={number}')
    private = write_key(files.folder / 'key.pem', OURS)
    with pytest.raises(DocumentError, match='may contain only public keys'):
        ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', str(private))


def test_the_configuration_says_whom_to_believe(files):
    """The key that signs here, and those of others."""
    conf = files.folder / 'acc.conf'
    conf.write_text(f'[baremetal_acc]\ncertificate_trust = {files.theirs},{files.ours}\n')
    assert Exit.HOLDS is ran(verbs.CertificateVerifyCommand, files.certificate, '--config-file', str(conf)).code
    conf.write_text(f'[baremetal_acc]\ncertificate_key = {write_key(files.folder / "key.pem", OURS)}\n')
    assert Exit.HOLDS is ran(verbs.CertificateVerifyCommand, files.certificate, '--config-file', str(conf)).code


def test_a_waiver_that_is_over_ends_it(files, capsys):
    """Until then it holds, and says who waived what."""
    now = datetime.now(UTC)
    occasion = replace(OCCASION, issued=now)
    inventory = v.inventory(v.gpu(locks=(v.reading(at=now),), firmware=(v.component(version=v.NEW),)), at=now)
    for expires, code in ((now + timedelta(days=1), Exit.HOLDS), (now + timedelta(microseconds=1), Exit.NOT_MET)):
        verdict = replace(ALL_MET, waived=(replace(WAIVED, expires=expires),))
        Path(files.certificate).write_bytes(made(inventory=inventory, baseline=TWO_PATHS, verdict=verdict, occasion=occasion))
        report = ran(verbs.CertificateVerifyCommand, files.certificate, '--trust', files.ours)
        assert code is report.code
        assert report.document is not None
        said = ' '.join(report.document['reasons'] + report.document['does_not_prove'])
        assert 'security officer' in said


def test_show_prints_it_without_a_word_of_trust(files, tree, capsys):
    """Whoever signed it."""
    report = ran(verbs.CertificateShowCommand, files.certificate)
    assert report.document is not None
    valid(tree, 'certificate', report.document)
    assert json.loads(base64.b64decode(json.loads(made())['payload']))['predicate'] == report.document['certificate']
    assert ('H100 GPU_0', 'lock host-device', 'locked-verified', 'all') in report.rows
    assert ('H100 GPU_0', 'lock host-bmc-ipmi', 'unsupported', 'not demanded (all)') in report.rows
    told = {(device, what): found for device, what, found, _ in report.rows}
    assert UUID == told['node-1', 'node']
    assert 'at the end of the lifecycle; no date is set' == told['node-1', 'expires']
    assert ('not shown', v.GPU) == (told['H100 GPU_0', 'serial number'], told['H100 GPU_0', 'id'])
    assert 'no' == told['H100 GPU_0', 'measured']
    assert 'no chain has begun: it is unknown who wrote the firmware that it runs' == told['H100 GPU_0', 'custody']
    assert 'shown without verifying its signature' in capsys.readouterr().err
    Path(files.certificate).write_text('{}')
    with pytest.raises(CertificateInvalid):
        ran(verbs.CertificateShowCommand, files.certificate)


@pytest.mark.parametrize(
    ('changes', 'found'),
    [
        ({}, 'written at 2026-11-21 11:00:00Z (gpu-new), unbroken until 2026-11-21 12:00:00Z: locked (evidenced)'),
        ({'covers_own_processor': False}, 'locked (evidenced); what its own processor runs is not covered'),
        (
            {'broken': Break(cause=BreakCause.HOST_RAN, since=v.NOW, until=v.NOW)},
            'broken between 2026-11-21 12:00:00Z and 2026-11-21 12:00:00Z: the host ran while a path that the rules',
        ),
        (
            {'origin': Origin.ACCEPTED, 'by': ('ada',), 'until': v.NOW + timedelta(days=9), 'reason': 'day one'},
            'accepted at 2026-11-21 11:00:00Z (ada) until 2026-11-30 12:00:00Z (day one), unbroken until',
        ),
    ],
)
def test_show_explains_the_chain_of_custody_of_each_card(changes, found):
    """In the words of ``custody show``, with what the rules demand."""
    certificate = envelope.unchecked(made())
    begun = v.NOW - timedelta(hours=1)
    said = CertifiedCustody(
        demand=CustodyDemand.REQUIRED,
        rule='all',
        origin=Origin.WRITTEN,
        begun=begun,
        by=('gpu-new',),
        intervals=(Interval(since=begun, until=v.NOW, cover=Cover.LOCKED, strength=Strength.EVIDENCED),),
    )
    card = replace(certificate.accelerators[0], custody=replace(said, **changes))
    rows = certificate_rows.rows(replace(certificate, accelerators=(card,)))
    [(device, told, rule)] = [(row[0], row[2], row[3]) for row in rows if row[1] == 'custody']
    assert (card.label, 'required (all)') == (device, rule)
    assert found in told


def test_show_says_when_it_ends_which_card_it_is_and_what_was_compared_with_nothing(files):
    """Whoever compares the card in front of him needs its serial number; a target without UUID is called by its name."""
    node = CertifiedNode(uuid=None, name='rack1-node7')
    signed = MeasurementReading(
        accelerator=v.GPU,
        ref=v.ref('ComponentIntegrity/ROT_0'),
        integrity='ROT_0',
        state=MeasurementState.PROVEN,
        at=v.NOW,
        session='s',
        fingerprint='sha256:1',
    )
    loose = v.component('GPU_9', version=v.OLD)
    reading = v.reading(scope=Scope.DEVICE)
    card = v.gpu(serial='S-1', firmware=(v.component(version=v.NEW), loose), locks=(reading,), measurements=(signed,))
    until = OCCASION.issued + timedelta(days=1)
    rules = v.baseline(firmware=(('GPU_0', v.NEW),))
    data = made(inventory=v.inventory(card), baseline=rules, occasion=replace(OCCASION, node=node, expires=until))
    Path(files.certificate).write_bytes(data)
    rows = ran(verbs.CertificateShowCommand, files.certificate).rows
    told = {(device, what): (found, rule) for device, what, found, rule in rows}
    assert 'rack1-node7, a target without UUID' == told['rack1-node7', 'node'][0]
    assert f'{until:%Y-%m-%d %H:%M:%S}Z' == told['rack1-node7', 'expires'][0]
    assert 'S-1' == told['H100 GPU_0', 'serial number'][0]
    assert (v.NEW, 'all') == told['H100 GPU_0', 'firmware GPU_0']
    assert (v.OLD, 'none: not compared with any rule') == told['H100 GPU_0', 'firmware GPU_9']
    assert 'proven: the catalogue has nothing to compare it with' == told['H100 GPU_0', 'measured by ROT_0'][0]


def node_show(**changes: Any) -> bytes:
    """What ``baremetal node show -f json`` prints."""
    data = made()
    kept = {'packed': envelope.packed(data), 'digest': envelope.digest(data), 'superseded': False, 'where': []} | changes
    return json.dumps({'uuid': UUID, 'driver_internal_info': {'baremetal_acc': {'certificate': kept}}}).encode()


def test_extract_takes_it_out_of_what_ironic_shows(files, tree, capsys):
    """Byte by byte as it was issued; of one that is over it says so."""
    shown, out = files.folder / 'node.json', files.folder / 'out.json'
    shown.write_bytes(node_show())
    report = ran(verbs.Extract, str(shown), '--out', str(out))
    assert report.document is not None
    valid(tree, 'certificate-issue', report.document)
    assert made() + b'\n' == out.read_bytes()
    assert '' == capsys.readouterr().err
    assert Exit.HOLDS is ran(verbs.CertificateVerifyCommand, str(out), '--trust', files.ours, '--node', UUID).code
    shown.write_bytes(node_show(superseded=True))
    ran(verbs.Extract, str(shown), '--out', str(out))
    assert 'the node was returned after the hand-over' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('data', 'error', 'why'),
    [
        (b'x', DocumentError, 'is not JSON'),
        (b'[' * 100_000, DocumentError, 'is not JSON'),
        (b'[]', CertificateInvalid, 'has stored no certificate'),
        (b'{"driver_internal_info":{"baremetal_acc":{}}}', CertificateInvalid, 'has stored no certificate'),
        (node_show(packed=None, where=['/srv/7-d.json']), CertificateInvalid, 'it is stored at /srv/7-d.json'),
        (node_show(packed=7, where=7, digest=[]), CertificateInvalid, 'not stored in the node'),
        (node_show(packed='AAAA'), CertificateInvalid, 'cannot be read'),
        (node_show(digest='sha256:0'), CertificateInvalid, 'sha256:0 was issued'),
    ],
)
def test_what_ironic_does_not_keep_is_not_extracted(files, data, error, why):
    """No file is written."""
    shown, out = files.folder / 'node.json', files.folder / 'out.json'
    shown.write_bytes(data)
    with pytest.raises(error, match=why):
        ran(verbs.Extract, str(shown), '--out', str(out))
    assert not out.exists()


def test_the_whole_way_of_the_command_line(desk: Desk, emulated_machine, tree, tmp_path):
    """Not met: none. Brought to the baseline: issued for what was proven, kept, checked, and refused once it was touched."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk.prepare(machine)
    write_key(desk.folder / 'key.pem', OURS)
    write_key(desk.folder / 'key.pub', OURS, public=True, mode=0o644)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nname = "all"\nblock = ["host-device"]\n')
    issue = ('certificate', 'issue', 'node-1', *desk.options, '--key', 'key.pem', '--folder', 'kept', '--deployment', 'd-1')
    done = desk.run(*issue, '-f', 'json')
    assert Exit.NOT_MET == done.code, done.err
    assert 'lock host-device: expected locked-verified' in done.err
    valid(tree, 'certificate-issue', done.document)
    assert not (desk.folder / 'kept').exists()
    done = desk.run('lock', 'node-1', '--execute', *desk.options)
    assert Exit.HOLDS == done.code, done.err
    done = desk.run(*issue, '-f', 'json')
    assert Exit.HOLDS == done.code, done.err
    valid(tree, 'certificate-issue', done.document)
    [body] = done.document['certificates']
    assert (1, 'd-1', OURS.name) == (body['lifecycle'], body['deployment'], body['key'])
    path = desk.folder / 'kept' / 'node-1' / '1-d-1.json'
    assert path == desk.folder / body['file']
    found = envelope.opened(path.read_bytes(), OURS.trust)
    assert {'FPGA'} == {str(card.kind) for card in found.accelerators}
    check = ('certificate', 'verify', '--trust', 'key.pub', '--node', 'node-1', '--lifecycle', '1', '--deployment', 'd-1')
    done = desk.run(*check, str(path))
    assert (0, '') == (done.code, done.err)
    path.write_bytes(altered(path.read_bytes(), lambda body: body.replace(b'"d-1"', b'"d-2"')))
    done = desk.run(*check, str(path))
    assert Exit.NOT_MET == done.code
    assert [
        f'baremetal-acc: error: {path}: the signature does not match: other content was signed, '
        'or the certificate was changed afterwards'
    ] == (done.errors)


def test_issue_says_what_is_missing(desk: Desk, monkeypatch):
    """No key, no place, one file for two targets: before any BMC is asked."""
    monkeypatch.setenv('HOME', str(desk.folder))
    bmc = {'username': 'x', 'password': 'y'}
    desk.bmcs({name: {'bmcs': {'host': {'address': f'https://127.0.0.1:{n}', **bmc}}} for n, name in ((8, 'a'), (9, 'b'))})
    desk.write('acc.conf', '')
    key = str(write_key(desk.folder / 'key.pem', OURS))
    both = ('--bmcs', str(desk.folder / 'bmcs.yaml'), '--config-file', str(desk.folder / 'acc.conf'))
    for arguments, why in (
        ((), r'--key: is missing, and option .baremetal_acc. certificate_key is not set .create a key: openssl genpkey'),
        (
            ('--key', key),
            r'--out: no place for the certificate is known .give --out or --folder, or set',
        ),
        (('--key', key, '--out', 'x'), 'is one file, but 2 targets are selected'),
        (('--key', key, '--folder', 'x', '--deployment', 'd'), 'is one hand-over, but 2 targets are selected'),
        (('a', '--key', key, '--out', 'x', '--days', '0'), r'is out of range \(1 to 3650\)'),
        (('--key', key, '--out', 'x', '--folder', 'y'), 'not allowed with'),
    ):
        with pytest.raises(UsageError, match=why):
            ran(verbs.Issue, *both, *arguments)
