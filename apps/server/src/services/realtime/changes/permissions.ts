// Permissions on private topics, from the policies on realtime.messages. The policies are checked against sample messages of
// the topic, in the same way as those of other tables against changed rows.
import { randomUUID } from 'node:crypto'
import { createLimiter } from '#src/kernel/limiter.ts'
import { type Caller, type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Permissions, SentMessage } from '../subscriber.ts'
import type { PolicyCheck, PolicyChecks } from './policy-checks.ts'

/** The oid of the table, and a sample message per extension as a row of it. */
const sampleRows = statement(
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

/** Deletes in batches, because SQL may have sent many messages. */
const deleteOld = statement(
  `delete from realtime.messages where id in (
     select id from realtime.messages where inserted_at < now() - interval '72 hours' limit 1000)`,
  false,
)

const extensions = ['broadcast', 'presence'] as const
const allPermissions: Permissions = {
  mayReadBroadcast: true,
  maySendBroadcast: true,
  mayReadPresence: true,
  maySendPresence: true,
}

export function createPermissions(databases: Databases, policyChecks: PolicyChecks) {
  const limit = createLimiter({ perKey: 1, maxWaiting: 1000 })
  return {
    async permissions({ tenant, role, claims, userId }: Caller, topic: string): Promise<Permissions> {
      if (role === 'service_role') return allPermissions
      const { rows } = await databases.asService(tenant, sampleRows, [sampleMessages(topic)])
      const relid = rows[0]![0]!.toString('latin1')
      const messages = rows.map(([, message]) => message!.toString('utf8'))
      const check = async (command: PolicyCheck['command']) => {
        const callers = [{ claims, userId, rows: messages }]
        return (await policyChecks.check(tenant, { relid, role, command, topic }, callers))[0]!
      }
      // Sequential, and one caller per project at a time: policy checks of row changes use the same connections.
      const [read, send] = await limit(
        tenant.id,
        async () => [await check('select'), await check('insert')] as const,
      )
      return {
        mayReadBroadcast: read[0] === '1',
        mayReadPresence: read[1] === '1',
        maySendBroadcast: send[0] === '1',
        maySendPresence: send[1] === '1',
      }
    },

    /** Messages are kept for three days. */
    async deleteOldMessages(tenant: Tenant): Promise<void> {
      await databases.asService(tenant, deleteOld, [])
    },

    /** The latest messages that SQL sent to a private topic since the given time, oldest first. */
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

function sampleMessages(topic: string): string {
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
