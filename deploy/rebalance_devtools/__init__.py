"""Tools for developers of the monitor: stories with their clients, benchmarks, load generators. Not part of any wheel.

In a checkout, the command line also has the commands of `commands.py`. The other packages do not depend on this one.
"""
