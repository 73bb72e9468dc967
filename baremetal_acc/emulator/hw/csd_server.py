# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``csd-server``: a server with one computational storage drive and one BMC, ``host``.

The card is in ``csd.py``, the server in ``board.py``.
"""

from baremetal_acc.emulator.hw import csd
from baremetal_acc.emulator.hw.board import add_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('csd-server', parameters)
    view = add_board(maker, bmc='host', pcie_devices=[csd.PCIE_DEVICE], pcie_functions=csd.PCIE_FUNCTIONS)
    csd.add_csd(maker, view)
    return maker.finish()
