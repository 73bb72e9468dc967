# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``gpu-server``: a server with HGX GPUs, each behind a root of trust, and one BMC, ``host``.

The cards, with the paths that their locks block, are in ``gpu.py``, the server is in ``board.py``.
"""

from baremetal_acc.emulator.hw import gpu, hgx_board
from baremetal_acc.emulator.hw.board import add_board
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters

GPUS = 4


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('gpu-server', parameters)
    view = add_board(maker, bmc='host', contains=[hgx_board.BASEBOARD])
    gpu.add_baseboard(maker, view, gpus=GPUS if parameters.gpus is None else parameters.gpus)
    return maker.finish()
