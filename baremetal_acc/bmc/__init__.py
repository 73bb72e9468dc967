# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How a BMC speaks: drivers of protocols, found by stevedore, behind the contracts of :mod:`baremetal_acc.bmc.api`."""
