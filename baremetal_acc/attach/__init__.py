# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Attach accelerators to an instance: one driver for each kind of attachment, found by stevedore.

On bare metal the node itself is the instance's half of an attachment. The drivers do the device's half: find what was claimed
in placement, prepare it as promised, check it, and restore it afterwards.
"""
