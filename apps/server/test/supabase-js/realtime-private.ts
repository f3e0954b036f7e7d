// Private channels: policies on realtime.messages say who may listen, send and be seen.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from './realtime-ear.ts'
import { ada, bob, ear, type Stage, settled, topic } from './realtime-stage.ts'

const say = (event: string, payload: unknown = {}) => ({ type: 'broadcast' as const, event, payload })
const closed = { private: true }
const quiet = { logger: () => {} }

/** Who is a member of a room, and may do what there, is in a table of the project's own. */
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
const prepared = new WeakMap<Stage, Promise<void>>()

/** A room with these members. */
export async function room(stage: Stage, members: Record<string, string[]>): Promise<string> {
  if (!prepared.has(stage)) prepared.set(stage, stage.sql(policies))
  await prepared.get(stage)
  const name = topic('private')
  for (const [who, rights] of Object.entries(members))
    await stage.sql(`insert into members values ('${name}', '${who}', '{${rights.join()}}')`)
  return name
}

const everything = ['listen', 'talk', 'see', 'show']

export function privateTests(stage: () => Stage): void {
  test('members talk to each other; nobody else joins', async () => {
    const { user, anon, service } = stage()
    const name = await room(stage(), { [ada]: everything, [bob]: everything })
    const config = { ...closed, broadcast: { ack: true, self: true } }
    const [ofAda, ofBob, ofService] = await Promise.all([
      ear(await user(ada), name, config).join(),
      ear(await user(bob), name, config).join(),
      ear(service(), name, config).join(),
    ])
    for (const stranger of [await user('33333333-3333-4333-8333-333333333333'), anon()]) {
      assert.match(await ear(stranger, name, closed).refused(), /^Unauthorized: \S/)
      assert.match(await ear(stranger, `${name} 2`, closed).refused(), /^Unauthorized: \S/)
    }
    assert.equal(await ofAda.channel.send(say('from ada', { n: 1 })), 'ok')
    assert.equal(await ofService.channel.send(say('from service')), 'ok')
    for (const each of [ofAda, ofBob, ofService]) {
      assert.deepEqual((await each.hearsOf('from ada')).payload, { n: 1 })
      await each.hearsOf('from service')
    }
  })

  test('a private and a public channel of the same name are two', async () => {
    const { user, anon } = stage()
    const name = await room(stage(), { [ada]: everything, [bob]: everything })
    const [one, two, open] = await Promise.all([
      ear(await user(ada), name, closed).join(),
      ear(await user(bob), name, closed).join(),
      ear(anon(), name).join(),
    ])
    await one.channel.send(say('secret'))
    await two.hearsOf('secret')
    await anon().channel(name).httpSend('said aloud', {})
    await open.hearsOf('said aloud')
    await one.channel.send(say('end'))
    await two.hearsOf('end')
    assert.deepEqual([two.events(), open.events()], [['secret', 'end'], ['said aloud']])
  })

  test('who may only listen is not heard', async () => {
    const { user } = stage()
    const name = await room(stage(), { [ada]: everything, [bob]: ['listen'] })
    const [ofAda, ofBob] = await Promise.all([
      ear(await user(ada), name, closed).join(),
      ear(await user(bob), name, { ...closed, broadcast: { ack: true, self: true } }).join(),
    ])
    assert.notEqual(await ofBob.channel.send(say('hush'), { timeout: 1000 }), 'ok')
    assert.equal(await ofBob.channel.send({ type: 'presence', event: 'track', payload: {} }), 'error')
    await ofAda.channel.send(say('order'))
    await ofBob.hearsOf('order')
    await (await user(ada)).channel(name, { config: closed }).httpSend('end', {})
    await Promise.all([ofAda, ofBob].map(each => each.hearsOf('end')))
    assert.deepEqual([ofAda.events(), ofBob.events()], [['end'], ['order', 'end']])
    assert.deepEqual(ofBob.statuses, ['SUBSCRIBED'])
  })

  test('who may only send does not join, but sends by HTTP', async () => {
    const { user } = stage()
    const name = await room(stage(), { [ada]: everything, [bob]: ['talk'] })
    const ofAda = await ear(await user(ada), name, closed).join()
    assert.match(await ear(await user(bob), name, closed).refused(), /^Unauthorized: \S/)
    const channel = (await user(bob, {}, quiet)).channel(name, { config: closed })
    assert.equal(await channel.send(say('by send', { n: 1 })), 'ok')
    assert.deepEqual((await ofAda.hearsOf('by send')).payload, { n: 1 })
    assert.deepEqual(await channel.httpSend('by httpSend', { n: 2 }), { success: true })
    assert.deepEqual((await ofAda.hearsOf('by httpSend')).payload, { n: 2 })
  })

  test('what a stranger sends by HTTP is not heard', async () => {
    const { user, anon, service } = stage()
    const name = await room(stage(), { [ada]: everything })
    const ofAda = await ear(await user(ada), name, closed).join()
    for (const stranger of [await user(bob, {}, quiet), anon(quiet)]) {
      const channel = stranger.channel(name, { config: closed })
      assert.equal(await channel.send(say('intruder')), 'ok')
      await channel.httpSend('intruder', {}).catch(() => {})
    }
    await service().channel(name, { config: closed }).httpSend('end', {})
    await ofAda.hearsOf('end')
    assert.deepEqual(ofAda.events(), ['end'])
  })

  test('presence has policies of its own', async () => {
    const { user } = stage()
    const carol = '44444444-4444-4444-8444-444444444444'
    const name = await room(stage(), { [ada]: everything, [bob]: ['listen'], [carol]: ['see'] })
    const config = (key: string) => ({ ...closed, presence: { key, enabled: true } })
    const [ofAda, ofBob, ofCarol] = await Promise.all([
      ear(await user(ada), name, config('ada')).join(),
      ear(await user(bob), name, config('bob')).join(),
      ear(await user(carol), name, config('carol')).join(),
    ])
    assert.equal(await ofAda.channel.track({ here: true }), 'ok')
    for (const each of [ofBob, ofCarol]) assert.equal(await each.channel.track({ here: true }), 'error')
    for (const each of [ofAda, ofCarol])
      await until(() => 'ada' in each.channel.presenceState(), 'ada is seen')
    await ofAda.channel.send(say('hello'))
    await ofBob.hearsOf('hello')
    for (const each of [ofAda, ofCarol]) assert.deepEqual(Object.keys(each.channel.presenceState()), ['ada'])
    assert.deepEqual(ofBob.channel.presenceState(), {})
    // And who may see may not listen.
    await ofAda.channel.untrack()
    await until(() => !('ada' in ofCarol.channel.presenceState()), 'ada is gone')
    assert.deepEqual(ofCarol.events(), [])
  })

  test('a token that may not be there ends a channel that was joined with one that might', async () => {
    const { anon, token } = stage()
    const name = await room(stage(), { [ada]: everything, [bob]: everything })
    const of = (sub: string) => token({ sub, role: 'authenticated' })
    const client = anon()
    await client.setAuth(of(ada))
    const config = { ...closed, broadcast: { ack: true } }
    const one = await ear(client, name, config).join()
    await client.setAuth(of(bob))
    await settled(one.channel)
    assert.deepEqual(one.statuses, ['SUBSCRIBED'])
    await client.setAuth(of('33333333-3333-4333-8333-333333333333'))
    await one.becomes('CLOSED')
    assert.partialDeepStrictEqual(one.system.at(-1), { extension: 'system', status: 'error' })
  })

  test('a policy that fails lets nobody in, and hurts nobody else', async () => {
    const { user, sql } = stage()
    const name = await room(stage(), { [ada]: everything })
    await sql(`create policy broken on realtime.messages for select to authenticated
      using (realtime.topic() = 'broken' and (auth.jwt() ->> 'level')::int > 0)`)
    assert.match(await ear(await user(ada, { level: 'x' }), 'broken', closed).refused(), /^\w+: \S/)
    await ear(await user(ada, { level: 1 }), 'broken', closed).join()
    await ear(await user(ada), name, closed).join()
    await sql('drop policy broken on realtime.messages')
  })

  test('rows are heard on a private channel, too, by the policies of their table', async () => {
    const { user, sql, table } = stage()
    const rowsOf = await table(undefined, 'using (owner = auth.uid())')
    const name = await room(stage(), { [ada]: everything })
    const one = await ear(await user(ada), name, closed, { table: rowsOf }).join()
    await sql(`insert into ${rowsOf} values (1, '${bob}', ''), (2, '${ada}', '')`)
    await one.hears(1)
    assert.deepEqual(one.ids(), [2])
  })
}
