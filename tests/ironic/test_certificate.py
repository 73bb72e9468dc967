# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""No node is handed over without a certificate of that hand-over, which was signed, stored and read back."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conf import CONF

from baremetal_acc.certificates import envelope
from baremetal_acc.certificates.folder import CertificateFolder
from baremetal_acc.errors import AccError, CertificateInvalid, StateError
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.policy.baseline_rules import Exposure
from baremetal_acc_ironic.state import certificate, node_state, node_store
from tests.ironic.case import GPU_NEW, IronicCase
from tests.ironic.test_config_drive import FILE as VENDOR_DATA
from tests.ironic.test_config_drive import GENUINE, files_of
from tests.unit.certificates.test_statement import OCCASION
from tests.unit.certificates.test_statement import issued as made
from tests.unit.certificates.values import altered, sealer, write_key
from tests.unit.planning import values as v


class CertificateCase(IronicCase):
    """A cleaned machine with two GPUs, a key and a folder."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = self._folder / 'certificates'
        self.config(group='baremetal_acc', certificate_folder=str(self.folder))
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error

    @property
    def kept(self) -> node_state.KeptInventory:
        """What is kept with the node."""
        found = self.node_state.certificate
        assert found is not None
        return found

    def active(self) -> None:
        """Deploy."""
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def back(self) -> None:
        """The tenant is gone, and the node cleaned."""
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def refused(self) -> str:
        """Deploy; the node must not become active, and nothing of a certificate must be left."""
        before = self.kept_files()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert (False, None) == (self.node_state.handed_over, self.node_state.certificate)
        assert before == self.kept_files()
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        return str(self.node.last_error)

    def kept_files(self) -> list[str]:
        """Current certificates in the folder."""
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.glob('*/*.json') if p.parent.name != 'by-name')

    def holds(self, kept: node_state.KeptInventory | None = None) -> Any:
        """The certificate of the node, or with another one in its place."""
        state = self.node_state
        return certificate.of(self.node, state if kept is None else replace(state, certificate=kept))

    def does_not_hold(self, kept: node_state.KeptInventory) -> str:
        """Why that one does not."""
        with pytest.raises(CertificateInvalid) as caught:
            self.holds(kept)
        return str(caught.value)


class TestTheLifeOfACertificate(CertificateCase):
    """Issued, kept, over; then the next one."""

    block_execute = False  # a config drive is changed in a process of its own

    def test_it_is_of_one_hand_over(self) -> None:
        """What it says, where it is, and that it ends when the node comes back."""
        with pytest.raises(CertificateInvalid, match='the node has no certificate'):
            certificate.of(self.node)
        self.active()
        first = self.kept
        found = self.holds()
        self._says_what_was_proven(found)
        self._is_kept_in_both_places(first)
        self._is_refused_when_it_was_touched(first)
        self.back()
        over = self.kept
        assert (True, True, first.digest) == (over.superseded, over.away, over.digest)
        assert 'the node has come back since' in self.does_not_hold(over)
        assert 'the node has come back since' in self.does_not_hold(first)
        name = f'{first.lifecycle}-{first.deployment}.json'
        assert [] == self.kept_files()
        assert (self.folder / self.node.uuid / 'superseded' / name).is_file()
        assert any(f'deployment {first.deployment}, is archived' in event for event in self.history())
        self.config(group='baremetal_acc', certificate_config_drive=True)
        self.node.instance_info = {**self.node.instance_info, 'configdrive': GENUINE}
        self.node.save()
        self.active()
        second = self.kept
        self._is_in_the_config_drive(second)
        assert first.lifecycle + 2 == second.lifecycle == self.node_state.lifecycle
        assert first.deployment != second.deployment
        assert second.deployment == self.holds().deployment
        # What was good for the tenant before is good for this one in no disguise.
        assert 'the node has come back since' in self.does_not_hold(first)
        assert f'the certificate is for lifecycle {first.lifecycle}' in self.does_not_hold(
            replace(first, lifecycle=second.lifecycle)
        )
        disguised = replace(second, packed=first.packed)
        assert 'not the one that was issued' in self.does_not_hold(disguised)
        assert 'the certificate is for lifecycle' in self.does_not_hold(replace(disguised, digest=first.digest))

    def test_it_is_over_where_the_node_was_undeployed_and_no_cleaning_has_begun(self) -> None:
        """Whoever adopts the node next must not find that of somebody else; and no proof of it need be left."""
        self.active()
        state = node_store.load(self.node)
        node_store.store(self.node, replace(state, proven=None))
        self.holds()
        self.end_proofs()
        self.holds()
        self.node.provision_state = states.CLEANFAIL
        self.node.save()
        self.end_proofs()
        self.node.refresh()
        assert (True, True) == (self.kept.superseded, self.kept.away)
        assert [] == self.kept_files()
        self.node.provision_state = states.ACTIVE
        assert 'the node has come back since' in self.does_not_hold(self.kept)

    def end_proofs(self) -> None:
        """What the periodic does."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            task.driver.firmware.end_proofs(self.service, self.context)
        self.node.refresh()

    def _says_what_was_proven(self, found: Any) -> None:
        state = self.node_state
        assert (self.node.uuid, 'node-1') == (found.node.uuid, found.node.name)
        assert (state.lifecycle, state.lifecycle - 1) == (found.lifecycle, found.proven_in)
        assert set(state.known) == {card.id for card in found.accelerators} == set(found.expected.devices)
        assert 2 == len(found.accelerators)
        for card in found.accelerators:
            assert [GPU_NEW] == [c.version for c in card.firmware if c.rule == 'gpus']
            [path] = [p for p in card.paths if p.demanded]
            assert (WritePath.HOST_DEVICE, LockState.LOCKED_VERIFIED) == (path.path, path.state)
            closed = [r for r in card.locks if r.state is LockState.LOCKED_VERIFIED]
            assert closed
            assert all(r.engaged is not None and r.engaged < r.at for r in closed)
        for paper, name in ((found.baseline, 'baseline.toml'), (found.catalogue, 'catalogue.toml')):
            digest = hashlib.sha256((self._folder / name).read_bytes()).hexdigest()
            assert (name, f'sha256:{digest}') == (paper.name, paper.digest)
        assert 'tenant' == found.exposure
        assert f'at {CONF.host}' in found.issuer
        assert found.requester

    def _is_kept_in_both_places(self, kept: node_state.KeptInventory) -> None:
        [path] = map(Path, kept.where)
        assert self.folder / self.node.uuid / f'{kept.lifecycle}-{kept.deployment}.json' == path
        assert path.read_bytes() == (self.folder / 'by-name' / 'node-1.json').read_bytes()
        assert certificate.text(self.node, kept) + b'\n' == path.read_bytes()
        assert certificate.text(self.node, replace(kept, packed=None)) + b'\n' == path.read_bytes()
        by = certificate.sealer()
        assert by is not None
        assert by.name == kept.key
        shown = json.loads(json.dumps(self.node.driver_internal_info['baremetal_acc']['certificate']))
        assert (kept.deployment, kept.digest) == (shown['deployment'], shown['digest'])
        text = f'hand-over certificate of lifecycle {kept.lifecycle}, deployment {kept.deployment}, {kept.digest}'
        assert any(event.startswith(text) for event in self.history())

    def _is_in_the_config_drive(self, kept: node_state.KeptInventory) -> None:
        [text] = [data for path, data in files_of(self.node.instance_info['configdrive']).items() if path == VENDOR_DATA]
        assert certificate.text(self.node, kept).decode() == json.loads(text)['baremetal_acc']['certificate']

    def _is_refused_when_it_was_touched(self, kept: node_state.KeptInventory) -> None:
        assert kept.packed is not None
        assert 'cannot be read' in self.does_not_hold(replace(kept, packed=kept.packed[:-8]))
        assert 'not the one that was issued' in self.does_not_hold(replace(kept, digest='sha256:0'))
        assert 'the certificate is for deployment' in self.does_not_hold(replace(kept, deployment='other'))
        data = altered(certificate.text(self.node, kept), lambda body: body.replace(b'"locked-verified"', b'"unlocked"'))
        packed = certificate._packed(data, ())
        assert 'does not match' in self.does_not_hold(replace(kept, packed=packed, digest=envelope.digest(data)))
        # Signed with a key that is not trusted any more; and trusted again, as the one before.
        old = str(CONF.baremetal_acc.certificate_key)
        self.config(group='baremetal_acc', certificate_key=None)
        assert 'which is not trusted' in self.does_not_hold(kept)
        public = self._folder / 'old.pub'
        by = envelope.load(Path(old))
        write_key(public, by, public=True, mode=0o644)
        self.config(group='baremetal_acc', certificate_trust=[str(public)])
        assert kept.deployment == self.holds(kept).deployment
        self.config(group='baremetal_acc', certificate_key=old, certificate_trust=[])


class TestNoCertificateNoHandOver(CertificateCase):
    """Whatever keeps it from being issued fails the step, and the node says what to do."""

    def test_each_obstacle_fails_the_deploy(self) -> None:
        """No key, a key for all eyes, a folder that is none, a disk that lies."""
        path = Path(CONF.baremetal_acc.certificate_key)
        self.config(group='baremetal_acc', certificate_key=None)
        text = self.refused()
        assert 'verify_accelerators: option [baremetal_acc] certificate_key: is not set, and without a certificate' in text
        assert 'openssl genpkey -algorithm ed25519' in text
        self.config(group='baremetal_acc', certificate_key=str(path))
        path.chmod(0o644)
        assert f'{path}: contains the key of certificates, but other users can access the file (mode 0644)' in self.refused()
        path.chmod(0o600)
        self.config(group='baremetal_acc', certificate_folder=str(self._folder / 'baseline.toml'))
        assert 'the certificate cannot be stored or read: Not a directory' in self.refused()
        self.config(group='baremetal_acc', certificate_folder=str(self.folder))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(certificate.envelope, 'digest', lambda data: 'sha256:0')
            patched.setattr(certificate.node_store, 'store', _without_certificate(node_store.store))
            assert 'another certificate was read back' in self.refused()
        # The operator's own machine does without, and its history says so.
        self.config(group='baremetal_acc', certificate_key=None, default_exposure='service')
        self.active()
        assert self.node_state.certificate is None
        assert any('no certificate is issued' in event for event in self.history())


def _without_certificate(store: Any) -> Any:
    """A database that loses it."""
    return lambda node, state: store(node, replace(state, certificate=None))


class TestInTheFolder(CertificateCase):
    """The folder does not always answer, and an earlier version kept certificates in an object store, too."""

    def test_one_of_an_attempt_that_ended_before_it_was_stored_is_put_away_by_the_next(self) -> None:
        """Without its folder right after it was put: what was about to be kept is remembered before it is."""
        with pytest.MonkeyPatch.context() as patched:
            for name in ('get', 'put_away'):
                patched.setattr(CertificateFolder, name, _does_not_answer)
            self.deploy()
            assert states.DEPLOYFAIL == self.settle()
        assert (False, True, False) == (self.node_state.handed_over, self.kept.superseded, self.kept.away)
        lost = f'{self.node.uuid}/{self.kept.lifecycle}-{self.kept.deployment}.json'
        assert [lost] == self.kept_files()
        with pytest.raises(CertificateInvalid):
            certificate.of(self.node)
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.active()
        assert [f'{self.node.uuid}/{self.kept.lifecycle}-{self.kept.deployment}.json'] == self.kept_files()
        assert (self.folder / self.node.uuid / 'superseded' / Path(lost).name).is_file()
        assert any(event.endswith(f'deployment {Path(lost).stem[2:]}, is archived') for event in self.history())

    def test_one_that_lies_in_an_object_store_alone_is_not_read_and_the_error_says_so(self) -> None:
        """It holds once it is copied into the folder; when the node comes back the history says what was left as it is."""
        self.active()
        kept = self.kept
        [path] = map(Path, kept.where)
        data = path.read_bytes()
        path.unlink()
        place = f'certificates/{self.node.uuid}/{path.name}'
        node_store.store(self.node, replace(self.node_state, certificate=replace(kept, where=(place,), packed=None)))
        for folder in (str(self.folder), None):
            self.config(group='baremetal_acc', certificate_folder=folder)
            with pytest.raises(StateError) as caught:
                self.holds()
            text = str(caught.value)
            assert f'stored only at {place}, outside of the folder of option [baremetal_acc] certificate_folder' in text
            assert f'copy it to {self.node.uuid}/{path.name} in that folder' in text
        self.config(group='baremetal_acc', certificate_folder=str(self.folder))
        path.write_bytes(data.removesuffix(b'\n'))
        assert kept.deployment == self.holds().deployment
        self.back()
        assert (True, True) == (self.kept.superseded, self.kept.away)
        assert any(event.endswith(f'is archived; its copy at {place} stays as it is') for event in self.history())


def _does_not_answer(*_: Any) -> Any:
    raise StateError('the folder does not answer')


def test_a_machine_of_eight_gpus_has_room() -> None:
    """With four components each, two roots of trust and twelve gaps; and what is too large lies elsewhere, or is refused."""
    cards = []
    for n in range(8):
        identity = f'uuid:{hashlib.md5(bytes([n]), usedforsecurity=False).hexdigest()}'
        locks = [v.reading(accelerator=identity, place=f'Chassis/HGX_ERoT_GPU_{n}_{m}', session=f'host-{n}{m}') for m in (0, 1)]
        components = [
            v.component(f'HGX_FW_{part}_{n}', version=f'96.00.74.00.{n:02}') for part in ('GPU', 'EROT', 'INFO', 'SMA')
        ]
        cards.append(v.gpu(id=identity, uuid=identity, serial=f'165032{n:07}', firmware=tuple(components), locks=tuple(locks)))
    inventory = v.inventory(*cards)
    records = [v.engagement(r) for card in cards for r in card.locks]
    occasion = replace(OCCASION, known=frozenset(card.id for card in cards), key=_sealer().name)
    whole = made(inventory, baseline=v.baseline(firmware=None), engagements=records, occasion=occasion)
    data = envelope.seal(whole, _sealer())
    packed = certificate._packed(data, ())
    assert packed is not None
    assert certificate.KEPT_BYTES > 2 * len(packed), (len(data), len(packed))
    assert data == envelope.unpacked(packed)
    large = bytes(hashlib.sha256(bytes([n % 256, n // 256])).digest()[0] for n in range(20_000))
    assert certificate._packed(large, ('elsewhere',)) is None
    with pytest.raises(StateError, match=r'set option .baremetal_acc. certificate_folder, where it may be larger'):
        certificate._packed(large, ())


def test_whose_nodes_have_to_have_one() -> None:
    """A tenant's, whatever becomes of it; and any that was given one."""
    nothing, something = node_state.NodeState(), node_state.NodeState(certificate=KEPT)
    service = replace(v.NODE, exposure=Exposure.SERVICE)
    assert [True, True, False, True] == [
        certificate.wanted(node, state) for node in (v.NODE, service) for state in (nothing, something)
    ]


def test_what_is_kept_comes_back_and_leaves_where_another_place_has_it() -> None:
    """Where a job needs the room the node keeps the digest alone, if the certificate lies elsewhere, too."""
    node = _Node()
    node_store.store(node, node_state.NodeState(certificate=KEPT))
    assert KEPT == node_store.load(node).certificate
    large = node_state.Opened(
        since=v.NOW, why=''.join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(900))
    )
    node_store.store(node, node_state.NodeState(certificate=replace(KEPT, packed='A' * 9000), opened=large))
    assert replace(KEPT, packed=None) == node_store.load(node).certificate
    with pytest.raises(AccError, match='are allowed'):
        node_store.store(node, node_state.NodeState(certificate=replace(KEPT, packed='A' * 9000, where=()), opened=large))


KEPT = node_state.KeptInventory(
    lifecycle=2,
    deployment='d-1',
    name='node-1',
    issued=v.NOW,
    key='sha256:1',
    digest='sha256:2',
    where=('/srv/2-d-1.json',),
    packed='AAAA',
)


class _Node:
    """As much of a node as its memory needs."""

    uuid = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'
    reservation = None

    def __init__(self) -> None:
        self.driver_internal_info: dict[str, Any] = {}

    def set_driver_internal_info(self, key: str, value: Any) -> None:
        """As Ironic's."""
        self.driver_internal_info[key] = json.loads(json.dumps(value))

    def save(self) -> None:
        """Nothing more."""


def _sealer() -> envelope.Sealer:
    return sealer()
