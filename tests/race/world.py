# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The machines of a race, their true state, and what may be claimed then, computed without the product's help.

A *mixed* node has two GPUs of one make and an FPGA with two slots. A *flat* one has three GPUs, which its root offers until
they are reshaped.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.schedulable import Offer
from tests.unit.planning.values import fpga, gpu, inventory, slot

NODE_CLASS = 'CUSTOM_RACE_NODE'
FUNCTIONS = ('', 'gzip', 'aes')
FUNCTION_CLASSES = ('', 'CUSTOM_ACC_FN_GZIP', 'CUSTOM_ACC_FN_AES')
CLASSES = ('PGPU', 'FPGA', *FUNCTION_CLASSES[1:])
FLAT_GPUS = 3

FPGA_CARD = AcceleratorId('uuid:fpga-1')
SLOTS = ('Slot0', 'Slot1')
OFFERINGS = (Offering.FUNCTION, Offering.REGION, Offering.DEVICE)

Place = tuple[str, str]
"""UUID of a provider, and a class."""


@dataclass(slots=True)
class Truth:
    """What is true of a mixed node.

    :ivar together: a rule offers the GPUs together.
    :ivar gpus: which of them hold up.
    :ivar how: as what a rule offers the FPGA; an index of OFFERINGS.
    :ivar slots: what they hold; indexes of FUNCTIONS.
    :ivar present: the FPGA is in the machine; ``sound``: it holds up.
    """

    together: int = 0
    gpu0: int = 1
    gpu1: int = 1
    how: int = 0
    slot0: int = 1
    slot1: int = 0
    present: int = 1
    sound: int = 1


FIELDS = tuple(Truth.__dataclass_fields__)


class Machine:
    """One node: its names in placement, and what ought to be there.

    :ivar number: its place in the list of machines.
    """

    def __init__(self, number: int, *, flat: bool, seed: int) -> None:
        self.number = number
        self.flat = flat
        self.root = str(uuid.uuid5(uuid.NAMESPACE_OID, f'race {seed} {number}'))
        count = FLAT_GPUS if flat else 2
        self.gpu_ids = [AcceleratorId(f'uuid:gpu-{n}') for n in range(count)]
        self.gpus = [provider_names.card_uuid(self.root, i) for i in self.gpu_ids]
        self.several = provider_names.together_uuid(self.root, gpu())
        self.card = provider_names.card_uuid(self.root, FPGA_CARD)
        self.slots = [provider_names.slot_uuid(self.root, FPGA_CARD, s) for s in SLOTS]

    @property
    def ours(self) -> list[str]:
        """Every provider that can ever be ours here."""
        return self.gpus if self.flat else [*self.gpus, self.several, self.card, *self.slots]

    def places(self) -> list[Place]:
        """All that can ever be claimed here, the root's aside."""
        if self.flat:
            return [(p, 'PGPU') for p in (self.root, *self.gpus)]
        found = [(p, 'PGPU') for p in (*self.gpus, self.several)]
        return [*found, (self.card, 'FPGA'), *((s, c) for s in self.slots for c in CLASSES[1:])]

    def offers(self, truth: Truth) -> dict[Place, int]:
        """What can be claimed when placement agrees with the truth."""
        if self.flat:
            return {(p, 'PGPU'): 1 for p in self.gpus}
        found: dict[Place, int] = {}
        sound = [p for p, holds in zip(self.gpus, (truth.gpu0, truth.gpu1), strict=True) if holds]
        if truth.together and sound:
            found[self.several, 'PGPU'] = len(sound)
        elif not truth.together:
            found |= {(p, 'PGPU'): 1 for p in sound}
        if truth.present and truth.sound:
            match OFFERINGS[truth.how]:
                case Offering.DEVICE:
                    found[self.card, 'FPGA'] = 1
                case Offering.REGION:
                    found |= {(s, 'FPGA'): 1 for s in self.slots}
                case _:
                    held = zip(self.slots, (truth.slot0, truth.slot1), strict=True)
                    found |= {(s, FUNCTION_CLASSES[f]): 1 for s, f in held if f}
        return found

    def tree(self, truth: Truth) -> ProviderTree:
        """What the product makes of it."""
        gpus = [gpu(id=i) for i in self.gpu_ids]
        if self.flat:
            return providers.tree(inventory(*gpus), Verdict(target='node', findings=()), self.root, {})
        bad = [i for i, holds in zip(self.gpu_ids, (truth.gpu0, truth.gpu1), strict=True) if not holds]
        held = (truth.slot0, truth.slot1)
        cards = [*gpus]
        offers: dict[AcceleratorId, Offer] = {}
        if truth.together:
            offers = {i: Offer(how=Offering.TOGETHER) for i in self.gpu_ids}
        functions = {}
        if truth.present:
            cards.append(fpga(slots=tuple(slot(n, FUNCTIONS[f] or None) for n, f in enumerate(held))))
            offers[FPGA_CARD] = Offer(how=OFFERINGS[truth.how], known=frozenset(SLOTS))
            functions = {(FPGA_CARD, SLOTS[n]): FUNCTIONS[f] for n, f in enumerate(held) if f}
            bad += [] if truth.sound else [FPGA_CARD]
        return providers.tree(
            inventory(*cards), Verdict(target='node', findings=tuple(_unmet(i) for i in bad)), self.root, functions, offers
        )

    def below(self, uuids: frozenset[str]) -> list[str]:
        """What is withdrawn with some providers: their slots, and what stands for several devices."""
        found = set(uuids) | {self.several}
        return sorted(found | (set(self.slots) if self.card in uuids else set()))

    def named(self, name: str) -> str | None:
        """The provider of a name that a message holds."""
        return next((p for p in self.ours if name == f'{self.root}_ACC_{p.replace("-", "")[:12]}'), None)

    def told(self, uuid: str) -> str:
        """A provider for people."""
        names = {self.root: 'root', self.several: 'GPUs together', self.card: 'FPGA'}
        names |= {p: f'GPU {n}' for n, p in enumerate(self.gpus)} | {p: f'slot {n}' for n, p in enumerate(self.slots)}
        return names.get(uuid, uuid)

    def promised_twice(self, used: Mapping[Place, int]) -> list[str]:
        """Hardware that more hold than there is. :param used: what is claimed of each place."""
        found = []
        total = sum(n for (p, c), n in used.items() if c == 'PGPU')
        if total > len(self.gpus):
            found.append(f'{total} PGPU are held of {len(self.gpus)} GPUs')
        found += [f'{self.told(p)} is held {n} times' for p in (*self.gpus, self.card) if (n := _of(used, p)) > 1]
        slots = [_of(used, s) for s in self.slots]
        found += [f'slot {n} is held {held} times' for n, held in enumerate(slots) if held > 1]
        if _of(used, self.card) and sum(slots):
            found.append(f'the FPGA is held whole, and {sum(slots)} of its slots')
        if used.get((self.root, NODE_CLASS), 0) > 1:
            found.append('the machine is held twice')
        return found


def _of(used: Mapping[Place, int], provider: str) -> int:
    return sum(n for (p, _), n in used.items() if p == provider)


def _unmet(accelerator: AcceleratorId) -> Finding:
    values: dict[str, Any] = {
        'subject': Subject.from_text('firmware'),
        'fact': FindingText(expected='2.0', found='1.0'),
        'met': Met.NO,
        'rule': 'all',
    }
    return Finding(accelerator=accelerator, label='it', **values)


def machines(count: int, flat: int, seed: int) -> list[Machine]:
    """So many, the last ones flat."""
    return [Machine(n, flat=n >= count - flat, seed=seed) for n in range(count)]
