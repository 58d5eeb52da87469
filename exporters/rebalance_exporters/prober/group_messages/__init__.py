"""Messages that kafka-python does not have: they describe KIP-848 consumer groups, share groups and streams groups.

The schemas beside this file are those of Kafka 4.3 (clients/src/main/resources/common/message, Apache License 2.0)
without comments. kafka-python reads them like its own, and chooses a version that the brokers know. Brokers answer the
first since 3.7, and the others since 4.1.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from kafka.protocol.api_message import ApiMessage


def _message(name: str) -> type[Any]:
    """Return the class of a message by the schema of this name."""
    return types.new_class(name, (ApiMessage,), {"load_json": sys.modules[__name__]})


ConsumerGroupDescribeRequest = _message("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse = _message("ConsumerGroupDescribeResponse")
ShareGroupDescribeRequest = _message("ShareGroupDescribeRequest")
ShareGroupDescribeResponse = _message("ShareGroupDescribeResponse")
StreamsGroupDescribeRequest = _message("StreamsGroupDescribeRequest")
StreamsGroupDescribeResponse = _message("StreamsGroupDescribeResponse")
