# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The demo's story: take one Ironic node from enrolment to undeploy and to a refused deploy, and check each claimed fact.

Every fact is checked against the answers of the services and against the true state of the emulated machine; the first fact
that does not hold ends the story (:class:`baremetal_acc.demo.screen.ClaimFailed`).
"""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from baremetal_acc.demo import documents
from baremetal_acc.demo.api import DemoIronic, DemoMachine, Json, Placement, ServiceRefused, StateNotReached
from baremetal_acc.demo.screen import ClaimFailed, Screen

NODE_CLASS = 'baremetal.gold'
PLACEMENT_CLASS = 'CUSTOM_BAREMETAL_GOLD'
"""The node's resource class as Nova writes it in placement."""

FUNCTION_CLASS = 'CUSTOM_ACC_FN_GZIP'

PARALLEL = 4
"""Concurrent updates that the operator allows on the host's BMC (``acc_parallel_updates``); the default is one."""

GPUS = ('GPU_0', 'GPU_1')
LIAR = 'GPU_1'
"""The card whose BMC will report a lock that it has not set."""

FPGA = 'FPGA1'
DPU = 'DPU'

HOST_DEVICE = 'host-device'
"""The one write path that the baseline wants blocked."""

PATHS = {'pcie': HOST_DEVICE, 'rshim': HOST_DEVICE}
"""The write path to which each of the emulated machine's host interfaces belongs."""

TENANT = 'tenant'
"""The project that leases the node."""

CONTAINER = 'baremetal_acc'
"""Key of our data in Ironic's inspection store and in ``driver_internal_info``."""


def _name(function: Json | None) -> str:
    """The function in a slot, for people."""
    return 'empty' if function is None else f'{function["name"] or function["id"]} {function["version"]}'


def _is_upload(entry: Json) -> bool:
    body = entry['body']
    return bool(entry['method'] == 'POST' and isinstance(body, dict) and 'Targets' in body)


def _body(entry: Json, key: str = 'ResetType') -> Any:
    body = entry['body']
    return body.get(key) if isinstance(body, dict) else None


def _line(entry: Json) -> str:
    """One request to a BMC in one line."""
    clock = entry['time'].split('T')[-1][:8]
    if _is_upload(entry):
        targets = ', '.join(target.rsplit('/', 1)[-1] for target in entry['body']['Targets'])
        return f'{clock}  {entry["bmc"]:4}  image of {entry["received_bytes"]} bytes to {targets}: {entry["status"]}'
    path = entry['path'].removeprefix('/redfish/v1/')
    return f'{clock}  {entry["bmc"]:4}  {entry["method"]} {path} {json.dumps(entry["body"])}: {entry["status"]}'


class FlashWatch:
    """Watches the machine while a step runs: the progress of flashes, and whether a card was ever open.

    :ivar most: the most flashes that ran at the same time.
    :ivar open_while_on: the write paths that were open while the host was on.
    """

    def __init__(self, screen: Screen, machine: DemoMachine) -> None:
        self._screen = screen
        self._machine = machine
        self._told: set[tuple[str, int]] = set()
        self._power = ''
        self.most = 0
        self.open_while_on: list[str] = []

    def look(self) -> None:
        """Read the machine's state once; called between two polls of the node."""
        truth = self._machine.truth()
        host = truth['systems']['host']
        if host['power'] != self._power:
            self._screen.milestone(f'host: {host["power"]}')
            self._power = host['power']
        if host['power'] == 'On' and not host['booting']:
            self.open_while_on += [f'{way["device"]} over {way["path"]}' for way in truth['ways'] if way['open']]
        running = [
            (target.split('/', 1)[1], task['percent'], key)
            for bmc in truth['bmcs'].values()
            for key, task in bmc['tasks'].items()
            if task['state'] == 'Running'
            for target in task['targets']
        ]
        self.most = max(self.most, len(running))
        self._screen.progress([(name, percent) for name, percent, _ in running])
        new = [(name, percent) for name, percent, _ in running if not self._has_told(name, percent)]
        if new:
            self._screen.milestone('writing ' + ', '.join(f'{name} {percent} %' for name, percent, _ in running))

    def _has_told(self, name: str, percent: int) -> bool:
        """Whether this stage of a flash was printed already: each flash is printed when it begins and when it is half done."""
        mark = (name, percent // 50)
        known = mark in self._told
        self._told.add(mark)
        return known


class RequestOrder:
    """Finds the positions of events in a log of requests."""

    def __init__(self, entries: list[Json]) -> None:
        self._entries = entries

    def first(self, what: str, fits: Any) -> int:
        """The position of the first entry that fits.

        :raises ClaimFailed: no entry fits.
        """
        for position, entry in enumerate(self._entries):
            if fits(entry):
                return position
        raise ClaimFailed(what, 'a request that does it', 'none in the log of the BMCs')


class DemoNode:
    """The demo's node: what Ironic says of it, what the machine truly is, and checks of both.

    :ivar uuid: empty until the node is enrolled.
    """

    def __init__(self, screen: Screen, ironic: DemoIronic, machine: DemoMachine) -> None:
        self._screen = screen
        self._ironic = ironic
        self._machine = machine
        self._told = 0
        self.uuid = ''

    def accelerators(self) -> list[Json]:
        """The accelerators in Ironic's inspection store."""
        data = self._ironic.get(f'/v1/nodes/{self.uuid}/inventory')['plugin_data']
        found: list[Json] = data[CONTAINER]['inventory']['accelerators']
        return found

    def listed_versions(self) -> dict[str, str]:
        """The versions in Ironic's firmware list, by SoftwareInventory Id, for the components that the baseline names."""
        rows = self._ironic.get(f'/v1/nodes/{self.uuid}/firmware')['firmware']
        known = {row['component'].split(':', 1)[-1].split('@')[0]: row['current_version'] for row in rows}
        return {name: known.get(name, 'absent') for name in self.new_versions()}

    def show_cards(self, accelerators: Iterable[Json]) -> None:
        """Print the cards with their slots, locks and firmware."""
        rows = []
        for card in accelerators:
            firmware = ', '.join(f'{c["id"]} {c["version"]}' for c in card['firmware'] if self._is_named(str(c['id'])))
            slots = ', '.join(f'{s["slot_id"]}: {_name(s["function"])}' for s in card['slots'])
            states = sorted({reading['state'] for reading in card['locks']})
            rows.append((card['kind'], card['model'] or '-', card['serial'] or '-', slots or '-', ', '.join(states), firmware))
        self._screen.table(('kind', 'model', 'serial', 'slots', 'locks as read', 'firmware'), rows)

    def _is_named(self, component: str) -> bool:
        return component in self.new_versions()

    def show_history(self) -> None:
        """Print the entries of our steps in the node's history since the last call."""
        rows = self._ironic.get(f'/v1/nodes/{self.uuid}/history?detail=True')['history']
        told = [row for row in rows if row['event_type'] == 'accelerator'][self._told :]
        self._told += len(told)
        if told:
            self._screen.say("Ironic, the node's history:")
        for row in told:
            self._screen.detail(row['event'])

    def set_power(self, target: str, power: str) -> Json:
        """Power the host on (or off) by Ironic, as a tenant does, and return the node."""
        if self._machine.truth()['systems']['host']['power'] != power:
            self._ironic.put(f'/v1/nodes/{self.uuid}/states/power', {'target': target})
        for _ in range(80):
            found: Json = self._ironic.wait(self.uuid, 'active')
            if found['power_state'] == target:
                return found
            time.sleep(0.25)
        raise ClaimFailed('the host can be switched', target, found['power_state'])

    def switch_power(self, asking: DemoIronic, target: str, power: str, *, tries: int = 40) -> None:
        """Change the power state of the host by Ironic, and wait until the machine itself has changed.

        :raises ServiceRefused: Ironic refused each try.
        :raises ClaimFailed: the power state has not changed in time.
        """
        asking.put(f'/v1/nodes/{self.uuid}/states/power', {'target': target}, tries=tries)
        for _ in range(200):
            found = self._machine.truth()['systems']['host']['power']
            if found == power and self._ironic.get(f'/v1/nodes/{self.uuid}?fields=reservation')['reservation'] is None:
                return
            time.sleep(0.1)
        raise ClaimFailed(f'{target} comes about', power, found)

    def cycle_power(self) -> None:
        """Power cycle the host by its power button, and wait until it is on."""
        before = self._machine.truth()['systems']['host']
        self._machine.press('PowerCycle' if before['power'] == 'On' else 'On')
        for _ in range(100):
            host = self._machine.truth()['systems']['host']
            if host['resets'] > before['resets'] and host['power'] == 'On':
                return
            time.sleep(0.1)
        raise ClaimFailed('the host comes up again', 'On', host['power'])

    def ways(self) -> list[Json]:
        """The host's in-band ways to its cards, as the machine truly has them."""
        found: list[Json] = self._machine.truth()['ways']
        return found

    def held(self) -> dict[str, Any]:
        """The true content of every firmware bank and slot of every card: active and staged."""
        return {key: (c['active'], c['staged']) for key, c in self._machine.truth()['components'].items()}

    def slots(self) -> dict[str, str | None]:
        """The function that each slot of the FPGA truly holds."""
        found = {}
        for key, component in self._machine.truth()['components'].items():
            if component['kind'] == 'function':
                active = component['active']
                found[key.rsplit('_', 1)[-1]] = f'{active["function"]} {active["version"]}' if active else None
        return found

    def versions(self, gpu: str, fpga: str, dpu: str) -> dict[str, str]:
        """These versions of the main firmware, by SoftwareInventory Id."""
        by_part = {'gpu': gpu, 'fpga': fpga, 'nic': dpu}
        components = self._machine.truth()['components']
        named = {key: by_part[c['component']] for key, c in components.items() if c['component'] in by_part}
        return {key.split('/', 1)[1]: version for key, version in sorted(named.items())}

    def new_versions(self, *, fpga: str = documents.FPGA_NEW) -> dict[str, str]:
        """The versions that the baseline wants."""
        return self.versions(documents.GPU_NEW, fpga, documents.DPU_NEW)

    def expect_firmware(self, what: str, wanted: Mapping[str, str]) -> None:
        """Check the versions that really run, whatever the BMCs report."""
        components = self._machine.truth()['components']
        found = {key.split('/', 1)[1]: c['active']['version'] for key, c in sorted(components.items()) if c['active']}
        self._screen.expect(what, dict(wanted), {name: found.get(name) for name in wanted})

    def running(self, device: str) -> Json:
        """Version and digest of the main firmware that a card really runs."""
        found: Json = self._machine.truth()['components'][self.main_firmware(device)]['active']
        return found

    def main_firmware(self, device: str) -> str:
        """The key of a card's main firmware in the machine's true state."""
        (key,) = (k for k in self._machine.truth()['components'] if k.startswith('host/') and k.endswith(f'_FW_{device}'))
        return str(key)

    def expect_locked(self, what: str) -> None:
        """Check that no in-band way to a card is open."""
        self._screen.expect(what, [], [f'{way["device"]} over {way["path"]}' for way in self.ways() if way['open']])

    def lock_writes(self, entries: Iterable[Json]) -> list[Json]:
        """The requests that write a lock of a card."""
        return [e for e in entries if e['bmc'] != 'door' and self.device_of(e) is not None and not _is_upload(e)]

    def device_of(self, entry: Json) -> str | None:
        """The card whose lock a request writes, None if it writes none. A Redfish action belongs to its resource."""
        for lock in self._machine.truth()['locks'].values():
            base = lock['uri']
            path = entry['path'].removesuffix('/Settings')
            if entry['bmc'] == lock['bmc'] and lock['device'] and (path == base or path.startswith(f'{base}/Actions/')):
                return str(lock['device'])
        return None

    def uri(self, component: str) -> str:
        """The URI of a component's SoftwareInventory."""
        return str(self._machine.truth()['components'][component]['uri'])


def _acc(*arguments: str, told: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line ``baremetal-acc``, as an operator does."""
    command = [sys.executable, '-m', 'baremetal_acc.cli.main', *arguments]
    return subprocess.run(command, input=told or '', capture_output=True, text=True, check=False)


def check_certificate(screen: Screen, node: Json, folder: Path) -> None:
    """Verify the signed hand-over certificate by the command line, with nothing but the issuer's key."""
    kept = node['driver_internal_info'][CONTAINER]['certificate']
    file, trust = folder / 'certificate.json', documents.write_trust(folder)
    _acc('certificate', 'extract', '-', '--out', str(file), told=json.dumps(node))
    asked = ('--node', node['uuid'], '--lifecycle', str(kept['lifecycle']), '--deployment', kept['deployment'])
    judged = _acc('certificate', 'verify', str(file), '--config-file', str(trust), *asked, '-f', 'json')
    document = json.loads(judged.stdout)
    screen.say(f'The hand-over certificate {file} proves:')
    for sentence in document['proves']:
        screen.detail(sentence)
    screen.say('It does not prove:')
    for sentence in document['does_not_prove']:
        screen.detail(sentence)
    screen.expect(
        'the certificate holds for this node, this life and this deployment',
        (0, []),
        (judged.returncode, document['reasons']),
    )
    certificate = json.loads(file.read_text())['certificate']
    file.write_bytes(file.read_bytes().replace(b'"unsupported"', b'"locked-verified"'))
    forged = _acc('certificate', 'verify', str(file), '--config-file', str(trust), *asked, '-f', 'json')
    screen.expect('one that claims more is refused', 3, forged.returncode)
    show_paths(screen, certificate['accelerators'])
    show_chain(screen, certificate['accelerators'], certificate['looked'])


def show_paths(screen: Screen, cards: Iterable[Json]) -> None:
    """Show the certificate's state of each write path of each card, demanded or not."""
    cards = list(cards)
    names = [path['path'] for path in cards[0]['paths']]
    rows = [(card['label'], *(path['state'] for path in card['paths'])) for card in cards]
    screen.say('The certificate, path by path:')
    screen.table(('card', *names), rows)
    demanded = {(path['path'], path['state']) for card in cards for path in card['paths'] if path['demanded']}
    proven = {(HOST_DEVICE, 'locked-verified')}
    screen.expect('the path that the baseline names is proven closed on every card', proven, demanded)


def show_chain(screen: Screen, cards: Iterable[Json], looked: str) -> None:
    """Show one card's chain of custody in the certificate: from the write to the reading before the hand-over."""
    card = next(c for c in cards if c['label'].endswith(GPUS[0]))
    chain = card['custody']
    screen.say(f'The chain of {card["label"]}, from the write of {", ".join(chain["by"])} to the hand-over:')
    screen.table(
        ('from', 'to', 'nobody else could write it because of', 'known by'),
        [(i['since'][:19], i['until'][:19], i['cover'], i['strength']) for i in chain['intervals']],
    )
    found = (chain['origin'], chain['by'], chain['broken'])
    screen.expect('it begins with our own write, and is not broken', ('written', ['gpu-new'], None), found)
    ends = [i['until'] for i in chain['intervals']]
    screen.expect('it has no gap', [chain['begun'], *ends], [*(i['since'] for i in chain['intervals']), ends[-1]])
    screen.expect('it reaches to the very reading that was handed over', looked, chain['reaches'])


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
        screen.section('The operator: what must hold, and which images there are')
        models = {c['component']: c['model'] for c in self._machine.truth()['components'].values()}
        paths = documents.write_images(self._folder, documents.CATALOGUE, models)
        self._images = paths | documents.write_images(self._folder / 'tenant', documents.TENANTS, models)
        catalogue = documents.write_catalogue(self._folder, documents.CATALOGUE, paths)
        baseline = documents.write_baseline(self._folder)
        screen.say(f'{catalogue}: {len(documents.CATALOGUE)} images with their digests; and {baseline}:')
        for line in baseline.read_text().splitlines()[2:]:
            screen.detail(line)

    def _enrol(self) -> None:
        screen = self._screen
        screen.section('Enrol: a machine with two GPUs, an FPGA with two slots, and a DPU that has a BMC of its own')
        host, dpu = self._machine.bmcs['host'], self._machine.bmcs['dpu']
        node = self._ironic.ask(
            'POST',
            '/v1/nodes',
            {
                'name': 'gold-1',
                'driver': 'redfish-acc',
                'resource_class': NODE_CLASS,
                # Nothing is imaged and no BIOS is set in this story: all steps are out of band, without a ramdisk.
                'deploy_interface': 'noop',
                'boot_interface': 'fake',
                'network_interface': 'noop',
                'management_interface': 'noop',
                'bios_interface': 'no-bios',
                'driver_info': {
                    'redfish_address': host.address,
                    'redfish_username': host.username,
                    'redfish_password': host.password,
                    'redfish_verify_ca': host.verify_ca,
                    'redfish_system_id': host.system,
                    'acc_parallel_updates': PARALLEL,
                    'acc_bmcs': {
                        'dpu': {
                            'address': dpu.address,
                            'username': dpu.username,
                            'password': dpu.password,
                            'verify_ca': dpu.verify_ca,
                        }
                    },
                },
            },
        )
        self._node.uuid = node['uuid']
        screen.say(f'Ironic: node {self._node.uuid}, driver redfish-acc; host {host.address}, DPU {dpu.address}, both HTTPS.')
        shown = json.dumps(self._ironic.get(f'/v1/nodes/{self._node.uuid}'))
        screen.expect("Ironic's API shows the password of neither BMC", False, host.password in shown or dpu.password in shown)
        self._placement.create_root(self._node.uuid, PLACEMENT_CLASS)
        screen.say(f'Placement: the root provider of the node, as nova-compute makes it, with one {PLACEMENT_CLASS}.')
        self._ironic.provision(self._node.uuid, 'manage')
        found = self._ironic.wait(self._node.uuid, 'manageable')
        screen.expect('the BMC answers, and the node is manageable', 'manageable', found['provision_state'])

    # -- inspection ---------------------------------------------------------------------------------------------------

    def _inspect(self) -> None:
        screen = self._screen
        screen.section('Inspect: which accelerators are there? (baremetal node inspect)')
        self._ironic.provision(self._node.uuid, 'inspect')
        self._ironic.wait(self._node.uuid, 'manageable')
        accelerators = self._node.accelerators()
        self._node.show_cards(accelerators)
        kinds = sorted(a['kind'] for a in accelerators)
        screen.expect('Ironic knows every card', ['DPU', 'FPGA', 'GPU', 'GPU'], kinds)
        self._node.expect_firmware(
            'old firmware on every card', self._node.versions(documents.GPU_OLD, documents.FPGA_OLD, documents.DPU_OLD)
        )
        screen.expect('both slots of the FPGA are empty', {'Slot0': None, 'Slot1': None}, self._node.slots())
        screen.expect(
            'host-device is open: every way of the host to every card', True, all(w['open'] for w in self._node.ways())
        )
        node = self._ironic.get(f'/v1/nodes/{self._node.uuid}?fields=properties')
        screen.say(f'Ironic, capabilities of the node: {node["properties"]["capabilities"]}')
        screen.expect_words('the capabilities count them', ['accelerators:4'], node['properties']['capabilities'])

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
        uploads = [e for e in self._machine.log()[before:] if _is_upload(e)]
        screen.expect('every image went to its card exactly once: four of firmware, two of functions', 6, len(uploads))
        screen.expect('and every one was accepted', {202}, {e['status'] for e in uploads})
        screen.expect('several cards were flashed at the same time', True, watch.most >= 3)
        self._node.expect_firmware('every card runs the firmware of the baseline', self._node.new_versions())
        functions = {'Slot0': 'gzip 1.4', 'Slot1': 'aes 2.0'}
        screen.expect('both slots hold their function', functions, self._node.slots())
        self._node.expect_locked('host-device is closed: every way of the host to every card')
        beside = {
            path for c in self._node.accelerators() for r in c['locks'] if r['state'] == 'unlocked' for path in r['blocks']
        }
        screen.expect('what reads unlocked is of another path', False, HOST_DEVICE in beside)
        screen.say(f'The baseline wants {HOST_DEVICE} blocked, and nothing else: {", ".join(sorted(beside))} stays open.')
        screen.say(
            'A reading by itself is locked-reported. It counts as locked-verified only because our record says that we engaged '
            'that lock, on that card, in this lifecycle of the node, before the reading and over another session.'
        )
        screen.expect('Ironic says the same of the firmware', self._node.new_versions(), self._node.listed_versions())

    # -- placement ----------------------------------------------------------------------------------------------------

    def _published(self) -> None:
        screen = self._screen
        screen.section('Publish: what can be scheduled (openstack resource provider list, allocation candidate list)')
        tree = self._placement.tree(self._node.uuid)
        rows = [
            (
                '  ' * p['depth'] + (p['name'] if not p['depth'] else p['name'].rsplit('_', 1)[-1]),
                ', '.join(f'{name} {unit["total"]}' for name, unit in sorted(p['inventories'].items())) or '-',
                ', '.join(t for t in p['traits'] if not t.startswith('CUSTOM_OWNER_')) or '-',
            )
            for p in tree
        ]
        screen.table(('provider', 'offers', 'traits'), rows)
        offers = sorted(name for p in tree if p['depth'] for name in p['inventories'])
        wanted = ['CUSTOM_ACC_DPU', 'CUSTOM_ACC_FN_AES', FUNCTION_CLASS, 'PGPU', 'PGPU']
        screen.expect('two GPUs, a DPU and two functions are offered', wanted, offers)
        screen.expect("Nova's root provider was left alone", [PLACEMENT_CLASS], sorted(tree[0]['inventories']))
        query = f'resources={PLACEMENT_CLASS}:1&resources_ACC={FUNCTION_CLASS}:1'
        screen.say(f'Placement: GET /allocation_candidates?{query}')
        found = self._placement.candidates(query)['allocation_requests']
        screen.detail(json.dumps(found))
        screen.expect('one candidate: this node with its slot that holds gzip', 1, len(found))

    # -- deploy -------------------------------------------------------------------------------------------------------

    def _deploy(self) -> None:
        screen = self._screen
        screen.section(
            'Deploy: locks are engaged and read back once more, then the node is handed over (baremetal node deploy)'
        )
        self._claim()
        before = len(self._machine.log())
        self._deploy_now()
        self._node.show_history()
        writes = self._node.lock_writes(self._machine.log()[before:])
        screen.say('The BMCs, in this deploy:')
        for entry in writes:
            screen.detail(_line(entry))
        cards = {self._node.device_of(e) for e in writes}
        screen.expect('the locks of every card were engaged in this very deploy', {*GPUS, FPGA, DPU}, cards)
        self._node.expect_locked('host-device is closed, in the machine itself')
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
        self._screen.say(f'Placement: instance {self._instance} has claimed the node and the function, as Nova does it.')

    def _deploy_now(self) -> None:
        self._ironic.provision(self._node.uuid, 'active')
        self._ironic.wait(self._node.uuid, 'active', seconds=120)

    # -- the tenant ---------------------------------------------------------------------------------------------------

    def _tenant(self) -> None:
        screen = self._screen
        screen.section('The tenant: root on the host, writes firmware and functions in band')
        before = self._node.held()
        seen = self._machine.devices()
        screen.expect('the host runs, and root sees all cards', {*GPUS, FPGA, DPU}, set(seen))
        answers = [
            ('GPU_0, firmware', self._machine.write_firmware('GPU_0', self._tenants('gpu'), path='pcie')),
            ('FPGA1, firmware', self._machine.write_firmware(FPGA, self._tenants('fpga'), path='pcie')),
            ('FPGA1, Slot0', self._machine.program(FPGA, 0, self._tenants('function'))),
            ('DPU, firmware over PCIe', self._machine.write_firmware(DPU, self._tenants('dpu'), path='pcie')),
            ('DPU, firmware over rshim', self._machine.write_firmware(DPU, self._tenants('dpu'), path='rshim')),
        ]
        screen.table(
            ('written to', 'the machine answers'), [(name, answer.get('reason', 'written')) for name, answer in answers]
        )
        for name, answer in answers:
            screen.expect(f'{name}: refused by a lock', (False, 'locked'), (answer['written'], answer.get('code')))
        screen.expect('and every card holds what it held', before, self._node.held())

    # -- service ------------------------------------------------------------------------------------------------------

    def _service(self) -> None:
        screen = self._screen
        screen.section('Service: the operator updates one card under a tenant (baremetal node service)')
        documents.write_baseline(self._folder, fpga=documents.FPGA_NEXT)
        screen.say(f'The baseline now asks for {documents.FPGA_NEXT} on the FPGA. The step names the card:')
        card = next(a for a in self._node.accelerators() if a['kind'] == 'FPGA')
        steps = [{'interface': 'firmware', 'step': 'update_accelerator_firmware', 'args': {'devices': [card['id']]}}]
        screen.detail(json.dumps(steps))
        before = len(self._machine.log())
        watch = FlashWatch(screen, self._machine)
        self._ironic.provision(self._node.uuid, 'service', service_steps=steps)
        self._ironic.wait(self._node.uuid, 'active', seconds=180, meanwhile=watch.look)
        self._node.show_history()
        entries = [e for e in self._machine.log()[before:] if e['bmc'] != 'door']
        screen.say('The BMCs, in the order of time:')
        for entry in entries:
            screen.detail(_line(entry))
        order = RequestOrder(entries)
        host = f'{self._machine.bmcs["host"].system}/Actions/ComputerSystem.Reset'
        item = self._node.uri('host/FPGA1_FW')
        off = order.first(
            'the host is powered off', lambda e: e['path'] == host and _body(e) in ('ForceOff', 'GracefulShutdown')
        )
        opened = order.first('the lock is released', lambda e: e['path'] == item and _body(e, 'WriteProtected') is False)
        image = order.first('the image is sent', _is_upload)
        closed = order.first('the lock is engaged', lambda e: e['path'] == item and _body(e, 'WriteProtected') is True)
        on = order.first('the host is powered on', lambda e: e['path'] == host and _body(e) in ('On', 'ForceOn'))
        wanted = ['host off', 'release', 'flash', 'engage', 'host on']
        found = sorted(zip((off, opened, image, closed, on), wanted, strict=True))
        screen.expect('host off, release, flash, engage, host on: in this order', wanted, [name for _, name in found])
        screen.expect('no lock was ever open while the host was on', [], watch.open_while_on)
        screen.expect('one image, to one card', 1, sum(1 for e in entries if _is_upload(e)))
        self._node.expect_firmware('the card runs the new firmware', self._node.new_versions(fpga=documents.FPGA_NEXT))
        self._node.expect_locked('host-device is closed again')
        power = self._machine.truth()['systems']['host']['power']
        screen.expect("the host is on again, and the tenant's node active", 'On', power)

    # -- undeploy -----------------------------------------------------------------------------------------------------

    def _undeploy(self) -> None:
        screen = self._screen
        screen.section('Undeploy: cleaning verifies what the tenant left (baremetal node undeploy)')
        before = len(self._machine.log())
        watch = FlashWatch(screen, self._machine)
        self._ironic.provision(self._node.uuid, 'deleted')
        self._ironic.wait(self._node.uuid, 'available', seconds=180, meanwhile=watch.look)
        self._placement.ask('DELETE', f'/allocations/{self._instance}')
        self._node.show_history()
        self._node.show_cards(self._node.accelerators())
        uploads = sum(1 for e in self._machine.log()[before:] if _is_upload(e))
        screen.expect('the tenant left nothing behind: no card had to be written again', 0, uploads)
        self._node.expect_firmware('firmware as the baseline asks', self._node.new_versions(fpga=documents.FPGA_NEXT))
        self._node.expect_locked('locks engaged and read back for whoever comes next')
        query = f'resources={PLACEMENT_CLASS}:1&resources_ACC={FUNCTION_CLASS}:1'
        found = self._placement.candidates(query)['allocation_requests']
        screen.expect('placement offers the node and its function again', 1, len(found))

    # -- a card that lies ---------------------------------------------------------------------------------------------

    def _refused(self) -> None:
        screen = self._screen
        screen.section('A BMC that answers 200 to the lock, and leaves it open')
        self._machine.fault('lock-lost-on-reset', device=LIAR)
        self._node.cycle_power()
        self._machine.clear_faults()
        self._machine.fault('lock-ignored', device=LIAR)
        is_open = {way['device'] for way in self._node.ways() if way['open']}
        screen.expect(f'{LIAR} lost its locks in a power cycle, the other cards did not', {LIAR}, is_open)
        ours = self._node.running(LIAR)
        answer = self._machine.write_firmware(LIAR, self._images['tenant-twin'].read_bytes(), path='pcie')
        theirs = self._node.running(LIAR)
        screen.expect('whoever runs on the host writes other bytes into it', True, answer['written'])
        screen.expect('under the very version of the baseline', documents.GPU_NEW, theirs['version'])
        screen.expect('which no reading of a version tells', False, ours['digest'] == theirs['digest'])
        before = len(self._machine.log())
        self._claim()
        state = self._fail_to_deploy()
        asked = [e for e in self._node.lock_writes(self._machine.log()[before:]) if self._node.device_of(e) == LIAR]
        screen.expect('its BMC had answered that the lock is set', True, bool(asked) and all(e['status'] < 300 for e in asked))
        screen.expect_words('last_error names the card', [LIAR], state['last_error'])
        screen.expect_words('and the write path', ['host-device'], state['last_error'])
        screen.expect_words('and why', ['locked-verified', 'unlocked'], state['last_error'])
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
        screen.say("Ironic, the node's last_error:")
        screen.detail(state['last_error'])
        return state

    # -- the way past the refusal --------------------------------------------------------------------------------------

    def _not_started(self) -> None:
        screen = self._screen
        screen.section(f'The lessee, whose deploy was refused, asks for the power (as an admin of project {TENANT})')
        self._ironic.ask('PATCH', f'/v1/nodes/{self._node.uuid}', [{'op': 'add', 'path': '/lessee', 'value': TENANT}])
        lessee = self._ironic.of(TENANT)
        self._node.switch_power(lessee, 'power off', 'Off')
        before = self._machine.truth()['systems']['host']['resets']
        try:
            self._node.switch_power(lessee, 'power on', 'On', tries=1)
            status, said = 202, ''
        except ServiceRefused as exc:
            status, said = exc.status, exc.said
        screen.expect('Ironic refuses to power the host on', 409, status)
        screen.detail(said)
        screen.expect_words(
            'it says why, and what to do', ['power on is refused', 'no verification has proven', 'undeploy'], said
        )
        host = self._machine.truth()['systems']['host']
        screen.expect('and nothing has started it', ('Off', before), (host['power'], host['resets']))

    # -- a broken chain ------------------------------------------------------------------------------------------------

    def _written_again(self) -> None:
        screen = self._screen
        screen.section('A broken chain: right versions, closed locks, and no hand-over before the card is written again')
        screen.say('The BMC takes the lock now, and the operator deploys again.')
        state = self._fail_to_deploy()
        self._node.expect_locked('host-device is closed: every way of the host to every card')
        self._node.expect_firmware(
            'every card shows the version that it has to', self._node.new_versions(fpga=documents.FPGA_NEXT)
        )
        screen.expect_words('last_error names card, chain and cause', [LIAR, 'custody', 'was found open'], state['last_error'])
        before = len(self._machine.log())
        watch = FlashWatch(screen, self._machine)
        self._ironic.provision(self._node.uuid, 'deleted')
        self._ironic.wait(self._node.uuid, 'available', seconds=180, meanwhile=watch.look)
        self._placement.ask('DELETE', f'/allocations/{self._instance}')
        self._node.show_history()
        uploads = [entry for entry in self._machine.log()[before:] if _is_upload(entry)]
        for entry in uploads:
            screen.detail(_line(entry))
        targets = [target for entry in uploads for target in entry['body']['Targets']]
        screen.expect(
            'cleaning has written this card, and no other one', [self._node.uri(self._node.main_firmware(LIAR))], targets
        )
        found = self._node.running(LIAR)
        screen.expect('at the version that it had', documents.GPU_NEW, found['version'])
        screen.expect("it runs the operator's bytes again", self._node.running(GPUS[0])['digest'], found['digest'])

    def _tenants(self, what: str) -> bytes:
        return self._images[f'tenant-{what}'].read_bytes()
