# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is reported of a node: inspection data, traits, alarms, notifications and drift."""
