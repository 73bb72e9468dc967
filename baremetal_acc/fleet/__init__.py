# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Steer pools of nodes and serve demand through Ironic's API. :mod:`baremetal_acc.decide.pool_plan` decides what is done."""
