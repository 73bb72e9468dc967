# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A PLDM firmware update package: its header, the devices that it is for, and its component images.

The names are those of DSP0267. Table numbers are those of DSP0267 1.3.0: 3 the package header, 4 a firmware device ID record, 5
a downstream device ID record, 6 the information of a component image and 7 descriptors, as openbmc/libpldm cites them; 32
classifications and 33 string types, as chipsalliance/caliptra-mcu-sw does. The bytes are parsed by
:mod:`baremetal_acc.images.pldm_package` and written by :mod:`baremetal_acc.images.pldm_encoding`.

Nothing in a package is trusted: its origin and its integrity are shown by the digest and the signature of the catalogue.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import KEEP, Enum, IntEnum, IntFlag


class Revision(Enum):
    """A revision of the package header: PackageHeaderFormatRevision, and the PackageHeaderIdentifier that goes with it.

    1.1 brought downstream devices, 1.2 the opaque data of components, 1.3 reference manifests and the checksum of the payload.
    Source: DSP0267, table 3; openbmc/libpldm, ``include/libpldm/firmware_update.h``.
    """

    V1_0 = (1, '1.0', uuid.UUID('f018878c-cb7d-4943-9800-a02f059aca02'))
    V1_1 = (2, '1.1', uuid.UUID('1244d264-8d7d-4718-a030-fc8a56587d5a'))
    V1_2 = (3, '1.2', uuid.UUID('3119ce2f-e80a-4a99-af6d-46f8b121f6bf'))
    V1_3 = (4, '1.3', uuid.UUID('7b291c99-6db6-4208-801b-02026e463c78'))

    @property
    def number(self) -> int:
        """PackageHeaderFormatRevision."""
        return self.value[0]

    @property
    def version(self) -> str:
        """The revision of DSP0267."""
        return self.value[1]

    @property
    def identifier(self) -> uuid.UUID:
        """PackageHeaderIdentifier."""
        return self.value[2]

    @property
    def has_downstream_devices(self) -> bool:
        """Whether the header has an area of downstream device ID records."""
        return self.number >= 2

    @property
    def has_opaque_data(self) -> bool:
        """Whether components have opaque data."""
        return self.number >= 3

    @property
    def has_manifests(self) -> bool:
        """Whether records have reference manifests, and the payload has a checksum."""
        return self.number >= 4


class StringType(IntEnum):
    """The encoding of a string. Source: DSP0267 1.3.0, table 33."""

    UNKNOWN = 0
    ASCII = 1
    UTF_8 = 2
    UTF_16 = 3
    UTF_16LE = 4
    UTF_16BE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PldmString:
    """A string of a package with its encoding.

    :ivar raw: its bytes, 255 at most.
    """

    type: StringType
    raw: bytes

    @property
    def text(self) -> str:
        """The decoded string. In a string of unknown type, bytes that are not ASCII are written as escapes.

        :raises UnicodeDecodeError: the bytes are no string of that type; never for a parsed string.
        """
        match self.type:
            case StringType.UNKNOWN:
                found = self.raw.decode('ascii', 'backslashreplace')
            case StringType.ASCII:
                found = self.raw.decode('ascii')
            case StringType.UTF_8:
                found = self.raw.decode('utf-8')
            case StringType.UTF_16:
                # Without a byte order mark the high byte comes first: RFC 2781, section 4.3.
                marked = self.raw[:2] in (b'\xff\xfe', b'\xfe\xff')
                found = self.raw.decode('utf-16' if marked else 'utf-16-be')
            case StringType.UTF_16LE:
                found = self.raw.decode('utf-16-le')
            case StringType.UTF_16BE:
                found = self.raw.decode('utf-16-be')
        return found.rstrip('\0')


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTime:
    """PackageReleaseDateTime, a timestamp104. Source: DSP0240; openbmc/pldm, ``tools/fw-update/pldm_fwup_pkg_creator.py``.

    :ivar moment: with the offset from UTC that the package says.
    :ivar resolution: the byte that gives the accuracy.
    """

    moment: datetime
    resolution: int = 0


class DescriptorType(IntEnum):
    """The type of a descriptor. Source: DSP0267 1.3.0, table 7; openbmc/libpldm, ``firmware_update.h``."""

    PCI_VENDOR_ID = 0x0000
    IANA_ENTERPRISE_ID = 0x0001
    UUID = 0x0002
    PNP_VENDOR_ID = 0x0003
    ACPI_VENDOR_ID = 0x0004
    IEEE_ASSIGNED_COMPANY_ID = 0x0005
    SCSI_VENDOR_ID = 0x0006
    PCI_DEVICE_ID = 0x0100
    PCI_SUBSYSTEM_VENDOR_ID = 0x0101
    PCI_SUBSYSTEM_ID = 0x0102
    PCI_REVISION_ID = 0x0103
    PNP_PRODUCT_IDENTIFIER = 0x0104
    ACPI_PRODUCT_IDENTIFIER = 0x0105
    ASCII_MODEL_NUMBER_LONG = 0x0106
    ASCII_MODEL_NUMBER_SHORT = 0x0107
    SCSI_PRODUCT_ID = 0x0108
    UBM_CONTROLLER_DEVICE_CODE = 0x0109
    IEEE_EUI_64_ID = 0x010A
    PCI_REVISION_ID_RANGE = 0x010B


VENDOR_DEFINED = 0xFFFF
"""Type of a vendor-defined descriptor, which has a title of its own."""

DESCRIPTOR_BYTES: dict[DescriptorType, int] = {
    DescriptorType.PCI_VENDOR_ID: 2,
    DescriptorType.IANA_ENTERPRISE_ID: 4,
    DescriptorType.UUID: 16,
    DescriptorType.PNP_VENDOR_ID: 3,
    DescriptorType.ACPI_VENDOR_ID: 4,
    DescriptorType.IEEE_ASSIGNED_COMPANY_ID: 3,
    DescriptorType.SCSI_VENDOR_ID: 8,
    DescriptorType.PCI_DEVICE_ID: 2,
    DescriptorType.PCI_SUBSYSTEM_VENDOR_ID: 2,
    DescriptorType.PCI_SUBSYSTEM_ID: 2,
    DescriptorType.PCI_REVISION_ID: 1,
    DescriptorType.PNP_PRODUCT_IDENTIFIER: 4,
    DescriptorType.ACPI_PRODUCT_IDENTIFIER: 4,
    DescriptorType.ASCII_MODEL_NUMBER_LONG: 40,
    DescriptorType.ASCII_MODEL_NUMBER_SHORT: 10,
    DescriptorType.SCSI_PRODUCT_ID: 16,
    DescriptorType.UBM_CONTROLLER_DEVICE_CODE: 4,
    DescriptorType.IEEE_EUI_64_ID: 8,
    DescriptorType.PCI_REVISION_ID_RANGE: 2,
}
"""Length of a descriptor's data by type."""

_NUMBERS = frozenset(
    {
        DescriptorType.PCI_VENDOR_ID,
        DescriptorType.IANA_ENTERPRISE_ID,
        DescriptorType.PCI_DEVICE_ID,
        DescriptorType.PCI_SUBSYSTEM_VENDOR_ID,
        DescriptorType.PCI_SUBSYSTEM_ID,
        DescriptorType.PCI_REVISION_ID,
    }
)
"""Types whose data is a number, low byte first."""

_TEXTS = frozenset(
    {
        DescriptorType.PNP_VENDOR_ID,
        DescriptorType.ACPI_VENDOR_ID,
        DescriptorType.SCSI_VENDOR_ID,
        DescriptorType.PNP_PRODUCT_IDENTIFIER,
        DescriptorType.ASCII_MODEL_NUMBER_LONG,
        DescriptorType.ASCII_MODEL_NUMBER_SHORT,
        DescriptorType.SCSI_PRODUCT_ID,
    }
)
"""Types whose data is ASCII, where it can be decoded so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """An identifier of a device.

    :ivar type: a number where the type is unknown.
    """

    type: DescriptorType | int
    data: bytes

    @property
    def value(self) -> str:
        """The identifier in its usual notation; otherwise hexadecimal digits in the order of the bytes."""
        if self.type is DescriptorType.UUID:
            return str(uuid.UUID(bytes=self.data))
        if self.type in _NUMBERS:
            return f'0x{int.from_bytes(self.data, "little"):0{2 * len(self.data)}x}'
        if self.type in _TEXTS:
            found = self.data.rstrip(b'\0 ').decode('ascii', 'replace')
            if found and found.isprintable() and '\ufffd' not in found:
                return found
        return self.data.hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorDescriptor:
    """A vendor-defined identifier, with the title that says what it is."""

    title: PldmString
    data: bytes


AnyDescriptor = Descriptor | VendorDescriptor


class DeviceUpdateOption(IntFlag, boundary=KEEP):
    """Flags of a firmware device.

    Source: DSP0267 1.3.0, table 4; for flashless boot chipsalliance/caliptra-mcu-sw, ``docs/src/pldm_update_package.md``.
    """

    CONTINUE_AFTER_FAILURE = 1 << 0
    FLASHLESS_BOOT = 1 << 1


class DownstreamUpdateOption(IntFlag, boundary=KEEP):
    """Flags of a downstream device. Source: DSP0267 1.3.0, table 5."""

    SELF_CONTAINED_ACTIVATION_MIN_VERSION = 1 << 0


class ComponentOption(IntFlag, boundary=KEEP):
    """Flags of a component. Source: DSP0267 1.3.0, table 6."""

    FORCE_UPDATE = 1 << 0
    USE_COMPARISON_STAMP = 1 << 1


class Activation(IntFlag, boundary=KEEP):
    """The activation method of a component. Source: DSP0267 1.3.0, table 6; openbmc/libpldm, ``firmware_update.h``."""

    AUTOMATIC = 1 << 0
    SELF_CONTAINED = 1 << 1
    MEDIUM_SPECIFIC_RESET = 1 << 2
    SYSTEM_REBOOT = 1 << 3
    DC_POWER_CYCLE = 1 << 4
    AC_POWER_CYCLE = 1 << 5


class Classification(IntEnum):
    """The classification of a component. Source: DSP0267 1.3.0, table 32; openbmc/libpldm, ``firmware_update.h``."""

    UNKNOWN = 0x0000
    OTHER = 0x0001
    DRIVER = 0x0002
    CONFIGURATION_SOFTWARE = 0x0003
    APPLICATION_SOFTWARE = 0x0004
    INSTRUMENTATION = 0x0005
    FIRMWARE_OR_BIOS = 0x0006
    DIAGNOSTIC_SOFTWARE = 0x0007
    OPERATING_SYSTEM = 0x0008
    MIDDLEWARE = 0x0009
    FIRMWARE = 0x000A
    BIOS_OR_FCODE = 0x000B
    SUPPORT_OR_SERVICE_PACK = 0x000C
    SOFTWARE_BUNDLE = 0x000D
    DOWNSTREAM_DEVICE = 0xFFFF


NO_COMPARISON_STAMP = 0xFFFFFFFF
"""The value of an unused ComponentComparisonStamp."""


NO_DEVICE_OPTIONS = DeviceUpdateOption(0)

NO_DOWNSTREAM_OPTIONS = DownstreamUpdateOption(0)

NO_COMPONENT_OPTIONS = ComponentOption(0)

NO_ACTIVATION = Activation(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageComponent:
    """The information of a component image.

    :ivar classification: a number where it is unknown.
    :ivar identifier: the vendor's identifier of the component; two records of a package may have the same.
    :ivar offset: position of the image, from the first byte of the package.
    :ivar opaque_data: from 1.2 on; data that the device gets with the image.
    """

    classification: Classification | int
    identifier: int
    comparison_stamp: int = NO_COMPARISON_STAMP
    options: ComponentOption = NO_COMPONENT_OPTIONS
    activation: Activation = NO_ACTIVATION
    offset: int
    size_bytes: int
    version: PldmString
    opaque_data: bytes = b''


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """A firmware device that the package is for: a device with all of these descriptors.

    :ivar image_set_version: the version of all of its components together.
    :ivar components: positions in :attr:`PldmPackage.components` of the components that it gets; the first is 0.
    :ivar descriptors: its descriptors; the first is the initial descriptor.
    :ivar package_data: data that the device gets before the images.
    :ivar reference_manifest: from 1.3 on.
    """

    options: DeviceUpdateOption = NO_DEVICE_OPTIONS
    image_set_version: PldmString
    components: frozenset[int]
    descriptors: tuple[AnyDescriptor, ...]
    package_data: bytes = b''
    reference_manifest: bytes = b''


@dataclass(frozen=True, slots=True, kw_only=True)
class DownstreamRecord:
    """A downstream device, which a firmware device updates. Such records exist from 1.1 on.

    :ivar min_version: the first version of its firmware that can be activated by itself.
    :ivar min_version_stamp: the same as a number; None where the options do not announce it.
    """

    options: DownstreamUpdateOption = NO_DOWNSTREAM_OPTIONS
    min_version: PldmString
    min_version_stamp: int | None = None
    components: frozenset[int]
    descriptors: tuple[AnyDescriptor, ...]
    package_data: bytes = b''
    reference_manifest: bytes = b''


@dataclass(frozen=True, slots=True, kw_only=True)
class PldmPackage:
    """The header of a package.

    :ivar released: None where the package does not say, which is 13 bytes of zero.
    :ivar bitmap_bits: ComponentBitmapBitLength, a multiple of 8 and no less than there are components.
    """

    revision: Revision
    released: ReleaseTime | None = None
    version: PldmString
    bitmap_bits: int
    devices: tuple[DeviceRecord, ...]
    downstream_devices: tuple[DownstreamRecord, ...] = ()
    components: tuple[PackageComponent, ...]

    @property
    def images_end(self) -> int:
        """The end of the last component image. What the file has after it is no part of DSP0267, such as a signature."""
        return max((component.offset + component.size_bytes for component in self.components), default=0)
