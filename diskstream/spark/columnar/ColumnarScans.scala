/* Batch reads of diskstream handed to Spark as columns, as its own Parquet reader hands its, and not row by row.
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
 *
 * What is used of Spark here is not its public interface, and the package is one that may use it. So a jar is for the
 * version of Spark that it was compiled against, which stands in its name, and `diskstream.spark.columnar` takes no other.
 * A read as a stream stays as it is: Spark finds the counts of its progress by the object that this would hide.
 */
package org.apache.spark.sql.execution.python.diskstream

import org.apache.spark.TaskContext
import org.apache.spark.api.python.{ChainedPythonFunctions, PythonEvalType}
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read.{Batch, InputPartition, PartitionReader, PartitionReaderFactory, Scan}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.execution.datasources.v2.python._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.{ArrowPythonRunner, BatchedPythonArrowInput}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.connector.SupportsMetadata
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch}

/** For the setting `spark.sql.extensions`, where a cluster gives all its sessions columnar scans. */
class ColumnarExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectPlannerStrategy(_ => new ColumnarScanStrategy)
}

/** For a session that runs already. */
class ColumnarSwitch {

  /** Gives a session columnar scans, or takes them away. */
  def turn(session: SparkSession, on: Boolean): Unit = {
    val others = session.experimental.extraStrategies.filterNot(_.isInstanceOf[ColumnarScanStrategy])
    session.experimental.extraStrategies = if (on) others :+ new ColumnarScanStrategy else others
  }
}

/** Wraps the scans of a plan, once, and leaves what becomes of it to Spark's own strategies. */
class ColumnarScanStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    val wrapped = plan.transform {
      case relation: DataSourceV2ScanRelation if relation.relation.table.name() == ColumnarScan.Format =>
        relation.scan match {
          case scan: PythonScan => relation.copy(scan = new ColumnarScan(scan))
          case _ => relation
        }
    }
    if (wrapped.fastEquals(plan)) Nil else Seq(planLater(wrapped))
  }
}

object ColumnarScan {
  val Format = "diskstream"
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
    ColumnarReaderFactory.of(inner.createReaderFactory().asInstanceOf[PythonPartitionReaderFactory])
}

object ColumnarReaderFactory {
  def of(rows: PythonPartitionReaderFactory): ColumnarReaderFactory = new ColumnarReaderFactory(
    rows,
    parameter[UserDefinedPythonDataSource](rows, "source"),
    parameter[Array[Byte]](rows, "pickledReadFunc"),
    parameter[StructType](rows, "outputSchema"),
    parameter[Option[String]](rows, "jobArtifactUUID"),
    parameter[Option[String]](rows, "sessionUUID"))

  // A parameter of a Scala class that only its methods use is a field, under the name or under one that ends in it.
  private def parameter[T](rows: PythonPartitionReaderFactory, name: String): T = {
    val fields = classOf[PythonPartitionReaderFactory].getDeclaredFields
    val field = fields
      .find(each => each.getName == name || each.getName.endsWith("$$" + name))
      .getOrElse(throw new IllegalStateException(s"this Spark's Python scans have no $name: register with columnar=False"))
    field.setAccessible(true)
    field.get(rows).asInstanceOf[T]
  }
}

class ColumnarReaderFactory(
    rows: PythonPartitionReaderFactory,
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
    val batches = run(partition.asInstanceOf[PythonInputPartition], metrics)
    new ColumnarReader(batches, outputSchema.length, source, metrics)
  }

  /** Has a Python worker read a partition: what `createMapInBatchEvaluatorFactory` and its evaluator do, up to the rows. */
  private def run(partition: PythonInputPartition, metrics: Map[String, SQLMetric]): Iterator[ColumnarBatch] = {
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
    val row = InternalRow(InternalRow(partition.pickedPartition))
    runner.compute(Iterator(Iterator(row)), context.partitionId(), context)
  }
}

class ColumnarReader(
    batches: Iterator[ColumnarBatch],
    width: Int,
    source: UserDefinedPythonDataSource,
    metrics: Map[String, SQLMetric])
    extends PartitionReader[ColumnarBatch] {

  private var current: ColumnarBatch = _

  // The vectors are the worker's until the next batch is asked for, which frees them; the end of the task frees the last.
  override def next(): Boolean = batches.hasNext && {
    val batch = batches.next()
    // Python's batch is one column, a struct of those that were asked for.
    val struct = batch.column(0).asInstanceOf[ArrowColumnVector]
    current = new ColumnarBatch(Array.tabulate(width)(column => FlatVectors.over(struct.getChild(column))), batch.numRows())
    true
  }

  override def get(): ColumnarBatch = current

  // A task that ends before its batches do lets go of its worker itself, as with rows.
  override def close(): Unit = ()

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    source.createPythonTaskMetrics(metrics.map { case (name, metric) => name -> metric.value })
}
