"""The Grafana dashboards as Python: names of metrics and texts of diagnoses come in, classic dashboard JSON goes out.

Needs the development dependency grafana-foundation-sdk; nothing of the product imports it. Run from the top of the
checkout: `python -m grafana.generate grafana/dashboards`.
"""
