# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Match images against the deny-list of the catalogue. An image is denied wherever the deny-list may mean it."""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from baremetal_acc.model.image import Digest, Fit, Image
from baremetal_acc.planning.image_selection import same_version

_PART = re.compile(r'\[(?:!?\][^\]]*|(?:![^\]]|[^\]!])[^\]]*)\]|.', re.DOTALL)
"""One character or class of an fnmatch pattern: a closing bracket right after ``[`` or ``[!`` belongs to the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """One ``[[deny]]`` table; a condition that is None, or empty, matches everything.

    :ivar fits: the devices that the denial is for.
    :ivar component: shell pattern over Ids, as for images.
    """

    reason: str
    fits: tuple[Fit, ...] = ()
    component: str | None = None
    version: str | None = None
    digest: Digest | None = None

    def concerns(self, image: Image) -> bool:
        """Tell whether the denial means the image, or may mean it, as far as the catalogue tells."""
        return (self.digest is None or self.digest == image.digest) and self._meets(image)

    def may_concern(self, image: Image) -> bool:
        """Tell whether only the image's bytes can decide: the denial's digest is of another algorithm than the image's."""
        return self.digest is not None and self.digest.algorithm is not image.digest.algorithm and self._meets(image)

    def _meets(self, image: Image) -> bool:
        return (
            (self.version is None or same_version(self.version, image.version))
            and (not self.fits or share_devices(self.fits, image.fits))
            and (self.component is None or overlap(self.component.casefold(), image.component.casefold()))
        )


def marked(images: Iterable[Image], denials: tuple[Denial, ...]) -> tuple[Image, ...]:
    """Return the images, each with the reasons of all denials that mean it."""
    found = []
    for image in images:
        reasons = dict.fromkeys(d.reason for d in denials if d.concerns(image))
        found.append(replace(image, denied='; '.join(reasons)) if reasons else image)
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def overlap(one: str, other: str) -> bool:
    """Tell whether there may be a name that both shell patterns match. A character class counts as any character."""
    first, second = _PART.findall(one), _PART.findall(other)
    # after[j]: the rest of the first pattern overlaps second[j:]. The rest is empty at first, and grows by a part each time.
    after = [all(part == '*' for part in second[j:]) for j in range(len(second) + 1)]
    for part in reversed(first):
        here = [part == '*' and after[-1]]
        for j in range(len(second) - 1, -1, -1):
            if part == '*':
                found = after[j] or here[0]
            elif second[j] == '*':
                found = here[0] or after[j]
            else:
                found = _alike(part, second[j]) and after[j + 1]
            here.insert(0, found)
        after = here
    return after[0]


def share_devices(some: Iterable[Fit], others: tuple[Fit, ...]) -> bool:
    """Tell whether there may be a device that fits one of the first and one of the others."""
    return any(_one_device(mine, other) for mine in some for other in others)


def _alike(one: str, other: str) -> bool:
    return one == other or any(part == '?' or len(part) > 1 for part in (one, other))


def _one_device(one: Fit, other: Fit) -> bool:
    """Tell whether there may be a device that has the ids of both."""
    pairs = ((getattr(one, name), getattr(other, name)) for name in Fit.__dataclass_fields__)
    return all(a is None or b is None or a.casefold() == b.casefold() for a, b in pairs)
