# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The operator's configuration: its options for oslo.config, and their values as typed settings."""
