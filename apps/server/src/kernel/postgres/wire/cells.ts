/**
 * The cells of a DataRow, as buffers that share the memory of the row. Unless `isOwn`, the row is copied first, because its
 * memory is reused.
 */
export function cellsOf(bytes: Buffer, start: number, end: number, isOwn: boolean): (Buffer | null)[] {
  if (isOwn) return cells(bytes, start)
  const row = Buffer.allocUnsafe(end - start)
  bytes.copy(row, 0, start, end)
  return cells(row, 0)
}

function cells(bytes: Buffer, start: number): (Buffer | null)[] {
  const count = bytes.readInt16BE(start)
  const row: (Buffer | null)[] = new Array(count)
  let at = start + 2
  for (let index = 0; index < count; index++) {
    const length = bytes.readInt32BE(at)
    at += 4
    row[index] = length < 0 ? null : bytes.subarray(at, at + length)
    if (length > 0) at += length
  }
  return row
}
