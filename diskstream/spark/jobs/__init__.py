"""Jobs over streams and archives: each plans, runs tasks on workers, and lets what they made count at once."""
