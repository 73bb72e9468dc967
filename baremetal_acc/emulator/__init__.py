# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does a BMC with accelerators behave? A stateful double for tests that shares no code with the client."""
