# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An operator signs a catalogue, reads it, and finds out what is wrong with it before anything is flashed."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest

from baremetal_acc.images.trust.keys import fingerprint
from tests.cli.desk import Desk, Done, target_of
from tests.unit.images import keys, web
from tests.unit.images.test_draft import FILLED
from tests.unit.images.test_pldm_package import V1_0

SIGNER = keys.key()


@pytest.fixture
def signing(desk: Desk) -> Desk:
    """Images, their catalogue, a key of this operator, and a configuration that trusts it."""
    desk.images()
    text = (desk.folder / 'catalogue.toml').read_text()
    end = datetime.now(UTC) + timedelta(days=30)
    desk.write(
        'catalogue.toml', text.replace('format = 1\n', f'format = 1\nserial = 1\nexpires = {end:%Y-%m-%dT%H:%M:%SZ}\n', 1)
    )
    keys.secret_file(desk.folder / 'key.pem', keys.private_pem(SIGNER))
    desk.write('trusted.pem', keys.public_pem(SIGNER).decode(), mode=0o644)
    desk.write('acc.conf', '[baremetal_acc]\ntrust_roots = trusted.pem\ncatalogue = catalogue.toml\n')
    return desk


def change(desk: Desk, old: str, new: str) -> None:
    """The catalogue with another text."""
    path = desk.folder / 'catalogue.toml'
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def catalogue(desk: Desk, verb: str, *arguments: str) -> Done:
    return desk.run('catalogue', verb, '--config-file', 'acc.conf', *arguments)


def sign(desk: Desk, *arguments: str) -> Done:
    return catalogue(desk, 'sign', '--key', 'key.pem', *arguments)


@pytest.fixture
def validate(tree):
    """Check a document against the schema of that name."""

    def check(name: str, document: object) -> None:
        schema = json.loads((tree / 'doc/source/schemas' / f'{name}.json').read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(document)

    return check


def test_a_signed_catalogue_is_shown_and_checked(signing, validate):
    """From the key to the last image, in documents that tools can read."""
    done = sign(signing, '-f', 'json')
    assert (0, '') == (done.code, done.err)
    validate('signed', done.document)
    assert 'PRIVATE' not in done.out
    shown = catalogue(signing, 'show', '-f', 'json')
    validate('catalogue', shown.document)
    assert (0, done.document['signed'][0]['signer'], 1) == (
        shown.code,
        shown.document['catalogue']['signer'],
        shown.document['catalogue']['serial'],
    )
    checked = catalogue(signing, 'check', '-f', 'json')
    validate('catalogue', checked.document)
    assert (0, {'good'}) == (checked.code, {i['state'] for i in checked.document['images']})
    assert f'baremetal-acc: catalogue.toml: signed by {shown.document["catalogue"]["signer"]}\n' == checked.err
    assert 'gpu-new' in catalogue(signing, 'show').out


def test_a_package_is_shown_drafted_signed_and_checked(signing, validate):
    """From a maker's package to a catalogue that may be used, and nobody has typed a version or a digest."""
    (signing.folder / 'tray.fwpkg').write_bytes(V1_0)
    shown = catalogue(signing, 'show', 'tray.fwpkg', '-f', 'json')
    validate('package', shown.document)
    assert (0, '') == (shown.code, shown.err)
    table = catalogue(signing, 'show', 'tray.fwpkg').out
    assert all(word in table for word in ('pci-vendor-id 0xabcd', 'v2', 'activation system-reboot', 'DSP0267 1.0'))
    drafted = signing.run('catalogue', 'add', 'tray.fwpkg', '--component', '100', '--output', 'tray.toml')
    assert (0, '') == (drafted.code, drafted.out)
    assert 'fill in the marked lines of tray.toml, then run: baremetal-acc catalogue sign tray.toml --key FILE' in drafted.err
    assert 2 == signing.run('catalogue', 'add', 'tray.fwpkg', '--output', 'tray.toml').code
    unfinished = catalogue(signing, 'sign', 'tray.toml', '--key', 'key.pem')
    assert (2, True) == (unfinished.code, 'restore is missing' in unfinished.err)
    text = (signing.folder / 'tray.toml').read_text()
    for old, new in (*FILLED, ('# serial', 'serial'), ('# expires = 2027', 'expires = 2999')):
        text = text.replace(old, new)
    signing.write('tray.toml', text)
    assert 0 == catalogue(signing, 'sign', 'tray.toml', '--key', 'key.pem').code
    checked = catalogue(signing, 'check', 'tray.toml', '-f', 'json')
    assert (0, ['good']) == (checked.code, [image['state'] for image in checked.document['images']])
    signing.write('tray.toml', text.replace('version = "v1"', 'version = "v7"').replace('serial = 1', 'serial = 2'))
    assert 0 == catalogue(signing, 'sign', 'tray.toml', '--key', 'key.pem').code
    checked = catalogue(signing, 'check', 'tray.toml')
    assert 4 == checked.code
    assert 'image tray-100: its header says "v1", "v2", "set-1", "1.0", and the catalogue says version v7' in checked.err


def test_a_damaged_package_is_refused_by_its_field(signing):
    """One line that says what and where, and a code that a script can tell from a wrong argument."""
    (signing.folder / 'tray.fwpkg').write_bytes(V1_0[:100] + b'?' + V1_0[101:])
    for done in (catalogue(signing, 'show', 'tray.fwpkg'), signing.run('catalogue', 'add', 'tray.fwpkg')):
        assert (4, '') == (done.code, done.out)
        assert done.err.startswith('baremetal-acc: error: image tray.fwpkg: PackageHeaderChecksum at byte 123: 0x')
    assert 2 == catalogue(signing, 'show', 'nothing.fwpkg').code


def test_an_output_without_room_is_told(signing):
    """As of a full disk: one line that says so."""
    assert 0 == sign(signing).code
    arguments = [sys.executable, '-m', 'baremetal_acc.cli.main', 'catalogue', 'show', '--config-file', 'acc.conf']
    with open('/dev/full', 'w') as full:
        how = {'cwd': signing.folder, 'stdout': full, 'stderr': subprocess.PIPE, 'text': True, 'timeout': 60}
        done = subprocess.run(arguments, check=False, **how)
    assert 2 == done.returncode
    assert 'error: standard output: cannot be written: No space left on device' in done.stderr
    assert 'Traceback' not in done.stderr
    assert 'internal error' not in done.stderr


def test_what_nobody_has_looked_at_is_told(signing):
    """Without trust roots, or where a signature is not asked for, a good catalogue looks no better than a forged one."""
    assert 0 == sign(signing).code
    signing.write('acc.conf', '[baremetal_acc]\ncatalogue = catalogue.toml\n')
    assert 'the signature was not verified, because option [baremetal_acc] trust_roots' in catalogue(signing, 'check').err
    signing.write('acc.conf', '[baremetal_acc]\ncatalogue = catalogue.toml\ntrust_root = somebody.pem\n')
    done = catalogue(signing, 'check')
    assert (2, True) == (done.code, 'trust_root: no such option (did you mean trust_roots?)' in done.err)


def test_a_catalogue_that_nobody_trusted_has_signed_is_refused(signing):
    """By every verb that reads it, with the way out."""
    for done in (catalogue(signing, 'show'), catalogue(signing, 'check')):
        assert (4, '') == (done.code, done.out)
        assert 'refused: catalogue.toml: is not signed: there is no catalogue.toml.sig (sign it: ' in done.err
    keys.secret_file(signing.folder / 'other.pem', keys.private_pem(keys.key()))
    done = catalogue(signing, 'sign', '--key', 'other.pem')
    assert 0 == done.code
    assert 'warning: catalogue.toml.sig: no trust root of this configuration verifies this signature' in done.err
    done = catalogue(signing, 'show')
    assert 4 == done.code
    assert re.search(r'its signature is not trusted: catalogue.toml.sig: .* which is not a trust root', done.err)
    assert 0 == sign(signing, '--add').code
    assert 0 == catalogue(signing, 'show').code


def test_an_older_catalogue_does_not_come_back(signing):
    """What the command has seen once stays in its state folder."""
    assert 0 == sign(signing).code
    old = [(path, path.read_bytes()) for path in signing.folder.glob('catalogue.toml*')]
    change(signing, 'serial = 1', 'serial = 2')
    assert 0 == sign(signing).code
    assert 0 == catalogue(signing, 'show').code
    for path, data in old:
        path.write_bytes(data)
    done = catalogue(signing, 'show')
    assert 4 == done.code
    assert 'has serial 1, but was seen before with serial 2' in done.err
    assert str(signing.folder / 'state' / 'baremetal-acc' / 'serials.sqlite') in done.err


def test_what_is_wrong_with_images_is_told_image_by_image(signing, validate):
    """Bytes, the way back, what is denied; what is denied on purpose is no fault."""
    signing.write('fpga-new.img', 'something else')
    change(signing, 'restore = "none"', 'restore = "fpga-new"')
    text = (signing.folder / 'catalogue.toml').read_text()
    signing.write('catalogue.toml', f'{text}\n[[deny]]\ncomponent = "Slot*"\nversion = "3.1"\nreason = "it leaks"\n')
    assert 0 == sign(signing).code
    done = catalogue(signing, 'check', '-f', 'json')
    validate('catalogue', done.document)
    states = {i['name']: i['state'] for i in done.document['images']}
    assert (4, {'gpu-new': 'wrong', 'fpga-new': 'wrong', 'gzip-3': 'denied', 'aes-3': 'denied'}) == (done.code, states)
    assert 2 == len(done.errors)
    assert 'image gpu-new: its restore image cannot be used: image fpga-new: ' in done.errors[0]
    assert 'the catalogue says 30' in done.errors[1]
    lines = catalogue(signing, 'check', '--unmet', '-f', 'value', '-c', 'Image').out.split()
    assert ['gpu-new', 'fpga-new'] == lines


def test_an_expired_catalogue_can_be_looked_at_and_no_image_of_it_is_good(signing):
    """It was right once; signing it again without a new end is refused."""
    assert 0 == sign(signing).code
    text = (signing.folder / 'catalogue.toml').read_text()
    signing.write('catalogue.toml', re.sub(r'expires = \S+', 'expires = 2020-01-01T00:00:00Z', text))
    done = sign(signing)
    assert (2, True) == (done.code, 'catalogue.toml: the catalogue has expired at 2020-01-01 00:00:00Z' in done.err)
    signing.write('acc.conf', '[baremetal_acc]\ncatalogue = catalogue.toml\n')
    done = catalogue(signing, 'show')
    assert 0 == done.code
    assert 'warning: catalogue.toml: the catalogue has expired at 2020-01-01 00:00:00Z' in done.err
    done = catalogue(signing, 'check')
    assert (4, 1) == (done.code, len(done.errors)), done.err
    assert 'the catalogue has expired, so none of its images can be written' in done.err
    assert 'expired at 2020-01-01 00:00:00Z' in done.out


def test_an_image_has_a_signature_of_its_own(signing):
    """Its bytes are compared before it is signed, and the file lies where the catalogue says."""
    change(signing, 'source = "gpu-new.img"', 'source = "gpu-new.img"\nsignature = "gpu-new.sig"')
    assert 0 == sign(signing).code
    done = catalogue(signing, 'check')
    assert (4, True) == (done.code, 'gpu-new.sig cannot be read' in done.err)
    assert 0 == sign(signing, '--image', 'gpu-new').code
    assert 0 == catalogue(signing, 'check').code
    signing.write('gpu-new.img', 'something else')
    done = sign(signing, '--image', 'gpu-new')
    assert (4, True) == (done.code, 'the catalogue says 30' in done.err)


def test_a_signature_is_written_only_where_images_may_lie(signing):
    """A catalogue of somebody else must not choose which file is overwritten."""
    outside = signing.folder.parent / 'precious.sig'
    for signature, says in (
        ('../precious.sig', 'is outside the folders of images'),
        ('acc.conf', 'does not end with .sig'),
        ('https://h/a.sig', 'is on a server'),
    ):
        change(signing, 'source = "gpu-new.img"', f'source = "gpu-new.img"\nsignature = "{signature}"')
        done = sign(signing, '--image', 'gpu-new')
        assert (2, True) == (done.code, says in done.err)
        change(signing, f'\nsignature = "{signature}"', '')
    assert not outside.exists()
    for name, says in (('gpu-nev', 'did you mean gpu-new?'), ('gpu-new', 'add signature = "gpu-new.sig"')):
        done = sign(signing, '--image', name)
        assert (2, True) == (done.code, says in done.err)


def test_what_nobody_would_accept_is_not_signed(signing):
    """A catalogue without a serial or an end, and one that is wrong."""
    text = (signing.folder / 'catalogue.toml').read_text()
    for line, says in (('serial', 'serial is missing'), ('expires', 'expires is missing'), ('version', 'version is missing')):
        signing.write('catalogue.toml', re.sub(rf'\n{line} = .*', '', text, count=1))
        done = sign(signing)
        assert (2, True) == (done.code, says in done.err)
    assert not (signing.folder / 'catalogue.toml.sig').exists()


def test_a_private_key_is_kept_from_others(signing):
    """Its file is refused when others can read it, and it is never an argument."""
    (signing.folder / 'key.pem').chmod(0o644)
    done = sign(signing)
    assert (2, True) == (done.code, 'mode 0644' in done.err and 'chmod 600' in done.err)
    done = catalogue(signing, 'sign')
    assert (2, True) == (done.code, '--key' in done.err)


def test_a_passphrase_comes_from_the_environment_or_is_asked_for(signing):
    """Never from the arguments; a wrong one is told without it."""
    keys.secret_file(signing.folder / 'key.pem', keys.private_pem(SIGNER, b'geheim'))
    done = sign(signing)
    assert (2, True) == (done.code, 'is encrypted with a passphrase (set BAREMETAL_ACC_KEY_PASSPHRASE)' in done.err)
    signing.environ['BAREMETAL_ACC_KEY_PASSPHRASE'] = 'falsch'
    done = sign(signing)
    assert (2, False) == (done.code, 'falsch' in done.err)
    signing.environ['BAREMETAL_ACC_KEY_PASSPHRASE'] = 'fal\udcffsch'
    assert (2, False) == (sign(signing).code, 'internal' in sign(signing).err)
    signing.environ['BAREMETAL_ACC_KEY_PASSPHRASE'] = 'geheim'
    assert 0 == sign(signing).code


@pytest.fixture
def server() -> Iterator[web.Server]:
    found = web.Server()
    yield found
    found.stop()


def test_images_of_a_server_are_checked_as_files_are(signing, server):
    """Once the operator allows it."""
    server.answers['/gpu-new.img'] = web.body((signing.folder / 'gpu-new.img').read_bytes())
    change(signing, 'source = "gpu-new.img"', f'source = "{server.origin}/gpu-new.img"')
    assert 0 == sign(signing).code
    done = catalogue(signing, 'check')
    assert (4, True) == (done.code, 'which is not an allowed server' in done.err)
    conf = (signing.folder / 'acc.conf').read_text()
    signing.write('acc.conf', f'{conf}image_hosts = {server.origin}\n')
    checked = catalogue(signing, 'check')
    assert (0, 1, True) == (checked.code, len(checked.err.splitlines()), 'catalogue.toml: signed by key sha256:' in checked.err)
    signing.write('acc.conf', f'{conf}image_hosts = {server.origin}/images\n')
    done = catalogue(signing, 'check')
    assert (2, True) == (done.code, 'option [baremetal_acc] image_hosts' in done.err)


@pytest.mark.parametrize(
    ('verb', 'arguments', 'says'),
    [
        ('show', ('other.toml',), 'other.toml: cannot be read'),
        ('show', ('a.toml', '--catalogue', 'b.toml'), 'cannot be combined with a.toml'),
        ('chek', (), 'did you mean'),
        ('check', ('--images',), 'no such argument'),
    ],
)
def test_wrong_arguments_are_told(signing, verb, arguments, says):
    """As for every other verb."""
    done = catalogue(signing, verb, *arguments) if verb != 'chek' else signing.run('catalogue', verb)
    assert (2, True) == (done.code, says in done.err)


def test_a_changed_catalogue_reaches_no_bmc(signing, served):
    """Whatever it says: apply ends before anything is asked of the machine."""
    signing.bmcs({'node-1': target_of(served)})
    signing.write('baseline.toml', 'format = 1\n')
    assert 0 == sign(signing).code
    change(signing, 'security_version = 2', 'security_version = 9')
    before = served.log()
    options = ('--config-file', 'acc.conf', '--baseline', 'baseline.toml')
    done = signing.run('apply', '--execute', 'node-1', *options)
    assert (4, '') == (done.code, done.out)
    assert 'does not match: other content was signed, or it was changed afterwards (the catalogue is not used)' in done.err
    assert before == served.log()


def test_what_no_plan_would_ever_take_is_wrong(signing):
    """A way back for another component or for other cards, and images that nothing but names says to fit."""
    change(signing, 'restore = "none"', 'restore = "fpga-new"')
    assert 0 == sign(signing).code
    done = catalogue(signing, 'check')
    assert (4, 2) == (done.code, len(done.errors))
    assert 'restore image fpga-new is for component FPGA1_FW, not for HGX_FW_GPU_*' in done.errors[0]
    assert 'restore image fpga-new fits no device that image gpu-new fits' in done.errors[1]
    change(signing, 'restore = "fpga-new"', 'restore = "none"')
    change(signing, 'serial = 1', 'serial = 2')
    change(signing, 'fits = [{ pci = "0x10de:0x2330" }]', 'fits = [{ vendor = "NVIDIA", model = "NVIDIA H100 80GB HBM3" }]')
    assert 0 == sign(signing).code
    done = catalogue(signing, 'check')
    assert (4, 1) == (done.code, len(done.errors))
    assert 'image gpu-new: fits has only vendor and model: add pci, part_number or software_id' in done.errors[0]


def test_a_catalogue_that_an_argument_names_is_not_called_an_option(desk):
    """Whoever looks for that option finds nothing."""
    for verb in ('show', 'check'):
        done = desk.run('catalogue', verb, 'nowhere.toml')
        assert (2, True, False) == (done.code, 'nowhere.toml: cannot be read' in done.err, 'option' in done.err)


SECOND, THIRD = keys.key(), keys.key()


@pytest.fixture
def several(signing) -> Desk:
    """Two of three keys have to sign, and the baseline has to be signed."""
    for name, private in (('second', SECOND), ('third', THIRD)):
        keys.secret_file(signing.folder / f'{name}.pem', keys.private_pem(private))
    trusted = b''.join(keys.public_pem(private) for private in (SIGNER, SECOND, THIRD))
    signing.write('trusted.pem', trusted.decode(), mode=0o644)
    conf = (signing.folder / 'acc.conf').read_text()
    signing.write('acc.conf', f'{conf}signature_threshold = 2\nbaseline_signature = required\nbaseline = baseline.toml\n')
    end = datetime.now(UTC) + timedelta(days=30)
    signing.write('baseline.toml', f'format = 1\nserial = 1\nexpires = {end:%Y-%m-%dT%H:%M:%SZ}\n')
    return signing


def test_each_signer_adds_a_signature_until_there_are_enough(several, validate):
    """None needs the key of another; what is missing is told, and nobody removes what the others have signed."""
    done = sign(several)
    assert (0, True) == (done.code, 'not complete: 1 of 2 required keys has signed' in done.err), done.err
    refused = catalogue(several, 'check')
    assert (4, True) == (refused.code, 'let the holder of a key that is missing add a signature: ' in refused.err)
    before = (several.folder / 'catalogue.toml.sig').read_bytes()
    lost = catalogue(several, 'sign', '--key', 'second.pem')
    assert (2, True) == (lost.code, 'has signatures over the same content that would be removed' in lost.err)
    assert before == (several.folder / 'catalogue.toml.sig').read_bytes()
    done = catalogue(several, 'sign', '--key', 'second.pem', '--add')
    assert (0, False) == (done.code, 'not complete' in done.err), done.err
    shown = catalogue(several, 'show', '-f', 'json')
    validate('catalogue', shown.document)
    named = [f'key {fingerprint(private.public_key())}' for private in (SECOND, SIGNER)]
    assert (named, named[0]) == (shown.document['catalogue']['signers'], shown.document['catalogue']['signer'])


def test_a_key_that_is_removed_from_the_trust_roots_counts_no_more(several):
    """Rotation: another signer takes its place, and the catalogue stays the same."""
    sign(several)
    assert 0 == catalogue(several, 'sign', '--key', 'second.pem', '--add').code
    several.write('trusted.pem', (keys.public_pem(SECOND) + keys.public_pem(THIRD)).decode(), mode=0o644)
    assert 4 == catalogue(several, 'check').code
    assert 0 == catalogue(several, 'sign', '--key', 'third.pem', '--add').code
    assert 0 == catalogue(several, 'check').code


def test_a_signer_who_is_not_trusted_is_told_so_among_those_who_are(several):
    """Its signature would be noticed by nobody, as there are enough without it."""
    sign(several)
    catalogue(several, 'sign', '--key', 'second.pem', '--add')
    keys.secret_file(several.folder / 'other.pem', keys.private_pem(keys.key()))
    done = catalogue(several, 'sign', '--key', 'other.pem', '--add')
    assert (0, True) == (done.code, 'no trust root of this configuration verifies this signature' in done.err), done.err
    assert 0 == catalogue(several, 'check').code


def test_a_baseline_is_signed_and_required(several, validate):
    """By as many keys as the catalogue; one without an end is not signed."""

    def sign_baseline(name: str, *arguments: str) -> Done:
        return several.run('baseline', 'sign', '--config-file', 'acc.conf', '--key', name, *arguments)

    sign(several)
    assert 0 == catalogue(several, 'sign', '--key', 'second.pem', '--add').code
    done = sign_baseline('key.pem', '-f', 'json')
    validate('signed', done.document)
    assert ('baseline', 'baseline.toml.sig') == (done.document['signed'][0]['what'], done.document['signed'][0]['file'])
    assert 'not complete: 1 of 2 required keys has signed' in done.err
    done = sign_baseline('third.pem', 'baseline.toml', '--add')
    assert (0, '') == (done.code, done.err)
    done = sign_baseline('third.pem', 'baseline.toml', '--baseline', 'baseline.toml')
    assert (2, True) == (done.code, 'cannot be combined with baseline.toml' in done.err)
    for line, says in (('serial', 'serial is missing'), ('expires', 'expires is missing')):
        text = (several.folder / 'baseline.toml').read_text()
        several.write('other.toml', re.sub(rf'{line} = .*', '', text))
        done = sign_baseline('key.pem', 'other.toml')
        assert (2, True) == (done.code, says in done.err), done.err


def test_reference_values_are_shown(signing, validate):
    """As tables for people, and whole for tools; a catalogue without them is shown as before."""
    assert 0 == sign(signing).code
    assert ([], False) == (
        catalogue(signing, 'show', '-f', 'json').document['references'],
        'Reference values' in catalogue(signing, 'show').out,
    )
    value = f'sha384:{"ab" * 48}'
    more = (
        '[[reference]]\ncomponent = "GH100 GPU"\nversion = "96.00.74.00.20"\nnot_active = ["8"]\n'
        'source = "swid gpu sha256:00"\n'
        f'[reference.measurements]\n"HGX_*/2" = ["{value}", "raw:0001"]\n'
    )
    text = (signing.folder / 'catalogue.toml').read_text().replace('serial = 1', 'serial = 2')
    signing.write('catalogue.toml', f'{text}\n{more}')
    assert 0 == sign(signing).code
    shown = catalogue(signing, 'show', '-f', 'json')
    validate('catalogue', shown.document)
    values = [{'algorithm': 'sha384', 'value': 'ab' * 48}, {'algorithm': 'raw', 'value': '0001'}]
    assert [
        {
            'component': 'GH100 GPU',
            'version': '96.00.74.00.20',
            'measurements': [{'integrity': 'HGX_*', 'index': 2, 'values': values}],
            'not_active': [8],
            'source': 'swid gpu sha256:00',
        }
    ] == shown.document['references']
    out = catalogue(signing, 'show').out
    assert all(word in out for word in ('gpu-new', 'Reference values of versions:', 'GH100 GPU', 'swid gpu sha256:00'))
    assert 'GH100' not in catalogue(signing, 'show', '-f', 'csv').out
