# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An emulated BMC for tests: a stateful Redfish and IPMI BMC with accelerators that shares no code with the client.

Nothing in this package imports anything of ``baremetal_acc`` outside ``baremetal_acc.emulator``: an emulator that shared the
parser with the client would share its bugs.
"""
