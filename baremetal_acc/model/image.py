# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware and function images of the catalogue: digest, the devices that they fit, versions, bundles and uploads."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, ClassVar

from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref


class ImageKind(StrEnum):
    """The kind of an image: firmware belongs to the operator; a function may be programmed for a tenant. They never mix.

    ``revocation``: makes the device itself refuse older firmware from then on. It cannot be undone, and is written only where a
    rule names it.
    """

    FIRMWARE = 'firmware'
    FUNCTION = 'function'
    REVOCATION = 'revocation'


class SignatureDemand(StrEnum):
    """Whether the catalogue, the baseline, or an image, has to be signed."""

    REQUIRED = 'required'
    OPTIONAL = 'optional'


class SignedKind(StrEnum):
    """The kind of a signed document of the operator."""

    CATALOGUE = 'catalogue'
    BASELINE = 'baseline'


class DigestAlgorithm(StrEnum):
    """The algorithm of a digest. The catalogue names it; it is never guessed from the length."""

    SHA256 = 'sha256'
    SHA512 = 'sha512'


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A digest: algorithm and value, in lower-case hexadecimal."""

    algorithm: DigestAlgorithm
    value: str

    def __str__(self) -> str:
        return f'{self.algorithm}:{self.value}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Ids that a device must have for an image to fit; an id that is None is not compared.

    :ivar pci: vendor and device id, ``0x10de:0x2330``.
    :ivar subsystem: subsystem vendor and device id, in which variants of a card differ.
    :ivar software_id: SoftwareId of the component.
    """

    vendor: str | None = None
    model: str | None = None
    part_number: str | None = None
    pci: str | None = None
    software_id: str | None = None
    subsystem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceValue:
    """A measurement that a device reports when it runs an image.

    :ivar integrity: the root of trust that measures: a shell pattern over the Id of the ComponentIntegrity.
    :ivar index: index of the measurement.
    :ivar values: pairs of algorithm (``sha384``, or ``raw`` for what is no digest) and value in lower-case hexadecimal; one of
        them is enough.
    """

    integrity: str
    index: int
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePart:
    """One component of a bundle, as the catalogue lists it.

    :ivar identifier: its ComponentIdentifier (DSP0267 1.3.0, table 6), 16 bits; None where the catalogue does not say.
    """

    component: str
    version: str
    identifier: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A package that is sent once and writes many components of many devices.

    :ivar targets: the Targets URIs for the BMC; to the BMC an empty list may mean another tray than no list. None: no list is
        sent.
    :ivar component_targets: the BMC also takes the package for a single component, by the URI of its SoftwareInventory.
    :ivar parts: all components of the package.
    """

    name: str
    targets: tuple[str, ...] | None
    component_targets: bool
    parts: tuple[BundlePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of the catalogue, or one component of a bundle in the catalogue.

    :ivar name: the unique name of the image, which steps and commands use.
    :ivar fits: the device must match one of them; never empty.
    :ivar component: the SoftwareInventory that the image is for: a shell pattern over its Id (``HGX_FW_GPU_*``); for a function
        the pattern is over SlotIds.
    :ivar version: the version that the BMC reports when the image runs.
    :ivar security_version: an integer that never goes down from one version to a later one.
    :ivar source: path or URL as the catalogue has it, made absolute against the catalogue's folder.
    :ivar reset: the reset with which the image takes effect after the write.
    :ivar order: images of lower order are written first; those of equal order may be written together.
    :ivar restore: name of the image to restore when a write fails; None where the catalogue says that there is none (``restore
        = "none"``).
    :ivar via: versions over which the image may be written; empty for any version.
    :ivar denied: why the image must not be written any more, where the catalogue denies it. A denied image still identifies
        what a device runs.
    :ivar signature: path or URL of the signature over name, size and digest; None where the image has none of its own.
    :ivar function: name of the function (kind function only); ``uuid`` is the UUID that the AccelerationFunction then reports.
    :ivar measurements: all measurements that the device then signs; empty where the catalogue lists none.
    :ivar bundle: the bundle that the image is a component of; ``source``, size, digest and signature are those of the bundle.
    :ivar identifier: see :class:`BundlePart`.
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
    measurements: tuple[ReferenceValue, ...] = ()
    bundle: Bundle | None = None
    identifier: int | None = None

    @property
    def file(self) -> str:
        """The name of the image's file in signatures: the name of its bundle, or its own."""
        return self.name if self.bundle is None else self.bundle.name

    @property
    def content(self) -> str:
        """The identity of the image apart from its name: kind, security version and digest. Names are used again."""
        return f'{self.kind} {self.security_version} {self.digest}'


def revokes(content: str | None) -> bool:
    """Tell whether this :attr:`Image.content` is that of a revocation."""
    return content is not None and content.startswith(f'{ImageKind.REVOCATION} ')


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An image that was checked, ready to be sent.

    :ivar file: the file name that is sent with the image, a basename.
    :ivar open: opens the very bytes that were checked; they are read once, in order.
    :ivar goes_back: a device that has kept this very version may roll back to it, and need not be sent the image.
    :ivar forced: the image is written whatever version is there, by a BMC that can be told so (ForceUpdate).
    :ivar targets: Targets URIs for the BMC in place of the URI of the component: of a tray or a chassis; also an empty list.
        None: the URI of the component.
    :ivar untargeted: no Targets are sent to the BMC.
    """

    file: str
    size_bytes: int
    open: Callable[[], BinaryIO]
    goes_back: bool = False
    forced: bool = False
    targets: tuple[str, ...] | None = None
    untargeted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadProgress:
    """The progress of an image that is sent in several turns. Nothing of the image takes effect before the last turn.

    :ivar task: the task that the BMC works on meanwhile.
    :ivar so_far: where the driver resumes, in its own format; None: from the beginning.
    :ivar percent: percentage of the image's bytes that were sent.
    :ivar whole: the device has the whole image. The next turn activates the image, and is not repeated.
    :ivar turning: a turn has begun; a stored job with it does not tell how far that turn came.
    """

    STORED_NAME: ClassVar = 'Progress'

    task: Ref
    so_far: str | None = None
    percent: int = 0
    whole: bool = False
    turning: bool = False
