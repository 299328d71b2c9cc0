"""Where a message goes: predicate, route, key and policy. Pure, but for the Spark forms in `columns`."""
