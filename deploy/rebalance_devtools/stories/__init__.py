"""The founding incidents and other ways a group can go wrong, played with real clients on real brokers.

A `Story` (story.py) says which clients play, with which settings, and what a monitor ought to say of it. A `Stage`
(stage.py) is where it plays: brokers, and ZooKeeper where the story needs one. A `Play` (play.py) is one performance:
it starts client processes (programs/), reads what they report, and ends when the symptom was seen often enough. Nothing
here knows the offsets topic's bytes or the monitor's rules: what the clients and the brokers' own log say is the truth
the monitor is held against.
"""
