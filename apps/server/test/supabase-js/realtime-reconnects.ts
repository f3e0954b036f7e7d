// The wire is cut, held or closed by a server that ends: clients come back by themselves, and events flow again.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform } from '../harness.ts'
import { until } from './realtime-ear.ts'
import { ear, rows, type Stage, topic } from './realtime-stage.ts'
import { startWire, type Wire } from './realtime-wire.ts'

const soon = { reconnectAfterMs: () => 50 }

export function reconnectTests(stage: () => Stage): void {
  let wire: Wire
  before(async () => {
    wire = await startWire(stage().platform.url)
  })
  after(() => wire?.stop())

  test('a connection that is cut comes back with all its channels; what happened meanwhile is not told', async () => {
    const { project, as, anon, service, sql, table } = stage()
    const name = await table()
    const room = topic()
    const client = as(project.service_role_key, soon, wire.url)
    const [ofRows, ofRoom] = [
      await rows(client, { table: name }),
      await ear(client, room, { presence: { key: 'cut', enabled: true } }).join(),
    ]
    const watcher = await ear(anon(), room, { presence: { key: 'watcher', enabled: true } }).join()
    await ofRoom.channel.track({ n: 1 })
    await until(() => 'cut' in watcher.channel.presenceState(), 'presence')
    await sql(`insert into ${name} (id) values (1)`)
    await ofRows.hears(1)
    const witness = await rows(service(), { table: name })

    wire.hold()
    wire.cut()
    await until(() => !('cut' in watcher.channel.presenceState()), 'the others see that it is gone')
    await sql(`insert into ${name} (id) values (2)`)
    await witness.hears(1)
    wire.release()
    await Promise.all([ofRows.joined(2), ofRoom.joined(2)])
    await sql(`insert into ${name} (id) values (3)`)
    await ofRows.hears(2)
    await anon().channel(room).httpSend('again', {})
    await ofRoom.hearsOf('again')
    assert.deepEqual(ofRows.ids(), [1, 3])
    assert.deepEqual(ofRows.statuses, ['SUBSCRIBED', 'CHANNEL_ERROR', 'SUBSCRIBED'])
    await ofRoom.channel.track({ n: 2 })
    await until(() => 'cut' in watcher.channel.presenceState(), 'present again')
  })

  test('a connection on which nothing passes is given up by the client and replaced', async () => {
    const { project, as, anon } = stage()
    const room = topic()
    const beats: string[] = []
    const client = as(
      project.anon_key,
      { ...soon, heartbeatIntervalMs: 600, heartbeatCallback: status => void beats.push(status) },
      wire.url,
    )
    const one = await ear(client, room).join()
    const before = wire.connections
    wire.hold()
    await until(() => beats.includes('timeout'), 'a heartbeat without an answer')
    wire.release()
    await one.joined(2)
    assert.ok(wire.connections > before, 'a connection of its own')
    // A slow machine may give up the new one, too.
    const channel = anon().channel(room)
    for (let n = 0; one.events().length < 2; n++) {
      assert.ok(n < 100, 'two of a hundred messages')
      await channel.httpSend(`again ${n}`, {})
      await until(() => one.events().includes(`again ${n}`), 'the message', 500).catch(() => {})
    }
    // Nothing is told twice, whatever became of the old connection.
    assert.equal(new Set(one.events()).size, one.events().length)
  })

  test('a join that is not answered in time is TIMED_OUT, and made up for later', async () => {
    const { project, as } = stage()
    wire.hold()
    const one = ear(as(project.anon_key, soon, wire.url)).subscribe(200)
    await one.becomes('TIMED_OUT')
    wire.release()
    await one.becomes('SUBSCRIBED')
  })
}

/** Once is enough: it takes a platform of its own, twice. */
export function endingServerTests(stage: () => Stage): void {
  test('a server that ends says so, and the next one on its port is found', async context => {
    const { platform, project, as, sql, table } = stage()
    const name = await table()
    const first = await startPlatform({ beside: platform })
    const running = new Set([first])
    context.after(() => Promise.all([...running].map(each => each.stop())))
    const one = await rows(as(project.service_role_key, soon, first.url), { table: name })
    await sql(`insert into ${name} (id) values (1)`)
    await one.hears(1)
    running.delete(first)
    await first.stop()
    await until(() => one.reasons.length > 0, 'the end of the connection')
    assert.match(one.reasons[0]!, /socket closed: 1001/)
    const settings = { PLATFORM_PORT: new URL(first.url).port }
    running.add(await startPlatform({ beside: platform, settings }))
    await one.joined(2)
    await sql(`insert into ${name} (id) values (2)`)
    await one.hears(2)
    assert.deepEqual(one.ids(), [1, 2])
  })
}
