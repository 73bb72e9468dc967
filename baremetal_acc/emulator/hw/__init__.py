# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated products by name, and the function that builds one. Each product has a module, and so has each shared card."""

from collections.abc import Callable, Mapping

from baremetal_acc.emulator.hw import (
    acc_server,
    csd_server,
    dpu,
    fpga_server,
    gb200_tray,
    gpu_server,
    hgx_tray,
    lock_server,
    twin_server,
)
from baremetal_acc.emulator.hw.parameters import BadParameter, Parameters, ProductParameters

PRODUCTS: Mapping[str, Callable[[Parameters], ProductParameters]] = {
    'acc-server': acc_server.build,
    'gpu-server': gpu_server.build,
    'fpga-server': fpga_server.build,
    'csd-server': csd_server.build,
    'dpu': dpu.build,
    'lock-server': lock_server.build,
    'hgx-tray': hgx_tray.build,
    'gb200-tray': gb200_tray.build,
    'twin-server': twin_server.build,
}


def build(name: str, parameters: Parameters) -> ProductParameters:
    """Build the product of that name.

    :raises BadParameter: there is no such product, or a parameter does not fit it.
    """
    if name not in PRODUCTS:
        raise BadParameter(f'unknown product {name!r}', hint=f'give one of {", ".join(PRODUCTS)}')
    return PRODUCTS[name](parameters)
