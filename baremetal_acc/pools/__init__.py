# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Pools of programmed regions and the demand for them: machines are reprogrammed through Ironic's API."""
