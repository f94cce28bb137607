"""What every Redfish service answers, whatever it manages: its two OData documents, and the headers of each answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.lab.idrac import names
from harness.lab.idrac.web import Reply, Request, Route, ok

ODATA = f"{names.ROOT}/odata"
METADATA = f"{names.ROOT}/$metadata"
_PARTS = ("Systems", "Managers", "Chassis", "SessionService", "TaskService", "UpdateService", "Registries")

METADATA_DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>
<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">
  <edmx:Reference Uri="http://redfish.dmtf.org/schemas/v1/ServiceRoot_v1.xml">
    <edmx:Include Namespace="ServiceRoot"/>
    <edmx:Include Namespace="ServiceRoot.v1_1_0"/>
  </edmx:Reference>
  <edmx:DataServices>
    <Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">
      <EntityContainer Name="Service" Extends="ServiceRoot.v1_1_0.ServiceContainer"/>
    </Schema>
  </edmx:DataServices>
</edmx:Edmx>
"""

SUPPORTED_QUERIES = frozenset({"$expand", "$select", "$filter", "$top", "$skip"})


def routes() -> tuple[Route, ...]:
    """The two documents; they need no credentials."""

    def odata(_: Request) -> Reply:
        entries = [{"kind": "Singleton", "name": name, "url": f"{names.ROOT}/{name}"} for name in _PARTS]
        root = {"kind": "Singleton", "name": "Service", "url": f"{names.ROOT}/"}
        return ok({"@odata.context": METADATA, "value": [root, *entries]})

    def metadata(_: Request) -> Reply:
        return Reply(200, METADATA_DOCUMENT, {"Content-Type": "application/xml;charset=utf-8"})

    return (Route("GET", ODATA, odata, is_open=True), Route("GET", METADATA, metadata, is_open=True))


def headers(allowed: Collection[str], sent: Mapping[str, str]) -> dict[str, str]:
    """The headers of an answer; ``allowed`` are the methods that the resource knows."""
    kinds = sorted({*allowed, "HEAD"} if "GET" in allowed else allowed)
    return {
        "Content-Type": "application/json;odata.metadata=minimal;charset=utf-8",
        "OData-Version": "4.0",
        "Cache-Control": "no-cache",
        **({"Allow": ", ".join(kinds), "Link": f"<{METADATA}>; rel=describedby"} if kinds else {}),
        **sent,
    }
