"""`spark-submit tools/spark_profile.py …`: what `diskstream spark profile` does, as a program for a cluster."""

from diskstream.cli.spark.profile import command

if __name__ == "__main__":
    command(prog_name="spark_profile.py")
