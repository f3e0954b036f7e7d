// Durable queues in the project's own database. Messages are worked on as service_role in one statement each; queues
// are made and dropped as the project's owner, to whom their tables belong.
import type { CreatedQueue } from '@plinth/contract/queue.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Caller, Databases, Statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { manyMessages, oneMessage, readWish, settleWish } from './body.ts'
import { createHeads, type Heads, type Look } from './heads.ts'
import { messageRefusal, noQueue, setUpRefusal } from './refusals.ts'
import { listQueues, type QueueStatements, statementsOf } from './statements.ts'

export type QueueService = ReturnType<typeof queueService>

const maxBodyBytes = 10 * 1024 * 1024
/** Of a body without messages: 10,000 ids and much space. */
const maxOrderBytes = 256 * 1024
const mostArchived = 1000
const rememberedQueues = 2000
/** Whoever waits for a lock holds up everybody behind it: not for long. */
const timeoutMs = 30_000
const patience = `set lock_timeout = '3s'; set statement_timeout = ${timeoutMs}`
const json = { 'content-type': 'application/json; charset=utf-8' }

export function queueService(databases: Databases, heads: Heads = createHeads()) {
  /** By name: queues of the same name in different projects have the same statements. */
  const known = new Map<string, QueueStatements>()

  function statements(name: string): QueueStatements {
    const found = known.get(name)
    if (found) return found
    if (known.size >= rememberedQueues) known.delete(known.keys().next().value!)
    const made = statementsOf(name)
    known.set(name, made)
    return made
  }

  const ask = (caller: Caller, name: string, statement: Statement, values: readonly Value[]) =>
    databases.asService(caller.tenant, statement, values).catch(error => {
      throw messageRefusal(error, name)
    })

  /** The only value of the only row. */
  const value = (caller: Caller, name: string, statement: Statement, values: readonly Value[]) =>
    ask(caller, name, statement, values).then(({ rows }): Cell => rows[0]?.[0] ?? null)

  /** The only value of what reads from the head of the queue. */
  async function fromHead(
    caller: Caller,
    name: string,
    statement: Statement,
    values: readonly Value[],
  ): Promise<Cell> {
    const queue = `${caller.tenant.id}:${name}`
    const look: Look = async from => {
      const { rows } = await ask(caller, name, statements(name).head, [from])
      return { id: String(rows[0]![0]), ms: Number(rows[0]![1]) }
    }
    const { rows, ms } = await ask(caller, name, statement, [heads.of(queue, look), ...values])
    heads.note(queue, ms, look)
    return rows[0]?.[0] ?? null
  }

  /** Queues come and go with their tables. */
  async function asOwner<T>(
    tenant: Tenant,
    name: string,
    signal: AbortSignal | undefined,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    try {
      return await databases.asOwner(
        tenant,
        async session => {
          await session.script(patience)
          return work(session)
        },
        { signal, timeoutMs },
      )
    } catch (error) {
      throw setUpRefusal(error, name)
    } finally {
      heads.forget(`${tenant.id}:${name}`)
    }
  }

  /** Deletes or moves messages, and says which of them there were if several were named. */
  async function settle(
    caller: Caller,
    name: string,
    request: RawRequest,
    statement: Statement,
    told: 'acked' | 'archived',
  ): Promise<RawReply> {
    const { ids, areMany } = settleWish(await readBody(request, maxOrderBytes))
    const done = String(await value(caller, name, statement, [`{${ids.join(',')}}`]))
    const answer = `"${told}":${done !== '[]'}`
    return { status: 200, headers: json, body: areMany ? `{${answer},"msg_ids":${done}}` : `{${answer}}` }
  }

  return {
    async create({ tenant }: Caller, name: string, signal?: AbortSignal): Promise<CreatedQueue> {
      const queue = await asOwner(tenant, name, signal, async session => {
        await session.run(sql`select pgmq.create(${name}::text)`)
        return session.row<Omit<CreatedQueue, 'queue'>>(sql`
          select queue_name, is_partitioned, is_unlogged, pg_catalog.to_json(created_at) #>> '{}' as created_at
            from pgmq.meta where lower(queue_name) = ${name}`)
      })
      return { queue: name, ...queue! }
    },

    async list(caller: Caller): Promise<RawReply> {
      const { rows } = await databases.asService(caller.tenant, listQueues, []).catch(error => {
        throw setUpRefusal(error)
      })
      return { status: 200, headers: json, body: rows[0]![0]! }
    },

    async drop({ tenant }: Caller, name: string, signal?: AbortSignal): Promise<void> {
      const dropped = await asOwner(tenant, name, signal, session =>
        session.row<{ existed: boolean }>(sql`select pgmq.drop_queue(${name}::text) as existed`),
      )
      if (!dropped?.existed) throw noQueue(name)
    },

    async send(caller: Caller, name: string, request: RawRequest): Promise<RawReply> {
      const body = await oneMessage(await readBody(request, maxBodyBytes))
      const id = await value(caller, name, statements(name).send, [body.json, String(body.delay)])
      return { status: 200, headers: json, body: `{"msg_id":${id}}` }
    },

    async sendBatch(caller: Caller, name: string, request: RawRequest): Promise<RawReply> {
      const body = await manyMessages(await readBody(request, maxBodyBytes))
      const sent = await value(caller, name, statements(name).sendBatch, [body.json, String(body.delay)])
      return { status: 200, headers: json, body: `{"msg_ids":${sent}}` }
    },

    async read(caller: Caller, name: string, request: RawRequest): Promise<RawReply> {
      const { vt, qty } = readWish(await readBody(request, maxOrderBytes))
      const messages = await fromHead(caller, name, statements(name).read, [String(vt), String(qty)])
      return { status: 200, headers: json, body: messages }
    },

    async pop(caller: Caller, name: string): Promise<RawReply> {
      const message = await fromHead(caller, name, statements(name).pop, [])
      return { status: 200, headers: json, body: message ?? 'null' }
    },

    ack: (caller: Caller, name: string, request: RawRequest) =>
      settle(caller, name, request, statements(name).ack, 'acked'),

    archive: (caller: Caller, name: string, request: RawRequest) =>
      settle(caller, name, request, statements(name).archive, 'archived'),

    async archived(caller: Caller, name: string, limit: number, offset: number): Promise<RawReply> {
      const page = [String(Math.min(limit, mostArchived)), String(offset)]
      const messages = await value(caller, name, statements(name).archived, page)
      return { status: 200, headers: json, body: messages }
    },

    async replay(caller: Caller, name: string, id: number): Promise<number> {
      const replayed = await value(caller, name, statements(name).replay, [String(id)])
      if (replayed === null)
        throw new Refusal('archived_message_not_found', `The archive of queue "${name}" has no message ${id}`)
      heads.forget(`${caller.tenant.id}:${name}`)
      return id
    },

    metrics: async (caller: Caller, name: string) =>
      JSON.parse(String(await value(caller, name, statements(name).metrics, []))),
  }
}
