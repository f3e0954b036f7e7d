// A member of a topic on one node of the platform, with the unmodified client.
import assert from 'node:assert/strict'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { createClient, type RealtimeChannel } from '@supabase/supabase-js'
import { eventually } from '#test/eventually.ts'

export interface Member {
  channel: RealtimeChannel
  /** Received broadcasts; binary payloads as a Buffer. */
  broadcasts: [event: string, payload: unknown][]
  /** Joins as `+key:mood` and leaves as `-key:mood`, in order. */
  presenceEvents: string[]
  /** `table:id` of rows that were inserted. */
  rows: string[]
  /** `key:mood` of the client's presence state. */
  present(): string[]
  send(event: string, payload: object | ArrayBuffer): Promise<string>
  track(mood: string): Promise<void>
  leave(): Promise<void>
}

export interface JoinOptions {
  /** The presence key. */
  key?: string
  isPrivate?: boolean
  ack?: boolean
  self?: boolean
  /** A table whose inserts to subscribe to. */
  table?: string
  apikey?: string
}

const members = new Set<Member>()

export async function joinTopic(
  { url }: { url: string },
  project: Pick<CreatedProject, 'id' | 'service_role_key'>,
  topic: string,
  {
    key = '',
    isPrivate = false,
    ack = true,
    self = false,
    table,
    apikey = project.service_role_key,
  }: JoinOptions = {},
): Promise<Member> {
  const client = createClient(`${url}/v1/${project.id}`, apikey, {
    auth: { persistSession: false, autoRefreshToken: false },
  })
  const channel = client.channel(topic, {
    config: { broadcast: { ack, self }, presence: { key }, private: isPrivate },
  })
  const broadcasts: Member['broadcasts'] = []
  const presenceEvents: string[] = []
  const rows: string[] = []
  const moods = (metas: { [field: string]: unknown }[]) => metas.map(({ mood }) => mood).join('+')
  channel.on('broadcast', { event: '*' }, ({ event, payload }) => {
    broadcasts.push([event, payload instanceof ArrayBuffer ? Buffer.from(payload) : payload])
  })
  channel.on('presence', { event: 'join' }, ({ key: who, newPresences }) => {
    presenceEvents.push(`+${who}:${moods(newPresences)}`)
  })
  channel.on('presence', { event: 'leave' }, ({ key: who, leftPresences }) => {
    presenceEvents.push(`-${who}:${moods(leftPresences)}`)
  })
  let isSubscribed = table === undefined
  if (table !== undefined) {
    channel.on('postgres_changes', { event: 'INSERT', schema: 'public', table }, change => {
      rows.push(`${change.table}:${change.new['id']}`)
    })
    channel.on('system', {}, ({ extension, status }) => {
      if (extension === 'postgres_changes' && status === 'ok') isSubscribed = true
    })
  }
  const statuses: string[] = []
  channel.subscribe((status, error) => void statuses.push(`${status} ${error?.message ?? ''}`))
  await eventually(() => {
    assert.doesNotMatch(statuses.join(), /ERROR|CLOSED|TIMED/)
    return statuses.length > 0 && isSubscribed
  }, `${topic} is joined: ${statuses}`)
  const member: Member = {
    channel,
    broadcasts,
    presenceEvents,
    rows,
    present: () =>
      Object.entries(channel.presenceState<{ mood: string }>())
        .flatMap(([who, metas]) => metas.map(({ mood }) => `${who}:${mood}`))
        .sort(),
    send: (event, payload) => channel.send({ type: 'broadcast', event, payload }),
    async track(mood) {
      assert.equal(await channel.track({ mood }), 'ok')
    },
    async leave() {
      members.delete(member)
      await client.removeAllChannels()
      // Disconnecting during a close handshake has no effect, and the client would reconnect.
      await eventually(() => !client.realtime.isDisconnecting(), 'the connection is closed')
      await client.realtime.disconnect()
    },
  }
  members.add(member)
  return member
}

export async function leaveAll(): Promise<void> {
  await Promise.all([...members].map(member => member.leave()))
}

/** Waits until each member sees exactly these, as `key:mood`. */
export const seePresence = (who: readonly Member[], expected: readonly string[]) =>
  eventually(
    () => who.every(member => member.present().join() === [...expected].sort().join()),
    `all members see ${expected.join(', ') || 'nobody'}`,
  )

/** Waits until each member has received this event. */
export const receive = (who: readonly Member[], event: string) =>
  eventually(
    () => who.every(({ broadcasts }) => broadcasts.some(([name]) => name === event)),
    `${event} arrives`,
  )
