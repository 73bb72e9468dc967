# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements that devices have signed by SPDM (DMTF DSP0274), as BMCs hand them out."""
