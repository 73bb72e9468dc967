# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define the target of a job, and the tools it works with: drivers, lock mechanisms, image store, placement and hooks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from baremetal_acc.bmc.driver import BmcAddress, Connection, Upload
from baremetal_acc.card_settings.mechanism import CardSettingMechanism
from baremetal_acc.errors import AccError
from baremetal_acc.execution.host_polling import HostPolling
from baremetal_acc.locks.mechanism import Mechanism
from baremetal_acc.model.certificate import Paper
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.lock import Way
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.reference import VersionReference
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning.image_selection import another
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.planning.waivers import Blockable
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.scheduling.schedulable import Place, Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The BMCs of one node, by a name, and the facts about the node that rules can ask for."""

    name: str
    node: NodeFacts
    bmcs: tuple[BmcAddress, ...]


class ImageStore(Protocol):
    """A source of images that are checked when they are opened."""

    def open(self, image: Image) -> Upload:
        """Return the bytes of an image, compared now with its size and digest.

        :raises ImageError: they cannot be read, or are not what the catalogue describes.
        """


class Attestor(Protocol):
    """A verifier of signed measurements; see :class:`baremetal_acc.images.spdm.signed_measurements.SpdmAttestor`."""

    def check(self, signed: SignedMeasurements) -> MeasurementReading:
        """Verify signed measurements. Never fails: what cannot be verified is refused."""


class PlacementShell(Protocol):
    """The calls of a job to placement, for one node."""

    def withdraw(self, accelerators: Iterable[AcceleratorId] | None, *, alone: bool = False) -> None:
        """Withdraw the unclaimed inventory of these devices from placement; None: of everything that the node ever published.

        :param alone: check that nothing of the node is claimed afterwards, not even the machine itself, except by its own
            instance.
        :raises PlacementError: somebody has claimed it, or placement did not do it.
        """

    def publish(self, inventory: Inventory, verdict: Verdict, supply: Supply) -> None:
        """Make placement agree with an inventory.

        :raises PlacementError: it did not.
        """


def _nothing(*_: object) -> None:
    """The default of a hook that the shell does not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a job works with: drivers, rules, images, settings and the hooks of its shell.

    :ivar connect: opens a session with a BMC.
    :ivar connect_apart: the same, for readings next to the turn of a job, which must not change what the turn knows of its BMC;
        None: as ``connect``.
    :ivar polling: reads the power of hosts next to the turn of a job; None outside of a turn.
    :ivar save: stores the job; called before every write and after it.
    :ivar observed: called with the inventory of every final inspection and its verdict.
    :ivar power_changed: called when the job has powered a System off or on.
    :ivar known: devices that were there before; one that has vanished is not met.
    :ivar blockable: write paths that mechanisms could block when the devices were read before; no waiver applies to a mechanism
        that has vanished.
    :ivar ways: the host's ways to its BMCs that were shown before; one that has vanished may be open.
    :ivar unusable: returns the devices of an inventory that were quarantined before the job, and that it has not written well
        since.
    :ivar left: slots of which the previous user is gone, and that were not programmed again before the job.
    :ivar ramdisk: only the operator's own ramdisk runs on the host while the job works.
    :ivar placement: None where nothing is published.
    :ivar attestor: None where no root is pinned: then no device proves what it runs.
    :ivar papers: the files that baseline and catalogue were read from, for certificates; None where none was.
    :ivar references: what makers publish for versions, from the catalogue.
    :ivar card_settings: the mechanisms that read the settings of cards.
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
    patience: RetryLimits = field(default_factory=RetryLimits)
    papers: tuple[Paper, Paper] | None = None
    connect_apart: Callable[[BmcAddress], Connection] | None = None
    polling: HostPolling | None = None
    references: tuple[VersionReference, ...] = ()
    card_settings: tuple[CardSettingMechanism, ...] = ()


def image_of(tools: Tools, name: str, content: str | None) -> Image:
    """Return the image of a name in the present catalogue, if it is still the one that was planned.

    :param content: ``Image.content`` of the planned image; None: it was not kept.
    :raises AccError: the catalogue has no image of that name any more, or another one.
    """
    found = next((i for i in tools.catalogue if i.name == name), None)
    if found is None:
        raise AccError(f'image {name} is no longer in the catalogue')
    if content is not None and found.content != content:
        raise AccError(another(found, content))
    return found
