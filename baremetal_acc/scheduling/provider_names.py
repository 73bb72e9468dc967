# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The names and UUIDs of our providers, resource classes and traits in placement."""

import hashlib
import re
import unicodedata
import uuid
from collections.abc import Iterable

from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator, Kind
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.policy.baseline_rules import FUNCTION_PREFIX

OWNER = 'CUSTOM_OWNER_BAREMETAL_ACC'
"""Trait of every provider of ours. A provider without it is somebody else's."""

NAMESPACE = uuid.UUID('5b1f1c0e-8a55-5d0c-9f0e-2d5f3f0f6a41')
"""Namespace of the UUIDs of our providers. Another value would orphan every provider that was ever published."""

PREFIX = 'CUSTOM_ACC_'
"""Prefix of every trait and class that we make up. On Ironic nodes we add and remove traits with this prefix only."""

CAN_PREFIX = f'{PREFIX}CAN_'
"""Prefix of the trait of a region that can be given a function."""

PROGRAM = f'{PREFIX}PROGRAM'
"""Trait of a node with regions that can be given a function, and name of the deploy template that programs them.

Ironic runs the templates that the traits of an instance name. One template for each function is not possible: Ironic refuses
two templates with the same step (ironic 39.0.0, conductor/steps.py).
"""

TOGETHER = f'{PREFIX}TOGETHER'
"""Trait of a provider that represents several devices. Whoever changes a device of the node withdraws this provider, whichever
devices it represents: the rules that chose them may have changed since it was published.
"""

RESERVES_NOTHING = f'{PREFIX}RESERVES_NOTHING'
"""Trait of a provider of which we reserve nothing: whatever is reserved of it, an operator has reserved."""

OPERATOR_RESERVED = f'{PREFIX}OPERATOR_RESERVED'
"""Trait of a provider of which an operator has reserved all units; with ``_<N>`` behind it: N units."""

PROGRAMMABLE = 'CUSTOM_PROGRAMMABLE'
"""Cyborg's trait of a region that can be given a function (openstack-cyborg 17.0.0, conductor/manager.py)."""

NAME_LENGTH = 255
"""Maximum length of a class or trait. Source: placement 16.0.0, schemas/resource_class.py and schemas/trait.py."""

CLASSES = {kind: f'{PREFIX}{kind}' for kind in Kind} | {Kind.GPU: 'PGPU', Kind.FPGA: 'FPGA'}
"""Resource class of a whole device, by kind. The other kinds have no standard class (os-resource-classes 1.1.0)."""

REGION_CLASS = 'FPGA'
"""Resource class of a slot that is offered as a region, if its rule names none."""


def card_uuid(node_uuid: str, accelerator: AcceleratorId) -> str:
    """Return the UUID of the provider of a device in a node.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    return _uuid(node_uuid, accelerator)


def slot_uuid(node_uuid: str, accelerator: AcceleratorId, slot_id: str) -> str:
    """Return the UUID of the provider of a slot.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    return _uuid(node_uuid, accelerator, slot_id)


def together_uuid(node_uuid: str, accelerator: Accelerator) -> str:
    """Return the UUID of the provider that represents all devices of one make (kind, vendor and model) in a node.

    If there is no model, the PCI ids of vendor and device count instead: many BMCs report those only while the host runs.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    ids = accelerator.pci
    make = (accelerator.vendor, accelerator.model) if accelerator.model else (ids.vendor_id, ids.device_id)
    # No clash with other providers: the UUID of a card is made from one part, that of a slot from two.
    return _uuid(node_uuid, 'together', str(accelerator.kind), *(_whole_word(text or '') for text in make))


def function_class(function: str) -> str:
    """Return the resource class of a function, also the trait of a node that offers it: ``CUSTOM_ACC_FN_<NAME>``.

    Only letters and digits count, in upper case; whatever is between them becomes one underscore.

    :raises UsageError: the name has no letter or digit.
    """
    word = placement_word(function)
    if not word:
        raise UsageError(
            argument=f'function {function!r}',
            what='has no letter or digit, so it cannot be named in placement',
            hint='rename it in the catalogue',
        )
    return bounded_name(FUNCTION_PREFIX + word)


def can_trait(function: str) -> str:
    """Return the trait of a region, and of its node, that can be given a function: ``CUSTOM_ACC_CAN_<NAME>``.

    :raises UsageError: the name has no letter or digit.
    """
    return bounded_name(CAN_PREFIX + function_class(function).removeprefix(FUNCTION_PREFIX))


def function_classes(functions: Iterable[str]) -> dict[str, str]:
    """Return the resource class of each function.

    :raises UsageError: two functions would share a class: a tenant could get the wrong one.
    """
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    for function in sorted(set(functions)):
        name = function_class(function)
        first = taken.setdefault(name, function)
        if first.casefold() != function.casefold():
            raise UsageError(
                argument=f'functions {first!r} and {function!r}',
                what=f'both become {name} in placement',
                hint='rename one of them in the catalogue',
            )
        found[function] = name
    return found


def canonical_uuid(node_uuid: str) -> str:
    """Return the UUID of a node in normal form.

    :raises UsageError: ``node_uuid`` is no UUID.
    """
    try:
        return str(uuid.UUID(node_uuid))
    except ValueError:
        raise UsageError(
            argument='node', what=f'{node_uuid!r} is not a UUID', hint='give the UUID that the node has in Ironic'
        ) from None


def _uuid(node_uuid: str, *parts: str) -> str:
    # A length before each part: the id of one card cannot equal the id of another card and a slot.
    text = ''.join(f'{len(part)}:{part}' for part in parts)
    # JSON can carry half a surrogate pair, which has no UTF-8 encoding.
    text = text.encode(errors='backslashreplace').decode()
    return str(uuid.uuid5(NAMESPACE, canonical_uuid(node_uuid) + text))


def placement_word(text: str) -> str:
    """Return a text as part of a name in placement: letters and digits in upper case, one underscore between them."""
    return re.sub(r'[^0-9A-Za-z]+', '_', text).strip('_').upper()


def _whole_word(text: str) -> str:
    """Return a word that differs for different texts, also if the text has letters that no placement name may have."""
    if all(c.isascii() for c in unicodedata.normalize('NFC', text) if c.isalnum()):
        return placement_word(text)
    same = unicodedata.normalize('NFKC', text).casefold()
    return f'{placement_word(same)}_{hashlib.sha256(same.encode("utf-8", "surrogatepass")).hexdigest()[:12].upper()}'


def bounded_name(name: str) -> str:
    """Return a class or trait in the length that placement takes: the end of a longer one is replaced by a digest."""
    if len(name) <= NAME_LENGTH:
        return name
    rest = hashlib.sha256(name.encode()).hexdigest()[:12].upper()
    return f'{name[: NAME_LENGTH - 13]}_{rest}'
