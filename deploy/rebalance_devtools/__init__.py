"""What only those who develop the monitor use: stories with their clients, benchmarks, load. It is in no wheel.

A checkout has it beside the packages that are installed elsewhere, and its command line then offers what
`commands.py` adds. The other packages know nothing of it.
"""
