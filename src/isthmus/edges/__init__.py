"""Where the bridge meets other systems: *intake* writes what arrives to the journal, *delivery* hands out."""
