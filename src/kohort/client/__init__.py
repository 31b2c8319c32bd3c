"""The client side of the protocol: connections, the cluster behind them, administration, producing, fetching.

Modules are imported by name (``from kohort.client.admin import Admin``): nothing is loaded that is not used.
"""
