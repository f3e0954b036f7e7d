// The request to a worker and its answer.
import { Readable } from 'node:stream'
import { type Answer, AnswerTimeout, type LinkedCall } from '@plinth/runtime/client/linked-call.ts'
import { type ByteSource, bytesIn } from '#src/kernel/byte-source.ts'
import { clientClosed } from '#src/kernel/http/body.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { failureOf, reasonOf, tooLong } from './failures.ts'
import { answerHeaders } from './headers.ts'
import type { Lease } from './runtime.ts'

/** Bodies up to this length are sent in one piece. */
const maxWholeBody = 64 * 1024

export interface CallContext {
  name: string
  /** Not from a function of the same project. */
  isFromOutside: boolean
  headers: readonly string[]
  target: string
  maxBytes: number
}

/** Resolves when the head of the answer is there. `onEnd` is called when the whole answer has been passed on. */
export async function callWorker(
  { worker, release }: Lease,
  request: RawRequest,
  { name, isFromOutside, target, headers, maxBytes }: CallContext,
  timeoutMs: number,
  onEnd: (status: number) => void,
): Promise<RawReply> {
  const running = worker.begin(name, isFromOutside)
  let call: LinkedCall | undefined
  let isGone = false
  const stopListening = request.onDisconnect(() => {
    isGone = true
    call?.cancel()
  })
  const end = () => {
    stopListening()
    running.done()
  }
  try {
    const body = bodyOf(request)
    const sent = body instanceof Promise ? await body : body
    call = running.send({ method: request.method, target, headers }, sent, timeoutMs)
    if (isGone) call.cancel()
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
    const source = sourceOf(answer, call, {
      maxBytes,
      isWanted: () => !isGone,
      explain: error => reasonOf(error, worker, timeoutMs),
      async onEnd() {
        end()
        onEnd(status)
        await release()
      },
    })
    return { status, headers: answered, isReadingRequest: sent instanceof Readable, body: source }
  } catch (error) {
    call?.cancel()
    end()
    if (error instanceof AnswerTimeout) void worker.checkAlive()
    const hasLeft = isGone || request.body.readableAborted
    const reason = hasLeft ? clientClosed(error) : await reasonOf(error, worker, timeoutMs)
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

interface Passing {
  maxBytes: number
  isWanted(): boolean
  /** The error for the log of the platform, if the worker fails in the middle of the answer. */
  explain(error: unknown): Promise<unknown>
  onEnd(): Promise<void>
}

function sourceOf(
  answer: Answer,
  call: LinkedCall,
  { maxBytes, isWanted, explain, onEnd }: Passing,
): ByteSource {
  let hasMore = true
  let passed = 0
  let ended: Promise<void> | undefined
  async function read(): Promise<readonly Buffer[]> {
    try {
      return await answer.read()
    } catch (error) {
      if (isWanted()) throw await explain(error)
      return []
    }
  }
  return {
    isLive: true,
    get hasMore() {
      return hasMore
    },
    async next() {
      const chunks = await read()
      if (chunks.length === 0) {
        ended ??= onEnd()
        await ended
        hasMore = false
      }
      passed += bytesIn(chunks)
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
