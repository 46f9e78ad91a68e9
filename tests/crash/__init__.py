"""The crash simulator: what a power cut may leave of a store, and whether the store survives it.

It stands behind `diskstream.engine.files.Files`. `recorder` forwards every call to real files and notes what it
changes;
`disk` rebuilds from any moment of such a trace what a power cut may leave; `workload` makes the traces, while `model`
keeps what the store promised; `check` opens each rebuilt store and holds it against the promises; `run` ties these
together; `planted` holds mistakes that the simulator must catch.

The disk model is stated in `disk`. A killed process is simulated as well (`RecordingFiles.kill_in`): it loses nothing
that was written, but stops between any two calls, or in the middle of a write. A power cut may follow.
"""
