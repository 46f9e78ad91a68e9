"""The RESP front end: one process, one thread, turns of an event loop over the commands of `diskstream.commands`."""
