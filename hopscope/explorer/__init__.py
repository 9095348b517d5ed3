"""The explorer: a page in which the model itself runs, and the bundles, the server and the files that feed it."""
