# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HGX baseboards: the names of their resources, and the models and versions of their GPUs."""

from dataclasses import dataclass

from baremetal_acc.emulator.hw import board
from baremetal_acc.emulator.redfish.chassis import CHASSIS
from baremetal_acc.emulator.redfish.manager import MANAGERS
from baremetal_acc.emulator.redfish.system import SYSTEMS

IMAGE_MODEL = 'h100'
MODEL = 'NVIDIA H100 80GB HBM3'
PART_NUMBER = '2330-885-A1'
GPU_VERSION = '96.00.30.00.01'
EROT_VERSION = '01.02.0060.0000_n00'
BASEBOARD_MODEL = 'hgx-baseboard'
BASEBOARD_BMC_VERSION = 'HGX-22.10-1'
# The width of the version field that GH200 shows: "96.00.A6.00.01  ".
VERSION_WIDTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The differences between baseboards: names and part numbers of the board and its GPUs, and their versions.

    :ivar version_width: the width that a version is padded to in FirmwareInventory.
    :ivar image_model: the model that images are for.
    """

    image_model: str = IMAGE_MODEL
    model: str = MODEL
    part_number: str = PART_NUMBER
    gpu_version: str = GPU_VERSION
    erot_version: str = EROT_VERSION
    version_width: int = VERSION_WIDTH
    device_id: str = '0x2330'
    board: str = 'HGX H100'
    board_part_number: str = '965-24387-0002-000'
    board_bmc_version: str = BASEBOARD_BMC_VERSION


H100 = Generation()
GPUS_OF_DOMAIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseboard:
    """One of the baseboards of a machine, by its number: its host, and the names of its resources.

    :ivar first_gpu: the number of its first GPU; the GPUs of a machine have different numbers.
    :ivar in_chassis: the Chassis of its host.
    """

    number: int = 0
    first_gpu: int = 0
    host: str = 'host'
    in_chassis: str = board.CHASSIS

    @property
    def system(self) -> str:
        """The URI of its System, which is not a host."""
        return f'{SYSTEMS}/HGX_Baseboard_{self.number}'

    @property
    def chassis(self) -> str:
        """The URI of its Chassis."""
        return f'{CHASSIS}/HGX_Chassis_{self.number}'

    @property
    def manager(self) -> str:
        """The URI of its own BMC."""
        return f'{MANAGERS}/HGX_BMC_{self.number}'

    @property
    def item(self) -> str:
        """The Id of the inventory item of its own BMC."""
        return f'HGX_FW_BMC_{self.number}'

    @property
    def domains(self) -> str:
        """The URI of its write-protect domains."""
        return f'{self.chassis}/Oem/Nvidia/WriteProtectDomains'

    def domain(self, gpu: int) -> str:
        """The key of the write-protect domain of a GPU."""
        return f'HGX_Domain_{self.first_gpu + (gpu - self.first_gpu) // GPUS_OF_DOMAIN}/WriteProtected'

    def part(self, name: str) -> str:
        """A name for a part that is unique among the baseboards of the machine."""
        return f'{name}/{self.number}' if self.number else name


FIRST = Baseboard()
SYSTEM, BASEBOARD, MANAGER, DOMAINS = FIRST.system, FIRST.chassis, FIRST.manager, FIRST.domains
