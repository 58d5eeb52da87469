"""The JSON API: requests, responses, and the events that are pushed to followers."""
