# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One machine's random life by a seed: cleaned, locked, verified, handed over, watched, taken back, with faults of all kinds.

The machine is the emulator's, with a clock of its own; our own code decides, run as a conductor runs it
(:mod:`baremetal_acc.execution` and :mod:`baremetal_acc.planning`). The seed selects the events. The result is judged by the
machine's true state: whether any write path from the host to a card is open, what runs in each component, which lock was
written when.

A life is judged at every hand-over, at the end of every cleaning and in every round of the watch. A hand-over without proof is
a fault of ours whatever the BMCs did, with one exception: a BMC that reports a lock or a version that is not there looks like
an honest one, and so does a BMC that reports the progress of a write which never reaches the card. Such lies are part of the
lives, too, and the hand-overs that rest on one are counted as *believed*.

In most lives the baseline requires custody, and the tenant's code writes other bytes under the very version that the baseline
names (:mod:`tests.lifecycles.host`). There the bytes are judged, and not their version.
"""

import hashlib
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from unittest import mock

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.certificates import statement, validity
from baremetal_acc.emulator.image import EmulatedImage as Brought
from baremetal_acc.emulator.image import ImageFormat as Holds
from baremetal_acc.emulator.parts import Bank, Power, WriteRefused
from baremetal_acc.errors import AccError
from baremetal_acc.execution import Target, Tools, bound, check, custody_feed, observe, tick
from baremetal_acc.locks.mechanism import Mechanism
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.certificate import CertifiedNode, Paper
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import NO_CUSTODY, BreakCause, Custody, CustodyDemand
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind, Upload
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Done, Flow, Job, Outcome, Wait
from baremetal_acc.model.lock import Engagement, ResetKind, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName
from baremetal_acc.model.subject import UNSEEN_OR_OPEN
from baremetal_acc.planning import custody, custody_rules, watch
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.verify import judged
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, Match, NodeFacts, Rule
from baremetal_acc.render import certificate_faults, findings, troubles
from baremetal_acc.render.refusals import raise_if_unsafe
from tests.lifecycles.host import OTHER_BYTES, Host
from tests.lifecycles.site import Site, bytes_of, digest_of, upload

PATIENCE = RetryLimits(
    poll=timedelta(seconds=45), settle=timedelta(minutes=1), reset=timedelta(minutes=4), stall=timedelta(minutes=6)
)

CUSTODY_PATIENCE = replace(PATIENCE, poll=timedelta(seconds=8))
"""Where custody is required, or a BMC does not tell of starts: it is asked within the time in which no host starts."""

TIMEOUT = timedelta(minutes=40)

ROUND = timedelta(minutes=5)
"""Between two rounds of the watch."""

PREVIOUS = '0.9'
"""What some cards run at first, and what is put back."""

EVIL = '6.6.6'

PATHS = {
    'pcie': WritePath.HOST_DEVICE,
    'rshim': WritePath.HOST_DEVICE,
    'flash': WritePath.HOST_DEVICE,
    'nvme': WritePath.HOST_DEVICE,
    'kcs': WritePath.HOST_BMC_IPMI,
    'redfish': WritePath.HOST_BMC_REDFISH,
    'vnic': WritePath.HOST_BMC_REDFISH,
    'chif': WritePath.HOST_BMC_REDFISH,
}
"""What a way of the emulated host is in our words."""

PRODUCTS: tuple[tuple[str, int | None, tuple[str, ...]], ...] = (
    ('gpu-server', 1, ()),
    ('gpu-server', 2, ()),
    ('gpu-server', 1, ('rot-protected-components',)),
    ('fpga-server', None, ()),
    ('csd-server', None, ()),
    ('acc-server', 1, ()),
    ('acc-server', 1, ('external-host-privileges',)),
    ('acc-server', 1, ('host-privilege-config', 'no-host-privilege-level')),
    ('lock-server', 1, ('dell-system-lockdown',)),
    ('lock-server', 1, ('supermicro-kcs',)),
    ('lock-server', 1, ('supermicro-kcs', 'supermicro-sys-lockdown')),
    ('lock-server', 1, ('hpe-kcs', 'hpe-virtual-nic', 'hpe-host-authentication')),
    ('lock-server', 1, ('lenovo-kcs',)),
    ('lock-server', 1, ('ami-kcs',)),
)
"""Machines: product, GPUs, features. Each can close every way that its host has."""


class UnprovenHandOver(AssertionError):
    """A machine was handed over, or called clean, that is not what the baseline asks, and no BMC lied about that."""


class Crash(BaseException):
    """The conductor dies."""


@dataclass(frozen=True)
class World:
    """What is the same for all lives on one kind of machine."""

    site: Site
    baseline: Baseline
    catalogue: tuple[Image, ...]
    files: dict[str, bytes]
    wanted: dict[str, str]
    bytes: dict[str, str]
    block: frozenset[WritePath]
    mechanisms: tuple[Mechanism, ...]


@cache
def world(product: str, gpus: int | None, features: tuple[str, ...]) -> World:
    """Made once: a life begins on it anew."""
    site = Site.of(product, gpus=gpus, features=frozenset(features))
    machine = site.machine
    looks = [site.connect(_address(b)).look(site.now) for b in site.product.views]
    look = [a for one in looks for a in one.accelerators]
    readers = [one.reader for one in looks]
    # The others would look for what such a machine never has, at each of its looks.
    had = tuple(m for m in mechanisms() if any(m.read(a, readers, site.now) for a in look))
    by_place = {(c.ref.bmc, c.ref.uri): (a, c) for a in look for c in a.firmware}
    images: dict[str, Image] = {}
    files: dict[str, bytes] = {}
    firmware: dict[Kind, dict[str, str]] = {}
    wanted, digests = {}, {}
    for component in machine.components.values():
        found = by_place.get((component.bmc, component.uri))
        if found is None or not component.updateable or component.active is None:
            continue
        accelerator, item = found
        pattern = re.sub(r'(?<=GPU_)\d+$', '*', item.id)
        firmware.setdefault(accelerator.kind, {})[pattern] = component.active.version
        wanted[component.key] = component.active.version
        digests[component.key] = digest_of(component.model, component.component, component.active.version)
        reset = ResetKind.NONE if component.activates is None else ResetKind.POWER_CYCLE
        stem = f'{component.model}-{component.component}'
        for version, name in ((component.active.version, stem), (PREVIOUS, f'{stem}-previous')):
            data = bytes_of(component.kind, component.model, component.component, version, 1)
            files[name] = data
            images[name] = Image(
                name=name,
                kind=ImageKind.FIRMWARE,
                fits=(Fit(vendor=accelerator.vendor, model=accelerator.model, software_id=item.software_id),),
                component=pattern,
                version=version,
                security_version=1,
                source=f'/images/{name}',
                size_bytes=len(data),
                digest=Digest(algorithm=DigestAlgorithm.SHA256, value=hashlib.sha256(data).hexdigest()),
                reset=reset,
                restore=f'{stem}-previous' if name == stem else stem,
            )
    block = frozenset(PATHS[way.path] for way in machine.ways)
    rules = tuple(
        Rule(name=str(kind), match=Match(kind=kind), firmware=tuple(versions.items()), block=block)
        for kind, versions in firmware.items()
    )
    return World(site, Baseline(rules=rules), tuple(images.values()), files, wanted, digests, block, had)


def _address(bmc: str) -> BmcAddress:
    # One at a time: nothing here waits, and threads would make a life another one each time.
    return BmcAddress(name=BmcName(bmc), address=f'https://{bmc}.example', concurrency=1)


NODE = NodeFacts(name='node-1', resource_class='gold', exposure=Exposure.TENANT)

PAPER = Paper(name='of a life', digest='sha256:' + '0' * 64)


@dataclass
class RememberedNode:
    """What is stored of a node. Records of locks are never thrown away: old ones have to count for nothing."""

    lifecycle: int = 1
    evidence: tuple[Engagement, ...] = ()
    known: frozenset[AcceleratorId] = frozenset()
    suspects: frozenset[AcceleratorId] = frozenset()
    handed: Inventory | None = None
    custody: Custody = NO_CUSTODY


@dataclass
class Life:
    """One life.

    :ivar faulty: faults may come in this phase; ``disturbed`` some came.
    :ivar liar: a BMC shows what is not there, and no reading could tell: since that, until the machine is mended.
    :ivar lied_until: when a BMC that lied was mended last: chains of custody that are older rest on what it showed.
    :ivar calm: nothing ever goes wrong in it; ``refused`` something was refused all the same.
    :ivar troubled: something went wrong since the last cleaning began; ``limited`` custody cannot be shown here, as documented.
    :ivar loses_writes: a BMC has told of a write, step by step, that never reached the card.
    :ivar figures: what happened how often.
    :ivar told: the story, for whoever plays it again.
    """

    seed: int
    faulty: bool = False
    disturbed: bool = False
    liar: bool = False
    lied_until: datetime | None = None
    refused: bool = False
    troubled: bool = False
    limited: bool = False
    loses_writes: bool = False
    figures: Counter = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    node_state: RememberedNode = field(default_factory=RememberedNode)
    crash_in: int | None = None
    crash_stored: bool = True
    stored: Job | None = None
    at_look: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.product = self.random.choice(PRODUCTS)
        self.world = world(*self.product)
        self.site, self.machine = self.world.site, self.world.site.machine
        self.site.begin()
        self.target = Target(name='node-1', node=NODE, bmcs=tuple(_address(b) for b in self.site.product.views))
        self.devices = tuple(c.device for c in self.site.cards)
        # Of a sequence of its own: what a life is like does not depend on how much of it was drawn for what.
        own = random.Random(f'custody {self.seed}')
        self.calm = own.random() < 0.35
        self.site.tells_last_reset = own.random() < 0.85
        self.site.tells_bmc_reset = self.site.tells_last_reset and own.random() < 0.85
        self.demand = own.choice(
            (CustodyDemand.REPORTED, CustodyDemand.REQUIRED, CustodyDemand.REQUIRED, CustodyDemand.EVIDENCED)
        )
        if self.demand is CustodyDemand.EVIDENCED and not self.site.tells_bmc_reset:
            self.demand = CustodyDemand.REQUIRED  # as doc/source/explanation/custody.rst says: such a BMC shows nothing of it
        rules = tuple(replace(rule, custody=self.demand) for rule in self.world.baseline.rules)
        self.baseline = replace(self.world.baseline, rules=rules)
        slow = self.demand is CustodyDemand.REPORTED and self.site.tells_last_reset
        self.patience = PATIENCE if slow else CUSTODY_PATIENCE
        self.site.accepts = random.Random(f'accepts {self.seed}').choice((0.0, 0.0, 0.0, 2.0, 20.0))
        locks = sorted({key for way in self.machine.ways for key in way.locks})
        self.host = Host(
            machine=self.machine,
            wanted=self.world.wanted,
            # Where versions are all that counts, the tenant's code is to be seen by them.
            writes=self.demand is not CustodyDemand.REPORTED or own.random() < 0.3,
            forgets=own.random() < 0.5,
            volatile=frozenset(key for key in locks if own.random() < 0.5),
            lied_to=lambda: self.liar,
        )
        self.site.meanwhile = self.host.look

    def tell(self, text: str) -> None:
        self.told.append(f'{self.machine.clock.now():8.0f}  {text}')

    def wrong(self, text: str, kind: type[AssertionError] = AssertionError) -> None:
        """What must never be.

        :raises AssertionError: always, of that kind.
        """
        self.tell(f'WRONG: {text}')
        raise kind(text)

    # --------------------------------------------------------------------------------------------------------------- truth

    def open_ways(self) -> list[str]:
        """Ways from the host that stand open, and that the rules want blocked."""
        closed = {key: self.machine.is_closed(key) for way in self.machine.ways for key in way.locks}
        return [
            f'{way.path} to {way.target}'
            for way in self.machine.ways
            if PATHS[way.path] in self.world.block and not any(closed[key] for key in way.locks)
        ]

    def other_versions(self) -> list[str]:
        """Components that run, or will run after the next reset, what the baseline does not name."""
        machine = self.machine
        banks = [
            (k, v, b)
            for k, v in self.world.wanted.items()
            for b in (machine.components[k].active, machine.components[k].staged)
        ]
        return [f'{key} {bank.version}' for key, version, bank in banks if bank is not None and bank.version != version]

    def other_bytes(self) -> list[str]:
        """Components that run bytes which are not the catalogue's, whatever version they show."""
        return [
            f'{key} {self.machine.components[key].active} is not of the catalogue'
            for key, digest in self.world.bytes.items()
            if (bank := self.machine.components[key].active) is None or bank.digest != digest
        ]

    def bytes_wrong(self) -> list[str]:
        """The same, where custody is required. What no reading can tell is counted, and is no fault of ours."""
        if self.demand is CustodyDemand.REPORTED:
            return []
        found = self.other_bytes()
        sent, wrote = self.site.sent, self.host.wrote_at
        lost, unseen = self.loses_writes, self.host.wrote_unseen | self.host.wrote_unread
        if self.demand is CustodyDemand.REQUIRED and not (self.site.tells_last_reset and self.site.tells_bmc_reset):
            unseen = unseen | self.host.wrote_in_band  # custody.rst, "ramdisk": such an interval is polled
        keys = [text.split()[0] for text in found]
        if found and all(k in unseen or (lost and wrote.get(k, -1.0) <= sent.get(k, -2.0)) for k in keys):
            self.figures['believed'] += 1
            self.tell(f'believed: {found}')
            return []
        return found

    def gone(self) -> list[str]:
        """Cards that are not there, or are others."""
        faults = self.machine.faults
        return [
            d for d in self.devices if self.machine.is_gone(d) or faults.find('card-exchanged', bmc='host', device=d, use=False)
        ]

    def tools(self, *, ramdisk: bool = False) -> Tools:
        return Tools(
            connect=self.site.connect,
            mechanisms=self.world.mechanisms,
            baseline=self.baseline,
            catalogue=self.world.catalogue,
            images=self,
            save=self.save,
            observed=lambda inventory, verdict: self.looked(),
            known=self.node_state.known,
            patience=self.patience,
            ramdisk=ramdisk,
        )

    def looked(self) -> None:
        """A job takes its last look. What changes after that it cannot know."""
        self.at_look = [*self.other_versions(), *self.bytes_wrong(), *self.open_ways()]

    def open(self, image: Image) -> Upload:
        """For :class:`baremetal_acc.execution.Tools`: the bytes of an image."""
        return upload(image.name, self.world.files[image.name])

    def save(self, job: Job) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.crash_in = None
                self.stored = job if self.crash_stored else self.stored
                raise Crash
        self.stored = job

    # -------------------------------------------------------------------------------------------------------- what goes wrong

    def disturb(self) -> None:
        """Something goes wrong."""
        name = self.random.choice(TROUBLES)
        self.tell(f'fault: {name}')
        self.figures[f'fault {name}'] += 1
        self.disturbed = self.troubled = True
        _DO[name](self)
        self.host.look()

    def maybe(self, chance: float) -> None:
        if self.faulty and self.random.random() < chance:
            self.disturb()

    def heal(self) -> None:
        """The operator repairs what is broken: BMCs start anew, what was gone is back, the host is on."""
        machine = self.machine
        machine.faults.remove()
        self.host.forget_plans()
        self.site.skips = False
        self.site.away, self.site.cut, self.site.deaf, self.crash_in = {}, 0, 0, None
        for bmc in machine.bmcs:
            machine.reset_bmc(bmc)
        self.site.go_on(timedelta(minutes=3))
        if machine.systems['host'].power is Power.OFF:
            machine.reset_system('host', 'On')
        self.site.go_on(timedelta(minutes=1))
        # What was read of a chain while a BMC lied stays in that chain.
        self.lied_until = self.site.now if self.liar else self.lied_until
        self.disturbed = self.liar = False

    # ------------------------------------------------------------------------------------------------------------------ jobs

    def run(self, flow: Flow, parts: frozenset[Part], *, hold: bool, demands_met: bool) -> tuple[Job | None, tuple[str, ...]]:
        """One job, from its plan to its end: the job, and why it failed."""
        tools, site = self.tools(ramdisk=not hold), self.site
        self.host.in_band = not hold
        try:
            inventory = observe(self.target, tools, site.now)
            self.keep_custody(inventory)
            self.limited = self.limit(hold=hold)
            suspects = self.node_state.suspects & {a.id for a in inventory.accelerators}
            doubted = custody_rules.in_doubt(self.node_state.custody, inventory, self.baseline, NODE, inventory.at)
            made = plan(
                inventory,
                self.baseline,
                NODE,
                self.world.catalogue,
                parts=parts,
                hold=hold,
                again=suspects | doubted if Part.FIRMWARE in parts else frozenset(),
                spoilt=suspects,
            )
            raise_if_unsafe(made)
            job = begin(
                made,
                identity='j',
                node='n',
                flow=flow,
                step='s',
                lifecycle=self.node_state.lifecycle,
                now=site.now,
                timeout=TIMEOUT,
                demands_met=demands_met,
            )
            job = bound(job, self.target)
            job = custody_feed.begun_with(job, self.node_state.custody, made, inventory, self.target, tools)
        except AccError as exc:
            return None, tuple(getattr(exc, 'reasons', ()) or (str(exc),))
        self.stored, site.held = job, hold
        try:
            return self.turn(job, flow, tools)
        finally:
            self.node_state.custody = self.stored.custody
            site.held = False

    def turn(self, job: Job, flow: Flow, tools: Tools) -> tuple[Job | None, tuple[str, ...]]:
        """Turn a job until it ends: the job, and why it failed."""
        site, patience, started = self.site, self.patience, self.host.starts
        # By a clock that is put back the deadline is further away; when it is put forward, no time has passed.
        began, jumped, back = site.machine.clock.now(), site.jumped, timedelta(0)
        end = job.deadline + 4 * patience.reset + self.site.jumped
        outcome: Outcome = Wait(delay=timedelta(0), doing='')
        while isinstance(outcome, Wait):
            self.maybe(0.15)
            try:
                job, outcome = tick(job, self.target, tools, site.now)
            except Crash:
                self.tell('the conductor dies')
                job, outcome = decode(Job, encode(self.stored)), Wait(delay=patience.poll, doing='dead')
            except AccError as exc:
                self.tell(f'the turn fails: {exc}')
                job, outcome = self.stored, Wait(delay=patience.poll, doing=str(exc))
                if site.now > end:
                    return None, (f'abandoned: {exc}',)
            if isinstance(outcome, Wait):
                site.go_on(max(outcome.delay, timedelta(seconds=1)))
                back = max(back, jumped - site.jumped)
                late = TIMEOUT + 4 * patience.reset + timedelta(hours=3) + back
                if site.machine.clock.now() - began > late.total_seconds():
                    self.wrong(f'a job without an end: {outcome.doing}')
        self.host.in_band = False
        self.tell(f'{flow} job: {"done" if isinstance(outcome, Done) else outcome.reasons}')
        # A host that runs beside open cards is powered off at once, whatever is being written.
        wrong = [text for text in site.wrong if 'under a write' not in text or self.host.starts == started]
        if wrong:
            self.wrong('; '.join(wrong))
        site.wrong.clear()
        return job, () if isinstance(outcome, Done) else outcome.reasons

    def keep_custody(self, inventory: Inventory) -> None:
        """A whole reading of the machine while no job works."""
        state = self.node_state
        if self.machine.faults.any('lock-unread'):
            self.host.wrote_unread.clear()  # here it shows that the lock could not be read
        state.custody = custody_feed.looked(
            state.custody, inventory, self.target, self.tools(), state.evidence, lifecycle=state.lifecycle, by=self.site.now
        )

    def remember(self, job: Job | None) -> None:
        if job is not None:
            new = {(e.place, e.accelerator, e.lifecycle, e.flow) for e in job.engagements}
            old = [e for e in self.node_state.evidence if (e.place, e.accelerator, e.lifecycle, e.flow) not in new]
            self.node_state.evidence = (*old, *job.engagements)

    # -------------------------------------------------------------------------------------------------------------- the phases

    def limit(self, *, hold: bool) -> bool:
        """What doc/source/explanation/custody.rst says cannot be shown applies: what is refused for it is not refused without
        a cause.
        """
        if self.demand is CustodyDemand.REPORTED:
            return False
        locks = [self.machine.settings[key] for way in self.machine.ways for key in way.locks]
        return (
            # That a BMC tells of starts shows at the first one that is seen.
            (self.demand is CustodyDemand.EVIDENCED and not self.node_state.custody.dependable)
            # A BMC that restarts while a card is open sees nothing.
            or any(lock.with_bmc and lock.in_force != lock.locked for lock in locks)
            # A DPU takes its lock with a start of the host, and what the host starts into is not known to be the ramdisk.
            or (not hold and any(lock.takes_force is not None and lock.device is not None for lock in locks))
        )

    def clean(self, *, again: bool = False) -> bool:
        """Bring the cards to the baseline; whether the machine may be given to somebody then.

        :param again: it was cleaned before, and failed.
        """
        state = self.node_state
        if state.handed is not None:
            state.lifecycle, state.handed = state.lifecycle + 1, None
        hold = self.random.random() < 0.6 or (again and self.demand is not CustodyDemand.REPORTED)
        sound = not self.disturbed
        if not hold:
            hold = not self.host.boot_ramdisk()
            self.site.go_on(timedelta(minutes=1))
        self.troubled = self.disturbed
        job, reasons = self.run(Flow.CLEAN, EVERYTHING, hold=hold, demands_met=True)
        self.host.boot_disk()
        self.remember(job)
        self.figures['cleanings'] += 1
        if job is not None:
            state.suspects = (state.suspects | frozenset(job.quarantined)) if reasons else frozenset()
            self.figures['quarantined'] += len(job.quarantined)
        safe = sound and not self.disturbed and not self.limited
        self.figures['cleanings with nothing wrong'] += safe
        if reasons:
            self.figures['cleanings failed'] += 1
            self.tell(f'cleaning failed: {reasons}')
            if safe:
                self.figures['false failures of cleaning'] += 1
                self.refused = True
                self.tell('FALSE: nothing was wrong')
            return False
        if self.at_look:
            self.unproven(f'clean, and {self.at_look}')
        return True

    def unproven(self, what: str) -> None:
        """Something was called good that is not. A BMC that lies so that nobody can tell is believed; nothing else is."""
        lied_to = self.lied_until is not None and any(
            card.chain is not None and card.chain.begun < self.lied_until for card in self.node_state.custody.cards
        )
        if self.liar or lied_to:
            self.figures['believed'] += 1
            self.tell(f'believed: {what}')
        else:
            self.wrong(what, UnprovenHandOver)

    def deploy(self) -> bool:
        """Lock, verify, put it in writing; whether it is handed over."""
        state = self.node_state
        sound, began = not self.disturbed, self.machine.clock.now()
        # What has gone wrong since the cleaning began may have let somebody write a card before it was put right.
        sound = sound and not (self.troubled and self.demand is not CustodyDemand.REPORTED)
        ready = not self.other_versions() and not self.gone() and not state.suspects
        self.figures['deployments'] += 1
        job, reasons = self.run(Flow.DEPLOY, frozenset({Part.LOCK}), hold=True, demands_met=False)
        self.remember(job)
        if job is not None and job.verdict is not None:
            # As the step that locks does: what it is for has to hold by its own records.
            concerned = [f for f in job.verdict.unmet if f.subject.kind in UNSEEN_OR_OPEN]
            reasons = (*reasons, *map(findings.sentence, concerned))
        self.maybe(0.2)
        self.site.go_on(timedelta(seconds=self.random.randint(1, 30)))
        if not reasons:
            reasons = self.verify(began)
        safe = sound and not self.disturbed and ready and not self.limited
        self.figures['deployments with nothing wrong'] += safe
        if not reasons:
            return True
        self.figures['refusals'] += 1
        self.tell(f'refused: {reasons}')
        if safe:
            self.figures['false refusals'] += 1
            self.refused = True
            self.tell('FALSE: nothing was wrong')
        return False

    def verify(self, began: float) -> tuple[str, ...]:
        """What stands against a hand-over; nothing: it is handed over."""
        state, now = self.node_state, self.site.now
        try:
            inventory, verdict = check(
                self.target, self.tools(), state.evidence, now, lifecycle=state.lifecycle, flow=Flow.DEPLOY
            )
            self.keep_custody(inventory)
            verdict = custody_feed.judged(verdict, state.custody, inventory, self.target, self.tools(), inventory.at)
            if not verdict.met:
                return tuple(map(findings.sentence, verdict.unmet))
            occasion = statement.Occasion(
                node=CertifiedNode(uuid=None, name='node-1'),
                lifecycle=state.lifecycle,
                proven_in=state.lifecycle,
                flow=Flow.DEPLOY,
                deployment='d',
                issued=now,
                issuer='of a life',
                key='0' * 16,
                requester=None,
                baseline=PAPER,
                catalogue=PAPER,
                known=state.known,
                custody=state.custody,
            )
            paper = statement.issue(inventory, verdict, self.baseline, NODE, state.evidence, occasion, findings.sentence)
        except AccError as exc:
            return tuple(getattr(exc, 'reasons', ()) or (str(exc),))
        self.figures['hand-overs'] += 1
        self.figures[f'hand-overs, custody {self.demand}'] += 1
        self.judge_hand_over(began)
        against = validity.holds(paper, now=now, node='node-1', lifecycle=state.lifecycle, deployment='d')
        if against:
            why = '; '.join(map(certificate_faults.sentence, against))
            self.wrong(f'a certificate that does not hold when it is issued: {why}')
        # The counter goes up with the hand-over: what is proven from here on is of another lifecycle.
        state.handed = judged(inventory, state.evidence, lifecycle=state.lifecycle, flow=Flow.DEPLOY)
        return ()

    def judge_hand_over(self, began: float) -> None:
        """The truth of what is handed over: closed, of the baseline, proven now."""
        if self.open_ways() or self.other_versions() or self.gone():
            self.unproven(f'handed over with {[*self.open_ways(), *self.other_versions(), *self.gone()]}')
        foreign = [text for text in self.other_bytes() if OTHER_BYTES in text]
        if self.demand is CustodyDemand.REPORTED:
            self.figures['hand-overs with other bytes where custody is only reported'] += bool(foreign)
        elif wrong := self.bytes_wrong():
            self.unproven(f'handed over, custody {self.demand}, with {wrong}')
        written = {key for at, key in self.site.writes if at >= began}
        for way in self.machine.ways:
            if PATHS[way.path] in self.world.block and not written.intersection(way.locks):
                self.wrong(f'handed over with {way.target}, of which no lock was written in this deployment')

    def tenancy(self) -> None:
        """The tenant is root, and the watch looks."""
        for _ in range(self.random.randint(1, 4)):
            self.random.choice((self.tenant_writes, self.tenant_writes, self.tenant_resets, self.somebody))()
            self.maybe(0.2)
            self.site.go_on(ROUND)
            self.look_after()

    def tenant_writes(self) -> None:
        """The tenant tries every way; each that the locks block refuses."""
        machine = self.machine
        for way in machine.ways:
            target = machine.components[way.target]
            image = Brought(
                kind=target.kind,
                device=target.model,
                component=target.component,
                version=EVIL,
                security_version=1,
                payload_bytes=3,
                digest=OTHER_BYTES,
                function=EVIL if target.kind is Holds.FUNCTION else None,
            )
            is_open = not any(machine.is_closed(key) for key in way.locks)
            try:
                machine.write_from_host(way.device, image, path=way.path, component=way.component, slot=way.slot)
            except WriteRefused:
                self.figures['writes of tenants refused'] += 1
            else:
                self.figures['writes of tenants done'] += 1
                self.host.wrote(way.target)
                self.tell(f'the tenant writes {way.target} by {way.path}')
                if not is_open:
                    self.wrong(f'a closed way took a write: {way.target}')

    def tenant_resets(self) -> None:
        """By the power button that root has; or the BMC, over IPMI."""
        word = self.random.choice(('GracefulRestart', 'ForceOff', 'bmc'))
        self.tell(f'the tenant: {word}')
        if word == 'bmc':
            self.machine.reset_bmc(self.random.choice(tuple(self.machine.bmcs)))
            return
        try:
            self.machine.reset_system('host', word)
            if word == 'ForceOff':
                self.site.go_on(timedelta(minutes=1))
                self.machine.reset_system('host', 'On')
        except WriteRefused:
            pass

    def somebody(self) -> None:
        """Somebody opens a lock through the BMC, who was not told of us."""
        if self.faulty and self.random.random() < 0.3:
            key = self.random.choice([k for w in self.machine.ways for k in w.locks])
            setting = self.machine.settings[key]
            setting.value = setting.in_force = setting.open
            self.disturbed = self.troubled = True
            self.tell(f'somebody opens {key}')

    def look_after(self) -> None:
        """A round of the watch: what is not as it was handed over is seen, if the BMCs tell it."""
        state = self.node_state
        self.figures['rounds of the watch'] += 1
        handed = state.handed
        try:
            seen = observe(self.target, self.tools(), self.site.now)
        except AccError:
            self.figures['rounds that saw nothing'] += 1
            return
        if self.random.random() < 0.5:  # an operator takes stock, which a round of the watch by itself does not
            self.keep_custody(seen)
        found = watch.troubles(handed, seen, state.evidence, lifecycle=state.lifecycle)
        state.custody = custody.broken(state.custody, watch.exposed(found), BreakCause.EXPOSED, seen.at)
        bad = [*self.open_ways(), *(v for v in self.other_versions() if EVIL in v), *self.gone()]
        if bad and not found:
            self.unproven(f'the watch saw nothing of {bad}')
        if found:
            self.figures['rounds with troubles'] += 1
            self.tell(f'watch: {list(map(troubles.sentence, found))[:3]}')
            if not self.disturbed and not self.troubled and not bad:
                self.figures['false alarms'] += 1
                self.tell(f'FALSE: alarm {list(map(troubles.sentence, found))}')

    def play(self) -> None:
        """All of it."""
        try:
            self.live()
        finally:
            for name, times in (
                ('lives in which nothing was wrong', self.calm),
                ('lives in which nothing was wrong, refused', self.calm and self.refused),
                ('components with other bytes by code on the host', len(self.host.wrote_at)),
                ('starts of hosts by somebody else', self.host.starts),
            ):
                if times:
                    self.figures[name] += times

    def live(self) -> None:
        """From the day it comes to that on which it is given up, or the seed ends."""
        self.enroll()
        for _ in range(self.random.randint(1, 3)):
            if not self.ready():
                self.figures['given up'] += 1
                return
            self.faulty = self.chance(0.5)
            if self.faulty and self.random.random() < 0.3:
                self.disturb()
            if not self.deploy():
                continue
            self.faulty = self.chance(0.4)
            self.tenancy()

    def chance(self, share: float) -> bool:
        """Whether faults may come in a phase."""
        return self.random.random() < share and not self.calm

    def enroll(self) -> None:
        """As it came: with old firmware, with locks open or closed, with what others have left in it."""
        for key in self.world.wanted:
            if self.random.random() < 0.2:
                version = self.random.choice((PREVIOUS, EVIL, self.world.wanted[key]))
                self.machine.components[key].active = Bank(version=version, digest=OTHER_BYTES, writer='host')
        for setting in self.machine.settings.values():
            if setting.is_lock and setting.device is not None and self.random.random() < 0.3:
                setting.value = setting.in_force = setting.locked
        self.node_state.known = frozenset()

    def ready(self) -> bool:
        """Clean, till it is clean; three times at most."""
        for attempt in range(3):
            self.faulty = self.chance(0.5 if attempt == 0 else 0.2)
            if self.disturbed or attempt:
                self.heal()
            self.node_state.known = self.identities() if self.node_state.handed is None else self.node_state.known
            if self.faulty and self.random.random() < 0.3:
                self.disturb()
            if self.clean(again=attempt > 0):
                if self.disturbed and self.random.random() < 0.7:
                    self.heal()
                return True
        return False

    def identities(self) -> frozenset[AcceleratorId]:
        """The operator writes down which cards are in it."""
        try:
            return frozenset(a.id for a in observe(self.target, self.tools(), self.site.now).accelerators)
        except AccError:
            return self.node_state.known


# ------------------------------------------------------------------------------------------------------------- what goes wrong


def _device(life: Life) -> str:
    return life.random.choice(life.devices)


def _fault(name: str, *, counts: Iterable[int | None] = (1, None), **more: object) -> Callable[[Life], None]:
    options = tuple(counts)

    def do(life: Life) -> None:
        count = life.random.choice(options)
        life.machine.add_fault({'name': name, 'device': _device(life)} | ({} if count is None else {'count': count}) | more)

    return do


def _lie(name: str, **more: object) -> Callable[[Life], None]:
    def do(life: Life) -> None:
        life.liar = True
        _fault(name, counts=(None,), **more)(life)

    return do


def _never_in_force(life: Life) -> None:
    device = _device(life)
    # HostRshim of a DPU shows what is set: the power cycle that was seen after it is all that there is to see.
    life.liar = life.liar or device == 'DPU'
    life.machine.add_fault({'name': 'lock-never-in-force', 'device': device})


def _sent_is_shown(life: Life) -> None:
    life.liar = life.loses_writes = True
    device = _device(life)
    life.machine.add_fault({'name': 'version-lies', 'device': device})
    life.machine.add_fault({'name': 'task-completed-version-unchanged', 'device': device, 'count': 1})


def _refused_locks(status: int) -> Callable[[Life], None]:
    def do(life: Life) -> None:
        life.machine.add_fault({'name': 'http-status', 'device': _device(life), 'method': 'PATCH', 'status': status})

    return do


def _unreadable(life: Life) -> None:
    uris = sorted({s.uri for s in life.machine.settings.values() if s.is_lock and s.device})
    life.machine.add_fault({'name': 'http-status', 'uri': life.random.choice(uris), 'method': 'GET', 'status': 500})


def _away(life: Life) -> None:
    bmc = life.random.choice(tuple(life.machine.bmcs))
    life.site.away[bmc] = life.machine.clock.now() + life.random.choice((60, 300, 1800, 86400))


def _crash(life: Life) -> None:
    life.crash_in, life.crash_stored = life.random.randint(0, 8), life.random.random() < 0.5


def _jump(life: Life) -> None:
    life.site.jumped += timedelta(seconds=life.random.choice((-7200, -60, 60, 7200, 86400)))


def _cut(life: Life) -> None:
    life.site.cut = life.random.randint(1, 2)


def _deaf(life: Life) -> None:
    life.site.deaf = life.random.randint(1, 3)


def _power(life: Life) -> None:
    host = life.machine.systems['host']
    life.host.starts += host.power is Power.OFF
    try:
        life.machine.reset_system('host', 'On' if host.power is Power.OFF else 'ForceOff')
    except WriteRefused:
        life.tell('its power is changing already')


def _later(what: str) -> Callable[[Life], None]:
    def do(life: Life) -> None:
        life.host.plan(life.random.uniform(0, 90), what)

    return do


def _lost(name: str, **more: object) -> Callable[[Life], None]:
    """A write of which the BMC tells every step, and that does not come in force: at an equal version nothing shows it."""

    def do(life: Life) -> None:
        life.loses_writes = True
        _fault(name, counts=(1,), **more)(life)

    return do


def _skips(life: Life) -> None:
    life.site.skips = True


def _bmc_reset(life: Life) -> None:
    life.machine.reset_bmc(life.random.choice(tuple(life.machine.bmcs)))


def _opened(life: Life) -> None:
    key = life.random.choice([k for w in life.machine.ways for k in w.locks])
    setting = life.machine.settings[key]
    setting.value = setting.in_force = setting.open


def _another_wrote(life: Life) -> None:
    key = life.random.choice(tuple(life.world.wanted))
    life.machine.components[key].active = Bank(version=EVIL, writer='somebody')


def _old_evidence(life: Life) -> None:
    """Records of an earlier lifecycle, of another flow and of the future come back from a backup of the database."""
    state = life.node_state
    old = [replace(e, lifecycle=state.lifecycle - 1) for e in state.evidence]
    other = [replace(e, flow='clean') for e in state.evidence]
    future = [replace(e, at=life.site.now + timedelta(days=1)) for e in state.evidence]
    state.evidence = (*state.evidence, *life.random.choice((old, other, future)))


_DO: dict[str, Callable[[Life], None]] = {
    'a lock takes no change': _fault('lock-ignored'),
    'a lock opens with a reset': _fault('lock-lost-on-reset'),
    'a lock opens with a restart of the BMC': _fault('lock-lost-on-bmc-reset'),
    'a lock opens with an update': _fault('lock-lost-on-update'),
    'a lock is refused for want of a licence': _refused_locks(403),
    'a lock is refused for now': _refused_locks(503),
    'a lock cannot be read': _unreadable,
    'a lock that cannot be read is shown as closed': _fault('lock-unread'),
    'a root of trust does not answer': _fault('lock-read-error'),
    'a lock is taken and never in force': _never_in_force,
    'a licence is missing': _fault('licence-missing', counts=(None,)),
    'a lock is shown that is not there': _lie('lock-reports-locked'),
    'what was sent is shown and not written': _sent_is_shown,
    'a version is shown that nobody wrote': _fault('version-lies', version='0.0'),
    'an update fails': _fault('task-fails', counts=(1,)),
    'an update fails and was written': _fault('task-fails', counts=(1,), completes=True),
    'an update vanishes': _fault('task-vanishes', counts=(1,)),
    'an update hangs': _fault('task-stuck', counts=(1,)),
    'an update does nothing': _lost('task-completed-version-unchanged'),
    'an update ends badly': _fault('task-completed-critical', counts=(1,)),
    'the power fails in an update': _fault('power-lost', counts=(1,), leaves='recovery'),
    'the BMC restarts in an update': _fault('bmc-restart', counts=(1,)),
    'a card keeps what it ran': _lost('activation-refused'),
    'a card stays with what is staged': _lost('activation-lost'),
    'a card is broken by a reset': _fault('activation-refused', counts=(1,), leaves='recovery'),
    'an image is refused': _fault('image-refused', counts=(1,)),
    'the BMC takes no update': _fault('update-503'),
    'a card is gone': _fault('device-absent', counts=(None,)),
    'a card is exchanged': _fault('card-exchanged', counts=(None,)),
    'the BMC does not answer': _away,
    'the conductor dies': _crash,
    'the clock jumps': _jump,
    'answers are lost': _cut,
    'power is not changed': _deaf,
    'somebody changes the power': _power,
    'somebody restarts the BMC': _bmc_reset,
    'the host wakes by itself': _later('wakes'),
    'the host wakes, and is off again': _later('wakes-briefly'),
    'the mains fail': _later('mains-fail'),
    'the BMC skips an image that it has': _skips,
    'somebody opens a lock': _opened,
    'somebody writes a card': _another_wrote,
    'old records come back': _old_evidence,
}

TROUBLES = tuple(_DO)


def play(seed: int) -> Life:
    """The life of a seed.

    :raises AssertionError: it was not as it must be; the notes tell the story.
    """
    life = Life(seed)
    try:
        with mock.patch.object(wait, 'together', _in_turn), _silent():
            life.play()
    except AssertionError as exc:
        exc.add_note(f'seed {seed}, {life.product}\n' + '\n'.join(life.told[-60:]))
        raise
    life.figures['lives'] += 1
    return life


def _in_turn(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """BMCs are looked at one after the other: threads would make a life another one each time."""
    return [work(item) for item in items]


@contextmanager
def _silent() -> Iterator[None]:
    """What goes wrong on purpose is not logged."""
    logger = logging.getLogger('baremetal_acc')
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
