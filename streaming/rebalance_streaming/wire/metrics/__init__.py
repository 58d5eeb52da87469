"""Formats of client metrics to reports; `formats.decode_metrics` is the way in, `report` what comes out."""
