# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the emulated machine look through Redfish? Resources rendered from the machine; no HTTP in here either."""
