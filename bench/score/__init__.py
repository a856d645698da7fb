"""`make score`: public suites, carried out offline once a registry has given them, and written to docs/score.md.

Each suite is a small module with `run()`, which returns a `Score`. A suite that is partly failed is shown with its
failures, and one that cannot run here with its reason.
"""
