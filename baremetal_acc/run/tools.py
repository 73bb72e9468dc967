# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The target that a job works on, and the tools that it works with."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from baremetal_acc.bmc.api import BmcAddress, Connection, Upload
from baremetal_acc.decide.advance import Patience
from baremetal_acc.decide.baseline import Baseline, NodeFacts
from baremetal_acc.decide.images import another
from baremetal_acc.decide.offer import Place, Supply
from baremetal_acc.decide.waiver import Blockable
from baremetal_acc.errors import AccError
from baremetal_acc.locks.api import Mechanism
from baremetal_acc.model.certificate import Paper
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Job, Verdict
from baremetal_acc.model.lock import Way
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.run.host_polling import HostPolling


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A node's named set of BMCs, and what rules can ask about the node."""

    name: str
    node: NodeFacts
    bmcs: tuple[BmcAddress, ...]


class ImageStore(Protocol):
    """Where checked images come from."""

    def open(self, image: Image) -> Upload:
        """The bytes of an image, compared with its size and digest now.

        :raises ImageError: they cannot be read, or are not what the catalogue describes.
        """


class Attestor(Protocol):
    """Who can tell what measurements are worth; see :class:`baremetal_acc.catalogue.spdm.Attestor`."""

    def check(self, signed: SignedMeasurements) -> MeasurementReading:
        """What these are worth. Never fails: what cannot be checked is refused."""


class PlacementShell(Protocol):
    """What a job tells placement, bound to one node."""

    def withdraw(self, accelerators: Iterable[AcceleratorId] | None, *, alone: bool = False) -> None:
        """Take what is unclaimed of these devices out of service; None: of everything that the node ever offered.

        :param alone: see that nothing of the node is claimed afterwards, the machine itself included, but by its own instance.
        :raises PlacementError: somebody holds it, or placement did not do it.
        """

    def publish(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> None:
        """Make placement agree.

        :raises PlacementError: it did not.
        """


def _nothing(*_: object) -> None:
    """What a hook does that nobody set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the straight path works with.

    :ivar connect: opens a session with a BMC.
    :ivar connect_apart: the same, for readings next to the turn of a job, which change nothing of what the turn knows of its
        BMC; None: as ``connect``.
    :ivar polling: reads hosts next to the turn of a job; None outside of a turn.
    :ivar save: stores the job; called before every write and after it.
    :ivar observed: told every final look with its verdict.
    :ivar power_changed: told when the job has powered a System off or on.
    :ivar known: devices that were there before; one that has vanished is not met.
    :ivar blockable: what mechanisms could block when the devices were looked at before; no waiver is for one that has vanished.
    :ivar ways: to the BMCs that were shown before; one that has vanished may be open.
    :ivar unusable: devices of an inventory that were quarantined before the job, and that it has not written well since.
    :ivar left: slots that somebody has had who is gone, and that were not programmed before the job.
    :ivar ramdisk: only the operator's own ramdisk runs on the host while the job works.
    :ivar placement: None where nothing is published.
    :ivar attestor: None where no root is pinned: then no device proves what it runs.
    :ivar papers: the files that baseline and catalogue were read from, for certificates; None where none was.
    """

    connect: Callable[[BmcAddress], Connection]
    mechanisms: tuple[Mechanism, ...]
    baseline: Baseline
    catalogue: tuple[Image, ...]
    images: ImageStore
    placement: PlacementShell | None = None
    attestor: Attestor | None = None
    save: Callable[[Job], None] = _nothing
    observed: Callable[[Inventory, Verdict], None] = _nothing
    power_changed: Callable[[Ref, PowerState], None] = _nothing
    known: frozenset[AcceleratorId] = frozenset()
    blockable: Blockable = frozenset()
    ways: frozenset[Way] = frozenset()
    unusable: Callable[[Job, Inventory], frozenset[AcceleratorId]] = lambda _job, _inventory: frozenset()
    left: frozenset[Place] = frozenset()
    ramdisk: bool = False
    patience: Patience = field(default_factory=Patience)
    papers: tuple[Paper, Paper] | None = None
    connect_apart: Callable[[BmcAddress], Connection] | None = None
    polling: HostPolling | None = None


def image_of(tools: Tools, name: str, content: str | None) -> Image:
    """The image of a name in the catalogue of now, if it is still the one that was planned.

    :param content: ``Image.content`` of what was planned; None: nobody has kept it.
    :raises AccError: the catalogue names it no more, or calls something else by its name.
    """
    found = next((i for i in tools.catalogue if i.name == name), None)
    if found is None:
        raise AccError(f'image {name} is not in the catalogue any more')
    if content is not None and found.content != content:
        raise AccError(another(found, content))
    return found
