# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the emulated machine answer to IPMI? It shares no code with ``baremetal_acc.bmc.ipmi``."""
