"""Requests to the brokers: topics and their settings, the ends of inputs, the rows of own topics."""
