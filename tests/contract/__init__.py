"""Tools, results, context, suspension, state and registry, as the chapter `contract` says."""
