// Private channels: the policies on realtime.messages say who may read and send on a topic. Asked like any other policies,
// about a message that could be there.
import { randomUUID } from 'node:crypto'
import { createTurnsByOwner } from '#src/kernel/turns.ts'
import { type Caller, type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Permissions, SentMessage } from '../subscriber.ts'
import type { Gate, Question } from './gate.ts'

/** The table, and a message of each extension as a row of it. */
const possibleMessages = statement(
  `
  select 'realtime.messages'::regclass::oid::text, (json_populate_record(null::realtime.messages, m.message))::text
    from json_array_elements($1::json) with ordinality as m (message, place) order by m.place`,
  true,
)
const messagesSince = statement(
  `
  select id::text, topic, event, payload::text from (
    select id, topic, event, payload, inserted_at from realtime.messages
     where topic = $1::text and private and extension = 'broadcast'
       and inserted_at > (to_timestamp($2::float8 / 1000) at time zone 'UTC')
     order by inserted_at desc limit $3::int) m
   order by inserted_at`,
  true,
)

/** Where SQL sends much, a part at a time. */
const forgetOld = statement(
  `delete from realtime.messages where id in (
     select id from realtime.messages where inserted_at < now() - interval '72 hours' limit 1000)`,
  false,
)

const extensions = ['broadcast', 'presence'] as const
const all: Permissions = {
  mayReadBroadcast: true,
  maySendBroadcast: true,
  mayReadPresence: true,
  maySendPresence: true,
}

export function createPermissions(databases: Databases, gate: Gate) {
  const turns = createTurnsByOwner(1, 1000)
  return {
    async permissions({ tenant, role, claims, userId }: Caller, topic: string): Promise<Permissions> {
      if (role === 'service_role') return all
      const { rows } = await databases.asService(tenant, possibleMessages, [messagesOn(topic)])
      const relid = rows[0]![0]!.toString('latin1')
      const messages = rows.map(([, message]) => message!.toString('utf8'))
      const ask = async (command: Question['command']) => {
        const asked = [{ claims, userId, rows: messages }]
        return (await gate.judge(tenant, { relid, role, command, topic }, asked))[0]!
      }
      // One after the other, and few at a time: row changes are judged on the same connections.
      const [read, send] = await turns(
        tenant.id,
        async () => [await ask('select'), await ask('insert')] as const,
      )
      return {
        mayReadBroadcast: read[0] === '1',
        mayReadPresence: read[1] === '1',
        maySendBroadcast: send[0] === '1',
        maySendPresence: send[1] === '1',
      }
    },

    /** Messages are kept for three days. */
    async forgetMessages(tenant: Tenant): Promise<void> {
      await databases.asService(tenant, forgetOld, [])
    },

    /** What SQL has sent on a private topic since then, the latest of it, oldest first. */
    async replay({ tenant }: Caller, topic: string, sinceMs: number, limit: number): Promise<SentMessage[]> {
      const { rows } = await databases.asService(tenant, messagesSince, [
        topic,
        String(sinceMs),
        String(limit),
      ])
      return rows.map(row => {
        const [id, name, event, payload] = row.map(cell => cell?.toString('utf8'))
        return { id: id!, topic: name!, event: event ?? '', payload: payload ?? 'null', isPrivate: true }
      })
    },
  }
}

function messagesOn(topic: string): string {
  const now = new Date().toISOString()
  return JSON.stringify(
    extensions.map(extension => ({
      id: randomUUID(),
      topic,
      extension,
      payload: {},
      event: '',
      private: true,
      updated_at: now,
      inserted_at: now,
    })),
  )
}
