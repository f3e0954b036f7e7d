// Private channels: policies on realtime.messages decide who may read, send and track presence.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../eventually.ts'
import { ada, bob, type Fixture, newSubscriber, settled, topic } from './realtime-fixture.ts'

const message = (event: string, payload: unknown = {}) => ({ type: 'broadcast' as const, event, payload })
const closed = { private: true }
const quiet = { logger: () => {} }

/** A table of the project holds the members of a topic and their permissions. */
const policies = `
create table if not exists public.members (room text, who uuid, rights text[]);
grant select on public.members to authenticated;
create policy all_of_it on public.members for select using (true);
create function public.may(wanted text) returns boolean language sql stable as $$
  select exists (select from public.members m
    where m.room = realtime.topic() and m.who = auth.uid() and wanted = any (m.rights)) $$;
create policy "listen" on realtime.messages for select to authenticated using (public.may('listen') and extension = 'broadcast');
create policy "talk" on realtime.messages for insert to authenticated with check (public.may('talk') and extension = 'broadcast');
create policy "see" on realtime.messages for select to authenticated using (public.may('see') and extension = 'presence');
create policy "show" on realtime.messages for insert to authenticated with check (public.may('show') and extension = 'presence');`
const prepared = new WeakMap<Fixture, Promise<void>>()

/** A topic with these members. */
export async function room(fixture: Fixture, members: Record<string, string[]>): Promise<string> {
  if (!prepared.has(fixture)) prepared.set(fixture, fixture.sql(policies))
  await prepared.get(fixture)
  const name = topic('private')
  for (const [who, rights] of Object.entries(members))
    await fixture.sql(`insert into members values ('${name}', '${who}', '{${rights.join()}}')`)
  return name
}

const everything = ['listen', 'talk', 'see', 'show']

export function privateTests(fixture: () => Fixture): void {
  test('private channels: members exchange messages, and others cannot join', async () => {
    const { user, anon, service } = fixture()
    const name = await room(fixture(), { [ada]: everything, [bob]: everything })
    const config = { ...closed, broadcast: { ack: true, self: true } }
    const [ofAda, ofBob, ofService] = await Promise.all([
      newSubscriber(await user(ada), name, config).join(),
      newSubscriber(await user(bob), name, config).join(),
      newSubscriber(service(), name, config).join(),
    ])
    for (const outsider of [await user('33333333-3333-4333-8333-333333333333'), anon()]) {
      assert.match(await newSubscriber(outsider, name, closed).joinError(), /^Unauthorized: \S/)
      assert.match(await newSubscriber(outsider, `${name} 2`, closed).joinError(), /^Unauthorized: \S/)
    }
    assert.equal(await ofAda.channel.send(message('from ada', { n: 1 })), 'ok')
    assert.equal(await ofService.channel.send(message('from service')), 'ok')
    for (const each of [ofAda, ofBob, ofService]) {
      assert.deepEqual((await each.receivesBroadcast('from ada')).payload, { n: 1 })
      await each.receivesBroadcast('from service')
    }
  })

  test('private channels: a private and a public channel of the same name are separate', async () => {
    const { user, anon } = fixture()
    const name = await room(fixture(), { [ada]: everything, [bob]: everything })
    const [one, two, open] = await Promise.all([
      newSubscriber(await user(ada), name, closed).join(),
      newSubscriber(await user(bob), name, closed).join(),
      newSubscriber(anon(), name).join(),
    ])
    await one.channel.send(message('secret'))
    await two.receivesBroadcast('secret')
    await anon().channel(name).httpSend('said aloud', {})
    await open.receivesBroadcast('said aloud')
    await one.channel.send(message('end'))
    await two.receivesBroadcast('end')
    assert.deepEqual([two.events(), open.events()], [['secret', 'end'], ['said aloud']])
  })

  test('private channels: a client that may only read cannot send', async () => {
    const { user } = fixture()
    const name = await room(fixture(), { [ada]: everything, [bob]: ['listen'] })
    const [ofAda, ofBob] = await Promise.all([
      newSubscriber(await user(ada), name, closed).join(),
      newSubscriber(await user(bob), name, { ...closed, broadcast: { ack: true, self: true } }).join(),
    ])
    assert.notEqual(await ofBob.channel.send(message('hush'), { timeout: 1000 }), 'ok')
    assert.equal(await ofBob.channel.send({ type: 'presence', event: 'track', payload: {} }), 'error')
    await ofAda.channel.send(message('order'))
    await ofBob.receivesBroadcast('order')
    await (await user(ada)).channel(name, { config: closed }).httpSend('end', {})
    await Promise.all([ofAda, ofBob].map(each => each.receivesBroadcast('end')))
    assert.deepEqual([ofAda.events(), ofBob.events()], [['end'], ['order', 'end']])
    assert.deepEqual(ofBob.statuses, ['SUBSCRIBED'])
  })

  test('private channels: a client that may only send cannot join, but can send over HTTP', async () => {
    const { user } = fixture()
    const name = await room(fixture(), { [ada]: everything, [bob]: ['talk'] })
    const ofAda = await newSubscriber(await user(ada), name, closed).join()
    assert.match(await newSubscriber(await user(bob), name, closed).joinError(), /^Unauthorized: \S/)
    const channel = (await user(bob, {}, quiet)).channel(name, { config: closed })
    assert.equal(await channel.send(message('by send', { n: 1 })), 'ok')
    assert.deepEqual((await ofAda.receivesBroadcast('by send')).payload, { n: 1 })
    assert.deepEqual(await channel.httpSend('by httpSend', { n: 2 }), { success: true })
    assert.deepEqual((await ofAda.receivesBroadcast('by httpSend')).payload, { n: 2 })
  })

  test('private channels: HTTP messages of a client without permission are not delivered', async () => {
    const { user, anon, service } = fixture()
    const name = await room(fixture(), { [ada]: everything })
    const ofAda = await newSubscriber(await user(ada), name, closed).join()
    for (const outsider of [await user(bob, {}, quiet), anon(quiet)]) {
      const channel = outsider.channel(name, { config: closed })
      assert.equal(await channel.send(message('intruder')), 'ok')
      await channel.httpSend('intruder', {}).catch(() => {})
    }
    await service().channel(name, { config: closed }).httpSend('end', {})
    await ofAda.receivesBroadcast('end')
    assert.deepEqual(ofAda.events(), ['end'])
  })

  test('private channels: presence has its own policies', async () => {
    const { user } = fixture()
    const carol = '44444444-4444-4444-8444-444444444444'
    const name = await room(fixture(), { [ada]: everything, [bob]: ['listen'], [carol]: ['see'] })
    const config = (key: string) => ({ ...closed, presence: { key, enabled: true } })
    const [ofAda, ofBob, ofCarol] = await Promise.all([
      newSubscriber(await user(ada), name, config('ada')).join(),
      newSubscriber(await user(bob), name, config('bob')).join(),
      newSubscriber(await user(carol), name, config('carol')).join(),
    ])
    assert.equal(await ofAda.channel.track({ here: true }), 'ok')
    for (const each of [ofBob, ofCarol]) assert.equal(await each.channel.track({ here: true }), 'error')
    for (const each of [ofAda, ofCarol])
      await eventually(() => 'ada' in each.channel.presenceState(), 'ada is seen')
    await ofAda.channel.send(message('hello'))
    await ofBob.receivesBroadcast('hello')
    for (const each of [ofAda, ofCarol]) assert.deepEqual(Object.keys(each.channel.presenceState()), ['ada'])
    assert.deepEqual(ofBob.channel.presenceState(), {})
    // Permission for presence does not include broadcasts.
    await ofAda.channel.untrack()
    await eventually(() => !('ada' in ofCarol.channel.presenceState()), 'ada is gone')
    assert.deepEqual(ofCarol.events(), [])
  })

  test('private channels: a new token without permission closes the channel', async () => {
    const { anon, token } = fixture()
    const name = await room(fixture(), { [ada]: everything, [bob]: everything })
    const of = (sub: string) => token({ sub, role: 'authenticated' })
    const client = anon()
    await client.setAuth(of(ada))
    const config = { ...closed, broadcast: { ack: true } }
    const one = await newSubscriber(client, name, config).join()
    await client.setAuth(of(bob))
    await settled(one.channel)
    assert.deepEqual(one.statuses, ['SUBSCRIBED'])
    await client.setAuth(of('33333333-3333-4333-8333-333333333333'))
    await one.reachesStatus('CLOSED')
    assert.partialDeepStrictEqual(one.system.at(-1), { extension: 'system', status: 'error' })
  })

  test('private channels: a failing policy rejects the join, and does not affect other topics', async () => {
    const { user, sql } = fixture()
    const name = await room(fixture(), { [ada]: everything })
    await sql(`create policy broken on realtime.messages for select to authenticated
      using (realtime.topic() = 'broken' and (auth.jwt() ->> 'level')::int > 0)`)
    assert.match(
      await newSubscriber(await user(ada, { level: 'x' }), 'broken', closed).joinError(),
      /^\w+: \S/,
    )
    await newSubscriber(await user(ada, { level: 1 }), 'broken', closed).join()
    await newSubscriber(await user(ada), name, closed).join()
    await sql('drop policy broken on realtime.messages')
  })

  test('private channels: row changes on a private channel follow the policies of their table', async () => {
    const { user, sql, table } = fixture()
    const rowsOf = await table(undefined, 'using (owner = auth.uid())')
    const name = await room(fixture(), { [ada]: everything })
    const one = await newSubscriber(await user(ada), name, closed, { table: rowsOf }).join()
    await sql(`insert into ${rowsOf} values (1, '${bob}', ''), (2, '${ada}', '')`)
    await one.receivesChanges(1)
    assert.deepEqual(one.ids(), [2])
  })
}
