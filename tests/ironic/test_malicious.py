# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Malicious images and catalogues are refused in Ironic's own steps, too; the machine's log of writes is the evidence.

The folder of the operator and the attacks are those of :mod:`tests.malicious`, some of each class. A real conductor runs the
step that writes firmware, and then automated cleaning. All locks were closed before, so that any write to a BMC shows in the
log.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from ironic.common import states

from baremetal_acc.emulator.redfish.view import Options
from baremetal_acc.model.action import CheckImage, Flash
from baremetal_acc.model.job_item import ItemState
from baremetal_acc_ironic.state import node_state, node_store
from tests.ironic.case import IronicCase
from tests.malicious import test_catalogues, test_images, test_signatures, test_swapped, test_threshold, test_web, workshop
from tests.malicious.notary import notarised
from tests.malicious.web import Web, always, reply
from tests.malicious.workshop import MAX_IMAGE, NEW, OLD, Workshop, pushed, reached, told

UPDATE = 'update_accelerator_firmware'
RECONCILE = 'reconcile_accelerators'

LOCKED = 'format = 1\n\n[[rule]]\nname = "closed"\nblock = ["host-device"]\n'
BASELINE = workshop.BASELINE.replace('format = 1\n', LOCKED)

FIRMWARE = 'host/FPGA1_FW'

# What is tried, by the class of the attack. Each name is that of the table it comes from.
IMAGES = (
    'of_another_card',  # wrong card
    'that_fits_one_id_of_each_of_two_cards',
    'older_than_what_runs',  # downgrade
    'one_bit_in_the_middle',  # bit-flipped
    'a_restore_image_with_one_bit_changed',
    'half_of_it',  # truncated
    'twice_the_image',  # oversized
    'larger_than_the_bmc_takes',
    'a_path_that_climbs_out',  # path traversal
    'a_link_to_a_file_outside',
)
CATALOGUES = (
    'denied by version',  # revoked
    'denied by its digest',
    'a way back that is denied',
    'expired',
)
DOCUMENTS = ('a digest of a broken algorithm', 'a key twice')
FORGED = (
    'not signed',
    'signed, and a bit flipped since',
    'by somebody in the name of the operator',
    'by a certificate of a web server',
)
FEW = (
    ('by one key of two', test_threshold.SHORT),
    ('a baseline that one of two has signed', test_threshold.BASELINES),
)
LIES = ('a redirect to another server', 'a redirect to a file', 'one bit flipped', 'without an end')
SWAPPED = ('replaced', 'cut', 'replaced_by_a_link')


class MaliciousCase(IronicCase):
    """A machine with every lock closed, and an operator's folder for it."""

    product = 'acc-server'
    parameters: ClassVar = {'options': {'*': Options(max_image_bytes=MAX_IMAGE)}, 'flash_seconds': 0.05}
    baseline = LOCKED

    def setUp(self) -> None:
        super().setUp()
        self.clean('lock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        self.closed = self.locks()
        assert True in self.closed.values()

    @contextmanager
    def folder(self, name: str) -> Iterator[Workshop]:
        """An operator's folder, all honest yet. A failure names what was tried with it."""
        folder = self._folder / re.sub(r'\W+', '-', name) / 'operator'
        folder.mkdir(parents=True)
        try:
            yield Workshop(folder=folder, machine=self.machine, baseline=BASELINE)
        except Exception as exc:
            exc.add_note(f'this was: {name}')
            raise

    def lay(self, shop: Workshop) -> None:
        """The conductor reads this folder from now on."""
        shop.lay()
        given = {'trust_roots': '', 'image_hosts': '', 'signature_threshold': '1', 'baseline_signature': 'optional'} | shop.conf
        given |= {name: str(shop.path(f'{name}.toml')) for name in ('baseline', 'catalogue')}
        self.config(group='baremetal_acc', catalogue_serial_file=str(shop.path('serials.sqlite')), **given)
        self.machine.reset_log()

    def failed(self, step: str, says: tuple[str, ...]) -> None:
        """Run a step: the node must end in clean failed, for these reasons, and with every lock closed."""
        if step == RECONCILE:
            self.clean()
        else:
            self.clean(step)
        assert states.CLEANFAIL == self.settle()
        assert [] == [text for text in (f'node node-1: {step}: ', *says) if text not in self.node.last_error], (
            self.node.last_error
        )
        assert self.closed == self.locks()
        assert OLD == self.version(FIRMWARE)
        self.clear()


class TestRefused(MaliciousCase):
    """What is refused before anything is written. What is tried goes through either step in turn."""

    def refused(self, shop: Workshop, number: int, *says: str) -> None:
        """Nothing at all is written."""
        self.lay(shop)
        self.failed((UPDATE, RECONCILE)[number % 2], says)
        assert [] == reached(self.machine)

    def test_images(self) -> None:
        """Other files, and files for another card."""
        table = {row[1].__name__: row for row in test_images.TABLE}
        for number, name in enumerate(IMAGES):
            with self.folder(name) as shop:
                _, spoil, says = table[name]
                spoil(shop)
                self.refused(shop, number, *says)

    def test_catalogues_that_must_not_be_followed(self) -> None:
        """They could be right elsewhere, or could once."""
        for number, name in enumerate(CATALOGUES):
            with self.folder(name) as shop:
                _, spoil, says = test_catalogues.REFUSED[name]
                spoil(shop)
                self.refused(shop, number, *says)

    def test_catalogues_that_can_never_be_right(self) -> None:
        """They are refused as documents."""
        for number, name in enumerate(DOCUMENTS):
            with self.folder(name) as shop:
                _, spoil, says = test_catalogues.DOCUMENTS[name]
                spoil(shop)
                self.refused(shop, number, 'catalogue.toml', *says)

    def test_catalogues_that_are_not_the_operators(self) -> None:
        """Their signatures prove nothing."""
        for number, name in enumerate(FORGED):
            with self.folder(name) as shop:
                _, strike, says = test_signatures.FORGED[name]
                notarised(shop, strike)
                self.refused(shop, number, 'catalogue.toml', *says)

    def test_documents_that_too_few_keys_have_signed(self) -> None:
        """The catalogue, and a baseline that has to be signed."""
        for number, (name, table) in enumerate(FEW):
            with self.folder(name) as shop:
                if table is test_threshold.BASELINES:
                    shop.conf['baseline_signature'] = 'required'
                test_threshold.two_of_four(shop, table[name][1])
                self.refused(shop, number, '.toml.sig: 1 of 2 required keys has signed', '1 missing')

    def test_an_older_catalogue(self) -> None:
        """Rightly signed; a newer one was seen by this conductor."""
        for number in range(2):
            with self.folder(f'older {number}') as shop:
                notarised(shop)
                self.lay(shop)
                self.clean('inventory_accelerators')
                assert states.MANAGEABLE == self.settle(), self.node.last_error
                test_signatures.put(shop, 6)
                self.refused(shop, number, 'catalogue.toml', 'has serial 6, but was seen before with serial 7')

    def test_servers(self) -> None:
        """They are allowed, and lie or lead elsewhere."""
        web, other = Web(), Web()
        self.addCleanup(web.stop)
        self.addCleanup(other.stop)
        for number, name in enumerate(LIES):
            with self.folder(name) as shop:
                _, make, says = test_web.LIES[name]
                data = test_web.served(shop, web, lambda _: ())
                web.answers[test_web.PATH] = make(web, other, data)
                other.answers[test_web.PATH] = always(reply(data))
                self.refused(shop, number, f'{web.origin}{test_web.PATH}', *says)
        assert len(LIES) <= len(web.asked)
        assert [] == other.asked


class TestSwapped(MaliciousCase):
    """What is changed while the conductor is at work."""

    def test_images(self) -> None:
        """After the last check and before the push: no byte of any image is sent, and every lock is closed again."""
        table = {row[1].__name__: row for row in test_swapped.TABLE}
        for number, name in enumerate(SWAPPED):
            with self.folder(name) as shop:
                _, strike, says = table[name]
                self.lay(shop)
                with self.when_checked(partial(strike, shop, shop.new_file)) as struck:
                    self.failed((UPDATE, RECONCILE)[number % 2], ('image fpga-new: ', says))
                assert [True] == struck
                assert [] == pushed(self.machine)

    @contextmanager
    def when_checked(self, strike: Callable[[], object]) -> Iterator[list[bool]]:
        """The attacker strikes once, when the job is stored whose last image has just been checked."""
        struck: list[bool] = []
        store = node_store.store

        def watched(node: Any, state: node_state.NodeState) -> None:
            store(node, state)
            items = () if state.job is None else state.job.items
            checks = [i.state for i in items if isinstance(i.action, CheckImage)]
            if not struck and checks and all(state is ItemState.DONE for state in checks):
                assert {ItemState.PLANNED} == {i.state for i in items if isinstance(i.action, Flash)}
                strike()
                struck.append(True)

        with mock.patch.object(node_store, 'store', watched):
            yield struck


class TestHonest(MaliciousCase):
    """The tests above can fail."""

    def test_the_same_folder_unchanged_is_written(self) -> None:
        """Signed, and the BMC gets exactly the bytes of both images."""
        with self.folder('honest') as shop:
            notarised(shop)
            self.lay(shop)
            self.clean()
            assert states.AVAILABLE == self.settle(), self.node.last_error
            wanted = [told(shop.path(name)) for name in ('fpga-new.img', 'gzip-3.img')]
            assert sorted(wanted) == sorted(pushed(self.machine))
            assert NEW == self.version(FIRMWARE)
            assert self.closed == self.locks()


def test_the_page_lists_what_is_tried(tree: Path) -> None:
    """Each by the name that it has in the lists before."""
    few = [name for name, _ in FEW]
    named = (*IMAGES, *CATALOGUES, *DOCUMENTS, *FORGED, *few, 'an older serial', *LIES, *SWAPPED)
    cases = [name.replace('_', ' ') for name in named]
    text = ' '.join((tree / 'doc' / 'source' / 'contributor' / 'malicious.rst').read_text().split())
    _, _, rest = text.partition(f' {len(cases)} of the above go through ')
    assert rest.partition(': ')[2].startswith('; '.join(cases) + '.')
