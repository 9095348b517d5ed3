"""The laboratory's base: settings, the catalogue of variants, seeds, environment, durable files, intervals."""
