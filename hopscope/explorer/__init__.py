"""The explorer: an interactive page that runs the model, with its data format (bundles), server and exported files."""
