# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does a mistake cost? One clear last_error, and not one request that writes to a BMC."""

from pathlib import Path

import pytest

from tests.journey.conftest import Enrol

pytestmark = pytest.mark.journey

ONE_GPU = {'gpus': 1}


def test_an_image_that_is_not_what_the_catalogue_says(enrol: Enrol) -> None:
    """The digest is checked before anything is opened or switched off."""
    node = enrol('gpu-server', 'damaged', parameters=ONE_GPU)
    node.provision('provide')
    found = node.settle()
    assert 'clean failed' == found['provision_state'], found
    assert [] == [w for w in ('damaged', 'sha256', node.name) if w not in found['last_error']], found['last_error']
    assert [] == node.writes()


def test_arguments_that_cannot_be(enrol: Enrol) -> None:
    """Names are Ironic's to check, values are ours: the message names the argument, its value, and what there is."""
    node = enrol('fpga-server', 'functions')
    found = node.clean('program_accelerators', bogus=1)
    assert ('clean failed', True) == (found['provision_state'], 'bogus' in found['last_error']), found
    node.recover()
    for functions, words in (
        ({'Slot0': 'nonsense'}, ('functions[Slot0]', 'nonsense', 'aes, gzip')),
        ({'Slot7': 'gzip'}, ('Slot7', 'Slot0')),
        ('gzip', ('functions', 'gzip')),
    ):
        found = node.clean('program_accelerators', functions=functions)
        assert 'clean failed' == found['provision_state'], found
        assert [] == [w for w in words if w not in found['last_error']], found['last_error']
        node.recover()
    assert [] == node.writes()


def test_a_bmc_that_does_not_answer(enrol: Enrol) -> None:
    """Which BMC, where it should be, and that it did not answer."""
    node = enrol('gpu-server', 'locks', parameters=ONE_GPU)
    node.machine.fault('refuse')
    found = node.clean('lock_accelerators')
    assert 'clean failed' == found['provision_state'], found
    address = node.machine.bmcs['host'].address
    assert [] == [w for w in (node.name, f'host ({address})') if w not in found['last_error']], found['last_error']
    node.machine.clear_faults()
    assert [] == [e for e in node.writes() if e['status'] != 0]


def test_a_wrong_password(enrol: Enrol) -> None:
    """Not authorised is said as such; the password is not."""
    node = enrol('gpu-server', 'locks', parameters=ONE_GPU)
    node.patch(driver_info__redfish_password='hush-this-is-wrong')
    found = node.clean('lock_accelerators')
    assert 'clean failed' == found['provision_state'], found
    address = node.machine.bmcs['host'].address
    assert [] == [w for w in (f'host ({address})', 'password') if w not in found['last_error']], found['last_error']
    assert 'hush' not in found['last_error']
    assert [] == node.writes()


def test_a_certificate_that_nobody_vouches_for(enrol: Enrol) -> None:
    """TLS is verified, and the text says what to set."""
    node = enrol('gpu-server', 'locks', parameters=ONE_GPU)
    node.patch(driver_info__redfish_verify_ca=True)
    found = node.clean('lock_accelerators')
    assert 'clean failed' == found['provision_state'], found
    assert [] == [w for w in ('certificate', 'verify_ca') if w not in found['last_error']], found['last_error']
    assert [] == node.writes()


def test_a_bmc_without_an_update_service(enrol: Enrol) -> None:
    """It has no item to compare with the baseline, and no way to take an image."""
    node = enrol('gpu-server', 'flash', parameters=ONE_GPU | {'options': {'host': {'update_service': False}}})
    node.provision('provide')
    found = node.settle()
    assert 'clean failed' == found['provision_state'], found
    assert [] == [w for w in (node.name, 'GPU_0', 'no UpdateService') if w not in found['last_error']], found
    assert [] == node.writes()


@pytest.mark.parametrize(
    ('file', 'right', 'wrong', 'words'),
    [
        ('catalogue.toml', 'security_version = ', 'securty_version = ', ('catalogue.toml', 'line', 'securty_version')),
        ('baseline.toml', 'block = ["host-device"]', 'block = ["host-devise"]', ('baseline.toml', 'line', 'host-devise')),
    ],
)
def test_a_document_with_a_typo(
    enrol: Enrol, documents: Path, file: str, right: str, wrong: str, words: tuple[str, ...]
) -> None:
    """File, line, the word, and the word that was probably meant."""
    node = enrol('gpu-server', 'locks', parameters=ONE_GPU)
    path = documents / file
    text = path.read_text()
    try:
        path.write_text(text.replace(right, wrong, 1))
        answer = node.services.ironic.ask('PUT', f'{node.path}/states/provision', {'target': 'provide'})
        found = node.settle()
        assert 'available' != found['provision_state'], found
        told = f'{answer.text} {found["last_error"]}'
        meant = right.split(' ')[0] if file.startswith('cat') else 'host-device'
        assert [] == [w for w in (*words, meant) if w not in told], told
    finally:
        path.write_text(text)
    assert [] == node.writes()
