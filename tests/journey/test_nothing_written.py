# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A mistake of an operator costs one clear ``last_error``, and not one request that writes to a BMC."""

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


def test_a_bmc_that_cannot_be_spoken_to(enrol: Enrol) -> None:
    """Nobody answers, the password is wrong, nobody vouches for the certificate: each is told apart, with what to do.

    In a deploy, since Ironic's own look at the start of cleaning waits half a minute for such a BMC, twice.
    """
    node = enrol('gpu-server', 'locks', parameters=ONE_GPU, automated_clean=False)
    node.to('provide', 'available')
    bmc = node.machine.bmcs['host']
    nowhere = 'https://127.0.0.1:9'  # the port of the service "discard": nobody listens
    for key, right, wrong, words in (
        ('redfish_address', bmc.address, nowhere, (f'host ({nowhere})', 'refused')),
        ('redfish_password', bmc.password, 'hush-this-is-wrong', (f'host ({bmc.address})', 'password')),
        ('redfish_verify_ca', bmc.verify_ca, True, (f'host ({bmc.address})', 'certificate', 'verify_ca')),
    ):
        node.patch(**{f'driver_info__{key}': wrong})
        found = node.deploy()
        node.patch(**{f'driver_info__{key}': right})
        assert 'deploy failed' == found['provision_state'], found
        assert [] == [w for w in (node.name, *words) if w not in found['last_error']], found['last_error']
        assert 'hush' not in found['last_error']
    assert [] == node.writes()
    found = node.deploy()
    assert 'active' == found['provision_state'], 'and with all of them right it goes on'


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
