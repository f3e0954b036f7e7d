// Writes the changes: at full speed, as far ahead of the subscribers as a window allows, or at a fixed rate with the time
// of every commit.
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../apps/server/src/kernel/postgres/database.ts'
import { sql } from '../apps/server/src/kernel/postgres/sql.ts'
import type { Readers } from './realtime-load.ts'
import { markDigits, markPattern, monotonicMs } from './realtime-readers.ts'
import type { RealtimeStage } from './realtime-stage.ts'

const atOnce = 8
const deliveryTimeoutMs = 20_000
/** About the size of a chat message. */
const body =
  'of about a hundred characters, as people write them to each other in the course of a day'.padEnd(96)

export interface Writer {
  /** Resolves when it is committed. */
  write(mark: number): Promise<void>
  end(): Promise<void>
}

const markText = (mark: number) => markPattern + mark.toString().padStart(markDigits, '0')

/** Inserts a post per change, each in its own transaction, over a database connection. */
export function sqlPosts({ owner, database, users }: RealtimeStage): Writer {
  const pool = openDatabase(owner, database, {}, () => {}, { max: atOnce })
  return {
    async write(mark) {
      const author = users[mark % users.length]!.id
      await pool.run(
        sql`insert into posts (team, author, mark, body) values (1, ${author}, ${markText(mark)}, ${body})`,
      )
    },
    end: () => pool.close(),
  }
}

/** Updates the same post repeatedly, so that the old row is checked, too. */
export function sqlEdits({ owner, database }: RealtimeStage): Writer {
  const pool = openDatabase(owner, database, {}, () => {}, { max: atOnce })
  const post = pool.row<{ id: string }>(sql`insert into posts (team, body) values (1, ${body}) returning id`)
  return {
    async write(mark) {
      const { id } = (await post)!
      await pool.run(sql`update posts set mark = ${markText(mark)} where id = ${id}`)
    },
    end: () => pool.close(),
  }
}

/** Inserts a note per change, to one user after the other. */
export function sqlNotes({ owner, database, users }: RealtimeStage): Writer {
  const pool = openDatabase(owner, database, {}, () => {}, { max: atOnce })
  return {
    async write(mark) {
      const { id } = users[mark % users.length]!
      await pool.run(sql`insert into notes (owner, mark, body) values (${id}, ${markText(mark)}, ${body})`)
    },
    end: () => pool.close(),
  }
}

/** Inserts a post per change over HTTP, by one user after the other. */
export function restPosts({ restUrl, keys, users }: RealtimeStage): Writer {
  const agent = new Agent({ keepAlive: true })
  return {
    async write(mark) {
      const author = users[mark % users.length]!
      const sending = request(`${restUrl}/posts`, {
        agent,
        method: 'POST',
        headers: {
          apikey: keys.anon,
          authorization: `Bearer ${author.token}`,
          'content-type': 'application/json',
          prefer: 'return=minimal',
        },
      })
      sending.end(JSON.stringify({ team: 1, author: author.id, mark: markText(mark), body }))
      const [reply] = (await once(sending, 'response')) as [IncomingMessage]
      reply.resume()
      if (reply.statusCode !== 201) throw new Error(`a post was answered ${reply.statusCode}`)
    },
    async end() {
      agent.destroy()
    },
  }
}

let mark = 0

export interface Run {
  changes: number
  deliveries: number
  seconds: number
}

/** Writes at full speed. The writer waits only while the subscribers are more than a window behind. */
export async function writeAtFullSpeed(
  readers: Readers,
  writer: Writer,
  { seconds, window, fanOut }: { seconds: number; window: number; fanOut: number },
): Promise<Run> {
  const first = readers.frames()
  const startedAt = performance.now()
  let changes = 0
  const work = async () => {
    while (performance.now() - startedAt < seconds * 1000) {
      const ahead = changes++ - window
      await waitForFrames(readers, first + (ahead + 1) * fanOut)
      await writer.write(++mark)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  await waitForFrames(readers, first + changes * fanOut)
  return { changes, deliveries: changes * fanOut, seconds: (performance.now() - startedAt) / 1000 }
}

export interface FixedRateRun extends Run {
  /** Latencies from the return of the commit to the client, of every sampled delivery, sorted. */
  latenciesMs: number[]
  /** The same, measured from the time before the write was sent. */
  fromSendingMs: number[]
}

export async function writeAtFixedRate(
  readers: Readers,
  writer: Writer,
  { seconds, perSecond, fanOut }: { seconds: number; perSecond: number; fanOut: number },
): Promise<FixedRateRun> {
  await readers.call('marks', undefined)
  const first = readers.frames()
  const startedAt = performance.now()
  const times = new Map<number, { sent: number; committed: number }>()
  const pending: Promise<void>[] = []
  const changes = Math.round(seconds * perSecond)
  for (let index = 0; index < changes; index++) {
    await sleep(Math.max(0, (index / perSecond) * 1000 - (performance.now() - startedAt)))
    const own = ++mark
    const time = { sent: monotonicMs(), committed: 0 }
    times.set(own, time)
    pending.push(
      writer.write(own).then(() => {
        time.committed = monotonicMs()
      }),
    )
  }
  await Promise.all(pending)
  await waitForFrames(readers, first + changes * fanOut)
  const elapsed = (performance.now() - startedAt) / 1000
  const found = await readers.call('marks', undefined)
  const since = (of: 'sent' | 'committed') =>
    Array.from(found.mark, (each, index) => found.atMs[index]! - times.get(each)![of]).sort((a, b) => a - b)
  return {
    changes,
    deliveries: changes * fanOut,
    seconds: elapsed,
    latenciesMs: since('committed'),
    fromSendingMs: since('sent'),
  }
}

async function waitForFrames(readers: Readers, frames: number): Promise<void> {
  if (await readers.reached(frames, deliveryTimeoutMs)) return
  const { closed } = await readers.call('counts', undefined)
  const closures = closed.length > 0 ? `; ${closed.length} sockets were closed: ${closed[0]}` : ''
  throw new Error(`deliveries were lost: ${readers.frames()} of ${frames} arrived${closures}`)
}

export const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!
