// 1 §4.7 and Realtime contract §4: joins without a config, whose topic names the table.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { userJwt } from '../people.ts'
import type { Socket } from '../phoenix.ts'
import type { Message, Version } from '../phoenix-frames.ts'
import { bareChangeOf, type Change, type RealtimeApi, realtimeProject, summary } from '../realtime.ts'
import type { Caller } from '../rows.ts'
import { ada, bob } from '../storage.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let realtime: RealtimeApi
before(async () => {
  it = await target()
  realtime = await realtimeProject(it)
})
after(async () => {
  await realtime.closeAll()
  await it.stop()
})

const notes = 'id int primary key, owner uuid, body text'
const mineOrShared = (table: string) =>
  `create policy mine on public.${table} for select using (owner is null or owner = auth.uid())`

interface Legacy {
  socket: Socket
  topic: string
  changes(): Change[]
}
const isChange = ({ event, payload }: Message) =>
  ['INSERT', 'UPDATE', 'DELETE', '*'].includes(event) && payload?.table !== 'markers'

/** Joins, and inserts rows with ids below 0 until one arrives, which shows that changes are captured. */
async function subscribe(
  name: string,
  { as = 'anon' as Caller, version = '1.0.0' as Version, payload = {}, table = name.split(':')[1] } = {},
): Promise<Legacy> {
  const socket = await realtime.connect({ as, version })
  const topic = `realtime:${name}`
  const { status, message } = await socket.tryJoin(topic, payload)
  assert.equal(status, 'ok', message.text)
  const all = () => socket.received.filter(each => each.topic === topic && isChange(each))
  if (table !== undefined && !name.includes('=')) {
    let probe = 0
    await until('changes flow', async () => {
      await realtime.sql(
        `delete from public.${table} where id < 0; insert into public.${table} (id) values (${--probe})`,
      )
      return all().length > 0
    })
  }
  const isProbe = ({ new: now, old }: Change) => (now ?? old)?.id < 0
  return {
    socket,
    topic,
    changes: () =>
      all()
        .map(bareChangeOf)
        .filter(change => !isProbe(change)),
  }
}

/** The changes that arrived before a row that everybody may read. */
let markers = 1_000_000
async function changesBefore(table: string, ...subscriptions: Legacy[]): Promise<Change[][]> {
  const id = ++markers
  await realtime.sql(`insert into public.${table} (id) values (${id})`)
  return Promise.all(
    subscriptions.map(async ({ socket, topic, changes }) => {
      await socket.find(
        `the row ${id} on ${topic}`,
        message => message.topic === topic && isChange(message) && message.payload.new?.id === id,
      )
      return changes().filter(({ new: now, old }) => (now ?? old).id < 1_000_000)
    }),
  )
}

for (const version of ['1.0.0', '2.0.0'] as const)
  test(`Realtime contract §4: a topic that names a table gets its unwrapped changes (${version})`, async () => {
    const table = await realtime.table(notes, mineOrShared)
    const subscription = await subscribe(`public:${table}`, { version })
    await realtime.sql(`insert into public.${table} values (1, null, 'a')`)
    await realtime.sql(`update public.${table} set body = 'b' where id = 1`)
    await realtime.sql(`delete from public.${table} where id = 1`)
    const [changes] = await changesBefore(table, subscription)
    const [a, b] = [
      { id: 1, owner: null, body: 'a' },
      { id: 1, owner: null, body: 'b' },
    ]
    assert.deepEqual(changes!.map(summary), [
      ['INSERT', a, null],
      ['UPDATE', b, a],
      ['DELETE', null, { id: 1 }],
    ])
    const events = subscription.socket.received.filter(
      each => each.topic === subscription.topic && isChange(each),
    )
    for (const { event, payload } of events) {
      assert.ok([payload.type, '*'].includes(event), `${event} for ${payload.type}`)
      assert.ok(!('ids' in payload) && !('data' in payload), 'no wrapper')
    }
  })

test('1 §6 rule 6: policies apply to legacy channels', async () => {
  const table = await realtime.table(notes, mineOrShared)
  const name = `public:${table}`
  const [adas, bobs, anon, service] = [
    await subscribe(name, { as: ada }),
    await subscribe(name, { payload: { user_token: userJwt(realtime.project, bob) } }),
    await subscribe(name),
    await subscribe(name, { as: 'service_role' }),
  ]
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}', 'a'), (2, '${bob.sub}', 'b')`)
  await realtime.sql(`delete from public.${table} where id = 2`)
  const newChanges = await changesBefore(table, adas, bobs, anon, service)
  const gone = ['DELETE', null, { id: 2 }]
  const [a, b] = [
    ['INSERT', { id: 1, owner: ada.sub, body: 'a' }, null],
    ['INSERT', { id: 2, owner: bob.sub, body: 'b' }, null],
  ]
  const all = ['DELETE', null, { id: 2, owner: bob.sub, body: 'b' }]
  // It also received the probe rows of the subscribers that joined later.
  const own = newChanges.map(changes =>
    changes.filter(({ new: now, old }) => (now ?? old).id > 0).map(summary),
  )
  assert.deepEqual(own, [[a, gone], [b, gone], [gone], [a, b, all]])
})

test('Realtime contract §4: a topic that names a schema gets the changes of its tables', async () => {
  const table = await realtime.table(notes, mineOrShared)
  for (const name of ['public', 'public:*']) {
    const subscription = await subscribe(name, { table })
    await realtime.sql(
      `insert into public.${table} values (1, null, 'a'); delete from public.${table} where id = 1`,
    )
    const [changes] = await changesBefore(table, subscription)
    assert.deepEqual(
      changes!.map(({ table, eventType }) => [table, eventType]),
      [
        [table, 'INSERT'],
        [table, 'DELETE'],
      ],
    )
    await subscription.socket.close()
  }
})

test('Realtime contract §4: a filter may follow the table', async () => {
  const table = await realtime.table(notes, mineOrShared)
  const subscription = await subscribe(`public:${table}:id=eq.7`)
  let body = 0
  await until('the row comes', async () => {
    await realtime.sql(
      `delete from public.${table}; insert into public.${table} values (6, null, '${++body}'), (7, null, '${body}'), (8, null, '${body}')`,
    )
    return subscription.changes().some(({ eventType }) => eventType === 'INSERT')
  })
  for (const { new: now, old } of subscription.changes()) assert.equal((now ?? old).id, 7)
})

test('Realtime contract §4: with explicit bindings such a topic gets changes in the usual format', async () => {
  const table = await realtime.table(notes, mineOrShared)
  const socket = await realtime.connect()
  const binding = { event: 'INSERT', schema: 'public', table }
  const channel = await socket.join(`realtime:public:${table}`, { postgres_changes: [binding] })
  await channel.system('ok')
  assert.equal(channel.response.postgres_changes.length, 1)
  await realtime.sql(`insert into public.${table} values (1, null, 'a')`)
  const { payload } = await channel.find('the change', ({ event }) => event === 'postgres_changes')
  assert.deepEqual(payload.ids, [channel.response.postgres_changes[0].id])
  assert.equal(payload.data.record.id, 1)
  assert.ok(!channel.received().some(isChange))
})

test('1 §4.7 the topic of a table subscribes to its changes, also with an empty config', async () => {
  const table = await realtime.table(notes, mineOrShared)
  for (const payload of [{}, { config: {} }, { config: { postgres_changes: [] } }]) {
    const socket = await realtime.connect()
    const topic = `realtime:public:${table}`
    const { status, message } = await socket.tryJoin(topic, payload)
    assert.equal(status, 'ok', message.text)
    const isDelivered = (each: Message) =>
      each.topic === topic &&
      (isChange(each) || (each.event === 'postgres_changes' && each.payload.data.table === table))
    await until('a change comes', async () => {
      await realtime.sql(`delete from public.${table}; insert into public.${table} values (1, null, 'a')`)
      return socket.received.some(isDelivered)
    })
    await socket.close()
  }
})
