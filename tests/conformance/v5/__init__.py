"""MQTT 5.0, chapter by chapter, over real sockets.

What the broker does not do yet is in ``missing.py``: those tests are expected to fail, and fail the
suite once they pass, so that whoever completes a feature takes its lines out.
"""
