# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Devices that sign measurements prove what they run, and a BMC that lies about a version is found out. One machine for all."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from baremetal_acc import execution
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.registry import for_address
from baremetal_acc.emulator.fault import MEASURED
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.hgx_board import EROT_VERSION, GPU_VERSION
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.remote import Remote
from baremetal_acc.emulator.server import Emulator, EmulatorThread, Serving
from baremetal_acc.execution import Target, Tools
from baremetal_acc.execution.observation import NO_ROOTS
from baremetal_acc.images.spdm.signed_measurements import attestor
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, Image, ImageKind, ReferenceValue
from baremetal_acc.model.measurement import MeasurementReading, MeasurementState
from baremetal_acc.model.ref import HOST
from baremetal_acc.model.verdict import Finding, Met
from baremetal_acc.policy.baseline_rules import Baseline, Match, Measure, NodeFacts, Rule
from baremetal_acc.render.findings import recorded

ROT = '/redfish/v1/ComponentIntegrity/HGX_ERoT_GPU_0'


class Machine:
    """An emulated machine whose GPUs sign, and a client of it."""

    def __init__(self, emulator: Emulator, roots: str) -> None:
        self.remote = Remote(emulator.door, emulator.control)
        bmc = emulator.bmcs['host']
        self.address = BmcAddress(
            name=HOST,
            address=bmc.address,
            username=bmc.username,
            password=bmc.password,
            verify_ca=bmc.verify_ca,
            system=bmc.system,
            concurrency=1,
        )
        self.tools = Tools(
            connect=lambda address: for_address(address).connect(address),
            mechanisms=(),
            baseline=Baseline(rules=()),
            catalogue=(),
            images=None,
            attestor=attestor([roots]),
        )

    def verified(self, *, at: datetime | None = None, address: Any = None, **changes: Any) -> dict[str, Finding]:
        """The findings about measurements, by subject."""
        target = Target(name='n', node=NodeFacts(name='n'), bmcs=(replace(self.address, **(address or {})),))
        tools = replace(self.tools, **changes)
        _, verdict = execution.check(target, tools, (), at or datetime.now(UTC), lifecycle=1)
        return {str(f.subject): f for f in recorded(verdict).findings if str(f.subject).startswith('measurement')}

    def readings(self, *, at: datetime | None = None, **changes: Any) -> list[MeasurementReading]:
        """What the roots of trust say, in order."""
        target = Target(name='n', node=NodeFacts(name='n'), bmcs=(self.address,))
        seen = execution.observe(target, replace(self.tools, **changes), at or datetime.now(UTC), measure=True)
        return sorted((r for a in seen.accelerators for r in a.measurements or ()), key=lambda r: r.integrity)


@pytest.fixture(scope='module')
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Two GPUs behind roots of trust that sign."""
    product = build('gpu-server', Parameters(gpus=2, features=frozenset({'spdm'}), flash_seconds=0.05, reset_seconds=0.05))
    assert product.authority is not None
    roots = tmp_path_factory.mktemp('roots') / 'maker.pem'
    roots.write_bytes(product.authority.root())
    roots.chmod(0o600)
    thread = EmulatorThread(Emulator(Serving(tls=False), product=product))
    thread.start()
    try:
        yield Machine(thread.emulator, str(roots))
    finally:
        thread.stop()


@pytest.fixture(autouse=True)
def without_faults(machine: Machine) -> Iterator[None]:
    """Each test has its own."""
    yield
    machine.remote.clear_faults()


def image(version: str, component: str, value: str, *, index: int) -> Image:
    """Firmware as a catalogue has it, with what its card measures."""
    return Image(
        name=f'{component}-{version}',
        kind=ImageKind.FIRMWARE,
        fits=(Fit(pci='0x10de:0x2330'),),
        component='HGX_FW_ERoT_GPU_*' if component == 'erot' else 'HGX_FW_GPU_*',
        version=version,
        security_version=1,
        source='/images/x',
        size_bytes=1,
        digest=Digest(algorithm=DigestAlgorithm.SHA256, value='0' * 64),
        measurements=(ReferenceValue(integrity='HGX_ERoT_GPU_*', index=index, values=(('sha256', value),)),),
    )


def factory(component: str, version: str) -> str:
    """What the emulator says that it measures of firmware that it came with."""
    return sha256(f'factory h100 {component} {version}'.encode()).hexdigest()


SHIPPED = (
    image(GPU_VERSION, 'gpu', factory('gpu', GPU_VERSION), index=2),
    image(EROT_VERSION, 'erot', factory('erot', EROT_VERSION), index=3),
)


def test_every_card_proves_what_it_runs(machine: Machine) -> None:
    """Each with a key of its own, over a nonce of its own, and as the catalogue expects of both its components."""
    one, other = machine.readings()
    assert [MeasurementState.PROVEN] * 2 == [one.state, other.state], (one.reason, other.reason)
    assert len({one.fingerprint, other.fingerprint}) == len({one.nonce, other.nonce}) == 2
    assert one.root == other.root
    found = machine.verified(catalogue=SHIPPED)
    assert {'measurement HGX_ERoT_GPU_0', 'measurement HGX_ERoT_GPU_1'} == set(found)
    for finding in found.values():
        assert (Met.YES, True) == (
            finding.met,
            f'is {GPU_VERSION}' in finding.fact.found and f'is {EROT_VERSION}' in finding.fact.found,
        )


def test_a_nonce_is_never_used_again(machine: Machine) -> None:
    """Or an answer could be."""
    nonces = [r.nonce for _ in range(2) for r in machine.readings()]
    assert len(nonces) == len(set(nonces)) == 4
    assert all(n is not None and len(n) == 64 for n in nonces)


REASONS = {
    'stale-nonce': 'the nonce is not the one that was sent',
    'replayed': 'the nonce is not the one that was sent',
    'other-key': 'the signature does not match',
    'other-root': 'not issued by a pinned root',
    'expired': 'is valid only from',
    'truncated': 'the transcript ends within',
    'debug-mode': 'invasive debug mode is active',
    'unsigned': 'the transcript ends within',
}


@pytest.mark.parametrize('how', sorted(MEASURED - {'other-device'}))
def test_a_root_of_trust_that_signs_as_it_should_not_is_refused(machine: Machine, how: str) -> None:
    """And says why; the card beside it goes on."""
    assert machine.readings()  # so that there is something to replay
    machine.remote.fault('measurement-wrong', device='GPU_0', how=how)
    found = machine.verified(catalogue=SHIPPED)
    bad, good = found['measurement HGX_ERoT_GPU_0'], found['measurement HGX_ERoT_GPU_1']
    assert (Met.NO, True) == (bad.met, bad.fact.found.startswith('refused: ')), bad.fact.found
    assert REASONS[how] in bad.fact.found
    assert Met.YES == good.met


def test_one_genuine_card_does_not_answer_for_all(machine: Machine) -> None:
    """The BMC passes our questions on to a card that runs what it should."""
    machine.remote.fault('measurement-wrong', device='GPU_*', how='other-device')
    for finding in machine.verified(catalogue=SHIPPED).values():
        assert (Met.NO, True) == (finding.met, 'also that of' in finding.fact.found and 'key' in finding.fact.found), (
            finding.fact.found
        )


def test_a_bmc_that_lies_about_a_version_is_found_out(machine: Machine) -> None:
    """F33: it shows the version that was to be written, and the card still runs the old firmware."""
    new = build_image(model='h100', component='gpu', version='97.0')
    expected = image('97.0', 'gpu', sha256(new).hexdigest(), index=2)
    machine.remote.fault('version-lies', device='GPU_0', uri='*HGX_FW_GPU_0', version='97.0')
    found = machine.verified(catalogue=(*SHIPPED, expected))
    bad, good = found['measurement HGX_ERoT_GPU_0'], found['measurement HGX_ERoT_GPU_1']
    assert (Met.NO, Met.YES) == (bad.met, good.met)
    assert f'reported as 97.0, but its measurement is that of image gpu-{GPU_VERSION}, version {GPU_VERSION}' in bad.fact.found


@pytest.mark.parametrize(
    ('fault', 'says'),
    [
        (
            ('http-status', {'uri': f'{ROT}/Actions/*', 'method': 'POST', 'status': 500}),
            'signed measurements were requested, but not received',
        ),
        (('truncated-json', {'uri': f'{ROT}/Actions/*'}), 'the answer contains neither measurements nor a task'),
        (('refuse', {'uri': f'{ROT}/Actions/*'}), 'signed measurements were requested, but not received'),
        (
            ('http-status', {'uri': '*/HGX_ERoT_GPU_0/Certificates/*', 'status': 404}),
            'signed measurements were requested, but not received',
        ),
        (('http-status', {'uri': ROT, 'status': 403}), 'could not be read'),
        (
            ('http-status', {'uri': '/redfish/v1/ComponentIntegrity', 'status': 403}),
            'the ComponentIntegrity resources could not be read',
        ),
    ],
)
def test_a_root_of_trust_that_cannot_be_asked_is_not_known(machine: Machine, fault: tuple[str, Any], says: str) -> None:
    """An error, half an answer, a connection that breaks: never OK, and never the end of the look."""
    machine.remote.fault(fault[0], **fault[1])
    found = machine.verified(catalogue=SHIPPED)
    bad = [f for f in found.values() if f.met is Met.NO]
    assert bad
    assert any(f.fact.found.startswith('unknown: ') and says in f.fact.found for f in bad), [f.fact.found for f in bad]


def test_one_that_hangs_costs_its_own_time_alone(machine: Machine) -> None:
    """The other one is asked all the same."""
    machine.remote.fault('hang', uri=f'{ROT}/Actions/*', method='POST')
    found = machine.verified(catalogue=SHIPPED, address={'timeout': timedelta(seconds=1)})
    bad, good = found['measurement HGX_ERoT_GPU_0'], found['measurement HGX_ERoT_GPU_1']
    assert (Met.NO, True, Met.YES) == (bad.met, bad.fact.found.startswith('unknown: '), good.met)


def test_without_a_pinned_root_nothing_is_proven_and_nobody_is_asked(machine: Machine, tmp_path: Any) -> None:
    """And under another root neither."""
    machine.remote.reset_log()
    for finding in machine.verified(attestor=None).values():
        assert (Met.NO, f'unknown: {NO_ROOTS}') == (finding.met, finding.fact.found)
    assert not [one for one in machine.remote.log() if one['path'].startswith(ROT)]
    other = build('gpu-server', Parameters(gpus=1, features=frozenset({'spdm'}))).authority
    assert other is not None
    roots = tmp_path / 'other.pem'
    roots.write_bytes(other.root())
    roots.chmod(0o600)
    for finding in machine.verified(attestor=attestor([str(roots)])).values():
        assert (Met.NO, True) == (finding.met, 'a pinned root' in finding.fact.found or 'chain' in finding.fact.found)


def test_a_certificate_is_judged_by_the_time_of_the_look(machine: Machine) -> None:
    """Genuine now, and worth nothing in two years."""
    later = datetime.now(UTC) + timedelta(days=800)
    assert all('is valid only from' in (r.reason or '') for r in machine.readings(at=later))


def test_a_rule_that_does_not_want_it_asks_nobody(machine: Machine) -> None:
    """It is slow."""
    machine.remote.reset_log()
    off = Baseline(rules=(Rule(name='off', match=Match(), measure=Measure.OFF),))
    assert {} == machine.verified(baseline=off)
    assert not [one for one in machine.remote.log() if one['path'].startswith(ROT)]


def test_a_quick_look_asks_nobody(machine: Machine) -> None:
    """Nor does it read who could be asked."""
    machine.remote.reset_log()
    target = Target(name='n', node=NodeFacts(name='n'), bmcs=(machine.address,))
    seen = execution.observe(target, machine.tools, datetime.now(UTC))
    assert [None, None] == [a.measurements for a in seen.accelerators]
    assert not [one for one in machine.remote.log(reads=True) if 'ComponentIntegrity' in one['path']]


def test_other_firmware_of_the_same_version_is_found_out(machine: Machine) -> None:
    """What a tenant wrote says of itself what was there before; it measures as what it is. (The last test: it stays there.)"""
    evil = build_image(model='h100', component='erot', version=EROT_VERSION, seed='evil')
    assert machine.remote.tenant_write('GPU_1', evil, component='erot')['written']
    found = machine.verified(catalogue=SHIPPED)
    bad, good = found['measurement HGX_ERoT_GPU_1'], found['measurement HGX_ERoT_GPU_0']
    assert (Met.NO, Met.YES) == (bad.met, good.met)
    value = sha256(evil).hexdigest()
    assert f'HGX_FW_ERoT_GPU_1 is reported as {EROT_VERSION}, but measurement 3 is sha256:{value[:16]}' in bad.fact.found
