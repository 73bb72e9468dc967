# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Keep what an operator has reserved of our providers in placement, apart from what we reserve ourselves.

Placement does not say who set ``reserved``, so two kinds of traits of the provider do:

* ``CUSTOM_ACC_RESERVES_NOTHING``: we reserve nothing of the provider, so whatever is reserved is the operator's. It is removed
  before we reserve anything, and set after our reservation has ended. A process that dies in between leaves it away.
* ``CUSTOM_ACC_OPERATOR_RESERVED`` (all units) or ``CUSTOM_ACC_OPERATOR_RESERVED_<N>``: the operator's reservation, which
  outlives inventory that is withdrawn, and our own reservation on top of it.

We only ever reserve all units of a class. So without the first trait, a class whose units are all reserved is reserved by us,
or by a release that knew no such trait; any other number is the operator's.
"""

from dataclasses import replace

from baremetal_acc.model.provider import KeptReservation, Provider, ProviderInventory, ProviderTree
from baremetal_acc.scheduling.provider_hierarchy import parents_first
from baremetal_acc.scheduling.provider_names import OPERATOR_RESERVED, RESERVES_NOTHING

_ALL = 2**31 - 1
"""An operator's reservation of all units, however many there will be. Placement's totals are at most as large."""


def is_note(trait: str) -> bool:
    """Whether a trait of a provider notes what the operator has reserved of it."""
    number = trait.removeprefix(f'{OPERATOR_RESERVED}_')
    return trait == OPERATOR_RESERVED or (number != trait and number.isdecimal() and len(number) < 10)


def noted(provider: Provider) -> frozenset[str]:
    """Return the notes that a provider has to have: of what the operator has reserved of it."""
    amount = max((_of_class(provider, i) for i in provider.inventories), default=_noted(provider))
    if not amount:
        return frozenset()
    return frozenset({OPERATOR_RESERVED if amount == _ALL else f'{OPERATOR_RESERVED}_{amount}'})


def keep(wanted: ProviderTree, actual: ProviderTree, *, delete_gone: bool = False) -> ProviderTree:
    """Return the wanted tree with the operator's reservations, and with the traits that tell them from ours.

    The operator ends a reservation by lowering ``reserved`` of inventory that is published.

    :param delete_gone: providers that the wanted tree lacks are deleted; otherwise they keep their notes.
    """
    now = {p.uuid: p for p in actual.providers}
    made = [_kept(p, now.get(p.uuid)) for p in wanted.providers]
    if not delete_gone:
        gone = (p for p in actual.providers if wanted.provider(p.uuid) is None)
        made += (_kept(replace(p, inventories=(), generation=None), p) for p in gone if noted(p))
    return replace(wanted, providers=parents_first(made))


def kept(wanted: ProviderTree) -> tuple[KeptReservation, ...]:
    """Return the reservations of the operator in a tree that :func:`keep` has returned."""
    return tuple(
        KeptReservation(uuid=p.uuid, name=p.name, resource_class=i.resource_class, total=i.total, reserved=i.reserved)
        for p in wanted.providers
        for i in p.inventories
        if i.reserved and not p.reserves
    )


def _kept(wanted: Provider, seen: Provider | None) -> Provider:
    own = {t for t in wanted.traits if t != RESERVES_NOTHING and not is_note(t)}
    free = set() if wanted.reserves else {RESERVES_NOTHING}
    if seen is None:
        return replace(wanted, traits=frozenset(own | free))
    notes = noted(seen)
    inventories = wanted.inventories
    if not wanted.reserves:
        published = {i.resource_class: _of_class(seen, i) for i in seen.inventories}
        noted_amount = max(map(_amount, notes), default=0)
        inventories = tuple(
            replace(i, reserved=min(i.total, published.get(i.resource_class, noted_amount))) for i in inventories
        )
    return replace(wanted, inventories=inventories, traits=frozenset(own | notes | free))


def _of_class(provider: Provider, inventory: ProviderInventory) -> int:
    """Return how many units of a class the operator has reserved, as far as the published inventory and the notes show it."""
    before = _noted(provider)
    if inventory.reserved <= 0 or inventory.reserved == min(before, inventory.total):
        return before if inventory.reserved > 0 else 0
    if inventory.reserved < inventory.total:
        return inventory.reserved
    return _ALL if RESERVES_NOTHING in provider.traits else before


def _noted(provider: Provider) -> int:
    return max((_amount(t) for t in provider.traits if is_note(t)), default=0)


def _amount(note: str) -> int:
    return _ALL if note == OPERATOR_RESERVED else int(note.removeprefix(f'{OPERATOR_RESERVED}_'))
