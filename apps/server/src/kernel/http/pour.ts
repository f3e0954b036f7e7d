// An answer written as fast as its client takes it.
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type ByteSource, discard } from '#src/kernel/byte-source.ts'

/**
 * Ends when all is handed over, or when the client has gone, which is seen on the socket: an answer has none of its own
 * before its turn. Throws what the source throws; then the answer is not whole.
 */
export async function pour(
  source: ByteSource,
  { status, headers }: { status: number; headers: OutgoingHttpHeaders },
  answer: ServerResponse,
  socket: Socket,
): Promise<void> {
  try {
    answer.writeHead(status, headers)
    while (source.hasMore && !socket.destroyed) {
      const chunks = await source.next()
      if (!write(answer, chunks) && !socket.destroyed) await drained(answer)
    }
    if (!socket.destroyed) answer.end()
  } finally {
    await source.close()
  }
}

/** False when the next should wait. Those of one turn go out together. */
function write(answer: ServerResponse, chunks: readonly Buffer[]): boolean {
  let isMoreWanted = true
  const last = chunks.length - 1
  chunks.forEach((chunk, at) => {
    isMoreWanted =
      at < last
        ? answer.write(chunk)
        : answer.write(chunk, error => {
            // Of what was not written, nobody knows whether it is still being tried.
            if (!error) chunks.forEach(discard)
          })
  })
  return isMoreWanted
}

/** Or the client has gone. */
function drained(answer: ServerResponse): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      answer.off('drain', done)
      answer.off('close', done)
      resolve()
    }
    answer.on('drain', done)
    answer.on('close', done)
  })
}
