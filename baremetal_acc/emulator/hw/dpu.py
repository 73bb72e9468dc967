# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``dpu``: a DPU with its own BMC, ``dpu``, in a host that shows no BMC of its own. The card stands in ``bluefield.py``.

The host's power is moved through the control interface (``POST /control/power``).
"""

from baremetal_acc.emulator.hw.bluefield import add_dpu
from baremetal_acc.emulator.hw.parameters import Maker, Parameters, Product
from baremetal_acc.emulator.parts import System


def build(parameters: Parameters) -> Product:
    """The product."""
    maker = Maker('dpu', parameters)
    maker.machine.systems['host'] = System(name='host', bmc='', uri='')
    add_dpu(maker, bmc='dpu')
    return maker.finish()
