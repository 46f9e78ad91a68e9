"""`spark-submit tools/spark_rollup.py …`: what `diskstream spark rollup` does, as a program for a cluster."""

from diskstream.cli.spark.rollup import command

if __name__ == "__main__":
    command(prog_name="spark_rollup.py")
