# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A machine in good order with the operator's documents, ways to spoil it, and the verdict of the command as a table of rows.

The BMC is emulated and answers over HTTPS. The command runs in this process, as a start takes longer than what it does here.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import requests

from baremetal_acc.certificates import envelope
from baremetal_acc.cli.main import main
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.board import BMC_VERSION
from baremetal_acc.emulator.hw.board import IMAGE_MODEL as BOARD
from baremetal_acc.emulator.hw.hgx_board import EROT_VERSION, GPU_VERSION
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.pytest_plugin import EmulatedMachine
from baremetal_acc.emulator.remote import Remote
from baremetal_acc.emulator.server import Emulator, EmulatorThread, Serving
from baremetal_acc.errors import CertificateAltered, CertificateInvalid, CertificateUntrusted
from baremetal_acc.model import certificate_fault
from baremetal_acc.model.certificate import Certificate
from tests.cli.desk import CONF, Desk, Done, target_of
from tests.unit.certificates.values import sealer, write_key
from tests.unit.images import keys

ROOT = '/redfish/v1'
MANAGER = f'{ROOT}/Managers/BMC_0'
SYSTEM = f'{ROOT}/Systems/System_0'
ITEMS = f'{ROOT}/UpdateService/FirmwareInventory'
OLD_EROT = '01.01.0050.0000_n00'
ISSUER, STRANGER = sealer(1), sealer(2)

AUDITOR = {'UserName': 'auditor', 'Password': 'aud1tor-secret', 'RoleId': 'ReadOnly'}

BASELINE = f"""format = 1
[bmc]
firmware_version = "{BMC_VERSION}"
accounts = ["admin=Administrator", "auditor=ReadOnly"]
bootstrap_accounts = "disabled"
ipmi_over_lan = "disabled"
host_interfaces = "disabled"
virtual_media = "ejected"
event_subscriptions = ["https://events.example.org"]
boot_override = "None"
serial_over_lan = "disabled"
tls_certificate = {{ expect = "Example Issuing CA *", days_left = 30 }}
[[rule]]
name = "gpus"
match = {{ kind = "GPU" }}
firmware = {{ "HGX_FW_GPU_*" = "{GPU_VERSION}", "HGX_FW_ERoT_GPU_*" = "{EROT_VERSION}" }}
block = ["host-device"]
measure = "required"
custody = "reported"
"""

SHIPPED = {
    component: hashlib.sha256(f'factory h100 {component} {version}'.encode()).hexdigest()
    for component, version in (('gpu', GPU_VERSION), ('erot', EROT_VERSION))
}
"""What the devices measure of the firmware that they come with."""


SIGNATURE_ROWS = tuple(f'certificate: {one.kind}' for one in (CertificateInvalid, CertificateUntrusted, CertificateAltered))
"""What ``certificate verify`` checks of the signature, in order. It reads no further where one of them is red."""

CONTENT_ROWS = frozenset(
    f'certificate: {one.kind}'
    for one in vars(certificate_fault).values()
    if isinstance(getattr(one, 'kind', None), str) and one is not certificate_fault.AnotherInstance
)
"""What it checks of the content, by kind. A certificate of the command line is of no instance."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the command says: the rows that were evaluated, and of the red ones what was found."""

    judged: frozenset[str]
    red: Mapping[str, str]


@dataclass(kw_only=True)
class InProcess(Desk):
    """The command without a process of its own."""

    def run(self, *arguments: str, timeout: float = 0.0) -> Done:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding='utf-8') for _ in range(2)]
        handlers = logging.root.handlers[:]
        try:
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(streams[0]),
                contextlib.redirect_stderr(streams[1]),
            ):
                code = main(arguments)
        finally:
            logging.root.handlers[:] = handlers  # the command adds one for each start
        texts = []
        for stream in streams:
            stream.seek(0)
            texts.append(stream.read())
        return Done(code=code, out=texts[0], err=texts[1])


class Site:
    """A machine in good order, with locks that we have engaged, a signed catalogue, and a certificate of what was proven."""

    def __init__(self, folder: Path) -> None:
        how = Parameters(gpus=2, features=frozenset({'spdm'}), flash_seconds=0.02, reset_seconds=0.02)
        product = build('gpu-server', how)
        self._thread = EmulatorThread(Emulator(Serving(), product=product))
        self._thread.start()
        self.machine: Any = EmulatedMachine(self._thread, Remote(self._thread.emulator.door, self._thread.emulator.control))
        self._emulated = product.machine
        self._bmc = self.machine.bmcs['host']
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.verify = self._bmc.verify_ca
        self.http.auth = (self._bmc.username, self._bmc.password)
        self.undo = contextlib.ExitStack()
        self.desk = InProcess(folder=folder / 'desk')
        self.desk.folder.mkdir()
        self._kept = folder / 'kept'
        self._documents()
        self.call('POST', f'{ROOT}/AccountService/Accounts', AUDITOR)
        self.call('PATCH', f'{MANAGER}/HostInterfaces/hostusb0', {'InterfaceEnabled': False})
        self.good('lock', '--execute', *self.desk.options)
        issue = ('--key', 'key.pem', '--out', 'certificate.json', '--deployment', 'd-1', '--days', '30')
        self.good('certificate', 'issue', 'node-1', *self.desk.options, *issue)
        self._state = self._emulated.dump()
        shutil.copytree(self.desk.folder, self._kept)
        self.ids = self._ids()

    # -- documents ----------------------------------------------------------------------------------------------------

    def _documents(self) -> None:
        desk = self.desk
        self.targets()
        roots = desk.write('maker.pem', self.machine.spdm_root)
        keys.secret_file(desk.folder / 'signer.pem', keys.private_pem(signer := keys.key()))
        desk.write('trusted.pem', keys.public_pem(signer).decode())
        write_key(desk.folder / 'key.pem', ISSUER)
        write_key(desk.folder / 'key.pub', ISSUER, public=True, mode=0o644)
        write_key(desk.folder / 'other.pub', STRANGER, public=True, mode=0o644)
        options = {
            'spdm_trust_roots': roots,
            'trust_roots': 'trusted.pem',
            'catalogue': 'catalogue.toml',
            'catalogue_serial_file': 'serials.sqlite',
        }
        desk.write('acc.conf', CONF + ''.join(f'{name} = {value}\n' for name, value in options.items()))
        desk.write('baseline.toml', BASELINE)
        until = datetime.now(UTC) + timedelta(days=30)
        entries = [f'format = 1\nserial = 1\nexpires = {until:%Y-%m-%dT%H:%M:%SZ}']
        for name, component, version, measured in (
            ('gpu-shipped', 'gpu', GPU_VERSION, SHIPPED['gpu']),
            ('erot-shipped', 'erot', EROT_VERSION, SHIPPED['erot']),
            ('erot-old', 'erot', OLD_EROT, None),
        ):
            entries.append(self._image(name, component, version, measured))
        desk.write('catalogue.toml', '\n'.join(entries))
        self.sign()

    def _image(self, name: str, component: str, version: str, measured: str | None) -> str:
        data = build_image(model='h100', component=component, version=version, size_bytes=5000)
        (self.desk.folder / f'{name}.img').write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        index = 2 if component == 'gpu' else 3
        values = [f'"HGX_ERoT_GPU_{card}/{index}" = "sha256:{measured or digest}"' for card in (0, 1)]
        return '\n'.join(
            (
                '[[image]]',
                f'name = "{name}"',
                'kind = "firmware"',
                'fits = [{ pci = "0x10de:0x2330" }]',
                f'component = "{"HGX_FW_GPU_*" if component == "gpu" else "HGX_FW_ERoT_GPU_*"}"',
                f'version = "{version}"',
                'security_version = 1',
                f'source = "{name}.img"',
                f'size = {len(data)}',
                f'digest = "sha256:{digest}"',
                'restore = "none"',
                '[image.measurements]',
                *values,
            )
        )

    def targets(self, **bmc: Any) -> None:
        """bmcs.yaml."""
        self.desk.bmcs({'node-1': target_of(self.machine, **bmc)})

    def good(self, *arguments: str) -> None:
        """Run the command, which has to succeed."""
        done = self.desk.run(*arguments)
        assert 0 == done.code, (arguments, done.err)

    def sign(self) -> None:
        """Sign the catalogue."""
        self.good('catalogue', 'sign', 'catalogue.toml', '--config-file', 'acc.conf', '--key', 'signer.pem')

    def catalogue(self, change: Callable[[str], str], *, signed: bool = True) -> None:
        """Change the catalogue, and sign it as the next one."""
        path = self.desk.folder / 'catalogue.toml'
        before = path.read_text()
        after = change(before)
        assert after != before
        path.write_text(after.replace('serial = 1', 'serial = 2') if signed else after)
        if signed:
            self.sign()

    def certificate(self, change: Callable[[Certificate], Certificate]) -> None:
        """Replace the certificate by another one that its issuer has signed."""
        path = self.desk.folder / 'certificate.json'
        path.write_bytes(envelope.seal(change(self.genuine), ISSUER) + b'\n')

    @property
    def genuine(self) -> Certificate:
        """The certificate that was issued."""
        return envelope.opened((self._kept / 'certificate.json').read_bytes(), ISSUER.trust)

    # -- the machine --------------------------------------------------------------------------------------------------

    def call(self, method: str, uri: str, body: Any = None, **more: Any) -> requests.Response:
        """A request of another client, which has to succeed."""
        answer = self.http.request(method, f'{self._bmc.address}{uri}', json=body, timeout=10, **more)
        assert answer.ok, answer.text
        return answer

    def push(self, item: str, image: bytes) -> None:
        """Another client writes firmware over the network, until the task ends."""
        given = {'Targets': [f'{ITEMS}/{item}'], '@Redfish.OperationApplyTime': 'Immediate'}
        files = {
            'UpdateParameters': (None, json.dumps(given), 'application/json'),
            'UpdateFile': ('image.bin', image, 'application/octet-stream'),
        }
        uri = self.call('GET', f'{ROOT}/UpdateService').json()['MultipartHttpPushUri']
        task = self.call('POST', uri, files=files).json()['@odata.id']
        end = time.monotonic() + 10
        while (state := self.call('GET', task).json()['TaskState']) != 'Completed':
            assert state != 'Exception'
            assert time.monotonic() < end
            time.sleep(0.01)

    def push_card(self, component: str, version: str, *, seed: str = '') -> None:
        """Firmware of GPU_1 or of its root of trust."""
        item = 'HGX_FW_GPU_1' if component == 'gpu' else 'HGX_FW_ERoT_GPU_1'
        self.push(item, build_image(model='h100', component=component, version=version, size_bytes=5000, seed=seed))

    def push_bmc(self, version: str) -> None:
        """Firmware of the BMC."""
        self.push('FW_BMC_0', build_image(model=BOARD, component='bmc', version=version, size_bytes=5000))

    def restore(self) -> None:
        """Bring machine and documents back to good order."""
        self.machine.clear_faults()
        self.undo.close()
        asyncio.run_coroutine_threadsafe(self._load(), self._thread._loop).result(10)
        shutil.rmtree(self.desk.folder)
        shutil.copytree(self._kept, self.desk.folder)

    async def _load(self) -> None:
        self._emulated.load(self._state)

    def stop(self) -> None:
        """Stop the machine."""
        self.http.close()
        self._thread.stop()

    # -- the verdict --------------------------------------------------------------------------------------------------

    def _ids(self) -> dict[str, str]:
        """The cards by their identity."""
        done = self.desk.run('verify', '-f', 'json', *self.desk.options)
        return {
            f['accelerator']: f['device'].split()[-1]
            for f in done.document['targets'][0]['findings']
            if f['accelerator'] is not None
        }

    def judge(self) -> Judgement:
        """Run every check, and return its rows."""
        judged: set[str] = set()
        red: dict[str, str] = {}
        for rows, found in (self._catalogue(), self._verify(), self._certificate()):
            judged |= rows
            red |= found
        return Judgement(judged=frozenset(judged), red=red)

    def _verify(self) -> tuple[set[str], dict[str, str]]:
        done = self.desk.run('verify', '-f', 'json', *self.desk.options)
        if not done.out:
            return set(), {}  # the catalogue was refused: its own row says so
        [target] = done.document['targets']
        if target['error'] is not None:
            return {'BMC host'}, {'BMC host': done.err}
        # For these there are findings only if something is wrong.
        rows = {'BMC host', *(f'{card}: present' for card in self.ids.values()), 'deny list'}
        red: dict[str, str] = {}
        for one in target['findings']:
            row = self._row(one)
            rows.add(row)
            if not one['met']:
                red[row] = one['found']
        assert (3 if red else 0) == done.code, done.err
        return rows, red

    def _row(self, finding: Mapping[str, Any]) -> str:
        if finding['expected'] == 'a version that the catalogue does not deny':
            return 'deny list'
        card = self.ids.get(finding['accelerator'], 'another card' if finding['accelerator'] else '')
        return f'{card}: {finding["subject"]}' if card else str(finding['subject'])

    def _certificate(self) -> tuple[set[str], dict[str, str]]:
        expected = ('--node', 'node-1', '--lifecycle', str(self.genuine.lifecycle), '--deployment', 'd-1')
        done = self.desk.run('certificate', 'verify', 'certificate.json', '--trust', 'key.pub', *expected, '-f', 'json')
        kinds = done.document['kinds']
        assert (3 if kinds else 0) == done.code
        red = {f'certificate: {kind}': done.err for kind in kinds}
        unsigned = next((n for n, row in enumerate(SIGNATURE_ROWS) if row in red), None)
        rows = {*SIGNATURE_ROWS, *CONTENT_ROWS} if unsigned is None else set(SIGNATURE_ROWS[: unsigned + 1])
        return rows, red

    def _catalogue(self) -> tuple[set[str], dict[str, str]]:
        done = self.desk.run('catalogue', 'check', '--config-file', 'acc.conf', '-f', 'json')
        if not done.out:
            return {'catalogue'}, {'catalogue': done.err}
        images = {f'image {one["name"]}': one for one in done.document['images']}
        return {'catalogue', *images}, {row: ' '.join(one['errors']) for row, one in images.items() if one['state'] == 'wrong'}
