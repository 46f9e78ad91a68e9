"""Repair of one stream: the least that makes it open and be read, after a copy of what is touched.

Two steps, each with one instruction that makes it true:

1. the active log. What is whole in it is put together anew under a temporary name and renamed over it.
2. the segments. What can be read of a damaged one is written as the next generation, which takes its place by a
   *replace* frame, as after a compaction; one without a file leaves the list by such a frame.

A repair that is killed leaves the old or the new, and files that the next opening removes; done again it finishes.
"""

import json
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from diskstream._native import Block, NodeCache, RowSegment, SealedSegment, Sealer, SegmentView
from diskstream.engine import audit, cold, looks, names, quarantine, recovery, spare
from diskstream.engine.files import Files, LogFileLike, open_regular, size_of, unless_done
from diskstream.engine.frames import read_all
from diskstream.engine.giving_way import give_way
from diskstream.engine.log import StreamLog
from diskstream.engine.losses import Loss
from diskstream.engine.misplaced import Misplaced, active_in
from diskstream.engine.ownership import is_doubtful, owner_in, owners_in
from diskstream.engine.page import MAINTENANCE, Page
from diskstream.engine.remaking import remade
from diskstream.engine.roll import INITIAL_BYTES
from diskstream.engine.salvage import rebuild
from diskstream.engine.salvage_nodes import Salvaged, reads_whole, salvage_log, salvage_sealed
from diskstream.engine.salvage_state import source_of
from diskstream.engine.seal import snapshot_frame
from diskstream.engine.segment import SegmentGone, Segments, open_sealed
from diskstream.engine.verify import Progress, ignore
from diskstream.errors import CorruptionError, StorageError
from diskstream.options import Options
from diskstream.plurals import number_of

__all__ = ["Repair", "repair_stream"]


@dataclass
class Repair:
    """What was done, or would be done, for one stream or for the store itself.

    Attributes:
        stream: the stream's name; None for the store itself.
        path: its directory.
        actions: what was done, in order.
        losses: what could not be kept.
        notes: what else is different now, and what was found.
        kept: the copies in the quarantine.
        failed: why this could not be repaired; empty where it could.
    """

    stream: bytes | None
    path: Path
    actions: list[str] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    failed: str = ""


def repair_stream(
    name: bytes,
    directory: Path,
    files: Files,
    options: Options,
    streams: Path | None = None,
    *,
    give_up: bool = False,
    beside: bool = False,
    progress: Progress = ignore,
) -> Repair:
    """Repairs one stream. Nobody else may have it open.

    Args:
        name: of the stream.
        directory: of the stream, or what stands for it.
        files: what to write with.
        options: of the store.
        streams: where all streams of the store are; None where that is where `directory` is.
        give_up: take segments off the list that may still be in object storage.
        beside: it is a copy of what others have open: what they have not finished is none of this.
        progress: called with entries, and bytes of files, just looked at.

    Raises:
        NewerFormatError: a later version wrote it: nothing was changed.
        StorageError: the disk said no; what was done so far holds.
    """
    work = _StreamRepair(name, directory, files, options, streams or directory.parent, give_up=give_up)
    return work.run(progress, beside=beside)


class _StreamRepair:
    """The repair of one stream."""

    def __init__(
        self, name: bytes, directory: Path, files: Files, options: Options, streams: Path, *, give_up: bool
    ) -> None:
        self._give_up = give_up
        self.directory, self.files, self.options, self.streams = directory, files, options, streams
        self.report = Repair(name, directory)
        self.quarantine = directory / "quarantine"
        self._journal = self.quarantine / f"repair-{time.time_ns():x}.json"
        self._undone: list[str] = []

    def run(self, progress: Progress, *, beside: bool = False) -> Repair:
        """Both steps."""
        self._sweep()
        self._misplaced = Misplaced(self._put_aside_strangers(), self.directory, self.streams, self.files)
        self._bring_logs_back()
        self._active_log()
        log = StreamLog(self.directory, self.files, self.options, read_only=False)
        try:
            for finding in log.report.findings if log.report is not None else []:
                if finding.kind in ("torn", "dropped") and not beside:
                    self.report.notes.append(f"{finding.path.name}: {finding.action}")
            if log.fault is not None:
                raise log.fault
            with log.ctl.locked(MAINTENANCE):
                progress(log.native.active_entries, log.native.tail[1])
                self._segments(log, progress)
                log.flush()
                log.remove_dropped()
        finally:
            log.close()
        if self._undone:
            self.report.failed = (
                f"{'; '.join(self._undone)}. What such a stub stood for is in object storage: `diskstream cold adopt` "
                "makes it anew. Where that finds nothing, repair with --give-up"
            )
        return self.report

    # --- what does not belong here ------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        for path in sorted(self.directory.iterdir()):
            if path.suffix == ".tmp" and looks.is_file(path):
                # As whoever opens the stream alone does: it is sound, and nothing is to be mended.
                self.report.notes.append(f"the unfinished {path.name} is removed: it was never part of the stream")
                self.files.unlink(path)

    def _put_aside_strangers(self) -> bytes | None:
        """Moves away files of segments that another stream's or another segment's header is in, where that is sound.

        Returns the identity of the stream whose directory it is, where any file says it.
        """
        heads = owners_in(self.directory)
        ours = owner_in(self.directory, heads, self.streams)
        if is_doubtful(self.directory, heads, self.streams):
            self.report.notes.append("as many files are another stream's: if names are exchanged now, rename both")
        for path, (uuid, number, generation) in heads.items():
            parsed = names.parse_file(path.name)
            assert parsed is not None
            if uuid != ours:
                self._put_aside(path, "it is another stream's")
            elif (number, generation) != parsed[1:]:
                right = names.segment_path(self.directory, number, generation)
                right = names.log_path(self.directory, number) if parsed[0] == "log" else right
                if looks.is_there(right):
                    self._put_aside(path, f"it is {right.name}, which is there")
                    continue
                self.report.actions.append(f"renamed {path.name} to {right.name}: that is what it is")
                self.files.rename(path, right)
                self.files.sync_dir(self.directory)
        return ours

    def _bring_logs_back(self) -> None:
        """Looks for the active log elsewhere, where it is missing or one behind it is."""
        while True:
            number, missing, successor_lost = active_in(self.directory)
            if not missing and not successor_lost:
                return
            if number == 1 and missing:  # nothing of the stream is here: its files may begin further on
                number = max(number, self._misplaced.newest_log())
            found = self._misplaced.bring_back("log", number + successor_lost, 0)
            if not found:
                return
            self.report.actions.append(found)
            self.report.notes.append(
                f"{names.log_name(number + successor_lost)}: if what was found is an earlier copy, "
                "what was added to the stream since is lost"
            )

    def _put_aside(self, path: Path, why: str) -> None:
        self.report.actions.append(f"moved {path.name} to quarantine: {why}")
        self.report.kept.append(quarantine.move(path, self.quarantine, self.files))

    def _keep(self, path: Path) -> None:
        if looks.is_there(path):
            self.report.kept.append(quarantine.keep(path, self.quarantine, self.files))

    def _note_down(self) -> None:
        """Writes into the quarantine what is about to be lost, durably: whoever kills this must be able to read it."""
        if not self.report.losses and not self.report.notes:
            return
        quarantine.room(self.quarantine, self.files)
        losses = [{**vars(loss), "path": str(loss.path)} for loss in self.report.losses]
        content = {"actions": self.report.actions, "losses": losses, "notes": self.report.notes}
        temporary = self._journal.with_suffix(".json.tmp")
        self.files.unlink(temporary)
        with unless_done(self.files, temporary):
            with self.files.create(temporary) as new:
                new.write(json.dumps(content, indent=1).encode() + b"\n")
                new.sync()
            self.files.rename(temporary, self._journal)
        self.files.sync_dir(self.quarantine)

    # --- step 1 -------------------------------------------------------------------------------------------------------

    def _active_log(self) -> None:
        """Makes the active log anew where it is damaged or missing."""
        number, missing, successor_lost = active_in(self.directory)
        path = names.log_path(self.directory, number)
        if not missing and not successor_lost and self._is_sound(path, number):
            return
        source = source_of(self.directory, number, missing=missing, successor_lost=successor_lost)
        path = source.path
        rebuilt = rebuild(source, self.options)
        self.report.losses += rebuilt.losses
        self.report.notes += rebuilt.notes
        self.report.actions.append(
            f"{path.name} is made anew from what is whole" if not missing else f"made {path.name}"
        )
        self._keep(path)
        for other in sorted(self.directory.iterdir()):
            parsed = names.parse_file(other.name)
            if parsed is not None and other != path and parsed[1:] not in rebuilt.listed:
                self._keep(other)  # the next opening removes what the log does not list
        self._note_down()
        self._write_log(path, rebuilt.image)

    def _is_sound(self, path: Path, number: int) -> bool:
        if read_all(path)[1]:
            return False  # not to be mapped: touching a block that the disk does not give ends the process
        page = Page.private()
        file: LogFileLike | None = None
        try:
            file = Files().open_log(path, writable=False)
            native = recovery.native_log(self.directory, number, page.ctl, file, self.options, apart=True)
            found = native.scan()
            native.close()
        except (CorruptionError, ValueError):
            # All of it was read: an error of the system says nothing of it, and nothing is made anew for that.
            return False
        finally:
            if file is not None:
                file.close()
            page.close()
        return found is None or found["kind"] != "rotten"

    def _write_log(self, path: Path, image: bytes) -> None:
        temporary = path.with_suffix(".log.tmp")
        self.files.unlink(temporary)
        size = max(INITIAL_BYTES, len(image) + 4096)
        with self.files.create(temporary) as new:
            new.write(image)
            new.write(bytes(-(-size // 4096) * 4096 - len(image)))
            new.sync()
        self.files.rename(temporary, path)
        self.files.sync_dir(self.directory)

    # --- step 2 -------------------------------------------------------------------------------------------------------

    def _segments(self, log: StreamLog, progress: Progress) -> None:
        segments = Segments(self.directory, log.native, self.options)
        try:
            for view in log.native.segments():
                size_bytes = size_of(names.segment_path(self.directory, view.number, view.generation)) or size_of(
                    names.log_path(self.directory, view.number)
                )
                self._segment(segments, view, log)
                progress(view.entries, size_bytes)
        finally:
            segments.close()
        for path, why in audit.unusable(self.directory, log.native):
            self._put_aside(path, why)
        self._copy_of_snapshot(log.native.tail[0])

    def _segment(self, segments: Segments, view: SegmentView, log: StreamLog) -> None:
        sealed = names.segment_path(self.directory, view.number, view.generation)
        rows = names.log_path(self.directory, view.number)
        self.report.actions += self._misplaced.look_for(view.number, view.generation)
        try:
            opened = open_sealed(self.directory, log.native, view)
            if opened is not None and reads_whole(opened, view):
                return
        except (CorruptionError, StorageError):
            pass
        if not view.generation and looks.is_there(rows) and self._rows_read(segments, view):
            if looks.is_there(sealed):  # a bad copy of a log that is still there
                self._put_aside(sealed, "it is damaged, and the log that it was made from is sound")
            return
        if self._is_cold(view, sealed, log):
            return
        found = salvage_sealed(sealed) if looks.is_there(sealed) else None
        if found is None and not view.generation and looks.is_there(rows):
            found = salvage_log(rows)
        # Where neither is, verify names that one too.
        path = rows if looks.is_there(rows) and not looks.is_there(sealed) else sealed
        if found is not None:
            found.place(view.entries, view.first, view.last)
        if not looks.is_there(sealed) and self._remake(view, log, 0 if found is None else found.entries):
            return
        if found is None and not self._give_up and cold.is_used(self.streams, log.native):
            stub = names.cold_path(self.directory, view.number, view.generation)
            self._undone.append(f"{stub.name}: it is missing, as is the segment; others of the store are cold, or were")
            return
        if found is None or not found.pieces:
            self._drop(view, path, log)
            return
        self._rewrite(view, path, found, log)

    def _is_cold(self, view: SegmentView, sealed: Path, log: StreamLog) -> bool:
        """Whether a stub says that the bytes are in object storage. It is not asked."""
        path = names.cold_path(self.directory, view.number, view.generation)
        try:
            if cold.find(self.directory, log.native, view) is None:
                return False
        except CorruptionError as error:
            if looks.is_there(sealed):  # here, and damaged: what can be read of it is more than nobody knows where
                self._put_aside(path, f"it is damaged ({error.found})")
                return False
            if self._give_up:
                self._put_aside(path, f"it is damaged ({error.found})")
                return False
            self._undone.append(f"{path.name}: expected {error.expected}, found {error.found}")
            return True
        if looks.is_there(sealed):  # moved away by somebody who was killed before it went; what was put was read back
            self._put_aside(sealed, "it is damaged, and its stub says where all of it is in object storage")
        return True

    def _rows_read(self, segments: Segments, view: SegmentView) -> bool:
        try:
            rows = segments.get(view)
            if not isinstance(rows, RowSegment) or rows.entries != view.entries:
                return False
            frame = snapshot_frame(self.directory, view.number + 1)
            if not frame:
                return True
            return (int.from_bytes(frame[16:24], "little") - 1, int.from_bytes(frame[28:32], "little")) == rows.link
        except (SegmentGone, CorruptionError, StorageError):
            return False

    def _drop(self, view: SegmentView, path: Path, log: StreamLog) -> None:
        """A segment of which nothing can be read leaves the list."""
        there = looks.is_there(path)
        what = "nothing in this file can be read" if there else "the file is missing, and no stub says where it is"
        self.report.losses.append(Loss(path, 0, 0, what, str(view.first), str(view.last), view.entries))
        self.report.actions.append(f"took segment {view.number} off the list: {what}")
        if there:
            self._keep(path)
        self._note_down()
        give_way(log, view, view.emptied())
        if there:
            self.files.unlink(path)
            self.files.sync_dir(self.directory)

    def _rewrite(self, view: SegmentView, path: Path, found: Salvaged, log: StreamLog) -> None:
        losses = list(found.losses(view.first, view.last))
        self.report.losses += losses
        what = (
            f"{found.entries:,} of {number_of(view.entries, 'entry')} can be read"
            if losses
            else "all its entries can be read"
        )
        self.report.actions.append(f"wrote segment {view.number} anew: {what}")
        if any(piece.before is None for piece in found.pieces):
            self.report.notes.append(
                f"segment {view.number}: entries that were deleted behind the damage may be there again"
            )
        self._keep(path)
        generation = view.generation + 1
        target = names.segment_path(self.directory, view.number, generation)
        if looks.is_there(target):
            self._put_aside(target, "a repair that was interrupted made it")
        blocks = (found.block(piece, view) for piece in found.pieces)
        copy = snapshot_frame(self.directory, view.number + 1) or found.copy
        written = self._write_segment(log, view, blocks, copy, target)
        self._note_down()
        if written is None:  # what can be read was deleted or trimmed anyway
            give_way(log, view, view.emptied())
        else:
            give_way(log, view, SegmentView.compacted([view], [view], written))
        self.files.unlink(path)
        self.files.sync_dir(self.directory)

    def _remake(self, view: SegmentView, log: StreamLog, known: int) -> bool:
        """A segment whose file is missing comes from what it was compacted from or into, if that has more than what is
        `known` of it, as a log that is not all there.
        """
        kept = self.quarantine, self.streams / self.directory.name / "quarantine"
        made = remade(self.directory, kept, log.native, view)
        if made is None or made.entries <= known:
            return False
        if not (made.is_exact or self._give_up) and cold.is_used(self.streams, log.native):
            return False  # what may be in object storage has all of it, and nothing else
        self.report.actions.append(f"wrote segment {view.number} anew, whose file is missing, from {made.names}")
        self.report.losses += made.losses()
        self.report.notes += made.notes()
        for path in (*made.paths, names.log_path(self.directory, view.number)):
            if path.parent == self.directory:
                self._keep(path)  # the next opening removes what is of no use any more
        target = names.segment_path(self.directory, view.number, view.generation + (not made.is_exact))
        written = self._write_segment(log, view, made.blocks(), made.copy, target)
        self._note_down()
        if not made.is_exact:
            output = view.emptied() if written is None else SegmentView.compacted([view], [view], written)
            give_way(log, view, output)
        return True

    def _write_segment(
        self, log: StreamLog, view: SegmentView, blocks: Iterable[Block], copy: bytes, target: Path
    ) -> SealedSegment | None:
        options = self.options
        parsed = names.parse_file(target.name)
        assert parsed is not None
        sealer = Sealer(
            log.native.uuid,
            *parsed[1:],
            secrets.randbits(32),
            max_entries=options.node_max_entries,
            max_bytes=options.node_max_bytes,
            level=options.compression_level,
        )
        temporary = target.with_name(target.name + ".tmp")
        self.files.unlink(temporary)
        times = view.times_ms
        try:
            with self.files.create(temporary) as new:
                for block in blocks:
                    data = sealer.push(block)
                    if data:
                        new.write(data)
                if sealer.entries == 0:
                    return None
                new.write(sealer.finish(copy, times))
                new.sync()
            self.files.rename(temporary, target)
        finally:
            self.files.unlink(temporary)
        self.files.sync_dir(self.directory)
        fd = open_regular(target)
        try:
            written = SealedSegment(fd, str(target), log.native.uuid, view.number, NodeCache(0))
        finally:
            os.close(fd)
        entries, _, faults = written.verify_run(0, written.nodes)
        if faults or entries != sealer.entries:
            raise CorruptionError(
                str(target), "sealed segment", 0, f"the {number_of(sealer.entries, 'entry')} just written", "fewer"
            )
        return written

    def _copy_of_snapshot(self, active: int) -> None:
        path = names.state_path(self.directory, active)
        if looks.is_there(path) and not spare.read(self.directory, active):
            self._put_aside(path, "it is to be a second copy of what the log begins with, and is damaged")
