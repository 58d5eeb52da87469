// The contract's closed sets and how they are shown: made from rebalance_contract by rebalance_exporters/page/sets.py,
// with `make docs`. Change it there.

export const RebalanceOutcome = Object.freeze({
  "ONGOING": "ongoing",
  "COMPLETED": "completed",
  "ABORTED": "aborted"
});

export const FindingState = Object.freeze({
  "FIRING": "firing",
  "RESOLVED": "resolved"
});

export const Severity = Object.freeze({
  "PAGE": "page",
  "TICKET": "ticket",
  "INFO": "info"
});

export const EventName = Object.freeze({
  "HELLO": "hello",
  "GROUP": "group",
  "GONE": "gone",
  "REBALANCE": "rebalance",
  "FINDING": "finding",
  "STATUS": "status",
  "RESET": "reset"
});

export const MessageMatch = Object.freeze({
  "WHOLE": "whole",
  "PART": "part",
  "NONE": "none"
});

export const SETTLED_STATES = Object.freeze([
  "Stable",
  "Empty",
  "Dead",
  "Deleted"
]);

export const GRAVITY = Object.freeze({
  "page": 2,
  "ticket": 1,
  "info": 0
});

export const STATE_MARKS = Object.freeze({
  "Deleted": "○",
  "Empty": "○",
  "PreparingRebalance": "◐",
  "CompletingRebalance": "◐",
  "Assigning": "◐",
  "Reconciling": "◐",
  "Stable": "●",
  "NotReady": "◐",
  "Dead": "○"
});

export const UNKNOWN_STATE_MARK = "◐";

export const SEVERITY_MARKS = Object.freeze({
  "page": "▲",
  "ticket": "◆",
  "info": "●"
});

export const SOURCES = Object.freeze({
  "log": "group log",
  "commits": "commits",
  "probes": "probes",
  "client_metrics": "client metrics",
  "zookeeper": "ZooKeeper"
});
