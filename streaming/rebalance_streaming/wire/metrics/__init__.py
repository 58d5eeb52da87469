"""Formats of client metrics to reports; the entry point is `formats.decode_metrics`, the result is in `report`."""
