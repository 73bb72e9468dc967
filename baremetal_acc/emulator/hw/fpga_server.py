# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``fpga-server``: a server with one FPGA card and one BMC, ``host``.

The card is in ``fpga.py``, the server in ``board.py``.
"""

from baremetal_acc.emulator.hw import fpga
from baremetal_acc.emulator.hw.board import add_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('fpga-server', parameters)
    view = add_board(maker, bmc='host', pcie_devices=[fpga.PCIE_DEVICE], pcie_functions=fpga.PCIE_FUNCTIONS)
    fpga.add_fpga(maker, view)
    return maker.finish()
