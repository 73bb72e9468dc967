# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Product ``dpu``: a DPU with its own BMC, ``dpu``, in a host that has no BMC of its own. The card is in ``bluefield.py``.

The host is powered on and off through the control API (``POST /control/power``).
"""

from baremetal_acc.emulator.hw.bluefield import add_dpu
from baremetal_acc.emulator.hw.parameters import MachineMaker, Parameters, ProductParameters
from baremetal_acc.emulator.parts import System


def build(parameters: Parameters) -> ProductParameters:
    """Build the product."""
    maker = MachineMaker('dpu', parameters)
    maker.machine.systems['host'] = System(name='host', bmc='', uri='')
    add_dpu(maker, bmc='dpu')
    return maker.finish()
