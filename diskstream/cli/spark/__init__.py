"""`diskstream spark`: jobs on Spark, on this machine or on a cluster. One file a verb."""

from __future__ import annotations

import click

from diskstream.cli.spark.archive import command as archive_verb
from diskstream.cli.spark.compact import command as compact_verb
from diskstream.cli.spark.profile import command as profile_verb
from diskstream.cli.spark.reconcile import command as reconcile_verb
from diskstream.cli.spark.replay import command as replay_verb
from diskstream.cli.spark.rollup import command as rollup_verb


@click.group("spark")
def command() -> None:
    """Jobs on Spark: archive streams, compact and compare the archive, replay, roll up, profile.

    They run on this machine, with all of its cores; --master names a cluster, whose workers must see the store and the
    archive under the same paths.
    """


for _each in (archive_verb, compact_verb, profile_verb, reconcile_verb, replay_verb, rollup_verb):
    command.add_command(_each)
