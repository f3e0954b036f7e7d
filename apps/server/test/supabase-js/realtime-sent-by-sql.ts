// What SQL sends: realtime.send(), broadcast_changes() in a trigger, and what is kept of it for those who come later.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { room } from './realtime-private.ts'
import { ada, bob, ear, type Stage, topic } from './realtime-stage.ts'

const closed = { private: true }
const everything = ['listen', 'talk', 'see', 'show']

export function sentBySqlTests(stage: () => Stage): void {
  test('SQL sends to private channels, and to public ones when it says so', async () => {
    const { user, anon, sql } = stage()
    const name = await room(stage(), { [ada]: everything })
    const [inside, outside] = await Promise.all([
      ear(await user(ada), name, closed).join(),
      ear(anon(), name).join(),
    ])
    await sql(`select realtime.send('{"n": 1, "ü": [null]}', 'private by default', '${name}')`)
    await sql(`select realtime.send('{"n": 2}', 'public', '${name}', false)`)
    await sql(
      `select realtime.send('{}', 'end', '${name}', true), realtime.send('{}', 'end', '${name}', false)`,
    )
    for (const each of [inside, outside]) await each.hearsOf('end')
    assert.deepEqual(
      [inside.events(), outside.events()],
      [
        ['private by default', 'end'],
        ['public', 'end'],
      ],
    )
    const { type, payload, meta } = inside.broadcasts[0]!
    assert.deepEqual([type, payload.n, payload['ü']], ['broadcast', 1, [null]])
    assert.match(meta?.id ?? payload.id, /^[0-9a-f-]{36}$/)
  })

  test('what is sent in a transaction is heard when it commits, in order, and not at all otherwise', async () => {
    const { anon, sql } = stage()
    const name = topic()
    const one = await ear(anon(), name).join()
    const send = (event: string) => `select realtime.send('{}', '${event}', '${name}', false);`
    await sql(`begin; ${send('undone')} rollback`)
    await sql(`begin; ${send('a')} ${send('b')} commit`)
    await sql(
      `do $$ begin for n in 1..50 loop perform realtime.send('{}', n::text, '${name}', false); end loop; end $$`,
    )
    await sql(send('end'))
    await one.hearsOf('end')
    const numbers = Array.from({ length: 50 }, (_, n) => String(n + 1))
    assert.deepEqual(one.events(), ['a', 'b', ...numbers, 'end'])
  })

  test('a trigger sends what it changed', async () => {
    const { user, sql, table } = stage()
    const name = await room(stage(), { [ada]: everything })
    const rows = await table()
    await sql(`create function ${rows}_tell() returns trigger security definer language plpgsql as $$ begin
        perform realtime.broadcast_changes('${name}', tg_op, tg_op, tg_table_name, tg_table_schema, new, old);
        return null; end $$;
      create trigger tell after insert or update or delete on ${rows} for each row execute function ${rows}_tell()`)
    const one = await ear(await user(ada), name, closed).join()
    await sql(
      `insert into ${rows} values (1, null, 'a'); update ${rows} set label = 'b'; delete from ${rows}`,
    )
    await sql(`select realtime.send('{}', 'end', '${name}')`)
    await one.hearsOf('end')
    const shown = one.broadcasts.slice(0, -1).map(({ event, payload }) => {
      const { schema, table: of, operation, record, old_record } = payload
      assert.deepEqual([schema, of], ['public', rows])
      return [event, operation, record?.label, old_record?.label]
    })
    assert.deepEqual(shown, [
      ['INSERT', 'INSERT', 'a', undefined],
      ['UPDATE', 'UPDATE', 'b', 'a'],
      ['DELETE', 'DELETE', undefined, 'b'],
    ])
  })

  test('who comes later has the last messages played again, if they may hear them', async () => {
    const { user, sql } = stage()
    const name = await room(stage(), { [ada]: everything, [bob]: ['see'] })
    const since = Date.now() - 5000
    for (const n of [1, 2, 3]) await sql(`select realtime.send('{"n": ${n}}', 'm${n}', '${name}')`)
    await sql(`select realtime.send('{}', 'elsewhere', '${name} 2')`)
    const all = await ear(await user(ada), name, { ...closed, broadcast: { replay: { since } } }).join()
    const last = await ear(await user(ada), name, {
      ...closed,
      broadcast: { replay: { since, limit: 2 } },
    }).join()
    await Promise.all([all, last].map(each => each.hearsOf('m3')))
    await sql(`select realtime.send('{}', 'live', '${name}')`)
    await Promise.all([all, last].map(each => each.hearsOf('live')))
    assert.deepEqual(
      [all.events(), last.events()],
      [
        ['m1', 'm2', 'm3', 'live'],
        ['m2', 'm3', 'live'],
      ],
    )
    for (const { event, meta } of all.broadcasts)
      assert.equal(meta?.replayed === true, event !== 'live', `${event}: ${JSON.stringify(meta)}`)
    // What is of the time before is not asked for.
    const late = await ear(await user(ada), name, {
      ...closed,
      broadcast: { replay: { since: Date.now() + 60_000 } },
    }).join()
    const blind = await ear(await user(bob), name, {
      ...closed,
      broadcast: { replay: { since }, ack: true },
    }).join()
    // The answer comes after all that is played again.
    assert.equal(
      await blind.channel.send({ type: 'broadcast', event: 'not mine to say', payload: {} }),
      'error',
    )
    await sql(`select realtime.send('{}', 'end', '${name}')`)
    await late.hearsOf('end')
    assert.deepEqual([late.events(), blind.events()], [['end'], []])
  })

  test('asking to keep a message does no harm', async () => {
    const { shape, user } = stage()
    const name = await room(stage(), { [ada]: everything, [bob]: everything })
    const to = await ear(await user(bob), name, closed).join()
    const from = await ear(await user(ada), name, { ...closed, broadcast: { ack: true } }).join()
    if (shape.vsn === '2.0.0')
      assert.equal(
        await from.channel.send({
          type: 'broadcast',
          event: 'kept',
          payload: { n: 1 },
          persist: { ttl: 60 },
        }),
        'ok',
      )
    assert.deepEqual(await from.channel.httpSend('kept', { n: 1 }, { persist: true }), { success: true })
    assert.deepEqual((await to.hearsOf('kept')).payload, { n: 1 })
  })
}
