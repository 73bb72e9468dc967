# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's story: take one Ironic node from enrolment to undeploy and to a refused deploy, and check each claimed fact.

Every fact is checked against the answers of the services and against the true state of the emulated machine; the first fact
that does not hold ends the story (:class:`baremetal_acc.demo.screen.ClaimFailed`).
"""

import json
import uuid
from dataclasses import asdict
from pathlib import Path

from baremetal_acc.demo import documents
from baremetal_acc.demo.api import DemoIronic, DemoMachine, Json, Placement, ServiceRefused, StateNotReached
from baremetal_acc.demo.certificate_check import check_certificate
from baremetal_acc.demo.enrolment import describe_node
from baremetal_acc.demo.flash_watch import FlashWatch
from baremetal_acc.demo.node import DPU, FPGA, GPUS, HOST_DEVICE, LIAR, DemoNode
from baremetal_acc.demo.request_log import RequestOrder, body_value, is_upload, request_line
from baremetal_acc.demo.screen import Screen
from baremetal_acc.demo.service_files import api_takes_middleware

PLACEMENT_CLASS = 'CUSTOM_BAREMETAL_GOLD'
"""The node's resource class as Nova writes it in placement."""

FUNCTION_CLASS = 'CUSTOM_ACC_FN_GZIP'

PATHS = {'pcie': HOST_DEVICE, 'rshim': HOST_DEVICE}
"""The write path to which each of the emulated machine's host interfaces belongs."""

TENANT = 'tenant'
"""The project that leases the node."""


class Story:
    """Takes one node through its life in Ironic, and checks each fact on the way.

    :param folder: folder of baseline, catalogue and images.
    """

    def __init__(self, *, screen: Screen, ironic: DemoIronic, placement: Placement, machine: DemoMachine, folder: Path) -> None:
        self._screen = screen
        self._ironic = ironic
        self._placement = placement
        self._machine = machine
        self._folder = folder
        self._images: dict[str, Path] = {}
        self._node = DemoNode(screen, ironic, machine)
        self._instance = ''

    def tell(self) -> None:
        """Run all sections: from the bare machine to the refused deploy, and to the card that has to be written again.

        :raises ClaimFailed: a fact does not hold.
        :raises StateNotReached: the node did not reach an expected provision state.
        :raises ServiceRefused: a service refused a request that it should accept.
        """
        self._prepare()
        self._enrol()
        self._inspect()
        self._provide()
        self._published()
        self._deploy()
        self._tenant()
        self._service()
        self._undeploy()
        self._refused()
        self._not_started()
        self._written_again()

    # -- the operator's preparations ----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        screen = self._screen
        screen.section('Prepare: the operator writes a catalogue of images and a baseline')
        models = {c['component']: c['model'] for c in self._machine.truth()['components'].values()}
        paths = documents.write_images(self._folder, documents.CATALOGUE, models)
        self._images = paths | documents.write_images(self._folder / 'tenant', documents.TENANTS, models)
        catalogue = documents.write_catalogue(self._folder, documents.CATALOGUE, paths)
        baseline = documents.write_baseline(self._folder)
        screen.say(f'The catalogue {catalogue} lists {len(documents.CATALOGUE)} images with their digests.')
        screen.say(f'The baseline {baseline} says what must hold:')
        for line in baseline.read_text().splitlines()[2:]:
            screen.detail(line)

    def _enrol(self) -> None:
        screen = self._screen
        screen.section(
            'Enrol: create a node with two GPUs, an FPGA with two slots, and a DPU with its own BMC (baremetal node create)'
        )
        host, dpu = self._machine.bmcs['host'], self._machine.bmcs['dpu']
        bmcs = {name: asdict(bmc) for name, bmc in self._machine.bmcs.items()}
        node = self._ironic.ask('POST', '/v1/nodes', describe_node(bmcs))
        self._node.uuid = node['uuid']
        screen.say(f'Ironic created node {self._node.uuid} with driver redfish-acc.')
        screen.say(f'The BMC of the host is at {host.address}, the BMC of the DPU at {dpu.address}.')
        shown = json.dumps(self._ironic.get(f'/v1/nodes/{self._node.uuid}'))
        screen.expect(
            "Ironic's API does not show the password of either BMC", False, host.password in shown or dpu.password in shown
        )
        self._placement.create_root(self._node.uuid, PLACEMENT_CLASS)
        screen.say(
            f'Placement has a root provider for the node, with one {PLACEMENT_CLASS}. The demo created it as nova-compute does.'
        )
        self._ironic.provision(self._node.uuid, 'manage')
        found = self._ironic.wait(self._node.uuid, 'manageable')
        screen.expect('Ironic can reach the BMC, and the node is manageable', 'manageable', found['provision_state'])

    # -- inspection ---------------------------------------------------------------------------------------------------

    def _inspect(self) -> None:
        screen = self._screen
        screen.section('Inspect: Ironic reads the accelerators of the node from its BMCs (baremetal node inspect)')
        self._ironic.provision(self._node.uuid, 'inspect')
        self._ironic.wait(self._node.uuid, 'manageable')
        accelerators = self._node.accelerators()
        self._node.show_cards(accelerators)
        kinds = sorted(a['kind'] for a in accelerators)
        screen.expect('the inventory in Ironic lists every card', ['DPU', 'FPGA', 'GPU', 'GPU'], kinds)
        self._node.expect_firmware(
            'every card runs old firmware', self._node.versions(documents.GPU_OLD, documents.FPGA_OLD, documents.DPU_OLD)
        )
        screen.expect('both slots of the FPGA are empty', {'Slot0': None, 'Slot1': None}, self._node.slots())
        screen.expect(
            'write path host-device is open: the host can write to every card', True, all(w['open'] for w in self._node.ways())
        )
        node = self._ironic.get(f'/v1/nodes/{self._node.uuid}?fields=properties')
        screen.say(f'Capabilities of the node in Ironic: {node["properties"]["capabilities"]}')
        screen.expect_words('the capabilities count the four cards', ['accelerators:4'], node['properties']['capabilities'])

    # -- cleaning -----------------------------------------------------------------------------------------------------

    def _provide(self) -> None:
        screen = self._screen
        screen.section('Provide: automated cleaning brings the cards to the baseline (baremetal node provide)')
        before = len(self._machine.log())
        watch = FlashWatch(screen, self._machine)
        self._ironic.provision(self._node.uuid, 'provide')
        self._ironic.wait(self._node.uuid, 'available', seconds=180, meanwhile=watch.look)
        self._node.show_history()
        self._node.show_cards(self._node.accelerators())
        uploads = [e for e in self._machine.log()[before:] if is_upload(e)]
        screen.expect('each image was sent to its card exactly once: four firmware images and two functions', 6, len(uploads))
        screen.expect('the BMCs accepted every image', {202}, {e['status'] for e in uploads})
        screen.expect('at least three cards were flashed at the same time', True, watch.most >= 3)
        self._node.expect_firmware('every card runs the firmware of the baseline', self._node.new_versions())
        functions = {'Slot0': 'gzip 1.4', 'Slot1': 'aes 2.0'}
        screen.expect('each slot holds the function that the baseline names', functions, self._node.slots())
        self._node.expect_locked('write path host-device is blocked on every card')
        beside = {
            path for c in self._node.accelerators() for r in c['locks'] if r['state'] == 'unlocked' for path in r['blocks']
        }
        screen.expect('every lock that is still unlocked belongs to another write path', False, HOST_DEVICE in beside)
        screen.say(f'The baseline requires only {HOST_DEVICE} to be blocked. Still open: {", ".join(sorted(beside))}.')
        screen.say(
            'A lock that a BMC reports as engaged is locked-reported. It is locked-verified only after baremetal-acc engaged '
            'that lock on that card in this lifecycle of the node, and then read it back over another session.'
        )
        screen.expect(
            'the firmware list of the node in Ironic shows the same versions',
            self._node.new_versions(),
            self._node.listed_versions(),
        )

    # -- placement ----------------------------------------------------------------------------------------------------

    def _published(self) -> None:
        screen = self._screen
        screen.section('Publish: cards and functions are available in placement (openstack allocation candidate list)')
        tree = self._placement.tree(self._node.uuid)
        rows = [
            (
                '  ' * p['depth'] + (p['name'] if not p['depth'] else p['name'].rsplit('_', 1)[-1]),
                ', '.join(f'{name} {unit["total"]}' for name, unit in sorted(p['inventories'].items())) or '-',
                ', '.join(t for t in p['traits'] if not t.startswith('CUSTOM_OWNER_')) or '-',
            )
            for p in tree
        ]
        screen.table(('provider', 'inventory', 'traits'), rows)
        offers = sorted(name for p in tree if p['depth'] for name in p['inventories'])
        wanted = ['CUSTOM_ACC_DPU', 'CUSTOM_ACC_FN_AES', FUNCTION_CLASS, 'PGPU', 'PGPU']
        screen.expect('two GPUs, a DPU and two functions are available in placement', wanted, offers)
        screen.expect(
            'the root provider, which belongs to Nova, is unchanged', [PLACEMENT_CLASS], sorted(tree[0]['inventories'])
        )
        query = f'resources={PLACEMENT_CLASS}:1&resources_ACC={FUNCTION_CLASS}:1'
        screen.say(f'Placement answers GET /allocation_candidates?{query} with:')
        found = self._placement.candidates(query)['allocation_requests']
        screen.detail(json.dumps(found))
        screen.expect('placement returns one candidate: this node with the slot that holds gzip', 1, len(found))

    # -- deploy -------------------------------------------------------------------------------------------------------

    def _deploy(self) -> None:
        screen = self._screen
        screen.section(
            'Deploy: Ironic engages the locks again, reads them back, and hands the node over (baremetal node deploy)'
        )
        self._claim()
        before = len(self._machine.log())
        self._deploy_now()
        self._node.show_history()
        writes = self._node.lock_writes(self._machine.log()[before:])
        screen.say('Requests to the BMCs that engaged locks in this deploy:')
        for entry in writes:
            screen.detail(request_line(entry))
        cards = {self._node.device_of(e) for e in writes}
        screen.expect('this deploy engaged the locks of every card', {*GPUS, FPGA, DPU}, cards)
        self._node.expect_locked('write path host-device is blocked in the emulated machine itself')
        node = self._node.set_power('power on', 'On')
        screen.expect(
            'the node is active and powered on', ('active', 'power on'), (node['provision_state'], node['power_state'])
        )
        check_certificate(screen, self._ironic.ask('GET', f'/v1/nodes/{self._node.uuid}'), self._folder)

    def _claim(self) -> None:
        """Do what Nova does before a deploy: claim an allocation candidate, and set the node's ``instance_uuid``."""
        self._instance = str(uuid.uuid4())
        query = f'resources={PLACEMENT_CLASS}:1&resources_ACC={FUNCTION_CLASS}:1'
        candidate = self._placement.candidates(query)['allocation_requests'][0]
        claim = candidate | {
            'project_id': 'tenant',
            'user_id': 'tenant',
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
        }
        self._placement.ask('PUT', f'/allocations/{self._instance}', claim)
        patch = [{'op': 'add', 'path': '/instance_uuid', 'value': self._instance}]
        self._ironic.ask('PATCH', f'/v1/nodes/{self._node.uuid}', patch)
        self._screen.say(f'The demo claims the node and the function in placement for instance {self._instance}, as Nova does.')

    def _deploy_now(self) -> None:
        self._ironic.provision(self._node.uuid, 'active')
        self._ironic.wait(self._node.uuid, 'active', seconds=120)

    # -- the tenant ---------------------------------------------------------------------------------------------------

    def _tenant(self) -> None:
        screen = self._screen
        screen.section('Tenant: root on the host tries to write firmware and a function in band')
        before = self._node.held()
        seen = self._machine.devices()
        screen.expect('the host is on, and root sees every card', {*GPUS, FPGA, DPU}, set(seen))
        answers = [
            ('GPU_0 firmware', self._machine.write_firmware('GPU_0', self._tenants('gpu'), path='pcie')),
            ('FPGA1 firmware', self._machine.write_firmware(FPGA, self._tenants('fpga'), path='pcie')),
            ('FPGA1 Slot0', self._machine.program(FPGA, 0, self._tenants('function'))),
            ('DPU firmware over PCIe', self._machine.write_firmware(DPU, self._tenants('dpu'), path='pcie')),
            ('DPU firmware over rshim', self._machine.write_firmware(DPU, self._tenants('dpu'), path='rshim')),
        ]
        screen.table(
            ('root writes', 'answer of the machine'), [(name, answer.get('reason', 'written')) for name, answer in answers]
        )
        for name, answer in answers:
            screen.expect(f'a lock refused the write to {name}', (False, 'locked'), (answer['written'], answer.get('code')))
        screen.expect('the content of every card is unchanged', before, self._node.held())

    # -- service ------------------------------------------------------------------------------------------------------

    def _service(self) -> None:
        screen = self._screen
        screen.section('Service: the operator updates one card of a deployed node (baremetal node service)')
        documents.write_baseline(self._folder, fpga=documents.FPGA_NEXT)
        screen.say(f'The baseline now requires version {documents.FPGA_NEXT} on the FPGA. The service step names the card:')
        card = next(a for a in self._node.accelerators() if a['kind'] == 'FPGA')
        steps = [{'interface': 'firmware', 'step': 'update_accelerator_firmware', 'args': {'devices': [card['id']]}}]
        screen.detail(json.dumps(steps))
        before = len(self._machine.log())
        watch = FlashWatch(screen, self._machine)
        self._ironic.provision(self._node.uuid, 'service', service_steps=steps)
        self._ironic.wait(self._node.uuid, 'active', seconds=180, meanwhile=watch.look)
        self._node.show_history()
        entries = [e for e in self._machine.log()[before:] if e['bmc'] != 'door']
        screen.say('Requests to the BMCs, in order of time:')
        for entry in entries:
            screen.detail(request_line(entry))
        order = RequestOrder(entries)
        host = f'{self._machine.bmcs["host"].system}/Actions/ComputerSystem.Reset'
        item = self._node.uri('host/FPGA1_FW')
        off = order.first(
            'the host is powered off', lambda e: e['path'] == host and body_value(e) in ('ForceOff', 'GracefulShutdown')
        )
        opened = order.first('the lock is released', lambda e: e['path'] == item and body_value(e, 'WriteProtected') is False)
        image = order.first('the image is sent', is_upload)
        closed = order.first('the lock is engaged', lambda e: e['path'] == item and body_value(e, 'WriteProtected') is True)
        on = order.first('the host is powered on', lambda e: e['path'] == host and body_value(e) in ('On', 'ForceOn'))
        wanted = ['host off', 'release', 'flash', 'engage', 'host on']
        found = sorted(zip((off, opened, image, closed, on), wanted, strict=True))
        screen.expect(
            'the order was: host off, release the lock, flash, engage the lock, host on', wanted, [name for _, name in found]
        )
        screen.expect('no write path was open while the host was on', [], watch.open_while_on)
        screen.expect('one image was sent, to one card', 1, sum(1 for e in entries if is_upload(e)))
        self._node.expect_firmware('the card runs the new firmware', self._node.new_versions(fpga=documents.FPGA_NEXT))
        self._node.expect_locked('write path host-device is blocked again')
        power = self._machine.truth()['systems']['host']['power']
        screen.expect('the host is on again, and the node is active', 'On', power)

    # -- undeploy -----------------------------------------------------------------------------------------------------

    def _undeploy(self) -> None:
        screen = self._screen
        screen.section('Undeploy: cleaning verifies the cards as the tenant left them (baremetal node undeploy)')
        before = len(self._machine.log())
        watch = FlashWatch(screen, self._machine)
        self._ironic.provision(self._node.uuid, 'deleted')
        self._ironic.wait(self._node.uuid, 'available', seconds=180, meanwhile=watch.look)
        self._placement.ask('DELETE', f'/allocations/{self._instance}')
        self._node.show_history()
        self._node.show_cards(self._node.accelerators())
        uploads = sum(1 for e in self._machine.log()[before:] if is_upload(e))
        screen.expect('the tenant changed no card: cleaning wrote no image', 0, uploads)
        self._node.expect_firmware(
            'every card runs the firmware of the baseline', self._node.new_versions(fpga=documents.FPGA_NEXT)
        )
        self._node.expect_locked('write path host-device is blocked for the next tenant')
        query = f'resources={PLACEMENT_CLASS}:1&resources_ACC={FUNCTION_CLASS}:1'
        found = self._placement.candidates(query)['allocation_requests']
        screen.expect('the node and its function are available in placement again', 1, len(found))

    # -- a false report ----------------------------------------------------------------------------------------------

    def _refused(self) -> None:
        screen = self._screen
        screen.section('Refused deploy: a BMC accepts the request to lock, but leaves the lock open')
        self._machine.fault('lock-lost-on-reset', device=LIAR)
        self._node.cycle_power()
        self._machine.clear_faults()
        self._machine.fault('lock-ignored', device=LIAR)
        is_open = {way['device'] for way in self._node.ways() if way['open']}
        screen.expect(f'a power cycle opened the locks of {LIAR}, and of no other card', {LIAR}, is_open)
        ours = self._node.running(LIAR)
        answer = self._machine.write_firmware(LIAR, self._images['tenant-twin'].read_bytes(), path='pcie')
        theirs = self._node.running(LIAR)
        screen.expect(f'code on the host wrote other firmware to {LIAR}', True, answer['written'])
        screen.expect('the other firmware has the version that the baseline names', documents.GPU_NEW, theirs['version'])
        screen.expect("its digest differs from that of the operator's image", False, ours['digest'] == theirs['digest'])
        before = len(self._machine.log())
        self._claim()
        state = self._fail_to_deploy()
        asked = [e for e in self._node.lock_writes(self._machine.log()[before:]) if self._node.device_of(e) == LIAR]
        screen.expect(
            f'the BMC reported success for each lock of {LIAR}', True, bool(asked) and all(e['status'] < 300 for e in asked)
        )
        screen.expect_words('last_error names the card', [LIAR], state['last_error'])
        screen.expect_words('last_error names the write path', ['host-device'], state['last_error'])
        screen.expect_words(
            'last_error names the expected and the found state of the lock',
            ['locked-verified', 'unlocked'],
            state['last_error'],
        )
        self._machine.clear_faults()

    def _fail_to_deploy(self) -> Json:
        """Deploy, check that the deploy fails, and return the node."""
        screen = self._screen
        self._ironic.provision(self._node.uuid, 'active')
        try:
            state = self._ironic.wait(self._node.uuid, 'active', seconds=120)
        except StateNotReached as exc:
            state = dict(exc.node)
        screen.expect('the deploy fails', 'deploy failed', state['provision_state'])
        screen.say('last_error of the node in Ironic:')
        screen.detail(state['last_error'])
        return state

    # -- the way past the refusal --------------------------------------------------------------------------------------

    def _not_started(self) -> None:
        screen = self._screen
        screen.section(f'Lessee: an admin of project {TENANT} tries to power on the host after the failed deploy')
        self._ironic.ask('PATCH', f'/v1/nodes/{self._node.uuid}', [{'op': 'add', 'path': '/lessee', 'value': TENANT}])
        lessee = self._ironic.of(TENANT)
        self._node.switch_power(lessee, 'power off', 'Off')
        before = self._machine.truth()['systems']['host']['resets']
        try:
            self._node.switch_power(lessee, 'power on', 'On', tries=1)
            status, said = 202, ''
        except ServiceRefused as exc:
            status, said = exc.status, exc.said
        by_api = api_takes_middleware()  # else by the power interface, which gives no reason to the API
        expected = 409 if by_api else 400
        screen.expect(f'Ironic refuses to power on the host ({expected})', expected, status)
        screen.detail(said)
        if by_api:
            screen.expect_words('the error says why, and what to do', ['power on', 'locks', 'verif', 'undeploy'], said)
        host = self._machine.truth()['systems']['host']
        screen.expect('the host stays off', ('Off', before), (host['power'], host['resets']))

    # -- a broken chain ------------------------------------------------------------------------------------------------

    def _written_again(self) -> None:
        screen = self._screen
        screen.section(
            'Broken chain of custody: locks and versions are right, but the deploy fails until cleaning writes the card again'
        )
        screen.say('The BMC engages locks again, and the operator deploys the node once more.')
        state = self._fail_to_deploy()
        self._node.expect_locked('write path host-device is blocked on every card')
        self._node.expect_firmware(
            'every card has the version that the baseline names', self._node.new_versions(fpga=documents.FPGA_NEXT)
        )
        screen.expect_words(
            'last_error names the card, its chain of custody and the cause', [LIAR, 'custody', 'open'], state['last_error']
        )
        before = len(self._machine.log())
        watch = FlashWatch(screen, self._machine)
        self._ironic.provision(self._node.uuid, 'deleted')
        self._ironic.wait(self._node.uuid, 'available', seconds=180, meanwhile=watch.look)
        self._placement.ask('DELETE', f'/allocations/{self._instance}')
        self._node.show_history()
        uploads = [entry for entry in self._machine.log()[before:] if is_upload(entry)]
        for entry in uploads:
            screen.detail(request_line(entry))
        targets = [target for entry in uploads for target in entry['body']['Targets']]
        screen.expect(
            f'cleaning wrote firmware to {LIAR}, and to no other card',
            [self._node.uri(self._node.main_firmware(LIAR))],
            targets,
        )
        found = self._node.running(LIAR)
        screen.expect('the version is the same as before', documents.GPU_NEW, found['version'])
        screen.expect(f"{LIAR} runs the operator's image again", self._node.running(GPUS[0])['digest'], found['digest'])

    def _tenants(self, what: str) -> bytes:
        return self._images[f'tenant-{what}'].read_bytes()
