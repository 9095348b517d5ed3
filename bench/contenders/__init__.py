"""Who trains in `bench.steps`. Each file has `make(work, dtype, compiled)`, which returns a function: one step."""
