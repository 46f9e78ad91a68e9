/* Reads of diskstream handed to Spark as columns, as its own Parquet reader hands its, and not row by row.
 *
 * A Python data source fills Arrow batches, and a task of the JVM makes rows of them: one by one through an interface, and
 * twice over (once in `MapInBatchEvaluatorFactory`, once more for `BatchScanExec`), before anything looks at them. Where a
 * scan says that it is columnar, Spark puts `ColumnarToRow` above it instead, which is generated code. So these classes
 * stand around those of Spark: planning, options, leases, partitions and errors are all as without them.
 *
 *     DataSourceV2ScanRelation(PythonScan)      what Spark's optimizer comes to
 *       -> ColumnarScanStrategy                 for the format `diskstream` alone
 *     DataSourceV2ScanRelation(ColumnarScan)    which Spark plans as BatchScanExec below ColumnarToRow
 *       -> ColumnarReaderFactory                goes to the tasks
 *          -> ColumnarReader                    the same worker, function and partition; its batches, not their rows
 *             -> SharedColumns                  where the worker puts them into memory that it shares
 *
 *     StreamingDataSourceV2ScanRelation         one batch of a read as a stream
 *       -> ColumnarMicroBatch                   by the same strategy
 *       -> ColumnarMicroBatchScanExec           Spark's own node, by whose stream and rows it counts its progress
 *          -> ColumnarReaderFactory
 *
 * What is used of Spark here is not its public interface, and the package is one that may use it. So a jar is for the
 * version of Spark that it was compiled against, which stands in its name, and `diskstream.spark.columnar` takes no other.
 */
package org.apache.spark.sql.execution.python.diskstream

import org.apache.spark.TaskContext
import org.apache.spark.api.python.{ChainedPythonFunctions, PythonEvalType}
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, NamedExpression, SortOrder}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReader, PartitionReaderFactory, Scan}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation, MicroBatchScanExec, StreamingDataSourceV2ScanRelation}
import org.apache.spark.sql.execution.datasources.v2.python._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.{ArrowPythonRunner, BatchedPythonArrowInput}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.connector.SupportsMetadata
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}

/** For the setting `spark.sql.extensions`, where a cluster gives all its sessions columnar scans. */
class ColumnarExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPlannerStrategy(_ => new ColumnarScanStrategy)
    extensions.injectOptimizerRule(_ => OwnOptions)
  }
}

/** For a session that runs already. */
class ColumnarSwitch {

  /** Gives a session columnar scans, or takes them away; and what makes its answers right, either way. */
  def turn(session: SparkSession, on: Boolean): Unit = {
    val rules = session.experimental.extraOptimizations
    if (!rules.contains(OwnOptions)) session.experimental.extraOptimizations = rules :+ OwnOptions
    val others = session.experimental.extraStrategies.filterNot(_.isInstanceOf[ColumnarScanStrategy])
    session.experimental.extraStrategies = if (on) others :+ new ColumnarScanStrategy else others
  }
}

/** Reads a table of the catalog with the options that each mention of it in a query has.
  *
  * Spark has one table for all that a query says under its name, and that one keeps what the first of them was planned
  * with: the others were read with those options too, so that of two streams one was read twice.
  */
object OwnOptions extends Rule[LogicalPlan] {
  import ColumnarScan.parameter

  // A Spark whose Python scans have no such fields goes on as one without these classes does.
  override def apply(plan: LogicalPlan): LogicalPlan =
    try owned(plan) catch { case _: ColumnarScan.UnknownScan => plan }

  private def owned(plan: LogicalPlan): LogicalPlan = {
    val found = plan.collectWithSubqueries { case Ours(source, options) => (source, options) }
    val shared = found.groupMap(_._1)(_._2).filter { case (_, options) => options.distinct.size > 1 }.keySet
    if (shared.isEmpty) plan else plan.transformWithSubqueries { case each @ Ours(source, _) if shared(source) => owning(each) }
  }

  // An extension's rules see relations as they were resolved, those of a session that runs already see their scans.
  private object Ours {
    def unapply(plan: LogicalPlan): Option[(PythonDataSourceV2, CaseInsensitiveStringMap)] = plan match {
      case of: DataSourceV2ScanRelation if of.relation.table.name() == ColumnarScan.Format =>
        Some(of.scan).collect { case scan: PythonScan => (parameter(scan, "ds"), parameter(scan, "options")) }
      case of: DataSourceV2Relation if of.table.name() == ColumnarScan.Format =>
        Some(of.table).collect { case table: PythonTable => (parameter(table, "ds"), of.options) }
      case _ => None
    }
  }

  private def owning(plan: LogicalPlan): LogicalPlan = {
    val own = new PythonDataSourceV2()
    own.setShortName(ColumnarScan.Format)
    plan match {
      case of: DataSourceV2ScanRelation =>
        val filters = parameter[Array[Filter]](of.scan, "supportedFilters")
        val options = parameter[CaseInsensitiveStringMap](of.scan, "options")
        of.copy(scan = new PythonScan(own, ColumnarScan.Format, of.scan.readSchema(), options, filters))
      case of: DataSourceV2Relation =>
        of.copy(table = new PythonTable(own, ColumnarScan.Format, parameter(of.table, "outputSchema")))
      case other => other
    }
  }
}

/** Wraps the scan of a relation, once, and leaves what becomes of it to Spark's own strategies.
  *
  * It takes a relation with the projections and filters right above it, as those do, and never more of a plan: what is
  * planned of this is linked to the logical plan that it was given, and adaptive execution looks for a stage's node there by
  * identity. A copy of the plan as a whole would not have it, and the stage would be planned and run again and again.
  */
class ColumnarScanStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case batch: ColumnarMicroBatch => Seq(batch.planned)
    case PhysicalOperation(_, _, relation) if wrapped.isDefinedAt(relation) =>
      Seq(planLater(plan.transform { case `relation` => wrapped(relation) }))
    case _ => Nil
  }

  private val wrapped: PartialFunction[LogicalPlan, LogicalPlan] = Function.unlift {
    case relation: DataSourceV2ScanRelation if relation.relation.table.name() == ColumnarScan.Format =>
      relation.scan match {
        case scan: PythonScan => Some(relation.copy(scan = new ColumnarScan(scan)))
        case _ => None
      }
    case relation: StreamingDataSourceV2ScanRelation if relation.relation.table.name() == ColumnarScan.Format =>
      (relation.stream, relation.startOffset, relation.endOffset) match {
        case (stream: PythonMicroBatchStreamBase, Some(start), Some(end)) =>
          Some(ColumnarMicroBatch(relation, stream, start, end))
        case _ => None
      }
    case _ => None
  }
}

/** What stands for the relation of one batch of a stream, so that no strategy of Spark's takes it with what is above it. */
case class ColumnarMicroBatch(
    relation: StreamingDataSourceV2ScanRelation,
    stream: MicroBatchStream,
    start: Offset,
    end: Offset)
    extends LeafNode {
  override def output: Seq[Attribute] = relation.output

  override def isStreaming: Boolean = true

  override def computeStats(): Statistics = relation.computeStats()

  def planned: SparkPlan = new ColumnarMicroBatchScanExec(output, relation.scan, stream, start, end, None, None)
}

object ColumnarScan {
  val Format = "diskstream"

  class UnknownScan(what: String) extends IllegalStateException(what)

  // A parameter of a Scala class that only its methods use is a field, under the name or under one that ends in it.
  def parameter[T](of: AnyRef, name: String): T = {
    val field = of.getClass.getDeclaredFields
      .find(each => each.getName == name || each.getName.endsWith("$$" + name))
      .getOrElse(throw new UnknownScan(s"this Spark's Python scans have no $name: register with columnar=False"))
    field.setAccessible(true)
    field.get(of).asInstanceOf[T]
  }
}

class ColumnarScan(private val inner: PythonScan) extends Scan with SupportsMetadata {
  override def readSchema(): StructType = inner.readSchema()

  override def description(): String = inner.description() + " columnar"

  override def getMetaData(): Map[String, String] = inner.getMetaData()

  override def supportedCustomMetrics(): Array[CustomMetric] = inner.supportedCustomMetrics()

  // Said of the scan as a whole: Spark need not plan its partitions to find out.
  override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.SUPPORTED

  override def toBatch(): Batch = new ColumnarScanBatch(inner.toBatch())

  override def equals(other: Any): Boolean = other match {
    case scan: ColumnarScan => inner == scan.inner
    case _ => false
  }

  override def hashCode(): Int = inner.hashCode()
}

class ColumnarScanBatch(inner: Batch) extends Batch {
  override def planInputPartitions(): Array[InputPartition] = inner.planInputPartitions()

  override def createReaderFactory(): PartitionReaderFactory =
    ColumnarReaderFactory.of(inner.createReaderFactory())
}

/** A batch of a read as a stream. Its parameters are those of Spark's node, which makes copies of it by them. */
class ColumnarMicroBatchScanExec(
    output: Seq[Attribute],
    @transient scan: Scan,
    @transient stream: MicroBatchStream,
    @transient start: Offset,
    @transient end: Offset,
    keyGroupedPartitioning: Option[Seq[Expression]],
    ordering: Option[Seq[SortOrder]])
    extends MicroBatchScanExec(output, scan, stream, start, end, keyGroupedPartitioning, ordering) {

  override lazy val readerFactory: PartitionReaderFactory = ColumnarReaderFactory.of(stream.createReaderFactory())

  override def supportsColumnar: Boolean = true
}

object ColumnarReaderFactory {
  import ColumnarScan.parameter

  def of(rows: PartitionReaderFactory): ColumnarReaderFactory = new ColumnarReaderFactory(
    rows,
    parameter[UserDefinedPythonDataSource](rows, "source"),
    parameter[Array[Byte]](rows, "pickledReadFunc"),
    parameter[StructType](rows, "outputSchema"),
    parameter[Option[String]](rows, "jobArtifactUUID"),
    parameter[Option[String]](rows, "sessionUUID"))

}

class ColumnarReaderFactory(
    rows: PartitionReaderFactory,
    source: UserDefinedPythonDataSource,
    pickledReadFunc: Array[Byte],
    outputSchema: StructType,
    jobArtifactUUID: Option[String],
    sessionUUID: Option[String])
    extends PartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = true

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = rows.createReader(partition)

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] = {
    val metrics = PythonCustomMetric.pythonMetrics
    val pickled = partition match {
      case of: PythonInputPartition => of.pickedPartition
      case of: PythonStreamingInputPartition if of.blockId.isEmpty => of.pickedPartition // read in a task, not before
      case other => throw new IllegalStateException(s"a partition that is not read in a task: $other")
    }
    val (rows, shared) =
      if (SQLConf.get.pythonUDFWorkerIdleTimeoutSeconds > 0) (run(pickled, metrics), None) // a worker is idle to the runner
      else SharedColumns.offered(pickled, metrics)(run(_, metrics))
    new ColumnarReader(rows, shared, outputSchema.length, source, metrics)
  }

  /** Has a Python worker read a partition: what `createMapInBatchEvaluatorFactory` and its evaluator do, up to the rows. */
  private def run(partition: Array[Byte], metrics: Map[String, SQLMetric]): Iterator[ColumnarBatch] = {
    val conf = SQLConf.get
    val input = UserDefinedPythonDataSource.readInputSchema
    val function = ChainedPythonFunctions(Seq(source.createPythonFunction(pickledReadFunc)))
    val runner = new ArrowPythonRunner(
      Seq((function, NamedExpression.newExprId.id)),
      PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
      Array(Array(0)),
      StructType(Array(StructField("struct", input))),
      conf.sessionLocalTimeZone,
      conf.arrowUseLargeVarTypes,
      ArrowPythonRunner.getPythonRunnerConfMap(conf),
      metrics,
      jobArtifactUUID,
      sessionUUID) with BatchedPythonArrowInput
    val context = TaskContext.get()
    val row = InternalRow(InternalRow(partition))
    runner.compute(Iterator(Iterator(row)), context.partitionId(), context)
  }
}

class ColumnarReader(
    rows: Iterator[ColumnarBatch],
    shared: Option[SharedColumns],
    width: Int,
    source: UserDefinedPythonDataSource,
    metrics: Map[String, SQLMetric])
    extends PartitionReader[ColumnarBatch] {

  private var current: ColumnarBatch = _

  // The vectors are the worker's until the next batch is asked for, which frees them; the end of the task frees the last.
  override def next(): Boolean = {
    val batch = shared match {
      case Some(memory) if memory.isUsed => memory.next()
      case _ => if (rows.hasNext) Some(unwrapped(rows.next())) else None
    }
    batch.foreach(current = _)
    batch.isDefined
  }

  // Python's batch is one column, a struct of those that were asked for.
  private def unwrapped(batch: ColumnarBatch): ColumnarBatch = {
    val struct = batch.column(0).asInstanceOf[ArrowColumnVector]
    new ColumnarBatch(Array.tabulate(width)(column => FlatVectors.over(struct.getChild(column))), batch.numRows())
  }

  override def get(): ColumnarBatch = current

  // A task that ends before its batches do lets go of its worker itself, as with rows.
  override def close(): Unit = shared.foreach(_.close())

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    source.createPythonTaskMetrics(metrics.map { case (name, metric) => name -> metric.value })
}
