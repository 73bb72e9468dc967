# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How an instance gets its accelerators: one driver for each kind of attachment, found by stevedore.

On bare metal the instance's half of an attachment is the node itself. What is left is the device's half: see what was claimed,
make it what was promised, look whether it is, and bring it back afterwards.
"""
