// Asking for rows: when they can be counted on, and what cannot be asked.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from './realtime-ear.ts'
import { ear, type Stage, topic } from './realtime-stage.ts'

export function askingTests(stage: () => Stage): void {
  for (const [what, config] of Object.entries({ 'of itself': {}, 'when asked to': { wait: true } }))
    test(`SUBSCRIBED waits ${what} until a row that is written then is heard`, async () => {
      const { service, sql, table } = stage()
      const name = await table()
      const waits = { postgres_changes_options: config }
      const listener = ear(service(), topic(), waits, { table: name }).subscribe()
      await listener.becomes('SUBSCRIBED')
      await sql(`insert into ${name} (id) values (1)`)
      await listener.hears(1)
      assert.deepEqual(listener.ids(), [1])
    })

  test('a client that waits for rows of a table somebody has locked is told that it takes too long, and joins later', async () => {
    const { platform, ref, service, sql, table } = stage()
    const name = await table()
    const waits = { postgres_changes_options: { wait: true, timeout: 300 } }
    const listener = ear(service(), topic(), waits, { table: name })
    await platform.asSuperuser(ref, async session => {
      await session.script(`begin; lock table public.${name} in access exclusive mode`)
      assert.match(await listener.refused(), /^PostgresChangesSubscribeTimeout: \S/)
      await session.script('rollback')
    })
    await listener.becomes('SUBSCRIBED')
    await sql(`insert into ${name} (id) values (1)`)
    await listener.hears(1)
  })

  const senseless = {
    'a column that is not there': 'nope=eq.1',
    'an operator that is not there': 'id=near.1',
    'a value of another type': 'id=eq.one',
    'no filter at all': 'rubbish',
  }
  for (const [what, filter] of Object.entries(senseless))
    test(`a filter with ${what} is told as a system error; the channel stays`, async () => {
      const { service, table } = stage()
      const name = await table()
      const client = service()
      const listener = ear(
        client,
        topic(),
        { broadcast: { self: true } },
        { table: name, filter },
      ).subscribe()
      await listener.becomes('SUBSCRIBED')
      await until(() => listener.system.length > 0, 'a system message')
      assert.partialDeepStrictEqual(listener.system[0], { extension: 'postgres_changes', status: 'error' })
      assert.equal(listener.system[0]!.channel, listener.channel.subTopic)
      await listener.channel.send({ type: 'broadcast', event: 'still here' })
      await listener.hearsOf('still here')
    })
}
