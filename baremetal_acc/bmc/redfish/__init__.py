# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Redfish driver: inventory, firmware update, power, settings of locks and SPDM measurements over DSP0266.

See :mod:`.driver` for the entry point and :mod:`.client` for the HTTP client.
"""
