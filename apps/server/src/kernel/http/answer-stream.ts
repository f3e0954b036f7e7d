// Streams an answer as fast as its client reads it.
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type ByteSource, discard } from '#src/kernel/byte-source.ts'

/**
 * Resolves when all is written, or when the client has disconnected. The socket is checked for that, because a pipelined
 * answer gets its socket only after the answers before it are sent. Rethrows errors of the source, after which the answer
 * is incomplete.
 */
export async function streamAnswer(
  source: ByteSource,
  { status, headers }: { status: number; headers: OutgoingHttpHeaders },
  answer: ServerResponse,
  socket: Socket,
): Promise<void> {
  try {
    answer.writeHead(status, headers)
    if (source.isLive) answer.flushHeaders()
    while (source.hasMore && !socket.destroyed) {
      const chunks = await source.next()
      if (!write(answer, chunks) && !socket.destroyed) await drained(answer)
    }
    if (!socket.destroyed) answer.end()
  } finally {
    await source.close()
  }
}

/** False when the next write should wait. Chunks of one turn of the event loop are sent together. */
function write(answer: ServerResponse, chunks: readonly Buffer[]): boolean {
  let isMoreWanted = true
  const last = chunks.length - 1
  chunks.forEach((chunk, at) => {
    isMoreWanted =
      at < last
        ? answer.write(chunk)
        : answer.write(chunk, error => {
            // After an error, memory that was not written may still be in use.
            if (!error) chunks.forEach(discard)
          })
  })
  return isMoreWanted
}

/** Resolves also when the client has disconnected. */
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
