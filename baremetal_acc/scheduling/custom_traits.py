# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""List the custom resource classes and traits to create in placement before any provider has them.

If a flavor names a class or a trait that placement does not know, placement answers 400, which Nova reports as "no valid host":
nobody can tell that from a function that no machine has free. So every name that catalogue and rules can lead to is created
beforehand.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.image import Image
from baremetal_acc.policy.baseline_rules import Baseline
from baremetal_acc.scheduling import provider_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Custom resource classes and traits, ours and the operator's; standard names are not included."""

    classes: frozenset[str]
    traits: frozenset[str]


def vocabulary(baseline: Baseline, catalogue: Iterable[Image]) -> Vocabulary:
    """Return all names that publishing can need, except the traits of individual devices.

    A function that placement can have no name for is omitted here; publishing it raises the error.
    """
    functions = {image.function for image in catalogue if image.function is not None and _has_name(image.function)}
    named, can = {provider_names.function_class(f) for f in functions}, {provider_names.can_trait(f) for f in functions}
    offered = {rule.offer_class for rule in baseline.rules if rule.offer_class is not None}
    kinds = {f'{provider_names.PREFIX}{kind}' for kind in Kind}
    marks = {provider_names.OWNER, provider_names.PROGRAM, provider_names.PROGRAMMABLE, provider_names.TOGETHER}
    marks |= {provider_names.RESERVES_NOTHING, provider_names.OPERATOR_RESERVED}
    return Vocabulary(
        classes=frozenset(c for c in {*named, *offered, *provider_names.CLASSES.values()} if c.startswith('CUSTOM_')),
        traits=frozenset({*named, *can, *kinds, *marks}),
    )


def _has_name(function: str) -> bool:
    try:
        provider_names.function_class(function)
    except UsageError:
        return False
    return True
