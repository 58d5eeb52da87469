"""Settings of a broker that enforces ACLs and grants only the permissions that are added."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

AUTHORIZED: Mapping[str, str] = MappingProxyType(
    {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
)
