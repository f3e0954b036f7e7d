// Somebody in a room of a project, on one of the platform's nodes, with the unmodified client.
import assert from 'node:assert/strict'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { createClient, type RealtimeChannel } from '@supabase/supabase-js'
import { until } from '#test/cache-project.ts'

export interface Guest {
  channel: RealtimeChannel
  /** Broadcasts as pairs of event and payload; bytes as a Buffer. */
  heard: [event: string, payload: unknown][]
  /** `+key:mood` and `-key:mood`, as the client tells them. */
  comings: string[]
  /** `table:id` of rows that were inserted. */
  rows: string[]
  /** `key:mood` of everybody the client holds for present. */
  present(): string[]
  say(event: string, payload: object | ArrayBuffer): Promise<string>
  track(mood: string): Promise<void>
  leave(): Promise<void>
}

export interface Visit {
  /** The one it shows as among those present. */
  key?: string
  isPrivate?: boolean
  ack?: boolean
  self?: boolean
  /** Whose inserts to listen to. */
  table?: string
  apikey?: string
}

const guests = new Set<Guest>()

export async function enter(
  { url }: { url: string },
  project: Pick<CreatedProject, 'id' | 'service_role_key'>,
  room: string,
  {
    key = '',
    isPrivate = false,
    ack = true,
    self = false,
    table,
    apikey = project.service_role_key,
  }: Visit = {},
): Promise<Guest> {
  const client = createClient(`${url}/v1/${project.id}`, apikey, {
    auth: { persistSession: false, autoRefreshToken: false },
  })
  const channel = client.channel(room, {
    config: { broadcast: { ack, self }, presence: { key }, private: isPrivate },
  })
  const heard: Guest['heard'] = []
  const comings: string[] = []
  const rows: string[] = []
  const moods = (metas: { [field: string]: unknown }[]) => metas.map(({ mood }) => mood).join('+')
  channel.on('broadcast', { event: '*' }, ({ event, payload }) => {
    heard.push([event, payload instanceof ArrayBuffer ? Buffer.from(payload) : payload])
  })
  channel.on('presence', { event: 'join' }, ({ key: who, newPresences }) => {
    comings.push(`+${who}:${moods(newPresences)}`)
  })
  channel.on('presence', { event: 'leave' }, ({ key: who, leftPresences }) => {
    comings.push(`-${who}:${moods(leftPresences)}`)
  })
  let listens = table === undefined
  if (table !== undefined) {
    channel.on('postgres_changes', { event: 'INSERT', schema: 'public', table }, change => {
      rows.push(`${change.table}:${change.new['id']}`)
    })
    channel.on('system', {}, ({ extension, status }) => {
      if (extension === 'postgres_changes' && status === 'ok') listens = true
    })
  }
  const told: string[] = []
  channel.subscribe((status, error) => void told.push(`${status} ${error?.message ?? ''}`))
  await until(`${room} is entered: ${told}`, async () => {
    assert.doesNotMatch(told.join(), /ERROR|CLOSED|TIMED/)
    return told.length > 0 && listens
  })
  const guest: Guest = {
    channel,
    heard,
    comings,
    rows,
    present: () =>
      Object.entries(channel.presenceState<{ mood: string }>())
        .flatMap(([who, metas]) => metas.map(({ mood }) => `${who}:${mood}`))
        .sort(),
    say: (event, payload) => channel.send({ type: 'broadcast', event, payload }),
    async track(mood) {
      assert.equal(await channel.track({ mood }), 'ok')
    },
    async leave() {
      guests.delete(guest)
      await client.removeAllChannels()
      // A client does nothing about a connection that the other side is closing, and would come back.
      await until('the connection is closed', async () => !client.realtime.isDisconnecting())
      await client.realtime.disconnect()
    },
  }
  guests.add(guest)
  return guest
}

export async function everybodyLeaves(): Promise<void> {
  await Promise.all([...guests].map(guest => guest.leave()))
}

/** Each of them sees exactly these, as `key:mood`. */
export const see = (who: readonly Guest[], expected: readonly string[], seconds?: number) =>
  until(
    `everybody sees ${expected.join(', ') || 'nobody'}`,
    async () => who.every(guest => guest.present().join() === [...expected].sort().join()),
    seconds,
  )

/** Each of them has heard this event. */
export const hear = (who: readonly Guest[], event: string) =>
  until(`${event} is heard`, async () => who.every(({ heard }) => heard.some(([name]) => name === event)))
