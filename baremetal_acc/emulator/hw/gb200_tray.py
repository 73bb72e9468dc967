# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``gb200-tray``: a compute tray with 4 GPUs and 2 CPUs on a baseboard updated by one PLDM package; one BMC, ``host``.

**Target:** ``/redfish/v1/Chassis/HGX_Chassis_0`` for the compute tray, ``[]`` for the BMC tray (NVIDIA/open-nvfwupd,
firmware_update_guide, gb200NVL.rst, which also has the items and versions; that the GPUs have roots of trust on the board is
taken from ``gpu.py`` and is not in that list). **In force:** after a cycle of the standby power, by an action of the Chassis of
the BMC. The task Ids are those of the BMC of the baseboard: ``HGX_n``. Everything else is in ``tray.py``.
"""

from baremetal_acc.emulator.hw import hgx_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters
from baremetal_acc.emulator.hw.tray import Family, Layout, add_tray
from baremetal_acc.emulator.parts import Restart

LAYOUT = Layout(
    generation=hgx_board.Generation(
        image_model='gb200',
        model='NVIDIA GB200',
        part_number='2941-886-A1',
        gpu_version='97.00.0C.00.00',
        erot_version='01.03.0183.0000_n04',
        version_width=0,
        device_id='0x2941',
        board='HGX GB200',
        board_part_number='692-13921-0001-000',
        board_bmc_version='GB200Nvl-24.08-2',
    ),
    gpus=4,
    target=hgx_board.BASEBOARD,
    families=(
        Family(name='CPU', count=2, number=0x0030, version='02.02.02'),
        Family(name='FPGA', count=2, number=0x0050, version='1.0A', is_processor=True),
        Family(name='CPLD', count=1, number=0x0060, version='0.1C', has_root=False, is_shown=False, shows_number=False),
    ),
    info_rom='G548.0201.01.02',
    activates=Restart.MAINS,
    roots_activate=Restart.MAINS,
    has_aux_reset=True,
    task_prefix='HGX_',
)


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('gb200-tray', parameters)
    add_tray(maker, LAYOUT)
    return maker.finish()
