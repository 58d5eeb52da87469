// The contract's closed sets, how they are shown, and words and bounds that the terminal has too: made by
// rebalance_exporters/page/sets.py, with `make docs`. Change it there.

export const CountedFrom = Object.freeze({
  "LOG": "log",
  "PROBES": "probes"
});

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

export const SilenceKind = Object.freeze({
  "SILENCE": "silence",
  "DEPLOY": "deploy"
});

export const SETTLED_STATES = Object.freeze([
  "Stable",
  "Empty",
  "Dead",
  "Deleted"
]);

export const SEVERITY_RANKS = Object.freeze({
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
  "zookeeper": "ZooKeeper",
  "broker_log": "broker log",
  "announcement": "announced deploy"
});

export const SILENCES = Object.freeze({
  "silence": "silenced",
  "deploy": "deploy announced"
});

export const NO_CAUSE = Object.freeze({
  "not_ended": "not known yet: a rebalance is judged when it has ended",
  "young": "not judged yet: what happens in the seconds after it shows the cause",
  "none_kept": "no finding about this rebalance is kept: it is too old, or the stream that diagnoses does not run"
});

export const JUDGED_AFTER_MS = 60000;

export const ABORTED = "ended by the group's deletion";

export const TIGHT_MS = 6000;
