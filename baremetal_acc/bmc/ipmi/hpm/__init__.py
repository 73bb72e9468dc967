# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Firmware upgrades by HPM.1 (PICMG): the image, its commands, its upload, and what speaks against an image."""
