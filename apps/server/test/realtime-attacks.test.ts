// Hostile subscribers send invalid or very many bindings and filters.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuMs } from '#test/cpu-time.ts'
import { eventually } from '#test/eventually.ts'
import { attackStage, binding, receivesChange } from '#test/realtime-attack-stage.ts'
import { RawSocket } from '#test/realtime-raw.ts'
import { subscribe } from '#test/realtime-subscriber.ts'

const { stage, projectWith, attacker } = attackStage()

for (const [what, name] of Object.entries({ 'a NUL': 'a\0b', 'an unpaired surrogate': 'a\ud800' }))
  for (const field of ['table', 'schema', 'filter'])
    test(`realtime attacks: ${what} in the name of a ${field} does not affect other subscribers`, async () => {
      const { project, database } = await projectWith()
      const good = await subscribe(stage.platform, project, { table: 'notes' })
      const { socket } = await attacker(project, [
        binding({ table: 'notes', filter: 'text=eq.a', [field]: name }),
      ])
      await new Promise(resolve => setTimeout(resolve, 500))
      await database.run('insert into notes values (1)')
      await receivesChange(good, 'INSERT 1')
      const late = await subscribe(stage.platform, project, { table: 'notes' })
      await database.run('insert into notes values (2)')
      await receivesChange(late, 'INSERT 2')
      await receivesChange(good, 'INSERT 2')
      assert.deepEqual(
        good.statuses.filter(each => each.startsWith('error')),
        [],
      )
      await socket.close()
      await good.leave()
      await late.leave()
    })

test('realtime attacks: a binding that resembles one for another table does not affect its subscribers', async () => {
  const { project, database } = await projectWith(
    'create table "order items" (id int primary key); create policy everybody on "order items" for select using (true)',
  )
  const one = await subscribe(stage.platform, project, { table: 'order items' })
  const { socket, topic } = await attacker(project, [{ event: '*', schema: 'public order', table: 'items' }])
  await socket.event(topic, 'system')
  await database.run('insert into "order items" values (1)')
  await receivesChange(one, 'INSERT 1')
  await socket.close()
})

test('realtime attacks: a subscriber with many bindings does not delay others', async () => {
  const { project, database } = await projectWith('alter table notes add column at timestamptz default now()')
  const one = await subscribe(stage.platform, project, { table: 'notes' })
  const many = Array.from({ length: 50 }, (_, place) =>
    binding({
      table: 'notes',
      filter: Array.from({ length: 20 }, (__, at) => `at=gt.2020-01-01 ${place % 24}:${at}:00`).join(),
    }),
  )
  const { socket } = await attacker(project, many)
  for (let at = 0; at < 10; at++)
    socket.push(`realtime:more ${at}`, 'phx_join', { config: { postgres_changes: many } })
  await socket.settled()
  await database.run('insert into notes values (1)')
  const since = performance.now()
  await receivesChange(one, 'INSERT 1')
  assert.ok(performance.now() - since < 30_000, 'the change is not delayed')
  await socket.close()
  await one.leave()
})

test('realtime attacks: slow filters do not delay other subscribers', async () => {
  const { project, database } = await projectWith()
  const one = await subscribe(stage.platform, project, { table: 'notes' })
  const slow = Array.from({ length: 30 }, (_, at) =>
    binding({ table: 'notes', filter: `text=match.^(a+)(a+)(a+)\\1\\2\\3${at}?$` }),
  )
  const { socket, topic } = await attacker(project, slow)
  await socket.event(topic, 'system')
  await database.run(`insert into notes values (1, repeat('a', 1001))`)
  const since = performance.now()
  await receivesChange(one, 'INSERT 1')
  assert.ok(performance.now() - since < 30_000, 'the change is not delayed')
  await socket.close()
  await one.leave()
})

test('realtime attacks: joins of one subscriber do not make others lose changes', async () => {
  const { project, database } = await projectWith(`
    create policy all_topics on realtime.messages for select using (pg_sleep(0.05) is not null)`)
  const one = await subscribe(stage.platform, project, { table: 'notes' })
  const sockets = await Promise.all(Array.from({ length: 4 }, () => RawSocket.open(stage.platform, project)))
  for (const socket of sockets)
    for (let at = 0; at < 99; at++)
      socket.push(`realtime:private ${at}`, 'phx_join', { config: { private: true } })
  for (let id = 1; id < 20; id++) {
    await database.run(`insert into notes values (${id})`)
    await sleep(50)
  }
  await sleep(4000)
  await database.run('insert into notes values (100)')
  await receivesChange(one, 'INSERT 100')
  assert.deepEqual(
    one.statuses.filter(each => each.startsWith('error')),
    [],
  )
  assert.equal(one.changes.length, 20)
  await Promise.all(sockets.map(socket => socket.close()))
  await one.leave()
})

test('realtime attacks: very many bindings do not stop the platform', async () => {
  const { project, database } = await projectWith()
  const sockets = await Promise.all(Array.from({ length: 3 }, () => RawSocket.open(stage.platform, project)))
  for (const socket of sockets)
    for (let at = 0; at < 100; at++) {
      const bindings = Array.from({ length: 100 }, (_, id) => binding({ filter: `id=eq.${-id - at * 100}` }))
      socket.push(`realtime:${at}`, 'phx_join', { config: { postgres_changes: bindings } })
    }
  const one = await subscribe(stage.platform, project, { table: 'notes' })
  const ms = await cpuMs(async () => {
    await database.run('insert into notes select generate_series(1, 500)')
    await receivesChange(one, 'INSERT 500')
  })
  assert.ok(ms < 5000, `${ms} ms of CPU`)
  for (const { connection } of sockets) connection.terminate()
  await one.leave()
})

for (const [what, condition] of Object.entries({
  'that many': (place: number, at: number) =>
    `at=gt.2020-01-01 ${place % 24}:${at}:${Math.floor(place / 24)}`,
  'slow ones': (place: number, at: number) => `text=match.^(a+)(a+)(a+)\\1\\2\\3${place}b${at}?$`,
  'ones that do not fit': (place: number, at: number) => `at=gt.never ${place} ${at}`,
}))
  test(`realtime attacks: filters of other subscribers work while one has ${what}`, async () => {
    const { project, database } = await projectWith(
      'alter table notes add column at timestamptz default now()',
    )
    const many = Array.from({ length: 60 }, (_, place) =>
      binding({
        table: 'notes',
        filter: Array.from({ length: 18 }, (__, at) => condition(place, at)).join(','),
      }),
    )
    const { socket, topic } = await attacker(project, many)
    await socket.event(topic, 'system')
    const one = await subscribe(stage.platform, project, { table: 'notes', filter: 'at=gt.2001-01-01' })
    for (let id = 1; id < 4; id++) await database.run(`insert into notes values (${id}, repeat('a', 1001))`)
    await eventually(
      () => one.changes.length === 3 || one.statuses.some(each => each.startsWith('error')),
      'a change or an error arrives',
    )
    assert.deepEqual([one.changes, one.statuses.length], [['INSERT 1', 'INSERT 2', 'INSERT 3'], 1])
    await socket.close()
    await one.leave()
  })
