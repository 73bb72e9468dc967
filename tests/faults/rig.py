# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node whose BMC fails, a job that meets it, and the oracle that judges how the job ended.

The BMC is the emulator over HTTP(S), the job is turned as the command line turns it, through its stored form each time. Only
the clock is ours: it and that of the machine move together, so that an hour of waiting takes no time. The oracle asks the
machine and not the job: what was written, who looked in between, which locks hold, what runs.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import requests

from baremetal_acc import execution
from baremetal_acc.bmc import device_ids
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.retry import ReadRetry as ReadPatience
from baremetal_acc.emulator.image import build_image
from baremetal_acc.images.store import FileStore
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import CustodyDemand
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind
from baremetal_acc.model.job import Done, Failed, Flow, Job, Outcome, Wait
from baremetal_acc.model.lock import ResetKind, WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import BmcName
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, NodeFacts, Rule
from baremetal_acc.render import refusals

ITEMS = '/redfish/v1/UpdateService/FirmwareInventory'
EROT, GPU, NIC, SLOT = 'erot', 'gpu', 'nic', 'slot'
OLD = {EROT: '01.02.0060.0000_n00', GPU: '96.00.30.00.01', NIC: '32.39.2048'}
NEW = {EROT: '01.03.0000.0000_n00', GPU: '96.00.74.00.0D', NIC: '32.41.1000'}
GONE = '/redfish/v1/gone'
"""What the emulator writes down of a path that is one no more."""

ITEM = {EROT: 'HGX_FW_ERoT_GPU_{}', GPU: 'HGX_FW_GPU_{}', NIC: 'DPU_NIC'}
MODEL = {EROT: 'h100', GPU: 'h100', NIC: 'bluefield3'}
FITS = {EROT: Fit(pci='0x10de:0x2330'), GPU: Fit(pci='0x10de:0x2330'), NIC: Fit(part_number='900-9D3B6-00CV-AA0')}
BMC = {EROT: 'host', GPU: 'host', NIC: 'dpu'}
DEVICE = {EROT: 'GPU_', GPU: 'GPU_', NIC: 'DPU', SLOT: 'FPGA'}
CARDS = {EROT: 2, GPU: 2, NIC: 1}
# The DPU's other locks close no way of the host.
LOCKS = {
    EROT: re.compile('HGX_'),
    GPU: re.compile('HGX_'),
    NIC: re.compile('Bluefield/'),
    SLOT: re.compile('FPGA1/.*ProgrammableFromHost'),
}
RESET = {EROT: ResetKind.NONE, GPU: ResetKind.POWER_CYCLE, NIC: ResetKind.POWER_CYCLE}
PASSWORD = 'only-the-BMC-and-we-know-this'
BASIC = base64.b64encode(f'admin:{PASSWORD}'.encode()).decode()

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TIMEOUT = timedelta(minutes=15)
PATIENCE = RetryLimits(
    poll=timedelta(seconds=20), settle=timedelta(seconds=120), reset=timedelta(minutes=5), stall=timedelta(minutes=3)
)
FLASH_SECONDS = 60.0
# A job takes some twenty ticks; what lasts to the deadline some hundred.
TICKS = 600

MACHINE = {
    'gpus': 2,
    'virtual_clock': True,
    'flash_seconds': FLASH_SECONDS,
    'reset_seconds': 10.0,
    'bmc_reset_seconds': 45.0,
    'tls': False,
}


@dataclass(kw_only=True)
class Rig:
    """One node with two GPUs behind roots of trust, or with a DPU that has a BMC of its own.

    :ivar what: the firmware to be updated: EROT is in force at once, GPU after a restart of the host, NIC after one of the DPU.
    :ivar hold: a tenant has the machine, so the host is powered off while anything is open.
    :ivar skew: how far our own clock is off.
    """

    machine: Any
    folder: Path
    what: str = EROT
    hold: bool = True
    skew: timedelta = timedelta(0)
    seconds: float = 0.0
    address: dict[str, Any] = field(default_factory=dict)
    hooks: list[tuple[Callable[[Job], bool], Callable[[], object]]] = field(default_factory=list)
    stored: str = ''
    outcome: Outcome | None = None
    made: Plan | None = None
    begun_at: datetime = START
    job: Job = field(init=False)
    was_open: list[str] = field(default_factory=list)
    held: bool = False
    met: int = 0
    catalogue: tuple[Image, ...] = ()
    image_bytes: int = 40_000

    def __post_init__(self) -> None:
        self.catalogue = tuple(
            self.image(what, version, restore=f'{what}-old' if name == 'new' else None, security_version=rank)
            for what in (EROT, GPU, NIC)
            for name, version, rank in (('new', NEW[what], 2), ('old', OLD[what], 1))
        )
        self.target = execution.Target(
            name='node-1',
            node=NodeFacts(name='node-1', exposure=Exposure.TENANT if self.hold else Exposure.NONE),
            bmcs=tuple(self._address(name, bmc) for name, bmc in self.machine.bmcs.items()),
        )
        driver = RedfishDriver(
            devices=device_ids.shipped(), patience=ReadPatience(sleep=self.advance), remembered=RememberedBmc()
        )
        self.tools = execution.Tools(
            connect=driver.connect,
            mechanisms=mechanisms(),
            baseline=self.baseline(self.what),
            catalogue=self.catalogue,
            images=FileStore(folders=(self.folder,)),
            save=self.save,
            patience=PATIENCE,
        )

    def _address(self, name: str, bmc: Any) -> BmcAddress:
        known = {'address': bmc.address, 'username': bmc.username, 'password': bmc.password, 'verify_ca': bmc.verify_ca}
        given = {'timeout': timedelta(seconds=5), 'concurrency': 1, 'system': bmc.system} | self.address
        return BmcAddress(name=BmcName(name), **known | given)

    # -- what the operator has ----------------------------------------------------------------------------------------

    def image(self, what: str, version: str, *, restore: str | None, security_version: int, **other: Any) -> Image:
        """An image that the machine takes, its file, and what the catalogue says of it."""
        name = f'{what}-{"new" if version == NEW[what] else "old"}'
        data = build_image(
            model=other.pop('model', MODEL[what]),
            component=what,
            version=version,
            security_version=security_version,
            size_bytes=self.image_bytes,
        )
        path = self.folder / f'{name}.img'
        path.write_bytes(data)
        said: dict[str, Any] = {
            'name': name,
            'kind': ImageKind.FIRMWARE,
            'fits': (FITS[what],),
            'component': ITEM[what].format('*'),
            'version': version,
            'security_version': security_version,
            'source': str(path),
            'size_bytes': len(data),
            'digest': Digest(algorithm=DigestAlgorithm.SHA256, value=hashlib.sha256(data).hexdigest()),
            'reset': RESET[what],
            'restore': restore,
        }
        return Image(**said | other)

    def baseline(self, what: str, **other: Any) -> Baseline:
        """The cards at the new version, and the host's way to them blocked."""
        rule = Rule(
            name='dpus' if what == NIC else 'gpus',
            match=Match(kind=Kind.DPU if what == NIC else Kind.GPU),
            firmware=((ITEM[what].format('*'), NEW[what]),),
            block=frozenset({WritePath.HOST_DEVICE}),
            count=CARDS[what],
            custody=CustodyDemand.REPORTED,
        )
        others = Rule(name='others', match=Match(), block=frozenset({WritePath.HOST_DEVICE}))
        return Baseline(rules=(replace(rule, **other), others))

    def offer(self, image: Image) -> None:
        """Put an image into the catalogue, in place of the one of that name."""
        others = tuple(one for one in self.tools.catalogue if one.name != image.name)
        self.tools = replace(self.tools, catalogue=(*others, image))

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """Our clock."""
        return START + timedelta(seconds=self.seconds) + self.skew

    def advance(self, seconds: float) -> None:
        """Let time pass, here and in the machine."""
        self.seconds += seconds
        self.machine.advance(seconds)

    # -- the job ------------------------------------------------------------------------------------------------------

    def power_off(self) -> None:
        """A tenant has shut the host down before the job begins."""
        self.machine.power('ForceOff')
        self.advance(30)

    def begin(self, *, parts: frozenset[Part] = EVERYTHING) -> tuple[str, ...]:
        """Look, plan, and begin the job. Returns why it is refused; nothing when it is not."""
        inventory = execution.observe(self.target, self.tools, self.now)
        self.made = plan(inventory, self.tools.baseline, self.target.node, self.tools.catalogue, parts=parts, hold=self.hold)
        if self.made.refusals:
            return tuple(map(refusals.sentence, self.made.refusals))
        self.begun_at = self.now
        self.job = begin(
            self.made,
            identity='job-1',
            node='node-1',
            flow=Flow.CLI,
            step='apply',
            lifecycle=1,
            now=self.now,
            timeout=TIMEOUT,
        )
        return ()

    def when(self, is_so: Callable[[Job], bool], act: Callable[[], object]) -> None:
        """Do something once, before the first tick at which a condition holds."""
        self.hooks.append((is_so, act))

    def clear_faults(self) -> None:
        """All goes well from now on."""
        self.met += sum(rule['hits'] for rule in self.machine.faults())
        self.machine.clear_faults()

    @property
    def was_met(self) -> bool:
        """Whether a fault came to pass. A card that is gone is counted by nobody, but the BMC denies its item, as one of
        another name.
        """
        denied = [e for e in self.machine.log(reads=True) if e['status'] == 404 and e['path'].startswith((ITEMS, GONE))]
        return bool(denied) or self.met + sum(rule['hits'] for rule in self.machine.faults()) > 0

    def save(self, job: Job) -> None:
        """What a shell stores."""
        self.stored = json.dumps(encode(job))

    def turn(self) -> Outcome:
        """Turn the job until it ends."""
        for _ in range(TICKS):
            for hook in [h for h in self.hooks if h[0](self.job)]:
                self.hooks.remove(hook)
                hook[1]()
            job = decode(Job, json.loads(json.dumps(encode(self.job))))
            self.job, outcome = execution.tick(job, self.target, self.tools, self.now)
            self._watch()
            if not isinstance(outcome, Wait):
                self.outcome = outcome
                return outcome
            self.advance(max(outcome.delay.total_seconds(), 1.0))
        raise AssertionError(f'a job without an end: {self.job}')

    def _watch(self) -> None:
        """While the host is ours, no code of a tenant may meet a lock that is open."""
        if not self.hold:
            return
        truth = self.machine.truth()
        is_on = truth['systems']['host']['power'] == 'On'
        self.held = self.held or not is_on
        if self.held and is_on:
            self.was_open += self.open_ways(truth)

    # -- the truth ----------------------------------------------------------------------------------------------------

    def open_locks(self, truth: Any = None) -> list[str]:
        """Locks that the baseline asks for, and that do not hold, whatever the BMC shows."""
        locks = (truth or self.machine.truth())['locks']
        return [key for key, lock in locks.items() if LOCKS[self.what].match(key) and not lock['closed']]

    def open_ways(self, truth: Any = None) -> list[str]:
        """The host's ways to the cards that no lock closes: one lock is enough to close a way."""
        ways = (truth or self.machine.truth())['ways']
        return [
            f'{way["path"]} to {way["target"]}' for way in ways if way['device'].startswith(DEVICE[self.what]) and way['open']
        ]

    def version(self, card: int = 0, what: str | None = None) -> str:
        """What really runs."""
        bank = self.machine.truth()['components'][f'{BMC[what or self.what]}/{ITEM[what or self.what].format(card)}']['active']
        return str(bank['version'])

    def shown(self, uri: str) -> str:
        """FirmwareVersion of a resource, as the host's BMC shows it to anybody who asks."""
        bmc = self.machine.bmcs['host']
        answer = requests.get(bmc.address + uri, auth=(bmc.username, bmc.password), verify=bmc.verify_ca, timeout=5)
        return str(answer.json()['FirmwareVersion'])

    def pushes(self, card: int = 0, what: str | None = None) -> list[dict[str, Any]]:
        """The images of which the machine got anything, for one item."""
        uri = f'{ITEMS}/{ITEM[what or self.what].format(card)}'
        return [e for e in self.machine.log() if e['received_bytes'] and _is_push(e) and uri in e['body'].get('Targets', ())]

    @property
    def reasons(self) -> str:
        """Why the job failed."""
        return '\n'.join(self.outcome.reasons) if isinstance(self.outcome, Failed) else ''

    @property
    def host_is_off(self) -> bool:
        """Whether the host is off, or about to be."""
        self.advance(30)
        return bool(self.machine.truth()['systems']['host']['power'] == 'Off')

    def judge(self, *, opens_by_itself: bool = False) -> None:
        """What has to hold however a job ends: no write unseen, none beside another, nothing open, in time, no secret told.

        :param opens_by_itself: the fault opens a lock, so for a moment the host may run beside it.
        """
        log = self.machine.log(reads=True)
        _no_write_without_a_look(log)
        beside = [(e['body'], e['overlaps']) for e in log if _is_push(e) and e['overlaps'] and e['received_bytes']]
        assert [] == beside, 'two writes to one card at once'
        assert [] == self.machine.truth()['cut_writes'], 'power changed under a card that was being written'
        assert self.job.ended
        limit = TIMEOUT + PATIENCE.settle + 3 * PATIENCE.reset
        assert limit >= timedelta(seconds=self.seconds), 'the deadline was not kept'
        told = self.stored + self.reasons + repr(self.outcome)
        assert [] == [secret for secret in (PASSWORD, BASIC) if secret in told]
        assert opens_by_itself or not self.was_open, 'the host ran while a way to a card was open'
        # A job that ended before it wrote anything has left everything as it was.
        if self.machine.log() and self.open_locks():
            assert isinstance(self.outcome, Failed)
            assert not self.open_ways() or not self.hold or self.host_is_off, 'the host runs, and a way to a card is open'
        if isinstance(self.outcome, Done):
            assert {NEW[self.what]} == {self.version(card) for card in range(CARDS[self.what])}


def _is_push(entry: dict[str, Any]) -> bool:
    return bool(entry['method'] == 'POST' and entry['path'].endswith('/update-multipart'))


def _no_write_without_a_look(log: list[dict[str, Any]]) -> None:
    """Between two images for one item somebody has read the item, or the collection that shows it."""
    written: dict[str, int] = {}
    for entry in log:
        if entry['method'] == 'GET' and entry['status'] == 200:
            for uri in [u for u in written if entry['path'] in (u, ITEMS)]:
                del written[uri]
        elif _is_push(entry) and entry['received_bytes']:
            for uri in entry['body']['Targets']:
                assert uri not in written, f'{uri} was written again and nobody had looked'
                written[uri] = entry['number']
