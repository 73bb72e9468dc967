# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The texts about signed measurements that were compared with the reference values of makers."""

from collections.abc import Iterable
from typing import assert_never

from baremetal_acc.model.measurement import Measurement
from baremetal_acc.model.reference import (
    NoReference,
    ReferenceCompared,
    ReferenceDiffers,
    ReferenceFact,
    ReferenceMatches,
    ReferenceNotActive,
    ReferenceResult,
)
from baremetal_acc.render.words import counted

_MOST = 3
"""Most measurements that one text names."""

_DIGITS = 16


def results(found: Iterable[ReferenceResult]) -> str:
    """One text for all versions that the signed measurements name; empty if they name none."""
    return '; '.join(result(one) for one in found)


def result(found: ReferenceResult) -> str:
    """The result for one version: how many measurements match, which differ, how many are not compared."""
    match found:
        case NoReference():
            return f'{found.named.part} {found.named.version}: no reference for this version'
        case ReferenceCompared():
            reference = found.reference
            name = f'{found.named.part} {found.named.version}, reference of {reference.component}'
            differing = found.differing
            idle = len(found.facts) - len(found.matching) - len(differing)
            parts = [f'{counted(len(found.matching), "measurement")} {"matches" if len(found.matching) == 1 else "match"}']
            parts += [fact(one) for one in differing[:_MOST]]
            if len(differing) > _MOST:
                parts.append(f'{len(differing) - _MOST} more differ')
            if idle:
                parts.append(f'{idle} not active')
            return f'{name}: {", ".join(parts)}'
        case _:
            assert_never(found)


def fact(found: ReferenceFact) -> str:
    """The result for one measurement."""
    match found:
        case ReferenceMatches():
            return f'measurement {found.index} matches'
        case ReferenceDiffers():
            expected = ' or '.join(f'{kind}:{value[:_DIGITS]}...' for kind, value in found.expected[:_MOST])
            shown = 'is missing' if found.found is None else f'is {_short(found.found)}'
            return f'measurement {found.index} differs: it {shown}, expected {expected}'
        case ReferenceNotActive():
            return f'measurement {found.index} is not active'
        case _:
            assert_never(found)


def _short(found: Measurement) -> str:
    return f'{found.algorithm or ("raw" if found.raw else "digest")}:{found.value[:_DIGITS]}...'
