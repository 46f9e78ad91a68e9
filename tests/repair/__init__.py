"""Damaged stores: what verify says of them, what repair makes of them, what inspect shows."""
