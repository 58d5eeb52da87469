"""Generates the Grafana dashboards as classic dashboard JSON from the metrics and diagnoses of the product.

Needs the development dependency grafana-foundation-sdk; the product does not import this package. Run it from the root
of the checkout: `python -m grafana.generate grafana/dashboards`.
"""
