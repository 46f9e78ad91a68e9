"""The log on disk: files, segments, sealing, recovery. It knows nothing of Redis commands."""
