# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of cards that rules of a baseline demand: one file for each mechanism that reads them from a BMC."""
