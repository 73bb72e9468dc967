# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``lock-server``: a server whose host also reaches the cards through its BMC, with optional BMC-wide vendor locks.

It has one BMC, ``host``, and GPUs behind roots of trust. Without any feature its system interface cannot be closed. The cards
are in ``gpu.py``, the server is in ``board.py``, the features are in ``vendor_bmc.py``.
"""

from baremetal_acc.emulator.hw import gpu, hgx_board, vendor_bmc
from baremetal_acc.emulator.hw.board import add_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters

GPUS = 2


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('lock-server', parameters)
    view = add_board(maker, bmc='host', contains=[hgx_board.BASEBOARD])
    gpu.add_baseboard(maker, view, gpus=GPUS if parameters.gpus is None else parameters.gpus)
    vendor_bmc.add(maker, view)
    return maker.finish()
