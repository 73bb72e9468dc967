# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The plan under construction: what is planned so far, refusals, notes, and the resets that the actions need."""

from dataclasses import dataclass, field

from baremetal_acc.model import note as n
from baremetal_acc.model import refusal as r
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Action, Flash, Program, Release
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.lock import LockUndoRecord, ResetKind
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.waiver import Waived
from baremetal_acc.planning import activation, bundles, waivers
from baremetal_acc.policy.device_demands import Demands

EQUAL, LOWER = n.ForceCause.EQUAL, n.ForceCause.LOWER


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """A planned write.

    :ivar step: how many writes to the same component precede it.
    """

    action: Flash | Program
    image: Image
    step: int = 0


@dataclass(slots=True)
class PlanDraft:
    """A plan under construction, for :func:`plan` alone."""

    inventory: Inventory
    catalogue: tuple[Image, ...]
    undos: tuple[LockUndoRecord, ...] = ()
    actions: list[Action] = field(default_factory=list)
    released: set[Release] = field(default_factory=set)
    again: frozenset[AcceleratorId] = frozenset()
    anew: frozenset[tuple[AcceleratorId, str]] = frozenset()
    opened: set[tuple[AcceleratorId, str, Ref, str]] = field(default_factory=set)
    kept: set[tuple[str, Ref, str]] = field(default_factory=set)
    writes: list[PlannedWrite] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    blockable: waivers.Blockable = frozenset()
    waived: list[Waived] = field(default_factory=list)
    resets: dict[Ref, tuple[ResetKind, list[str]]] = field(default_factory=dict)
    cycles: dict[Ref, tuple[ResetKind, list[str]]] = field(default_factory=dict)
    wanted: dict[AcceleratorId, Demands] = field(default_factory=dict)
    demanded: dict[bundles.Place, str] = field(default_factory=dict)

    @property
    def is_off(self) -> bool:
        """Whether the machine's own BMC reports that the host is off; of several hosts, that each of them is."""
        hosts = self.inventory.hosts
        return bool(hosts) and all(host.power is PowerState.OFF for host in hosts)

    def image(self, name: str | None) -> Image | None:
        return next((i for i in self.catalogue if i.name == name), None)

    def refuse(self, accelerator: Accelerator | None, subject: Subject, reason: r.Reason) -> None:
        label = accelerator.label if accelerator else self.inventory.target
        which = accelerator.id if accelerator else None
        self.refusals.append(Refusal(accelerator=which, label=label, subject=subject, reason=reason))

    def note(self, accelerator: Accelerator, content: n.Content) -> None:
        self.notes.append(Note(label=accelerator.label, content=content))

    def reset(self, system: Ref, kind: ResetKind, why: str) -> None:
        """Plan the reset of a System, together with all that need one of the same System, however a BMC writes its URI.

        A loss of standby power leaves the System off, so it is kept apart from the resets that start it.
        """
        resets = self.cycles if kind.is_standby else self.resets
        same = next((s for s in resets if normal_place(s) == normal_place(system)), system)
        known, reasons = resets.pop(same, (ResetKind.NONE, []))
        resets[min(same, system)] = (activation.strongest(known, kind), [*reasons, why])


def normal_place(ref: Ref) -> tuple[str, str]:
    """Normalise a resource, however a BMC writes its URI."""
    return ref.bmc, ref.uri.rstrip('/').casefold()
