# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``acc-server``: one machine with GPUs behind roots of trust, an FPGA card, and a DPU with its own BMC.

Two BMCs, ``host`` and ``dpu``, show the state of the same machine. The cards are in ``gpu.py``, ``fpga.py`` and
``bluefield.py``, the server is in ``board.py``.
"""

from baremetal_acc.emulator.hw import fpga, gpu, hgx_board
from baremetal_acc.emulator.hw.bluefield import add_dpu
from baremetal_acc.emulator.hw.board import add_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters

GPUS = 2


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('acc-server', parameters)
    view = add_board(
        maker,
        bmc='host',
        contains=[hgx_board.BASEBOARD],
        pcie_devices=[fpga.PCIE_DEVICE],
        pcie_functions=fpga.PCIE_FUNCTIONS,
    )
    gpu.add_baseboard(maker, view, gpus=GPUS if parameters.gpus is None else parameters.gpus)
    fpga.add_fpga(maker, view)
    add_dpu(maker, bmc='dpu')
    return maker.finish()
