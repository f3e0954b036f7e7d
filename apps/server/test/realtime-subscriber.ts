// A subscriber to row changes with the unmodified client, and direct access to the project's database.
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { createClient } from '@supabase/supabase-js'
import { raw } from '#src/kernel/postgres/sql.ts'
import { eventually } from '#test/eventually.ts'
import type { TestPlatform } from '#test/harness.ts'

export interface Subscription {
  /** Changes as `INSERT 5`: the event and the id of the row. */
  changes: string[]
  /** System messages as `ok text`. */
  statuses: string[]
  leave(): Promise<void>
}

interface SubscribeOptions {
  apikey?: string
  /** A user's token. */
  token?: string
  table?: string
  filter?: string
  /** The status to wait for, by default `ok`. */
  until?: RegExp
}

const subscriptions = new Set<Subscription>()

export async function subscribe(
  { url }: { url: string },
  project: Pick<CreatedProject, 'id' | 'anon_key'>,
  { apikey = project.anon_key, token, table, filter, until: expected = /^ok / }: SubscribeOptions = {},
): Promise<Subscription> {
  const client = createClient(`${url}/v1/${project.id}`, apikey, {
    auth: { persistSession: false, autoRefreshToken: false },
  })
  if (token) await client.realtime.setAuth(token)
  const changes: string[] = []
  const statuses: string[] = []
  const channel = client.channel(`changes of ${table ?? 'all'}`)
  const binding = {
    event: '*' as const,
    schema: 'public',
    ...(table && { table }),
    ...(filter && { filter }),
  }
  channel.on('postgres_changes', binding, ({ eventType, new: after, old }) => {
    const { id } = (eventType === 'DELETE' ? old : after) as { id: number }
    changes.push(`${eventType} ${id}`)
  })
  channel.on('system', {}, ({ status, message }) => void statuses.push(`${status} ${message}`))
  channel.subscribe()
  const one: Subscription = {
    changes,
    statuses,
    async leave() {
      subscriptions.delete(one)
      await client.removeAllChannels()
      await client.realtime.disconnect()
    },
  }
  subscriptions.add(one)
  await eventually(() => statuses.some(each => expected.test(each)), `the status ${expected} arrives`)
  return one
}

export async function unsubscribeAll(): Promise<void> {
  await Promise.all([...subscriptions].map(one => one.leave()))
}

export const receivesChange = (one: Subscription, what: string) =>
  eventually(() => one.changes.includes(what), `the change ${what} arrives`)
export const receivesStatus = (one: Subscription, what: RegExp) =>
  eventually(() => one.statuses.some(each => what.test(each)), `the status ${what} arrives`)

/** Direct access to a project's database. */
export async function projectDatabase(platform: TestPlatform, project: { id: string }) {
  const ref = await platform.refOf(project.id)
  return {
    ref,
    /** As the project's owner. */
    run: (script: string) =>
      platform.asSuperuser(ref, session =>
        session.script(`set role ${ref}_owner; set search_path = public, extensions; ${script}`),
      ),
    rows: <T>(query: string) => platform.asSuperuser(ref, session => session.rows<T>(raw(query))),
    /** Names of tables with enabled triggers. */
    async captured(): Promise<string[]> {
      const tables = await platform.asSuperuser(ref, session =>
        session.rows<{ name: string }>(raw(enabledTriggers)),
      )
      return tables.map(({ name }) => name)
    },
  }
}

const enabledTriggers = `
  select c.relname as name from pg_trigger t join pg_class c on c.oid = t.tgrelid
   where t.tgname like 'plinth\\_%' and t.tgenabled <> 'D' and c.relname <> 'messages'
   group by c.relname having count(*) = 3 order by 1`
