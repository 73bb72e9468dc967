# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The IPMI side of an emulated BMC. It shares no code with ``baremetal_acc.bmc.ipmi``."""
