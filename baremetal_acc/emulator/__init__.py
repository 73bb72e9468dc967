# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC for users' tests: a stateful Redfish BMC with accelerators that shares no code with the client.

Nothing here imports anything of ``baremetal_acc`` outside ``baremetal_acc.emulator``: a double that shares the parser
shares its bugs.
"""
