# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which names has placement to know before anything has them?

A flavor that names a class or a trait that placement does not know is refused by it (400), which Nova tells as "no valid host":
nobody can tell that from a function that no machine has free. So all that the catalogue and the rules can lead to is made known
beforehand.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from baremetal_acc.decide import providers
from baremetal_acc.decide.baseline import Baseline
from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Classes and traits of our own and of the operator's; those that everybody has are not among them."""

    classes: frozenset[str]
    traits: frozenset[str]


def vocabulary(baseline: Baseline, catalogue: Iterable[Image]) -> Vocabulary:
    """All names that publications can need, but for those that devices give.

    A function that placement can have no name for has none here; who offers it says so.
    """
    functions = {image.function for image in catalogue if image.function is not None and _has_name(image.function)}
    named, can = {providers.function_class(f) for f in functions}, {providers.can_trait(f) for f in functions}
    offered = {rule.offer_class for rule in baseline.rules if rule.offer_class is not None}
    kinds = {f'{providers.PREFIX}{kind}' for kind in Kind}
    marks = {providers.OWNER, providers.PROGRAM, providers.PROGRAMMABLE, providers.TOGETHER}
    return Vocabulary(
        classes=frozenset(c for c in {*named, *offered, *providers.CLASSES.values()} if c.startswith('CUSTOM_')),
        traits=frozenset({*named, *can, *kinds, *marks}),
    )


def _has_name(function: str) -> bool:
    try:
        providers.function_class(function)
    except UsageError:
        return False
    return True
