# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a node in driver_internal_info, and how Ironic learns what became of a job."""
