# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI driver: inventory, HPM.1 firmware updates, firmware firewall and power control over IPMI 2.0 LAN (RMCP+)."""
