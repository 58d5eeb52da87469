"""What a person types: reads the exporter's API and answers in text, Markdown or JSON."""
