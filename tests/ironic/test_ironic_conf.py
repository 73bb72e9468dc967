# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc-ironic-conf`` adds to Ironic's lists, and notices where Ironic would not use what it writes."""

from pathlib import Path

import pytest
from ironic.conf import api, default
from oslo_config import cfg

from baremetal_acc_ironic import compat, ironic_conf, ironic_conf_command
from tests.pages import block_with

NAME = '50-baremetal-acc.conf'


@pytest.fixture(autouse=True)
def without_files_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Ironic that is installed here has nothing to do with these tests."""
    for name in ('find_config_files', 'find_config_dirs'):
        monkeypatch.setattr(cfg, name, lambda *_, **__: [])


class Etc:
    """The folder /etc/ironic of a machine."""

    def __init__(self, folder: Path) -> None:
        self.main = folder / 'ironic.conf'
        self.folder = folder / 'ironic.conf.d'
        self.folder.mkdir()
        self.out = self.folder / NAME
        self.sources = [f'--config-file={self.main}', f'--config-dir={self.folder}']

    def run(self, *arguments: str, sources: list[str] | None = None) -> int:
        """The command, with the options that the services are started with; its exit code."""
        return ironic_conf_command.main([*(self.sources if sources is None else sources), f'--output={self.out}', *arguments])

    def read(self, *sources: str) -> cfg.ConfigOpts:
        """What Ironic reads when it is started with these options."""
        conf = cfg.ConfigOpts()
        conf.register_opts(default.driver_opts)
        conf.register_opts(api.opts, group='api')
        conf(args=sources or self.sources, project='ironic', default_config_files=[])
        return conf


@pytest.fixture
def etc(tmp_path: Path) -> Etc:
    """An empty ironic.conf."""
    made = Etc(tmp_path)
    made.main.write_text('')
    return made


def test_the_sample_is_current(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is what the command writes for Ironic's defaults."""
    assert 0 == ironic_conf_command.main(['--config-file=/dev/null'])
    sample = tree / 'etc/baremetal_acc/ironic.conf.d' / NAME
    assert sample.read_text() == capsys.readouterr().out, 'run: make samples'


def test_the_example_for_kolla_ansible_has_the_lists_of_the_sample(tree: Path, tmp_path: Path) -> None:
    """Kolla-Ansible sets none of them, so Ironic's defaults apply there."""
    page = tmp_path / 'page.conf'
    page.write_text(block_with('deployers', 'ini', 'automated_clean'))
    shown = ironic_conf.read([page])
    sample = ironic_conf.read([tree / 'etc/baremetal_acc/ironic.conf.d' / NAME])
    options = [option.dest for option in default.driver_opts]
    assert [sample[name] for name in options] == [shown[name] for name in options]
    assert sample.api.middleware == shown.api.middleware


def test_it_adds_to_lists(etc: Etc) -> None:
    """What Ironic had enabled stays enabled, in its order; what is not set, Ironic determines as before."""
    etc.main.write_text(
        '[DEFAULT]\nenabled_hardware_types = fake-hardware,redfish\nenabled_inspect_interfaces = agent,no-inspect\n'
        '[api]\nmiddleware = theirs\n[baremetal_acc]\ncertificate_key = /theirs.pem\n'
    )
    assert 0 == etc.run()
    conf = etc.read()
    assert ['fake-hardware', 'redfish', 'redfish-acc'] == conf.enabled_hardware_types
    assert ['agent', 'no-inspect', 'redfish-acc'] == conf.enabled_inspect_interfaces
    assert ['no-firmware', 'redfish-acc'] == conf.enabled_firmware_interfaces
    if 'middleware' in conf.api:
        assert ['baremetal-acc-policy', 'theirs'] == conf.api.middleware, 'ours is the first, or the API does not start'
    assert conf.enabled_power_interfaces is None
    assert 'certificate_key' not in etc.out.read_text()


def test_it_may_run_again(etc: Etc) -> None:
    """It ignores what it wrote: a type that Ironic does not enable any more does not come back."""
    etc.main.write_text('[DEFAULT]\nenabled_hardware_types = ipmi,redfish\n')
    assert 0 == etc.run('--hardware-type=ipmi-acc', '--hardware-type=redfish-acc')
    assert ['ipmi', 'redfish', 'ipmi-acc', 'redfish-acc'] == etc.read().enabled_hardware_types
    first = etc.out.read_text()
    assert 0 == etc.run('--hardware-type=ipmi-acc', '--hardware-type=redfish-acc')
    assert first == etc.out.read_text()
    etc.main.write_text('[DEFAULT]\nenabled_hardware_types = redfish\n')
    assert 0 == etc.run()
    assert ['redfish', 'redfish-acc'] == etc.read().enabled_hardware_types


def test_a_list_without_an_interface_of_the_type_gets_one(etc: Etc) -> None:
    """As ipmitool for ipmi-acc where Redfish is all that is enabled, and ours only where power interfaces are set."""
    etc.main.write_text('[DEFAULT]\nenabled_management_interfaces = redfish\nenabled_power_interfaces = redfish\n')
    assert 0 == etc.run('--hardware-type=ipmi-acc')
    conf = etc.read()
    assert ['redfish', 'ipmitool'] == conf.enabled_management_interfaces
    assert ['redfish', 'ipmi-acc'] == conf.enabled_power_interfaces


def test_interfaces_of_nodes_that_are_not_imaged(etc: Etc) -> None:
    """Only if they are asked for."""
    assert 0 == etc.run()
    assert compat.NO_DEPLOY_NAME not in etc.read().enabled_deploy_interfaces
    assert 0 == etc.run('--without-ramdisk')
    assert (compat.NO_DEPLOY_NAME, 'fake') == (etc.read().enabled_deploy_interfaces[-1], etc.read().enabled_boot_interfaces[-1])


def test_a_file_that_ironic_reads_later_is_named(
    etc: Etc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --config-file alone, Ironic reads ironic.conf.d first and that file last, so the lists of the file win."""
    monkeypatch.setattr(cfg, 'find_config_dirs', lambda *_, **__: [str(etc.folder)])
    etc.main.write_text('[DEFAULT]\nenabled_hardware_types = redfish\n')
    alone = [f'--config-file={etc.main}']
    assert 2 == etc.run(sources=alone)
    assert ['redfish'] == etc.read(*alone).enabled_hardware_types, 'what the error is about'
    said = capsys.readouterr().err
    assert f'Ironic reads {etc.main} after {etc.out}, and it sets [DEFAULT] enabled_hardware_types again' in said
    assert f'--config-dir {etc.folder} after --config-file {etc.main}' in said
    assert 0 == etc.run()
    assert ['redfish', 'redfish-acc'] == etc.read().enabled_hardware_types


def test_a_file_that_ironic_does_not_read_is_an_error(etc: Etc, capsys: pytest.CaptureFixture[str]) -> None:
    """It would enable nothing."""
    assert 2 == etc.run(sources=[f'--config-file={etc.main}'])
    assert f'{etc.out} is in no folder from which Ironic reads its configuration' in capsys.readouterr().err


def test_a_default_that_no_type_of_ours_supports_is_an_error(etc: Etc, capsys: pytest.CaptureFixture[str]) -> None:
    """No conductor would start."""
    etc.main.write_text('[DEFAULT]\nenabled_power_interfaces = redfish\ndefault_power_interface = redfish\n')
    assert 2 == etc.run()
    assert '[DEFAULT] default_power_interface: is redfish, which redfish-acc does not support' in capsys.readouterr().err
    assert not etc.out.exists()


@pytest.mark.parametrize(
    ('data', 'says'),
    [
        (b'no section\n', ", line 1: No ':' or '=' found in assignment (correct that line)"),
        (b'[DEFAULT]\npassword s3cret\n', ", line 2: No ':' or '=' found in assignment (correct that line)"),
        (b'[DEFAULT\n', ', line 1: Invalid section (must end with ]) (correct that line)'),
        (b'\xff\xfe', ': is not text in UTF-8 (name the files that Ironic is started with)'),
        (None, ': No such file or directory (fix the cause, then run it again)'),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(
    etc: Etc, capsys: pytest.CaptureFixture[str], data: bytes | None, says: str
) -> None:
    """The error names this file, once, and no other; it quotes nothing of it, such as a password."""
    (etc.folder / '10-good.conf').write_text('[DEFAULT]\n')
    etc.main.unlink()
    if data is not None:
        etc.main.write_bytes(data)
    assert 2 == etc.run()
    said = [line for line in capsys.readouterr().err.splitlines() if 'error:' in line]
    assert [f'baremetal-acc-ironic-conf: error: {etc.main}{says}'] == said


def test_a_folder_that_is_missing_is_an_error(etc: Etc, capsys: pytest.CaptureFixture[str]) -> None:
    """An Ironic from PyPI has no ironic.conf.d."""
    etc.folder.rmdir()
    assert 2 == etc.run()
    assert f'--output: there is no folder {etc.folder} (create it)' in capsys.readouterr().err


def test_every_kind_of_interface_is_known() -> None:
    """By the options of Ironic."""
    assert {'bios', 'boot', 'deploy', 'firmware', 'inspect', 'management', 'power', 'vendor'} < {*ironic_conf.INTERFACES}
