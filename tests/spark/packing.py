"""The columns in which Spark passes records to the packer of the activity query."""

from __future__ import annotations

import pyarrow as pa

PACKER_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("size", pa.int32()),
        ("headers", pa.string()),
    ]
)
