# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an image is: its digest, what it fits, and what it becomes on a device."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref


class ImageKind(StrEnum):
    """Firmware belongs to the operator; a function may be programmed for a tenant. They never mix.

    ``revocation``: makes the device itself refuse older firmware from then on. It cannot be undone, and is written only where a
    rule asks for it by name.
    """

    FIRMWARE = 'firmware'
    FUNCTION = 'function'
    REVOCATION = 'revocation'


class SignatureDemand(StrEnum):
    """Whether the catalogue, or an image, has to be signed."""

    REQUIRED = 'required'
    OPTIONAL = 'optional'


class DigestAlgorithm(StrEnum):
    """Named by the catalogue, never guessed from a length."""

    SHA256 = 'sha256'
    SHA512 = 'sha512'


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Algorithm and value, lower-case hexadecimal."""

    algorithm: DigestAlgorithm
    value: str

    def __str__(self) -> str:
        return f'{self.algorithm}:{self.value}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Ids that a device must have; those that are None are not asked for.

    :ivar pci: vendor and device id, ``0x10de:0x2330``.
    :ivar subsystem: those of the subsystem, by which variants of a card differ.
    :ivar software_id: SoftwareId of the component.
    """

    vendor: str | None = None
    model: str | None = None
    part_number: str | None = None
    pci: str | None = None
    software_id: str | None = None
    subsystem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a device that runs an image has to measure.

    :ivar integrity: of which root of trust: a shell pattern over the Id of the ComponentIntegrity.
    :ivar index: of the measurement.
    :ivar values: pairs of algorithm (``sha384``, or ``raw`` for what is no digest) and value in lower-case hexadecimal; one of
        them is enough.
    """

    integrity: str
    index: int
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePart:
    """One component of a package, as the catalogue has it.

    :ivar identifier: its ComponentIdentifier (DSP0267 1.3.0, table 6), 16 bits; None where the catalogue does not say.
    """

    component: str
    version: str
    identifier: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A package that is sent once and writes many components of many devices.

    :ivar targets: the URIs that the BMC is told; an empty list may mean another tray than none at all does. None: none at all.
    :ivar component_targets: the BMC takes the package also for a single component, by the URI of its SoftwareInventory.
    :ivar parts: everything in it.
    """

    name: str
    targets: tuple[str, ...] | None
    component_targets: bool
    parts: tuple[BundlePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of the catalogue, or one component of a bundle of it.

    :ivar name: its unique name: what steps and commands call it by.
    :ivar fits: the device must match one of them; never empty.
    :ivar component: which SoftwareInventory it is for, a shell pattern over its Id (``HGX_FW_GPU_*``); for a function the
        pattern is over SlotIds.
    :ivar version: what the BMC reports when it runs.
    :ivar security_version: an integer that never goes down.
    :ivar source: path or URL as the catalogue has it, made absolute against the catalogue's folder.
    :ivar reset: what brings it in force after the write.
    :ivar order: lower ones are written first; equal ones may run together.
    :ivar restore: name of the image to go back to; None where the catalogue says that there is none (``restore = "none"``).
    :ivar via: versions over which it may be written; empty: any.
    :ivar denied: why it must not be written any more, where the catalogue denies it. It still tells what a device runs.
    :ivar signature: path or URL of the signature over name, size and digest; None where the image has none of its own.
    :ivar function: name of the function (kind function only); ``uuid`` what the AccelerationFunction then reports.
    :ivar measurements: what the device then measures and signs, all of them; none where the catalogue does not say.
    :ivar bundle: the package that it is a component of; ``source``, size, digest and signature are those of the package.
    :ivar identifier: as of :class:`BundlePart`.
    """

    name: str
    kind: ImageKind
    fits: tuple[Fit, ...]
    component: str
    version: str
    security_version: int
    source: str
    size_bytes: int
    digest: Digest
    reset: ResetKind = ResetKind.NONE
    order: int = 0
    restore: str | None = None
    via: tuple[str, ...] = ()
    denied: str | None = None
    signature: str | None = None
    function: str | None = None
    uuid: str | None = None
    measurements: tuple[Reference, ...] = ()
    bundle: Bundle | None = None
    identifier: int | None = None

    @property
    def file(self) -> str:
        """What its file is called by: its bundle's name, or its own. A signature is over that."""
        return self.name if self.bundle is None else self.bundle.name

    @property
    def content(self) -> str:
        """What it is, whatever it is called: kind, security version and the digest of its bytes. Names are used again."""
        return f'{self.kind} {self.security_version} {self.digest}'


def revokes(content: str | None) -> bool:
    """Whether this :attr:`Image.content` is that of a revocation."""
    return content is not None and content.startswith(f'{ImageKind.REVOCATION} ')


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An image that was checked, ready to be sent.

    :ivar file: the name sent with it, a basename.
    :ivar open: opens the very bytes that were checked; they are read once, in order.
    :ivar goes_back: a device that has kept the very version may go back to it, and need not be sent it.
    :ivar forced: it is written whatever version is there, by a BMC that can be told so.
    :ivar targets: URIs that the BMC is told in place of that of the component: of a tray or a chassis; also an empty list.
        None: that of the component.
    :ivar untargeted: the BMC is told nothing at all of targets.
    """

    file: str
    size_bytes: int
    open: Callable[[], BinaryIO]
    goes_back: bool = False
    forced: bool = False
    targets: tuple[str, ...] | None = None
    untargeted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an image is that is sent in turns. Up to the last turn nothing of it is in force.

    :ivar task: what the BMC is at meanwhile.
    :ivar so_far: where the driver goes on, in its own words; None: from the beginning.
    :ivar percent: of its bytes.
    :ivar whole: the device has all of it. The next turn brings it in force, and is not repeated.
    :ivar turning: a turn has begun; where that is what was stored, nobody knows how far it came.
    """

    task: Ref
    so_far: str | None = None
    percent: int = 0
    whole: bool = False
    turning: bool = False
