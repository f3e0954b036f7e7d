// Subscribing to rows: when capture is active, and invalid filters.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../eventually.ts'
import { type Fixture, newSubscriber, topic } from './realtime-fixture.ts'

export function subscribingTests(fixture: () => Fixture): void {
  for (const [what, config] of Object.entries({ 'by default': {}, 'on request': { wait: true } }))
    test(`subscribing: SUBSCRIBED waits ${what} until capture has started`, async () => {
      const { service, sql, table } = fixture()
      const name = await table()
      const options = { postgres_changes_options: config }
      const subscriber = newSubscriber(service(), topic(), options, { table: name }).subscribe()
      await subscriber.reachesStatus('SUBSCRIBED')
      await sql(`insert into ${name} (id) values (1)`)
      await subscriber.receivesChanges(1)
      assert.deepEqual(subscriber.ids(), [1])
    })

  test('subscribing: a client that waits for a locked table gets a timeout error, and joins later', async () => {
    const { platform, ref, service, sql, table } = fixture()
    const name = await table()
    const options = { postgres_changes_options: { wait: true, timeout: 300 } }
    const subscriber = newSubscriber(service(), topic(), options, { table: name })
    await platform.asSuperuser(ref, async session => {
      await session.script(`begin; lock table public.${name} in access exclusive mode`)
      assert.match(await subscriber.joinError(), /^PostgresChangesSubscribeTimeout: \S/)
      await session.script('rollback')
    })
    await subscriber.reachesStatus('SUBSCRIBED')
    await sql(`insert into ${name} (id) values (1)`)
    await subscriber.receivesChanges(1)
  })

  const invalidFilters = {
    'an unknown column': 'nope=eq.1',
    'an unknown operator': 'id=near.1',
    'a value of another type': 'id=eq.one',
    'invalid syntax': 'rubbish',
  }
  for (const [what, filter] of Object.entries(invalidFilters))
    test(`subscribing: a filter with ${what} is a system error, and the channel stays open`, async () => {
      const { service, table } = fixture()
      const name = await table()
      const client = service()
      const subscriber = newSubscriber(
        client,
        topic(),
        { broadcast: { self: true } },
        { table: name, filter },
      ).subscribe()
      await subscriber.reachesStatus('SUBSCRIBED')
      await eventually(() => subscriber.system.length > 0, 'a system message')
      assert.partialDeepStrictEqual(subscriber.system[0], { extension: 'postgres_changes', status: 'error' })
      assert.equal(subscriber.system[0]!.channel, subscriber.channel.subTopic)
      await subscriber.channel.send({ type: 'broadcast', event: 'still here' })
      await subscriber.receivesBroadcast('still here')
    })
}
