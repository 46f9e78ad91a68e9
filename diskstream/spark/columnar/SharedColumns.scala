/* Batches of a Python worker, read where the worker put them: in memory that both have mapped.
 *
 * The other side, and what the two say to each other, is in `diskstream/spark/shared_columns.py`.
 *
 *     task                                    watcher, a thread of the task's      worker
 *     listens at a socket of its own,
 *     starts the worker with its path         asks Spark's runner for rows
 *     waits for the worker to connect                                              reads; connects
 *     maps the file, batch after batch                                             lays out batches
 *     is told of the last one                 there were no rows                   ends, as if there had been no batch
 *
 * Spark's runner hears of the worker what there is to hear beside batches: its end, what it counted, its errors. If the
 * worker fails, the runner fails, and the watcher closes the socket that the task waits at: the task throws what the runner
 * threw. If the runner has rows, the worker does not connect, and they are read as they come.
 */
package org.apache.spark.sql.execution.python.diskstream

import java.io.{EOFException, IOException}
import java.net.{StandardProtocolFamily, UnixDomainSocketAddress}
import java.nio.{ByteBuffer, ByteOrder, MappedByteBuffer}
import java.nio.channels.{ClosedByInterruptException, ClosedChannelException, FileChannel, ServerSocketChannel, SocketChannel}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.concurrent.{ExecutionException, FutureTask}

import scala.jdk.CollectionConverters._

import org.apache.arrow.flatbuf.Message
import org.apache.arrow.memory.ForeignAllocation
import org.apache.arrow.memory.util.MemoryUtil
import org.apache.arrow.vector.{VectorLoader, VectorSchemaRoot}
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}
import org.apache.spark.storage.StorageUtils

object SharedColumns {
  private val MostPath = 100 // bytes: a little less than what the address of a socket has room for
  private val MostWaitMs = 60000L
  private val Places = Seq(System.getProperty("java.io.tmpdir"), "/tmp")

  /** Has a worker started that may connect: `start` gets the partition with the offer, or without where there is none. */
  def offered(partition: Array[Byte], metrics: Map[String, SQLMetric])(
      start: Array[Byte] => Iterator[ColumnarBatch]): (Iterator[ColumnarBatch], Option[SharedColumns]) =
    listening() match {
      case None => (start(partition), None)
      case Some((place, server)) =>
        val shared = new SharedColumns(place, server, metrics)
        TaskContext.get().addTaskCompletionListener[Unit](_ => shared.close())
        val rows = start(offer(partition, place))
        shared.watch(rows)
        (rows, Some(shared))
    }

  private def listening(): Option[(Path, ServerSocketChannel)] =
    try Places.map(Path.of(_, "diskstream-0123456789012345678", "s")).find(_.toString.length < MostPath).map { path =>
      val place = Files.createTempDirectory(path.getParent.getParent, "diskstream-").resolve("s")
      try {
        val server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)
        try server.bind(UnixDomainSocketAddress.of(place))
        catch { case error: IOException => server.close(); throw error }
        (place, server)
      } catch { case error @ (_: IOException | _: UnsupportedOperationException) => Files.delete(place.getParent); throw error }
    } catch { case _: IOException | _: UnsupportedOperationException => None }

  /** The pickle of a call of `Offered`, with a partition, which is pickled, and a place. A pickle is a program that leaves a
    * value on a stack: a partition's own is part of this one, without its end.
    */
  private def offer(partition: Array[Byte], place: Path): Array[Byte] = {
    val called = "cdiskstream.spark.shared_columns\nOffered\n".getBytes(UTF_8) // GLOBAL
    val text = place.toString.getBytes(UTF_8)
    val made = ByteBuffer.allocate(called.length + partition.length - 1 + 5 + text.length + 3).order(ByteOrder.LITTLE_ENDIAN)
    made.put(called).put(partition, 0, partition.length - 1)
    made.put('X'.toByte).putInt(text.length).put(text) // BINUNICODE
    made.put(0x86.toByte).put('R'.toByte).put('.'.toByte) // TUPLE2, REDUCE, STOP
    made.array()
  }
}

class SharedColumns(place: Path, server: ServerSocketChannel, metrics: Map[String, SQLMetric]) {
  private val allocator = ArrowUtils.rootAllocator.newChildAllocator("diskstream's columns", 0, Long.MaxValue)
  private var watcher: FutureTask[Boolean] = _
  private var socket: SocketChannel = _
  private var file: FileChannel = _
  private var mapped: MappedByteBuffer = _
  private var root: VectorSchemaRoot = _
  private var isOver = false
  // Who takes the batches: mostly the task's own thread. `RDD.pipe` and TRANSFORM have one that feeds their program, which
  // may read columns when the task is over: memory that it reads must not go, which would end the JVM.
  @volatile private var taker: Thread = _
  @volatile private var isClosed = false

  private def watch(rows: Iterator[ColumnarBatch]): Unit = {
    val context = TaskContext.get()
    watcher = new FutureTask[Boolean](() => {
      TaskContext.setTaskContext(context)
      try rows.hasNext
      finally {
        TaskContext.unset()
        server.close()
      }
    })
    val thread = new Thread(watcher, s"diskstream's columns for task ${context.taskAttemptId()}")
    thread.setDaemon(true)
    thread.start()
  }

  /** Whether the worker's batches are here, and not with the runner. Waits for the worker to say so.
    *
    * A worker that fails before is an error here, as it is where batches are with the runner.
    */
  lazy val isUsed: Boolean = {
    try socket = server.accept()
    catch {
      case error: ClosedByInterruptException => throw error
      case _: ClosedChannelException => ()
    } finally forget()
    if (socket != null && isOpened()) true
    else {
      runnerHasRows()
      false
    }
  }

  /** Opens the worker's file. Where that cannot be, the worker goes on by itself as soon as the socket is closed. */
  private def isOpened(): Boolean =
    try {
      val found = read(16)
      file = FileChannel.open(Path.of(s"/proc/${found.getLong()}/fd/${found.getLong()}"), StandardOpenOption.READ)
      say(1)
      true
    } catch {
      case error: ClosedByInterruptException => throw error
      case _: IOException =>
        socket.close()
        false
    }

  /** Waits for what the runner has. What it throws is thrown here. */
  private def runnerHasRows(): Boolean =
    try watcher.get()
    catch { case error: ExecutionException => throw error.getCause }

  /** The next batch; the one before is given back to the worker. */
  def next(): Option[ColumnarBatch] = {
    taker = Thread.currentThread()
    try {
      if (isClosed) throw new EOFException("the task is over")
      taken()
    } catch {
      case error: Throwable =>
        if (isClosed) release() // nobody reads the batch before this one any more
        throw error
    }
  }

  private def taken(): Option[ColumnarBatch] = {
    if (root != null) root.clear()
    if (isOver) return None
    val message = try read(32) catch {
      case error: ClosedByInterruptException => throw error
      case error: IOException => // the worker is gone: the runner knows why
        runnerHasRows()
        throw error
    }
    val (size, offset, length, slot) = (message.getLong(), message.getLong(), message.getLong(), message.getLong())
    if (length == 0) {
      isOver = true
      runnerHasRows()
      None
    } else {
      map(size)
      metrics.get("pythonDataReceived").foreach(_ += length)
      val batch = load(Math.toIntExact(offset), Math.toIntExact(length), slot.toInt)
      metrics.get("pythonNumRowsReceived").foreach(_ += batch.numRows().toLong)
      Some(batch)
    }
  }

  private def map(size: Long): Unit =
    if (mapped == null || mapped.capacity() != size) { // the worker has all slots: nothing reads the old one
      unmap()
      mapped = file.map(FileChannel.MapMode.READ_ONLY, 0, size)
    }

  private def load(offset: Int, length: Int, slot: Int): ColumnarBatch = {
    val bytes = mapped.slice(offset, length).order(ByteOrder.LITTLE_ENDIAN)
    val schema = message(bytes)
    if (root == null) root = VectorSchemaRoot.create(MessageSerializer.deserializeSchema(schema), allocator)
    val batch = message(bytes)
    if (batch.bodyLength() > bytes.remaining()) throw new EOFException("a batch is longer than what the worker says")
    val start = MemoryUtil.getByteBufferAddress(mapped) + offset + bytes.position()
    val body = allocator.wrapForeignAllocation(new ForeignAllocation(batch.bodyLength(), start) {
      // Nothing has a reference any more: not the vectors, nor what was made of them.
      override protected def release0(): Unit = say(slot)
    })
    val record = MessageSerializer.deserializeRecordBatch(batch, body) // from here on the body is the record's
    try new VectorLoader(root).load(record)
    finally record.close()
    val columns = root.getFieldVectors.asScala.map(vector => FlatVectors.over(new ArrowColumnVector(vector)))
    new ColumnarBatch(columns.toArray, root.getRowCount)
  }

  /** A message of Arrow's encapsulated format: four bytes that are a mark, its length, itself. */
  private def message(bytes: ByteBuffer): Message = {
    bytes.getInt()
    val length = bytes.getInt()
    val found = bytes.slice(bytes.position(), length).order(ByteOrder.LITTLE_ENDIAN)
    bytes.position(bytes.position() + length)
    Message.getRootAsMessage(found)
  }

  private def read(length: Int): ByteBuffer = {
    val found = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN)
    while (found.hasRemaining) if (socket.read(found) < 0) throw new EOFException("the worker closed its socket")
    found.flip()
  }

  // A worker that has handed out its last batch may be gone, and needs nothing back.
  private def say(what: Int): Unit =
    try socket.write(ByteBuffer.wrap(Array(what.toByte)))
    catch { case _: IOException => () }

  private def forget(): Unit = {
    server.close()
    Files.deleteIfExists(place)
    Files.deleteIfExists(place.getParent)
  }

  private def unmap(): Unit = {
    StorageUtils.dispose(mapped)
    mapped = null
  }

  /** Lets go of everything: a worker that is not at its end hears that nobody wants more. What another thread reads yet goes
    * when it wants the next batch, or ends, which its program's end brings about; or, in time, with this object.
    */
  def close(): Unit = {
    isClosed = true
    forget()
    if (socket != null) socket.close()
    if (file != null) file.close()
    if (taker == null || taker == Thread.currentThread() || !taker.isAlive) release()
    else {
      val waits = new Thread(() => { taker.join(SharedColumns.MostWaitMs); if (!taker.isAlive) release() }, taker.getName)
      waits.setDaemon(true)
      waits.start()
    }
  }

  private def release(): Unit = synchronized {
    if (root != null) root.close()
    root = null
    try allocator.close()
    finally unmap()
  }
}
