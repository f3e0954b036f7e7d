// Somebody who listens to the changes of tables, with the unmodified client; and what a test looks at behind the scenes.
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { createClient } from '@supabase/supabase-js'
import { raw } from '#src/kernel/postgres/sql.ts'
import { until } from '#test/cache-project.ts'
import type { TestPlatform } from '#test/harness.ts'

export interface Listening {
  /** Changes as `INSERT 5`: what happened, and the id of the row. */
  heard: string[]
  /** System messages as `ok text`. */
  told: string[]
  leave(): Promise<void>
}

interface Wish {
  apikey?: string
  /** A user's token. */
  token?: string
  table?: string
  filter?: string
  /** Said before changes flow: by default that they do. */
  until?: RegExp
}

const listening = new Set<Listening>()

export async function listen(
  { url }: { url: string },
  project: Pick<CreatedProject, 'id' | 'anon_key'>,
  { apikey = project.anon_key, token, table, filter, until: expected = /^ok / }: Wish = {},
): Promise<Listening> {
  const client = createClient(`${url}/v1/${project.id}`, apikey, {
    auth: { persistSession: false, autoRefreshToken: false },
  })
  if (token) await client.realtime.setAuth(token)
  const heard: string[] = []
  const told: string[] = []
  const channel = client.channel(`changes of ${table ?? 'all'}`)
  const wish = { event: '*' as const, schema: 'public', ...(table && { table }), ...(filter && { filter }) }
  channel.on('postgres_changes', wish, ({ eventType, new: after, old }) => {
    const { id } = (eventType === 'DELETE' ? old : after) as { id: number }
    heard.push(`${eventType} ${id}`)
  })
  channel.on('system', {}, ({ status, message }) => void told.push(`${status} ${message}`))
  channel.subscribe()
  const one: Listening = {
    heard,
    told,
    async leave() {
      listening.delete(one)
      await client.removeAllChannels()
      await client.realtime.disconnect()
    },
  }
  listening.add(one)
  await until(`${expected} is told`, async () => told.some(each => expected.test(each)), 60)
  return one
}

export async function everybodyStops(): Promise<void> {
  await Promise.all([...listening].map(one => one.leave()))
}

export const hears = (one: Listening, what: string) =>
  until(`${what} is heard`, async () => one.heard.includes(what), 60)
export const isTold = (one: Listening, what: RegExp) =>
  until(`${what} is told`, async () => one.told.some(each => what.test(each)), 60)

/** A project's database from behind. */
export async function behind(platform: TestPlatform, project: { id: string }) {
  const ref = await platform.refOf(project.id)
  return {
    ref,
    /** As the project's owner. */
    run: (script: string) =>
      platform.asSuperuser(ref, session =>
        session.script(`set role ${ref}_owner; set search_path = public, extensions; ${script}`),
      ),
    look: <T>(query: string) => platform.asSuperuser(ref, session => session.rows<T>(raw(query))),
    /** Names of tables whose triggers are on. */
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
