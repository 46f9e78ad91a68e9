/* Columns of numbers, times, text and bytes, read where they lie.
 *
 * `ArrowColumnVector` asks an accessor for each value, one of some thirty classes behind one call, and that asks the vector
 * whether it is null there. Generated code calls these two classes instead, each of which it can see through. All other
 * types are left to `ArrowColumnVector`.
 *
 *     fixed   values   | v0 | v1 | v2 | ...          of 1, 2, 4 or 8 bytes
 *     text    offsets  | o0 | o1 | o2 | ...  (u32)   value i is bytes o[i] to o[i + 1] of the data
 *     both    validity | one bit a value, the lowest first; 0 is null |
 *
 * These are the layouts of the Arrow columnar format (Fixed-size Primitive, Variable-size Binary).
 */
package org.apache.spark.sql.execution.python.diskstream

import org.apache.arrow.vector._
import org.apache.spark.sql.types.{DataType, Decimal}
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarArray, ColumnarMap}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

object FlatVectors {

  /** A column as generated code reads it best. It is good for as long as what it is made of. */
  def over(column: ArrowColumnVector): ColumnVector = column.getValueVector match {
    case vector @ (_: TinyIntVector | _: SmallIntVector | _: IntVector | _: BigIntVector | _: Float4Vector |
        _: Float8Vector | _: DateDayVector | _: TimeStampMicroVector | _: TimeStampMicroTZVector) =>
      new FixedVector(vector.asInstanceOf[BaseFixedWidthVector], column.dataType())
    case vector @ (_: VarCharVector | _: VarBinaryVector) =>
      new TextVector(vector.asInstanceOf[BaseVariableWidthVector], column.dataType())
    case _ => column
  }
}

/** What the two have in common: nulls, and that there is nothing else to be had of them. */
abstract class FlatVector(vector: FieldVector, kind: DataType) extends ColumnVector(kind) {
  private val nulls = vector.getNullCount
  private val validity = vector.getValidityBufferAddress

  override def hasNull(): Boolean = nulls > 0

  override def numNulls(): Int = nulls

  override def isNullAt(row: Int): Boolean =
    nulls > 0 && (Platform.getByte(null, validity + (row >> 3)) & (1 << (row & 7))) == 0

  // The batch is the worker's, which frees it.
  override def close(): Unit = ()

  private def other(): Nothing = throw new UnsupportedOperationException(s"a column of $kind holds no such value")

  override def getBoolean(row: Int): Boolean = other()
  override def getByte(row: Int): Byte = other()
  override def getShort(row: Int): Short = other()
  override def getInt(row: Int): Int = other()
  override def getLong(row: Int): Long = other()
  override def getFloat(row: Int): Float = other()
  override def getDouble(row: Int): Double = other()
  override def getArray(row: Int): ColumnarArray = other()
  override def getMap(row: Int): ColumnarMap = other()
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = other()
  override def getUTF8String(row: Int): UTF8String = other()
  override def getBinary(row: Int): Array[Byte] = other()
  override def getChild(ordinal: Int): ColumnVector = other()
}

/** Values of 1, 2, 4 or 8 bytes. Where one is null, what lies there is any number, as the interface allows. */
final class FixedVector(vector: BaseFixedWidthVector, kind: DataType) extends FlatVector(vector, kind) {
  private val values = vector.getDataBufferAddress

  override def getByte(row: Int): Byte = Platform.getByte(null, values + row)
  override def getShort(row: Int): Short = Platform.getShort(null, values + (row.toLong << 1))
  override def getInt(row: Int): Int = Platform.getInt(null, values + (row.toLong << 2))
  override def getLong(row: Int): Long = Platform.getLong(null, values + (row.toLong << 3))
  override def getFloat(row: Int): Float = Platform.getFloat(null, values + (row.toLong << 2))
  override def getDouble(row: Int): Double = Platform.getDouble(null, values + (row.toLong << 3))
}

/** Text and bytes. A text is where it lies, until who reads it makes a copy, as with all columns. */
final class TextVector(vector: BaseVariableWidthVector, kind: DataType) extends FlatVector(vector, kind) {
  private val offsets = vector.getOffsetBufferAddress
  private val data = vector.getDataBufferAddress

  private def offset(row: Int): Int = Platform.getInt(null, offsets + (row.toLong << 2))

  override def getUTF8String(row: Int): UTF8String =
    if (isNullAt(row)) null
    else {
      val start = offset(row)
      UTF8String.fromAddress(null, data + start, offset(row + 1) - start)
    }

  override def getBinary(row: Int): Array[Byte] =
    if (isNullAt(row)) null
    else {
      val start = offset(row)
      val bytes = new Array[Byte](offset(row + 1) - start)
      Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length)
      bytes
    }
}
