# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Redfish resources of an emulated BMC, rendered from the state of the machine. This package knows no HTTP."""
