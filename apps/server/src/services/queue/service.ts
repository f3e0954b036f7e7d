// Durable queues in the project database. Message operations run as service_role, one statement each. Queues are created and
// dropped as the project's owner, who owns their tables.
import type { CreatedQueue } from '@plinth/contract/queue.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Caller, CallerStatement, Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { manyMessages, oneMessage, parseMessageIds, parseReadOptions } from './body.ts'
import { createHeadCache, type FindHead, type HeadCache } from './head-cache.ts'
import { messageRefusal, noQueue, setUpRefusal } from './refusals.ts'
import { listQueues, type QueueStatements, statementsOf } from './statements.ts'
import { createQueue, dropQueue, findQueue } from './store.ts'

export type QueueService = ReturnType<typeof queueService>

const maxBodyBytes = 10 * 1024 * 1024
/** Maximum size of a body without messages: 10,000 ids with generous space. */
const maxRequestBytes = 256 * 1024
const mostArchived = 1000
const rememberedQueues = 2000
/** A session that waits for a lock blocks all later ones on that table, so the wait is short. */
const timeoutMs = 30_000
const patience = `set lock_timeout = '3s'; set statement_timeout = ${timeoutMs}`
const json = { 'content-type': 'application/json; charset=utf-8' }

export function queueService(databases: Databases, heads: HeadCache = createHeadCache()) {
  /** Cached by queue name, because the statements do not depend on the project. */
  const known = new Map<string, QueueStatements>()

  function statements(name: string): QueueStatements {
    const found = known.get(name)
    if (found) return found
    if (known.size >= rememberedQueues) known.delete(known.keys().next().value!)
    const made = statementsOf(name)
    known.set(name, made)
    return made
  }

  const ask = (caller: Caller, name: string, statement: CallerStatement, values: readonly Value[]) =>
    databases.asService(caller.tenant, statement, values).catch(error => {
      throw messageRefusal(error, name)
    })

  /** Returns the single value of a single row. */
  const value = (caller: Caller, name: string, statement: CallerStatement, values: readonly Value[]) =>
    ask(caller, name, statement, values).then(({ rows }): Cell => rows[0]?.[0] ?? null)

  /** Runs a read from the head of the queue and returns its single value. */
  async function fromHead(
    caller: Caller,
    name: string,
    statement: CallerStatement,
    values: readonly Value[],
  ): Promise<Cell> {
    const queue = `${caller.tenant.id}:${name}`
    const findHead: FindHead = async from => {
      const { rows } = await ask(caller, name, statements(name).head, [from])
      return { id: String(rows[0]![0]), ms: Number(rows[0]![1]) }
    }
    const { rows, ms } = await ask(caller, name, statement, [heads.of(queue, findHead), ...values])
    heads.record(queue, ms, findHead)
    return rows[0]?.[0] ?? null
  }

  /** Creates or drops a queue with its tables. */
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

  /** Deletes or archives messages. For a list of ids, returns those that existed. */
  async function settle(
    caller: Caller,
    name: string,
    request: RawRequest,
    statement: CallerStatement,
    field: 'acked' | 'archived',
  ): Promise<RawReply> {
    const { ids, areMany } = parseMessageIds(await readBody(request, maxRequestBytes))
    const done = String(await value(caller, name, statement, [`{${ids.join(',')}}`]))
    const answer = `"${field}":${done !== '[]'}`
    return { status: 200, headers: json, body: areMany ? `{${answer},"msg_ids":${done}}` : `{${answer}}` }
  }

  return {
    async create({ tenant }: Caller, name: string, signal?: AbortSignal): Promise<CreatedQueue> {
      const queue = await asOwner(tenant, name, signal, async session => {
        await createQueue(session, name)
        return findQueue(session, name)
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
      const hasExisted = await asOwner(tenant, name, signal, session => dropQueue(session, name))
      if (!hasExisted) throw noQueue(name)
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
      const { vt, qty } = parseReadOptions(await readBody(request, maxRequestBytes))
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
