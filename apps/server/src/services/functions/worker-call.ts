// The request to a worker and its answer.
import { Readable } from 'node:stream'
import { type Answer, AnswerTimeout, type LinkedCall } from '@plinth/runtime/client/linked-call.ts'
import type { ByteSource } from '#src/kernel/byte-source.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { failureOf, reasonOf, timedOut, tooLong } from './failures.ts'
import { answerHeaders } from './headers.ts'
import type { Lease } from './runtime.ts'

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
  { name, target, headers, maxBytes }: CallContext,
  timeoutMs: number,
  onEnd: (status: number) => void,
): Promise<RawReply> {
  const running = worker.begin(name)
  let call: LinkedCall | undefined
  const stopListening = request.onDisconnect(() => call?.cancel())
  const end = () => {
    stopListening()
    running.done()
  }
  try {
    const body = bodyOf(request)
    const sent = body instanceof Promise ? await body : body
    call = running.send({ method: request.method, target, headers }, sent, timeoutMs)
    const answer = await call.answer
    const { status, headers: answered, outcome } = answerHeaders(answer)
    if (outcome !== undefined) throw failureOf(outcome)
    if (answer.whole) {
      if (answer.whole.length > maxBytes) throw tooLong(maxBytes)
      end()
      onEnd(status)
      const released = release()
      if (released) await released
      return { status, headers: answered, body: answer.whole.length > 0 ? answer.whole : null }
    }
    const source = sourceOf(answer, call, { timeoutMs, maxBytes }, async () => {
      end()
      onEnd(status)
      await release()
    })
    return { status, headers: answered, isReadingRequest: sent instanceof Readable, body: source }
  } catch (error) {
    call?.cancel()
    end()
    if (error instanceof AnswerTimeout) void worker.checkAlive()
    const reason = await reasonOf(error, worker, timeoutMs)
    await release()
    throw reason
  }
}

/** Small bodies whole, others as a stream. */
function bodyOf({ headers, body, method }: RawRequest): Buffer | Readable | undefined | Promise<Buffer> {
  const length = headers['content-length']
  if (headers['transfer-encoding'] === undefined && (length === undefined || length === '0'))
    return method === 'POST' || method === 'PUT' || method === 'PATCH' ? Buffer.alloc(0) : undefined
  return length === undefined || Number(length) > maxWholeBody ? body : wholeBody(body)
}

async function wholeBody(body: Readable): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

function sourceOf(
  answer: Answer,
  call: LinkedCall,
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
      const chunks = await answer.read().catch(error => {
        throw error instanceof AnswerTimeout ? timedOut(timeoutMs) : error
      })
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
      if (hasMore) call.cancel()
      hasMore = false
      ended ??= onEnd()
      await ended
    },
  }
}
