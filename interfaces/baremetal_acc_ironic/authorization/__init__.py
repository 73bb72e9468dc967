# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who may have what done to a node, and which values of it count only once an operator has accepted them."""
