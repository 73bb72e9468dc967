# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated machines that Nova schedules, read and judged by our own code, as publications see them."""

import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from keystoneauth1 import adapter, session, token_endpoint

from baremetal_acc import bootstrap
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.server import Emulator, EmulatorThread, Serving
from baremetal_acc.execution import Target, Tools, observe
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.model.ref import BmcName
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.planning.verify import verify
from baremetal_acc.policy.baseline_rules import Exposure, NodeFacts
from baremetal_acc.scheduling import provider_traits, providers
from baremetal_acc.scheduling.schedulable import supply
from tests.cli.desk import Desk
from tests.configured import settings

GOLD = 'CUSTOM_BAREMETAL_GOLD'

FUNCTIONS = {'host/FPGA1_Slot0': ('gzip', '3.1'), 'host/FPGA1_Slot1': ('aes', '3.1')}
"""What the slots of an FPGA hold; those of the catalogue that a desk has."""

SINGLE = 'format = 1\n[[rule]]\nmatch = { kind = "GPU" }\noffer = "device"\n'
TOGETHER = 'format = 1\n[[rule]]\nmatch = { kind = "GPU" }\noffer = "together"\n'
REGIONS = 'format = 1\n[[rule]]\nmatch = { kind = "FPGA" }\noffer = "region"\n'

PROPERTIES = {'cpus': 64, 'memory_mb': 1048576, 'local_gb': 3800, 'cpu_arch': 'x86_64'}


class Emulated:
    """A machine of the emulator, for as long as somebody needs it."""

    def __init__(self, product: str, **parameters: Any) -> None:
        self._thread = EmulatorThread(Emulator(Serving(), product=build(product, Parameters(**parameters))))
        self._thread.start()
        self.bmcs = self._thread.emulator.bmcs
        product = self._thread.emulator.product
        assert product is not None
        self.components = product.machine.components

    def stop(self) -> None:
        """End it."""
        self._thread.stop()


@dataclass(slots=True)
class Machine:
    """A node, and its machine.

    :ivar states: what Ironic says of the node, as Nova's driver takes it.
    """

    emulated: Any
    tools: Tools
    target: Target
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    states: dict[str, Any] = field(default_factory=dict)

    def look(self) -> Inventory:
        """What its BMCs show now."""
        return observe(self.target, self.tools, datetime.now(UTC))

    def wanted(self) -> tuple[ProviderTree, frozenset[str]]:
        """What placement and Ironic's node ought to know now: providers, and traits of the node."""
        facts, tools = self.target.node, self.tools
        seen = self.look()
        verdict = verify(seen, tools.baseline, facts, tools.catalogue, (), lifecycle=1, known=tools.known)
        made = supply(seen, verdict, tools.baseline, facts, tools.catalogue)
        tree = providers.tree(seen, verdict, self.uuid, made.functions, made.offers)
        return tree, provider_traits.node_traits(seen, verdict, made.functions, made.offers)

    def baseline(self, text: str, desk: Desk) -> None:
        """Other rules."""
        self.tools = tools(desk, text)

    def node(self, traits: frozenset[str]) -> dict[str, Any]:
        """The node as Ironic tells Nova."""
        usual = {
            'is_maintenance': False,
            'power_state': 'power off',
            'provision_state': 'available',
            'instance_id': None,
            'resource_class': 'baremetal_gold',
            'properties': PROPERTIES,
        }
        return usual | self.states | {'traits': sorted(traits)}


def tools(desk: Desk, baseline: str) -> Tools:
    """With the images of a desk."""
    desk.images()
    (desk.folder / 'devices.d').mkdir(exist_ok=True)
    found = settings(
        baseline=str(desk.write('baseline.toml', baseline)),
        catalogue=str(desk.folder / 'catalogue.toml'),
        devices=str(desk.folder / 'devices.d'),
    )
    return bootstrap.tools(found, bootstrap.documents(found))


def machine(emulated: Any, desk: Desk, baseline: str) -> Machine:
    """A node with these rules."""
    bmcs = tuple(
        BmcAddress(
            name=BmcName(name),
            address=b.address,
            username=b.username,
            password=b.password,
            verify_ca=str(b.verify_ca),
            system=b.system,
        )
        for name, b in emulated.bmcs.items()
    )
    facts = NodeFacts(name='node', resource_class='baremetal_gold', traits=frozenset(), exposure=Exposure('none'))
    return Machine(emulated, tools(desk, baseline), Target(name='node', node=facts, bmcs=bmcs))


def publisher(url: str) -> Publisher:
    """Ours, on a real placement; it does not wait between attempts."""
    auth = token_endpoint.Token(url, 'admin')
    to = adapter.Adapter(session=session.Session(auth=auth, timeout=60), service_type='placement')
    return Publisher(PlacementClient(to), sleep=lambda seconds: None)


def without(tree: ProviderTree) -> ProviderTree:
    """The same tree with nothing offered."""
    return replace(tree, providers=tuple(replace(p, inventories=()) for p in tree.providers))
