"""Commands for people: they read the exporter's API and answer in text, Markdown or JSON."""
