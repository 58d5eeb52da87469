"""The founding incidents and other faults of groups, reproduced with real clients on real brokers.

A `Story` (story.py) defines the clients, their settings, and the expected finding of the monitor. A `Stage` (stage.py)
is its environment: brokers, and ZooKeeper if the story needs one. A `Play` (play.py) is one run of a story: it starts
client processes (programs/), reads the events they report, and ends when the symptom was seen often enough. Nothing
here depends on the format of the offsets topic or on the monitor's rules: the events of the clients and the brokers'
own log are the truth that the monitor is compared with.
"""
