"""How the engine behaves where things go wrong: bad input, damaged files, failing disks, dying processes."""
