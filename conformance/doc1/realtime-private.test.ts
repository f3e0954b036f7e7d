// Realtime contract §4, §6–§8, §10: private channels and policies on realtime.messages; messages sent by SQL.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unique, userJwt } from '../people.ts'
import type { Channel } from '../phoenix.ts'
import {
  broadcastsBefore,
  broadcastsOf,
  type RealtimeApi,
  realtimeProject,
  receivesBroadcast,
  topicName,
} from '../realtime.ts'
import type { Caller } from '../rows.ts'
import { ada, bob } from '../storage.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

const carol = { sub: '0c0c0c0c-7d0b-4f6e-9a59-6b5f0a8b2c33', email: 'carol@example.test' }

let it: Target
let realtime: RealtimeApi
before(async () => {
  it = await target()
  realtime = await realtimeProject(
    it,
    `create table public.members (topic text, member uuid, reads text[], sends text[]);
     create policy mine on public.members for select using (member = auth.uid());
     create policy members_read on realtime.messages for select to authenticated using (exists (
       select from public.members m where m.topic = realtime.topic() and m.member = auth.uid() and messages.extension = any (m.reads)));
     create policy members_send on realtime.messages for insert to authenticated with check (exists (
       select from public.members m where m.topic = realtime.topic() and m.member = auth.uid() and messages.extension = any (m.sends)));
     create policy raising on realtime.messages for select to authenticated using (
       case when realtime.topic() like 'raising-%' then (auth.jwt() ->> 'number')::int = 1 else false end);`,
  )
})
after(async () => {
  await realtime.closeAll()
  await it.stop()
})

const both = ['broadcast', 'presence']
/** A topic with policies for these users. */
async function room(...members: [{ sub: string }, string[], string[]][]): Promise<string> {
  const name = unique('room')
  const list = (names: string[]) => `'{${names}}'`
  for (const [{ sub }, reads, sends] of members)
    await realtime.sql(
      `insert into public.members values ('${name}', '${sub}', ${list(reads)}, ${list(sends)})`,
    )
  return name
}
const config = { private: true, broadcast: { ack: true }, presence: { enabled: true } }
const enter = async (as: Caller, name: string, more = {}): Promise<Channel> =>
  (await realtime.connect({ as })).join(`realtime:${name}`, { ...config, ...more })
const tryEnter = async (as: Caller, name: string) =>
  (await realtime.connect({ as })).tryJoin(`realtime:${name}`, { config })
/** All broadcasts sent before this call. The marker is sent after them, as service_role. */
async function broadcastsUntilNow(channel: Channel, isPrivate = true): Promise<string[]> {
  const event = unique('marker')
  const key = realtime.project.service_role_key
  const message = { topic: topicName(channel), event, payload: {}, private: isPrivate }
  const reply = await realtime.broadcast({ messages: [message] }, { apikey: key, token: key })
  assert.equal(reply.status, 202, reply.text)
  return (await broadcastsBefore(channel, event)).map(([name]) => name).filter(name => !/^marker-/.test(name))
}

test('Realtime contract §4: without a policy only service_role may join a private channel', async () => {
  const name = await room()
  for (const as of ['anon', ada] as const) {
    const { status, response } = await tryEnter(as, name)
    assert.equal(status, 'error')
    assert.match(response.reason, /^Unauthorized: ./)
  }
  await enter('service_role', name)
})

test('Realtime contract §4: a rejected client may use the public topic of the same name', async () => {
  const name = await room()
  const socket = await realtime.connect({ as: ada })
  assert.equal((await socket.tryJoin(`realtime:${name}`, { config })).status, 'error')
  await socket.join(`realtime:${name}`)
})

test('Realtime contract §4: a SELECT policy permits joining, for its topic and its user', async () => {
  const [name, other] = [await room([ada, both, both]), await room([bob, both, both])]
  const channel = await enter(ada, name)
  assert.equal((await tryEnter(ada, other)).status, 'error')
  assert.equal((await tryEnter(bob, name)).status, 'error')
  assert.equal((await tryEnter('anon', name)).status, 'error')
  assert.deepEqual(await broadcastsUntilNow(channel), [])
})

test('Realtime contract §4: the JWT of the join decides', async () => {
  const name = await room([ada, both, both])
  const socket = await realtime.connect()
  const payload = (as: Caller & object) => ({ config, access_token: userJwt(realtime.project, as) })
  assert.equal((await socket.tryJoin(`realtime:${name}`, payload(bob))).status, 'error')
  assert.equal((await socket.tryJoin(`realtime:${name}`, payload(ada))).status, 'ok')
})

test('Realtime contract §4: an INSERT policy permits sending, and without it nothing is delivered', async () => {
  const name = await room([ada, both, both], [bob, both, []])
  const [sender, reader, service] = [
    await enter(ada, name),
    await enter(bob, name),
    await enter('service_role', name),
  ]
  const sent = await sender.socket.replyTo(sender.broadcast('of ada', { n: 1 }))
  assert.equal(sent.status, 'ok')
  assert.deepEqual((await receivesBroadcast(reader, 'of ada')).payload.payload, { n: 1 })
  reader.broadcast('of bob')
  reader.socket.pushBroadcast({ topic: reader.topic, event: 'of bob', payload: {}, joinRef: reader.joinRef })
  await reader.socket.heartbeat()
  service.broadcast('of the service')
  await receivesBroadcast(sender, 'of the service')
  assert.deepEqual(await broadcastsUntilNow(sender), ['of the service'])
  assert.deepEqual(await broadcastsUntilNow(service), ['of ada'])
})

test('Realtime contract §4: permissions for broadcast and for presence are separate', async () => {
  const name = await room(
    [ada, both, both],
    [bob, ['broadcast'], ['broadcast']],
    [carol, ['presence'], ['presence']],
  )
  const track = (channel: Channel, who: string) =>
    channel.ask('presence', { type: 'presence', event: 'track', payload: { who } })
  const adas = await enter(ada, name, { presence: { enabled: true, key: 'ada' } })
  const bobs = await enter(bob, name, { presence: { enabled: true, key: 'bob' } })
  const carols = await enter(carol, name, { presence: { enabled: true, key: 'carol' } })
  await track(bobs, 'bob')
  assert.equal((await track(carols, 'carol')).status, 'ok')
  carols.broadcast('of carol')
  await carols.socket.heartbeat()
  bobs.broadcast('of bob')
  await receivesBroadcast(adas, 'of bob')
  assert.equal((await track(adas, 'ada')).status, 'ok')

  const summary = async (channel: Channel, key: string) =>
    channel.find(`joins of ${key}`, ({ event, payload }) => event === 'presence_diff' && key in payload.joins)
  for (const channel of [adas, carols]) {
    await summary(channel, 'carol')
    await summary(channel, 'ada')
    assert.ok(!channel.received().some(({ text }) => /"bob"/.test(text)), 'bob may not be present')
  }
  assert.deepEqual(await broadcastsUntilNow(adas), ['of bob'])
  await bobs.socket.heartbeat()
  const presences = bobs.received().filter(({ event }) => event.startsWith('presence_'))
  assert.ok(!presences.some(({ text }) => /"(ada|carol)"/.test(text)), 'bob may not see who is present')
  await carols.socket.heartbeat()
  assert.deepEqual(broadcastsOf(carols), [], 'carol may not hear broadcasts')
})

test('case 8: a policy that raises rejects only the caller it raises for', async () => {
  const name = unique('raising')
  const bad = await tryEnter({ ...ada, number: 'one' }, name)
  assert.equal(bad.status, 'error')
  assert.equal(typeof bad.response.reason, 'string')
  await enter({ ...ada, number: '1' }, name)
  assert.equal((await tryEnter({ ...bob, number: '2' }, name)).status, 'error')
})

test('Realtime contract §4: policy checks leave no message behind', async () => {
  const name = await room([ada, both, both])
  const count = async () => (await realtime.sql('select count(*)::int as n from realtime.messages'))[0].n
  const before = await count()
  await enter(ada, name)
  await tryEnter(bob, name)
  assert.equal(await count(), before)
})

test('Realtime contract §8: policies are checked again after a token refresh', async () => {
  const name = await room([ada, both, both])
  const socket = await realtime.connect({ as: ada })
  const secret = await socket.join(`realtime:${name}`, { private: true })
  const open = await socket.join(`realtime:${name}-open`)
  const speaker = await enter('service_role', name)
  const marker = await (await realtime.connect()).join(`realtime:${name}-open`)
  const isDelivered = async (event: string) => {
    await speaker.socket.replyTo(speaker.broadcast(event))
    marker.broadcast(event)
    await receivesBroadcast(open, event)
    return broadcastsOf(secret).some(([name]) => name === event)
  }
  await until('the private message is delivered', () => isDelivered(unique('before')))
  secret.push('access_token', { access_token: userJwt(realtime.project, bob) })
  await until('the private message is no longer delivered', async () => !(await isDelivered(unique('after'))))
})

test('Realtime contract §6: private messages over HTTP without permission are dropped silently', async () => {
  const name = await room([ada, both, both], [bob, both, []])
  const reader = await enter(bob, name)
  const send = async (event: string, as: Caller) => {
    const apikey = as === 'service_role' ? realtime.project.service_role_key : realtime.project.anon_key
    const token = typeof as === 'object' ? userJwt(realtime.project, as) : apikey
    const messages = [{ topic: name, event, payload: {}, private: true }]
    const single = `api/broadcast/${name}/events/${encodeURIComponent(`${event}, alone`)}?private=true`
    for (const reply of [
      await realtime.broadcast({ messages }, { apikey, token }),
      await realtime.broadcast({}, { apikey, token, path: single }),
    ])
      assert.deepEqual([reply.status, reply.text], [202, ''])
  }
  await send('of anon', 'anon')
  await send('of bob', bob)
  await send('of ada', ada)
  await send('of the service', 'service_role')
  assert.deepEqual(await broadcastsUntilNow(reader), [
    'of ada',
    'of ada, alone',
    'of the service',
    'of the service, alone',
  ])
})

test('Realtime contract §10: realtime.send() sends to the private topic by default', async () => {
  const name = await room([ada, both, both])
  const [secret, open] = [await enter(ada, name), await (await realtime.connect()).join(`realtime:${name}`)]
  const old = await (await realtime.connect({ version: '1.0.0' })).join(`realtime:${name}`)
  await realtime.sql(`
    select realtime.send('{"n": 9007199254740993, "text": "ä"}'::jsonb, 'secret', '${name}');
    select realtime.send('{"n": 2}'::jsonb, 'open', '${name}', false);
    select realtime.send('{"n": 3}'::jsonb, 'secret as well', '${name}', true)`)
  const { text } = await receivesBroadcast(secret, 'secret')
  assert.match(text, /9007199254740993/)
  await receivesBroadcast(secret, 'secret as well')
  for (const channel of [open, old])
    assert.deepEqual((await receivesBroadcast(channel, 'open')).payload.payload.n, 2)
  assert.deepEqual(await broadcastsUntilNow(secret), ['secret', 'secret as well'])
  assert.deepEqual(await broadcastsUntilNow(open, false), ['open'])
})

test('Realtime contract §10: messages of a rolled back transaction are never delivered', async () => {
  const name = await room([ada, both, both])
  const channel = await enter(ada, name)
  const sql = `select realtime.send('{}'::jsonb, 'ghost', '${name}'); select 1 / 0`
  const reply = await realtime.rows.post('rpc/exec_sql', { sql }, { as: 'service_role' })
  assert.equal(reply.status, 400, reply.text)
  await realtime.sql(`select realtime.send('{}'::jsonb, 'real', '${name}')`)
  assert.deepEqual(await broadcastsBefore(channel, 'real'), [])
})

test('Realtime contract §10: messages of SQL arrive in the order of sending', async () => {
  const name = await room([ada, both, both])
  const channel = await enter(ada, name)
  await realtime.sql(
    `select realtime.send(jsonb_build_object('i', i), 'n', '${name}') from generate_series(1, 50) i`,
  )
  await realtime.sql(`select realtime.send('{}'::jsonb, 'end', '${name}')`)
  const got = await broadcastsBefore(channel, 'end')
  assert.deepEqual(
    got.map(([, { i }]) => i),
    Array.from({ length: 50 }, (_, i) => i + 1),
  )
})

test('Realtime contract §10: broadcast_changes() in a trigger sends the change of the row', async () => {
  const name = await room([ada, both, both])
  const table = await realtime.table('id int primary key, body text')
  await realtime.sql(`
    create function public.tell_${table}() returns trigger language plpgsql security definer as $$ begin
      perform realtime.broadcast_changes('${name}', tg_op, tg_op, tg_table_name, tg_table_schema, new, old);
      return null;
    end $$;
    create trigger tell after insert or update or delete on public.${table} for each row execute function public.tell_${table}()`)
  const channel = await enter(ada, name)
  await realtime.sql(`insert into public.${table} values (1, 'a')`)
  await realtime.sql(`update public.${table} set body = 'b'`)
  await realtime.sql(`delete from public.${table}`)
  await receivesBroadcast(channel, 'DELETE')
  const at = { schema: 'public', table }
  const [a, b] = [
    { id: 1, body: 'a' },
    { id: 1, body: 'b' },
  ]
  const summary = broadcastsOf(channel)
  assert.deepEqual(
    summary.map(([event]) => event),
    ['INSERT', 'UPDATE', 'DELETE'],
  )
  assert.partialDeepStrictEqual(summary[0]![1], { ...at, operation: 'INSERT', record: a })
  assert.partialDeepStrictEqual(summary[1]![1], { ...at, operation: 'UPDATE', record: b, old_record: a })
  assert.partialDeepStrictEqual(summary[2]![1], { ...at, operation: 'DELETE', old_record: b })
})

test('Realtime contract §4: replay sends earlier messages of SQL to a private channel', async () => {
  const name = await room([ada, both, both])
  await realtime.sql(`select realtime.send('{"n": 0}'::jsonb, 'long ago', '${name}');
    update realtime.messages set inserted_at = now() - interval '1 hour' where topic = '${name}'`)
  const since = Date.now() - 60_000
  for (const n of [1, 2, 3])
    await realtime.sql(`select realtime.send('{"n": ${n}}'::jsonb, 'n${n}', '${name}')`)
  const channel = await enter(ada, name, { broadcast: { replay: { since } } })
  for (const n of [1, 2, 3]) {
    const { payload } = await receivesBroadcast(channel, `n${n}`)
    assert.deepEqual([payload.payload.n, payload.meta?.replayed], [n, true])
  }
  assert.deepEqual(await broadcastsUntilNow(channel), ['n1', 'n2', 'n3'])
  const few = await enter(ada, name, { broadcast: { replay: { since, limit: 2 } } })
  assert.equal((await broadcastsUntilNow(few)).length, 2)
  const none = await enter(ada, name)
  assert.deepEqual(await broadcastsUntilNow(none), [])
})
