// The request to a worker and its answer.
import { Readable } from 'node:stream'
import type { ByteSource } from '#src/kernel/byte-source.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { failureOf, isTimeout, reasonOf, timedOut, tooLong } from './failures.ts'
import { answerHeaders } from './headers.ts'
import type { Lease } from './runtime.ts'
import type { Answer, LinkedCall } from './worker/link.ts'
import { ConnectionLost } from './worker/received-bytes.ts'

/** Bodies up to this length are sent in one piece. */
const maxWholeBody = 64 * 1024

export interface CallContext {
  name: string
  headers: readonly string[]
  target: string
  maxBytes: number
}

/** Resolves when the head of the answer is there. `onEnd` is called when the whole answer has been passed on. */
export async function callWorker(
  { worker, release }: Lease,
  request: RawRequest,
  context: CallContext,
  timeoutMs: number,
  onEnd: (status: number) => void,
): Promise<RawReply> {
  const { maxBytes } = context
  const call = worker.begin(context.name)
  let sent: LinkedCall | undefined
  const abort = () => sent?.cancel()
  request.signal.addEventListener('abort', abort)
  const over = (status: number) => {
    request.signal.removeEventListener('abort', abort)
    call.done()
    onEnd(status)
  }
  try {
    const body = await bodyOf(request)
    sent = call.send({ method: request.method, target: context.target, headers: context.headers }, body)
    const answer = await within(sent.answer, timeoutMs, sent.cancel)
    const { status, headers, outcome } = answerHeaders(answer)
    if (outcome !== undefined) throw failureOf(outcome)
    if (answer.whole) {
      if (answer.whole.length > maxBytes) throw tooLong(maxBytes)
      over(status)
      await release()
      return { status, headers, body: answer.whole.length > 0 ? answer.whole : null }
    }
    const limits = { timeoutMs, maxBytes }
    return {
      status,
      headers,
      isReadingRequest: body instanceof Readable,
      body: sourceOf(answer, sent, limits, async () => {
        over(status)
        await release()
      }),
    }
  } catch (error) {
    sent?.cancel()
    request.signal.removeEventListener('abort', abort)
    call.done()
    if (isTimeout(error)) void worker.checkAlive()
    const reason = error instanceof ConnectionLost ? await reasonOf(worker) : error
    await release()
    throw reason
  }
}

/** Small bodies whole, others as a stream. */
async function bodyOf({ headers, body, method }: RawRequest): Promise<Buffer | Readable | undefined> {
  const length = headers['content-length']
  if (headers['transfer-encoding'] === undefined && (length === undefined || length === '0'))
    return method === 'POST' || method === 'PUT' || method === 'PATCH' ? Buffer.alloc(0) : undefined
  if (length === undefined || Number(length) > maxWholeBody) return body
  const chunks: Buffer[] = []
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

export async function within<T>(work: Promise<T>, timeoutMs: number, onTimeout: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(timedOut(timeoutMs))
      onTimeout()
    }, timeoutMs)
  })
  work.catch(() => {})
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function sourceOf(
  answer: Answer,
  { cancel }: LinkedCall,
  { timeoutMs, maxBytes }: { timeoutMs: number; maxBytes: number },
  onEnd: () => Promise<void>,
): ByteSource {
  let hasMore = true
  let passed = 0
  let ended: Promise<void> | undefined
  return {
    isLive: true,
    get hasMore() {
      return hasMore
    },
    async next() {
      const chunks = await within(answer.read(), timeoutMs, cancel)
      if (chunks.length === 0) {
        ended ??= onEnd()
        await ended
        hasMore = false
      }
      passed += chunks.reduce((sum, { length }) => sum + length, 0)
      if (passed > maxBytes) throw tooLong(maxBytes)
      return chunks
    },
    async close() {
      if (hasMore) cancel()
      hasMore = false
      ended ??= onEnd()
      await ended
    },
  }
}
