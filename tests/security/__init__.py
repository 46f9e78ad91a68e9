"""Attacks, each tried: what docs/security.md promises against a hostile client, file, name or payload."""
