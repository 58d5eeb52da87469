"""Sentences and numbers for people, written once: the API carries them for the page, the terminal prints them. Pure."""
