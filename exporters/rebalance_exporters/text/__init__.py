"""Sentences and numbers for people: the API carries them for the page, the terminal prints them. Pure functions."""
