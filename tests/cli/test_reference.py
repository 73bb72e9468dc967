# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The values of a signed manifest come into the catalogue without being typed, and verify compares devices with them."""

import hashlib

import pytest
from cryptography.hazmat.primitives import serialization

from baremetal_acc.emulator.hw.hgx_board import GPU_VERSION
from tests.cli.desk import CONF, Desk, Done

pytest.importorskip('signxml', reason="needs the libraries of the extra: pip install 'baremetal-acc[reference]'")

from tests.unit.images import manifests, spdm_device
from tests.unit.images.manifests import resource, signed_corim, signed_tag, tag
from tests.unit.images.test_revocation_lists import crl


@pytest.fixture
def maker(desk: Desk) -> Desk:
    """The root of a maker, a manifest of it, and a catalogue with a comment of its owner."""
    desk.write('root.pem', spdm_device.ROOT.public_bytes(serialization.Encoding.PEM).decode())
    (desk.folder / 'gpu.swidtag').write_bytes(signed_tag())
    (desk.folder / 'x1.corim').write_bytes(signed_corim())
    desk.write('catalogue.toml', 'format = 1\n# ours\n')
    desk.write('acc.conf', '[baremetal_acc]\ncatalogue = catalogue.toml\n')
    return desk


def imported(desk: Desk, *arguments: str) -> Done:
    return desk.run('reference', 'import', *arguments, '--root', 'root.pem', '--config-file', 'acc.conf')


def catalogue(desk: Desk) -> str:
    return (desk.folder / 'catalogue.toml').read_text()


def test_a_dry_run_prints_the_entries_and_execute_adds_them_once(maker: Desk):
    """What was there stays as it is; the same values are not added again."""
    done = imported(maker, 'gpu.swidtag', 'x1.corim')
    assert (0, 'format = 1\n# ours\n') == (done.code, catalogue(maker)), done.err
    assert 'dry run: nothing was written' in done.err
    assert 'signed by CN=device, root CN=root' in done.err
    entries = done.out
    assert ('[[reference]]\ncomponent = "GH100 GPU"\nversion = "96.00.74.00.20"\n') in entries
    assert f'"2" = ["sha384:{"b" * 96}", "sha384:{"c" * 96}"]\n' in entries
    done = imported(maker, 'gpu.swidtag', 'x1.corim', '--execute')
    assert (0, '') == (done.code, done.out), done.err
    assert f'format = 1\n# ours\n\n{entries}' == catalogue(maker)
    assert 'sign the catalogue again' in done.err
    again = imported(maker, 'gpu.swidtag', 'x1.corim', '--execute')
    assert (0, True) == (again.code, 'nothing to add' in again.err)
    assert f'format = 1\n# ours\n\n{entries}' == catalogue(maker)


def test_what_is_not_signed_by_a_pinned_maker_changes_no_catalogue(maker: Desk):
    """Nor do other values for a version that is there, even next to a manifest that is good."""
    (maker.folder / 'catalogue.toml').unlink()
    done = imported(maker, 'gpu.swidtag', '--integrity', 'HGX_IRoT_*', '--execute')
    assert 0 == done.code, done.err
    before = catalogue(maker)
    assert before.startswith('format = 1\n\n[[reference]]\n')  # a catalogue that was not there is made
    assert '"HGX_IRoT_*/1" = "sha384:' in before
    (maker.folder / 'changed.swidtag').write_bytes(signed_tag().replace(b'b' * 96, b'd' * 96))
    (maker.folder / 'other.swidtag').write_bytes(signed_tag(tag(resource(0, 'e' * 96))))
    for name, says in (
        ('changed.swidtag', 'its signature is not trusted: it does not match the content'),
        ('other.swidtag', 'has other values for GH100 GPU 96.00.74.00.20'),
    ):
        done = imported(maker, 'x1.corim', name, '--integrity', 'HGX_IRoT_*', '--execute')
        assert (2, before) == (done.code, catalogue(maker)), (name, done.err)
        assert says in done.err
        assert name in done.err


def test_a_manifest_of_which_a_certificate_has_expired_is_read_as_of_a_day(maker: Desk):
    """The day is told with the result. (Without it the manifest is refused: test_reference_manifests.)"""
    late = spdm_device.leaf(days=(-1, 2))
    (maker.folder / 'late.swidtag').write_bytes(signed_tag(path=(late, spdm_device.BETWEEN)))
    day = f'{spdm_device.NOW:%Y-%m-%d}'
    done = imported(maker, 'late.swidtag', '--at', day)
    assert (0, True) == (done.code, f'its certificates were checked as of {day}' in done.err), done.err


def test_a_manifest_of_which_a_certificate_is_revoked_is_refused(maker: Desk):
    """By a list of its issuer. What was not checked is told, and a list that is for nothing is refused."""
    between = spdm_device.certificate(
        'between', spdm_device.BETWEEN_KEY, 'root', spdm_device.ROOT_KEY, ca=True, signs_lists=True, days=(-3650, 3650)
    )
    leaf = spdm_device.leaf(days=(-3650, 3650))
    (maker.folder / 'gpu.swidtag').write_bytes(signed_tag(path=(leaf, between)))
    days = (-3650.0, 3650.0)
    for name, data in (
        ('revoked.crl', crl(leaf, days=days)),
        ('good.crl', crl(days=days)),
        ('other.crl', crl(issuer='another', days=days)),
    ):
        (maker.folder / name).write_bytes(data)
    for at in ((), ('--at', f'{spdm_device.NOW:%Y-%m-%d}')):
        done = imported(maker, 'gpu.swidtag', '--crl', 'revoked.crl', '--execute', *at)
        assert (2, 'format = 1\n# ours\n') == (done.code, catalogue(maker)), done.err
        assert 'gpu.swidtag: its signature is not trusted: CN=device was revoked on 2026-11-22 (revoked.crl)' in done.err
    done = imported(maker, 'gpu.swidtag', '--crl', 'good.crl', '--crl', 'other.crl')
    assert 2 == done.code
    assert 'other.crl is not signed by an issuer of the certificates of these manifests' in done.err
    done = imported(maker, 'gpu.swidtag', '--crl', 'good.crl')
    assert 0 == done.code, done.err
    assert 'was not checked, for lack of a --crl of their issuer: CN=between' in done.err


def test_verify_compares_what_a_device_signed_with_the_reference_of_the_version_that_it_names(desk: Desk, emulated_machine):
    """It matches; it differs, with index and values; there is no reference for its version; an index is not active."""
    machine = emulated_machine('gpu-server', gpus=1, features=frozenset({'spdm'}))
    desk.prepare(machine)
    desk.write('baseline.toml', 'format = 1\n[[rule]]\nblock = []\nmeasure = "required"\n')
    roots = desk.write('maker.pem', machine.spdm_root)
    desk.write('acc.conf', CONF.replace('[baremetal_acc]', f'[baremetal_acc]\nspdm_trust_roots = {roots}'))
    desk.write('root.pem', spdm_device.ROOT.public_bytes(serialization.Encoding.PEM).decode())

    def finding() -> tuple[bool, str]:
        done = desk.run('verify', *desk.options, '-f', 'json')
        (one,) = (f for f in done.document['targets'][0]['findings'] if f['subject'].startswith('measurement'))
        return one['met'], one['found']

    met, found = finding()
    assert (False, True) == (met, f'vbios {GPU_VERSION}: no reference for this version' in found), found

    measured = hashlib.sha256(f'factory h100 gpu {GPU_VERSION}'.encode()).digest()
    corim = manifests.corim(manifests.reference(2, [1, measured], version=GPU_VERSION))
    (desk.folder / 'x1.corim').write_bytes(signed_corim(corim))
    done = desk.run('reference', 'import', 'x1.corim', '--root', 'root.pem', '--catalogue', 'catalogue.toml', '--execute')
    assert 0 == done.code, done.err
    met, found = finding()
    assert (True, True) == (met, f'vbios {GPU_VERSION}, reference of Acme X1: 1 measurement matches' in found), found

    text = (desk.folder / 'catalogue.toml').read_text()
    changed = text.replace(measured.hex(), '0' * 64).replace('source = "corim', 'not_active = ["3"]\nsource = "corim')
    desk.write('catalogue.toml', changed)
    met, found = finding()
    assert not met
    differs = f'measurement 2 differs: it is sha256:{measured.hex()[:16]}..., expected sha256:{"0" * 16}..., 1 not active'
    assert differs in found, found
