# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI's firmware firewall: the commands that write firmware, and the masks that keep the host from sending them."""
