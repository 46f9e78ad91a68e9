"""Jobs over streams and archives: each plans, runs tasks over Spark's workers, and lets what they made count at once."""
