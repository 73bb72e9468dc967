# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``hgx-tray``: a server with an HGX baseboard of 8 GPUs that is updated by one PLDM package; one BMC, ``host``.

**Target:** ``/redfish/v1/UpdateService/FirmwareInventory/HGX_0`` for the baseboard, no Targets for the server (DGX B200 and
B300 firmware update guides, samples of the configuration of their trays). **In force:** after a power cycle of the host; roots
of trust and the CPLD after a cycle of the standby power, for which this BMC has no action (no public guide that was found says
which component needs which of the two: the split is ours). Everything else is in ``tray.py``.
"""

from baremetal_acc.emulator.hw import hgx_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters
from baremetal_acc.emulator.hw.tray import Family, Layout, add_tray
from baremetal_acc.emulator.parts import Restart
from baremetal_acc.emulator.redfish.update import FIRMWARE

LAYOUT = Layout(
    generation=hgx_board.Generation(
        image_model='b200',
        model='NVIDIA B200',
        part_number='2901-886-A1',
        gpu_version='97.00.82.00.18',
        erot_version='01.03.0183.0000_n04',
        version_width=0,
        device_id='0x2901',
        board='HGX B200',
        board_part_number='965-24387-0017-000',
        board_bmc_version='HGX-22.10-1-rc67',
    ),
    gpus=8,
    target=f'{FIRMWARE}/HGX_0',
    families=(
        Family(name='NVSwitch', count=2, number=0x0070, version='96.10.69.00.01'),
        Family(name='FPGA', count=1, number=0x0050, version='2.53', is_processor=True),
        Family(name='PCIeSwitch', count=1, number=0x0040, version='1.9.5F'),
        Family(name='PCIeRetimer', count=8, number=0x8000, version='2.7.20', has_root=False, is_shown=False),
        Family(
            name='CPLD',
            count=1,
            number=0x0060,
            version='0.22',
            has_root=False,
            is_shown=False,
            shows_number=False,
            activates=Restart.MAINS,
        ),
    ),
    info_rom='G525.0225.00.05',
    activates=Restart.COLD,
    roots_activate=Restart.MAINS,
)


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('hgx-tray', parameters)
    add_tray(maker, LAYOUT)
    return maker.finish()
