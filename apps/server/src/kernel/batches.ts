/** Groups values into arrays of `size`; the last may be shorter. */
export async function* inBatches<T>(values: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = []
  for await (const value of values) {
    if (batch.push(value) < size) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
