"""Twelve probes of agent frameworks, each bare and with Toolcrib: `python -m bench.probes.frameworks`."""
