# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Drivers that speak Redfish or IPMI to a BMC, loaded by stevedore; :mod:`baremetal_acc.bmc.driver` has their contracts."""
