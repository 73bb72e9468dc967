# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""DMTF's own tool verifies the signed measurements of the emulator (rf_component_integrity.py of redfish_utilities)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.emulator.spdm import SpdmIdentity

ROT = 'HGX_ERoT_GPU_0'


@pytest.fixture
def machine(fast: Any) -> Any:
    """One GPU with a root of trust that signs. The tool compares no host name, so it goes without TLS."""
    return fast('gpu-server', gpus=1, tls=False, features=frozenset({'spdm'}))


def verified(machine: Any) -> tuple[int, str]:
    """Exit status and output of the tool. Its only way to take a password is its argument."""
    bmc = machine.bmcs['host']
    tool = Path(sys.executable).with_name('rf_component_integrity.py')
    login = ['--user', bmc.username, '--password', bmc.password, '--rhost', bmc.address]
    command = [sys.executable, str(tool), *login, 'getsignedmeasurements', '--componentintegrity', ROT, '--verify']
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_dmtfs_tool_verifies_the_signed_measurements(machine: Any) -> None:
    """Nonce, chain and signature; it prints all five measurements, the mode of the device among them."""
    status, said = verified(machine)
    assert 0 == status, said
    assert 5 == said.count('    Data: '), said
    assert 'SigningAlgorithm' not in said
    assert 'Signing Algorithm: TPM_ALG_ECDSA_ECC_NIST_P384' in said


def test_dmtfs_tool_takes_the_first_certificate_for_that_of_the_device(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SPDM's own order, from the root down, it refuses the same certificates: only their order in the text differs."""
    leaf_first = SpdmIdentity.certificate_string

    def root_first(identity: SpdmIdentity) -> str:
        end = '-----END CERTIFICATE-----\n'
        return ''.join(one + end for one in reversed(leaf_first(identity).removesuffix(end).split(end)))

    monkeypatch.setattr(SpdmIdentity, 'certificate_string', root_first)
    status, said = verified(machine)
    assert (1, True) == (status, 'Failed to verify the certificate chain' in said), said


def test_dmtfs_tool_refuses_the_signature_of_another_key(machine: Any) -> None:
    """So the test above shows something."""
    machine.fault('measurement-wrong', device='GPU_0', how='other-key')
    status, said = verified(machine)
    assert (1, True) == (status, 'Failed to verify the signature' in said), said
