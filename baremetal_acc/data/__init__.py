# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Data files of the package: PCI ids of accelerators (``devices.toml``), and steps of Ironic's ramdisk that write firmware."""
