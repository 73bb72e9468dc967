# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a conductor does by itself: turn jobs, watch nodes, recover from jobs that were cut off, keep placement true."""
