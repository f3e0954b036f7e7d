// Streams WAL from the server into a writer, and confirms what is durable. Small commits at a high rate would make the server
// send a message for each, which costs much CPU. Then the stream ends for a short time, and what was written meanwhile comes
// in large messages.
import { startChore } from '#src/kernel/chores.ts'
import type { ReplicationConnection } from './replication-connection.ts'
import { startCommand } from './replication-slot.ts'
import { formatLsn } from './wal-position.ts'
import type { WalWriter } from './wal-writer.ts'

export interface WalStreamHooks {
  onReceived(): void
  onSynced(position: number): void
  /** Whether somebody waits until a position is durable. */
  isAwaited(): boolean
  /** Resolves after the time, or earlier if somebody waits. */
  rest(milliseconds: number): Promise<void>
}

const syncAfterMs = 200
const restMs = 200
const crowd = { batches: 32, meanBytes: 32 * 1024 }
/** A server closes the connection after 60 seconds without a status. */
const statusEveryMs = 10_000

/** Rejects when the connection or the writer fails. */
export async function streamWal(
  replication: ReplicationConnection,
  writer: WalWriter,
  hooks: WalStreamHooks,
): Promise<never> {
  const { timeline } = writer.end
  let isStreaming = false
  const sendStatus = () => {
    if (isStreaming) replication.send(statusOf(writer))
  }
  const sync = async () => {
    await writer.sync()
    hooks.onSynced(writer.syncedPosition)
    sendStatus()
  }
  const syncLater = delayed(syncAfterMs, () => sync().catch(() => replication.close()))
  // A writer that waits for the packer must not lose its connection.
  const confirmation = startChore({ name: 'confirm WAL', everyMs: statusEveryMs, run: sendStatus })

  async function take(messages: readonly Buffer[]): Promise<void> {
    hooks.onReceived()
    for (const message of messages) {
      if (message[0] === walData) await writer.write(contentAt(message, writer.end.position))
      else if (message[0] === keepAlive && message[17] === 1) sendStatus()
    }
  }

  async function streamUntilCrowded(): Promise<void> {
    const isCrowded = crowdWatch()
    const stream = replication.stream(startCommand(formatLsn(writer.end.position), timeline))
    let isEnding = false
    for await (const messages of stream) {
      if (!isStreaming && !isEnding) {
        isStreaming = true
        sendStatus()
      }
      await take(messages)
      if (isEnding || writer.end.position === writer.syncedPosition) continue
      if (hooks.isAwaited()) await sync()
      else if (isCrowded(messages)) {
        isEnding = true
        isStreaming = false
        replication.endStream()
      } else syncLater.start()
    }
    if (!isEnding) throw new Error('the server has ended the stream of WAL')
  }

  try {
    for (;;) {
      await streamUntilCrowded()
      await sync()
      await hooks.rest(restMs)
    }
  } finally {
    syncLater.stop()
    await confirmation.stop()
  }
}

const walData = 0x77
const keepAlive = 0x6b
/** Type, start, end of the WAL on the server, time. */
const walDataHeaderBytes = 25

/** The WAL in a message, which must be what follows. */
function contentAt(message: Buffer, position: number): Buffer {
  const start = Number(message.readBigUInt64BE(1))
  if (start === position) return message.subarray(walDataHeaderBytes)
  throw new Error(`the server sent WAL from ${formatLsn(start)} instead of ${formatLsn(position)}`)
}

function statusOf(writer: WalWriter): Buffer {
  const status = Buffer.alloc(34)
  status[0] = 0x72
  status.writeBigUInt64BE(BigInt(writer.end.position), 1)
  status.writeBigUInt64BE(BigInt(writer.syncedPosition), 9)
  return status
}

/** Tells whether so many messages have come in a short time that a rest pays, and they are small. */
function crowdWatch(): (messages: readonly Buffer[]) => boolean {
  let since = performance.now()
  let batches = 0
  let bytes = 0
  return messages => {
    for (const { length } of messages) bytes += length
    if (++batches < crowd.batches) return false
    const isCrowded = performance.now() - since < restMs && bytes < crowd.batches * crowd.meanBytes
    since = performance.now()
    batches = 0
    bytes = 0
    return isCrowded
  }
}

/** Calls back once, this long after the first `start` since the last call. */
function delayed(ms: number, work: () => unknown): { start(): void; stop(): void } {
  let timer: NodeJS.Timeout | undefined
  return {
    start() {
      timer ??= setTimeout(() => {
        timer = undefined
        void work()
      }, ms)
    },
    stop: () => clearTimeout(timer),
  }
}
