"""The ground: settings, the catalogue of variants, seeds, the environment, files that survive a crash, intervals."""
