# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One fault at a time, on one machine: each turns its own row of the verdict red, and no other row.

The rows are the findings of ``verify``, the images of ``catalogue check`` and the kinds of ``certificate verify``: more than 40
on a machine with two GPUs. All of them are evaluated for each fault (:mod:`tests.cli.seeded`). Where a fault turns a second row
red, or a row cannot be evaluated, the table says why that is right.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest

from baremetal_acc.emulator.image import build_image
from baremetal_acc.model.lock import LockState
from tests.cli.seeded import EROT_VERSION, MANAGER, OLD_EROT, ROOT, SYSTEM, Judgement, Site
from tests.unit.certificates.values import altered

CD = f'{MANAGER}/VirtualMedia/Cd'
EROT = f'{ROOT}/Chassis/HGX_ERoT_GPU_1'
GPU_ITEM = f'{ROOT}/UpdateService/FirmwareInventory/HGX_FW_GPU_1'
SIGNED_CONTENT = 'certificate: *'
OF_THE_BMC = ('BMC setting *', 'GPU_*', 'deny list')


@dataclass(frozen=True, kw_only=True)
class SeededFault:
    """One fault.

    :ivar seed: how it comes about.
    :ivar red: the row that has to turn red; ``says``: words of what was found there.
    :ivar also: further rows that turn red, and why that is right.
    :ivar unjudged: patterns of rows that cannot be evaluated, and why.
    """

    name: str
    seed: Callable[[Site], object]
    red: str
    says: str
    also: Mapping[str, str] = field(default_factory=dict)
    unjudged: Mapping[str, str] = field(default_factory=dict)


def _signs_wrongly(how: str) -> Callable[[Site], object]:
    return lambda site: site.machine.fault('measurement-wrong', device='GPU_1', how=how)


def _patch(uri: str, body: object, undo: object = None) -> Callable[[Site], None]:
    """Write a property; ``undo`` where it is not of the state that is restored after each fault."""

    def seed(site: Site) -> None:
        site.call('PATCH', uri, body)
        if undo is not None:
            site.undo.callback(site.call, 'PATCH', uri, undo)

    return seed


def _another_account(site: Site) -> None:
    place = site.call('POST', f'{ROOT}/AccountService/Accounts', ACCOUNT).headers['Location']
    site.undo.callback(site.call, 'DELETE', place)


def _subscription(site: Site) -> None:
    body = {'Destination': 'https://[::1]:8443/x', 'Protocol': 'Redfish'}
    place = site.call('POST', f'{ROOT}/EventService/Subscriptions', body).headers['Location']
    site.undo.callback(site.call, 'DELETE', place)


def _medium(site: Site) -> None:
    site.call('POST', f'{CD}/Actions/VirtualMedia.InsertMedia', {'Image': 'https://images.test/x.iso'})
    site.undo.callback(site.call, 'POST', f'{CD}/Actions/VirtualMedia.EjectMedia', {})


def _foreign_tls(site: Site) -> None:
    """Of another authority, which the operator's machine trusts, too."""
    site.targets(verify_ca=False)
    site.machine.fault('certificate-changed')


def _staged(site: Site) -> None:
    """A client with the password of the BMC opens the write protection of the item, and closes it again."""
    site.call('PATCH', GPU_ITEM, {'WriteProtected': False})
    site.push_card('gpu', '97.00.00.00.00')
    site.call('PATCH', GPU_ITEM, {'WriteProtected': True})


def _without_reference(site: Site) -> None:
    site.catalogue(lambda text: '\n'.join(one for one in text.splitlines() if not one.startswith('"HGX_ERoT_GPU_1/')))


def _denied(site: Site) -> None:
    deny = f'\n[[deny]]\nreason = "CVE-2026-0001"\ncomponent = "HGX_FW_ERoT_GPU_1"\nversion = "{EROT_VERSION}"\n'
    site.catalogue(lambda text: text + deny)


def _altered_catalogue(site: Site) -> None:
    site.catalogue(lambda text: text.replace('security_version = 1', 'security_version = 0'), signed=False)


def _altered_certificate(site: Site) -> None:
    path = site.desk.folder / 'certificate.json'
    path.write_bytes(altered(path.read_bytes(), lambda body: body.replace(b'"d-1"', b'"d-2"')))


def _expired(site: Site) -> None:
    end = datetime.now(UTC) - timedelta(seconds=1)
    site.certificate(lambda one: replace(one, expires=end))


def _of_another_node(site: Site) -> None:
    site.certificate(lambda one: replace(one, node=replace(one.node, name='node-2')))


def _with_an_open_path(site: Site) -> None:
    def opened(one):
        first, *others = one.accelerators
        paths = tuple(replace(p, state=LockState.UNLOCKED) if p.demanded else p for p in first.paths)
        return replace(one, accelerators=(replace(first, paths=paths), *others))

    site.certificate(opened)


def _damaged_image(site: Site) -> None:
    path = site.desk.folder / 'erot-old.img'
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _other_trust(folder_file: str, source: str) -> Callable[[Site], None]:
    return lambda site: (site.desk.folder / folder_file).write_bytes((site.desk.folder / source).read_bytes())


ACCOUNT = {'UserName': 'mallory', 'Password': 'mallory-9876', 'RoleId': 'ReadOnly'}
AUDITOR = f'{ROOT}/AccountService/Accounts/auditor'
REFUSED = 'a catalogue that is not trusted is not used: nothing is compared with it'
UNREAD = 'the content of a certificate that is not signed by a trusted key is not read'

FAULTS = (
    # What cards sign.
    SeededFault(
        name='a measurement that differs, at the same version',
        seed=lambda site: site.push_card('erot', EROT_VERSION, seed='another'),
        red='GPU_1: measurement HGX_ERoT_GPU_1',
        says='not that of image erot-shipped',
    ),
    SeededFault(
        name='a measurement that a foreign chain has signed',
        seed=_signs_wrongly('other-root'),
        red='GPU_1: measurement HGX_ERoT_GPU_1',
        says='not issued by a pinned root',
    ),
    SeededFault(
        name='a measurement that answers an earlier nonce',
        seed=_signs_wrongly('replayed'),
        red='GPU_1: measurement HGX_ERoT_GPU_1',
        says='the nonce is not the one that was sent',
    ),
    SeededFault(
        name='a measurement without a reference',
        seed=_without_reference,
        red='GPU_1: measurement HGX_ERoT_GPU_1',
        says='the catalogue has nothing to compare it with',
    ),
    # Settings of the BMC, and the BMC itself.
    SeededFault(
        name='an account more',
        seed=_another_account,
        red='BMC setting accounts of host',
        says="'mallory' (ReadOnly)",
    ),
    SeededFault(
        name='an account with a higher role',
        seed=_patch(AUDITOR, {'RoleId': 'Administrator'}, {'RoleId': 'ReadOnly'}),
        red='BMC setting accounts of host',
        says='auditor',
    ),
    SeededFault(
        name='IPMI over LAN enabled',
        seed=_patch(f'{MANAGER}/NetworkProtocol', {'IPMI': {'ProtocolEnabled': True}}),
        red='BMC setting ipmi_over_lan of host',
        says='enabled',
    ),
    SeededFault(
        name='the host interface enabled',
        seed=_patch(f'{MANAGER}/HostInterfaces/hostusb0', {'InterfaceEnabled': True}),
        red='BMC setting host_interfaces of host',
        says='enabled',
    ),
    SeededFault(
        name='bootstrap accounts enabled',
        seed=_patch(f'{MANAGER}/HostInterfaces/hostusb0', {'CredentialBootstrapping': {'Enabled': True}}),
        red='BMC setting bootstrap_accounts of host',
        says='enabled',
    ),
    SeededFault(
        name='virtual media inserted',
        seed=_medium,
        red='BMC setting virtual_media of host',
        says='inserted',
    ),
    SeededFault(
        name='an event subscription more',
        seed=_subscription,
        red='BMC setting event_subscriptions of host',
        says='https://[::1]:8443',
    ),
    SeededFault(
        name='a boot override',
        seed=_patch(
            SYSTEM,
            {'Boot': {'BootSourceOverrideEnabled': 'Continuous', 'BootSourceOverrideTarget': 'Cd'}},
            {'Boot': {'BootSourceOverrideEnabled': 'Disabled'}},
        ),
        red='BMC setting boot_override of host',
        says='Cd',
    ),
    SeededFault(
        name='serial over LAN enabled',
        seed=_patch(SYSTEM, {'SerialConsole': {'SSH': {'ServiceEnabled': True}}}),
        red='BMC setting serial_over_lan of host',
        says='enabled',
    ),
    SeededFault(
        name='a TLS certificate of another issuer',
        seed=_foreign_tls,
        red='BMC setting tls_certificate of host',
        says='Another Issuing CA',
    ),
    SeededFault(
        name='a TLS certificate that does not verify',
        seed=lambda site: site.machine.fault('certificate-changed'),
        red='BMC host',
        says='the certificate is not trusted',
        unjudged=dict.fromkeys(OF_THE_BMC, 'nothing is read of a BMC, and no password sent to it, that is not known to be it'),
    ),
    SeededFault(
        name='another version of the BMC firmware',
        seed=lambda site: site.push_bmc('6.6.6'),
        red='BMC setting firmware_version of host',
        says='6.6.6',
    ),
    # Cards, their firmware and their locks.
    SeededFault(
        name='an open path from the host to a card',
        seed=_patch(EROT, {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': True}}}),
        red='GPU_1: lock host-device',
        says='unlocked',
    ),
    SeededFault(
        name='a lock that is shown as closed and could not be read',
        seed=lambda site: site.machine.fault('lock-unread', device='GPU_1'),
        red='GPU_1: lock host-device',
        says='unknown',
    ),
    SeededFault(
        name='another version of the firmware of a card',
        seed=lambda site: site.push_card('erot', OLD_EROT),
        red='GPU_1: firmware HGX_FW_ERoT_GPU_1',
        says=OLD_EROT,
    ),
    SeededFault(
        name='staged firmware',
        seed=_staged,
        red='GPU_1: firmware HGX_FW_GPU_1',
        says='97.00.00.00.00',
    ),
    SeededFault(
        name='a version that the BMC invents',
        seed=lambda site: site.machine.fault('version-lies', device='GPU_1', uri='*HGX_FW_GPU_1', version='98.0'),
        red='GPU_1: firmware HGX_FW_GPU_1',
        says='98.0',
        also={'GPU_1: measurement HGX_ERoT_GPU_1': 'what the card signs contradicts the version that the BMC shows'},
    ),
    SeededFault(
        name='a missing card',
        seed=lambda site: site.machine.fault('device-absent', device='GPU_1'),
        red='GPU_1: present',
        says='absent',
        unjudged={'GPU_1: [!p]*': 'nothing is read of a card that is not there'},
    ),
    SeededFault(
        name='a replaced card',
        seed=lambda site: site.machine.fault('card-exchanged', device='GPU_1'),
        red='GPU_1: present',
        says='absent',
        also={'another card: lock host-device': 'nobody has engaged a lock on the card that is there instead'},
        unjudged={'GPU_1: [!p]*': 'nothing is read of a card that is not there'},
    ),
    SeededFault(
        name='a version on the deny list',
        seed=_denied,
        red='deny list',
        says='CVE-2026-0001',
    ),
    # Catalogue, images and certificate.
    SeededFault(
        name='a catalogue with altered bytes',
        seed=_altered_catalogue,
        red='catalogue',
        says='its signature is not trusted',
        unjudged=dict.fromkeys((*OF_THE_BMC, 'BMC host', 'image *'), REFUSED),
    ),
    SeededFault(
        name='a catalogue of a signer who is not trusted any more',
        seed=_other_trust('trusted.pem', 'other.pub'),
        red='catalogue',
        says='its signature is not trusted',
        unjudged=dict.fromkeys((*OF_THE_BMC, 'BMC host', 'image *'), REFUSED),
    ),
    SeededFault(
        name='an image with altered bytes',
        seed=_damaged_image,
        red='image erot-old',
        says='the catalogue says',
    ),
    SeededFault(
        name='an altered certificate',
        seed=_altered_certificate,
        red='certificate: altered',
        says='the signature does not match',
        unjudged={SIGNED_CONTENT: UNREAD},
    ),
    SeededFault(
        name='a certificate whose signing key is not trusted any more',
        seed=_other_trust('key.pub', 'other.pub'),
        red='certificate: untrusted-key',
        says='which is not trusted',
        unjudged={SIGNED_CONTENT: UNREAD},
    ),
    SeededFault(
        name='a certificate of another node',
        seed=_of_another_node,
        red='certificate: another-node',
        says='node-2',
    ),
    SeededFault(
        name='a certificate of another deployment',
        seed=lambda site: site.certificate(lambda one: replace(one, deployment='d-0')),
        red='certificate: another-deployment',
        says='d-0',
    ),
    SeededFault(
        name='a certificate of an earlier lifecycle',
        seed=lambda site: site.certificate(lambda one: replace(one, lifecycle=one.lifecycle - 1)),
        red='certificate: another-lifecycle',
        says='lifecycle',
    ),
    SeededFault(
        name='an expired certificate',
        seed=_expired,
        red='certificate: expired',
        says='expired',
    ),
    SeededFault(
        name='a certificate that lists an open path',
        seed=_with_an_open_path,
        red='certificate: path-not-blocked',
        says='host-device',
    ),
)


@pytest.fixture(scope='module')
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One machine for all."""
    folder = tmp_path_factory.mktemp('seeded')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('HOME', str(folder))
        patch.setenv('XDG_STATE_HOME', str(folder / 'desk' / 'state'))
        made = Site(folder)
        try:
            yield made
        finally:
            made.stop()


def test_each_fault_turns_its_own_row_red_and_no_other(site: Site) -> None:
    """And without a fault all rows are green: before the first fault, and after the last one."""
    good = site.judge()
    assert {} == good.red
    assert len(good.judged) >= 40
    wrong = []
    for fault in FAULTS:
        try:
            fault.seed(site)
            wrong += _differences(fault, site.judge(), good)
        finally:
            site.restore()
    assert [] == wrong
    assert good == site.judge()


def _differences(fault: SeededFault, found: Judgement, good: Judgement) -> Iterator[str]:
    expected = {fault.red, *fault.also}
    for row in sorted(found.red.keys() ^ expected):
        yield f'{fault.name}: {row} is {"red" if row in found.red else "green"}: {found.red.get(row)}'
    if fault.says not in found.red.get(fault.red, fault.says):
        yield f'{fault.name}: {fault.red} says {found.red[fault.red]!r}'
    missing = good.judged - found.judged
    for row in missing:
        if not any(fnmatchcase(row, pattern) for pattern in fault.unjudged):
            yield f'{fault.name}: {row} was not evaluated'
    for pattern in fault.unjudged:
        if not any(fnmatchcase(row, pattern) for row in missing):
            yield f'{fault.name}: all of {pattern} was evaluated'


def test_a_lie_that_nothing_contradicts_turns_no_row_red(site: Site) -> None:
    """A lock that is shown as closed and refuses nothing reads like an honest one: the limit of what is read out of band.

    Where a path has a harmless write, that write finds the lie (tests/emulator_ipmi/test_refused_writes.py).
    """
    try:
        site.machine.fault('lock-reports-locked', device='GPU_1')
        assert {} == site.judge().red
        assert site.machine.tenant_write('GPU_1', build_image(model='h100', component='gpu', version='6.6.6'))['written']
    finally:
        site.restore()


def test_the_table_has_one_fault_a_row_and_a_reason_for_each_exception() -> None:
    """Names are unique, and what may turn red besides, or is not evaluated, is explained."""
    assert len(FAULTS) == len({fault.name for fault in FAULTS}) >= 20
    for fault in FAULTS:
        assert all(len(why.split()) > 3 for why in (*fault.also.values(), *fault.unjudged.values())), fault.name
