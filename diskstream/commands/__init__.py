"""What Redis's commands mean, on diskstream's public interface; the server and `diskstream.compat` share it."""
