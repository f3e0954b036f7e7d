// Messages sent by SQL: realtime.send(), broadcast_changes() in a trigger, and replay.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ada, bob, type Fixture, newSubscriber, topic } from './realtime-fixture.ts'
import { room } from './realtime-private.ts'

const closed = { private: true }
const everything = ['listen', 'talk', 'see', 'show']

export function sentBySqlTests(fixture: () => Fixture): void {
  test('sent by SQL: SQL sends to private channels by default, and to public ones on request', async () => {
    const { user, anon, sql } = fixture()
    const name = await room(fixture(), { [ada]: everything })
    const [inside, outside] = await Promise.all([
      newSubscriber(await user(ada), name, closed).join(),
      newSubscriber(anon(), name).join(),
    ])
    await sql(`select realtime.send('{"n": 1, "ü": [null]}', 'private by default', '${name}')`)
    await sql(`select realtime.send('{"n": 2}', 'public', '${name}', false)`)
    await sql(
      `select realtime.send('{}', 'end', '${name}', true), realtime.send('{}', 'end', '${name}', false)`,
    )
    for (const each of [inside, outside]) await each.receivesBroadcast('end')
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

  test('sent by SQL: messages of a transaction arrive in order at commit, and not after a rollback', async () => {
    const { anon, sql } = fixture()
    const name = topic()
    const one = await newSubscriber(anon(), name).join()
    const send = (event: string) => `select realtime.send('{}', '${event}', '${name}', false);`
    await sql(`begin; ${send('undone')} rollback`)
    await sql(`begin; ${send('a')} ${send('b')} commit`)
    await sql(
      `do $$ begin for n in 1..50 loop perform realtime.send('{}', n::text, '${name}', false); end loop; end $$`,
    )
    await sql(send('end'))
    await one.receivesBroadcast('end')
    const numbers = Array.from({ length: 50 }, (_, n) => String(n + 1))
    assert.deepEqual(one.events(), ['a', 'b', ...numbers, 'end'])
  })

  test('sent by SQL: a trigger sends its change with broadcast_changes()', async () => {
    const { user, sql, table } = fixture()
    const name = await room(fixture(), { [ada]: everything })
    const rows = await table()
    await sql(`create function ${rows}_tell() returns trigger security definer language plpgsql as $$ begin
        perform realtime.broadcast_changes('${name}', tg_op, tg_op, tg_table_name, tg_table_schema, new, old);
        return null; end $$;
      create trigger tell after insert or update or delete on ${rows} for each row execute function ${rows}_tell()`)
    const one = await newSubscriber(await user(ada), name, closed).join()
    await sql(
      `insert into ${rows} values (1, null, 'a'); update ${rows} set label = 'b'; delete from ${rows}`,
    )
    await sql(`select realtime.send('{}', 'end', '${name}')`)
    await one.receivesBroadcast('end')
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

  test('sent by SQL: a later client gets the last messages replayed if it may read them', async () => {
    const { user, sql } = fixture()
    const name = await room(fixture(), { [ada]: everything, [bob]: ['see'] })
    const since = Date.now() - 5000
    for (const n of [1, 2, 3]) await sql(`select realtime.send('{"n": ${n}}', 'm${n}', '${name}')`)
    await sql(`select realtime.send('{}', 'elsewhere', '${name} 2')`)
    const all = await newSubscriber(await user(ada), name, {
      ...closed,
      broadcast: { replay: { since } },
    }).join()
    const last = await newSubscriber(await user(ada), name, {
      ...closed,
      broadcast: { replay: { since, limit: 2 } },
    }).join()
    await Promise.all([all, last].map(each => each.receivesBroadcast('m3')))
    await sql(`select realtime.send('{}', 'live', '${name}')`)
    await Promise.all([all, last].map(each => each.receivesBroadcast('live')))
    assert.deepEqual(
      [all.events(), last.events()],
      [
        ['m1', 'm2', 'm3', 'live'],
        ['m2', 'm3', 'live'],
      ],
    )
    for (const { event, meta } of all.broadcasts)
      assert.equal(meta?.replayed === true, event !== 'live', `${event}: ${JSON.stringify(meta)}`)
    // Messages before `since` are not replayed.
    const late = await newSubscriber(await user(ada), name, {
      ...closed,
      broadcast: { replay: { since: Date.now() + 60_000 } },
    }).join()
    const blind = await newSubscriber(await user(bob), name, {
      ...closed,
      broadcast: { replay: { since }, ack: true },
    }).join()
    // The reply comes after all replayed messages.
    assert.equal(
      await blind.channel.send({ type: 'broadcast', event: 'not mine to say', payload: {} }),
      'error',
    )
    await sql(`select realtime.send('{}', 'end', '${name}')`)
    await late.receivesBroadcast('end')
    assert.deepEqual([late.events(), blind.events()], [['end'], []])
  })

  test('sent by SQL: the option to store a message has no effect', async () => {
    const { shape, user } = fixture()
    const name = await room(fixture(), { [ada]: everything, [bob]: everything })
    const to = await newSubscriber(await user(bob), name, closed).join()
    const from = await newSubscriber(await user(ada), name, { ...closed, broadcast: { ack: true } }).join()
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
    assert.deepEqual((await to.receivesBroadcast('kept')).payload, { n: 1 })
  })
}
