// Rows as JSON, one on each line.
const chunkBytes = 65_536
const maxLineBytes = 64 * 1024 * 1024

export async function writeLines(
  rows: AsyncIterable<unknown>,
  write: (chunk: Buffer) => Promise<void> | void,
): Promise<void> {
  let text = ''
  for await (const row of rows) {
    text += `${JSON.stringify(row)}\n`
    if (text.length < chunkBytes) continue
    await write(Buffer.from(text))
    text = ''
  }
  if (text !== '') await write(Buffer.from(text))
}

interface Lines {
  /** Of one line. */
  maxBytes?: number
  /** The last line may have no end. */
  hasOpenEnd?: boolean
}

export async function* readLines<T>(
  chunks: AsyncIterable<Buffer>,
  { maxBytes = maxLineBytes, hasOpenEnd = false }: Lines = {},
): AsyncGenerator<T> {
  let parts: Buffer[] = []
  let bytes = 0
  for await (const chunk of chunks) {
    let from = 0
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, end))
      yield JSON.parse(Buffer.concat(parts).toString()) as T
      parts = []
      bytes = 0
      from = end + 1
    }
    if (from === chunk.length) continue
    bytes += chunk.length - from
    if (bytes > maxBytes) throw new Error('a line of the backup is too long')
    parts.push(chunk.subarray(from))
  }
  if (parts.length === 0) return
  if (!hasOpenEnd) throw new Error('the last line of a file of the backup has no end')
  yield JSON.parse(Buffer.concat(parts).toString()) as T
}
