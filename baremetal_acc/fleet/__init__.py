# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How many nodes are steered: pools and demand, through Ironic's API. What ought to be done is decided in decide/pool_plan."""
