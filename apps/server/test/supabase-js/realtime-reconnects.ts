// The connection is dropped, stalled or closed at shutdown: clients reconnect by themselves and receive events again.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from '../eventually.ts'
import { startPlatform } from '../harness.ts'
import { type Fixture, newSubscriber, rows, topic } from './realtime-fixture.ts'
import { startTcpProxy, type TcpProxy } from './realtime-tcp-proxy.ts'

const soon = { reconnectAfterMs: () => 50 }

export function reconnectTests(fixture: () => Fixture): void {
  let proxy: TcpProxy
  before(async () => {
    proxy = await startTcpProxy(fixture().platform.url)
  })
  after(() => proxy?.stop())

  test('reconnects: after a dropped connection the client joins all channels again, without the changes meanwhile', async () => {
    const { project, as, anon, service, sql, table } = fixture()
    const name = await table()
    const room = topic()
    const client = as(project.service_role_key, soon, proxy.url)
    const [ofRows, ofRoom] = [
      await rows(client, { table: name }),
      await newSubscriber(client, room, { presence: { key: 'cut', enabled: true } }).join(),
    ]
    const watcher = await newSubscriber(anon(), room, { presence: { key: 'watcher', enabled: true } }).join()
    await ofRoom.channel.track({ n: 1 })
    await eventually(() => 'cut' in watcher.channel.presenceState(), 'presence')
    await sql(`insert into ${name} (id) values (1)`)
    await ofRows.receivesChanges(1)
    const observer = await rows(service(), { table: name })

    proxy.hold()
    proxy.cut()
    await eventually(() => !('cut' in watcher.channel.presenceState()), 'the others see that it is gone')
    await sql(`insert into ${name} (id) values (2)`)
    await observer.receivesChanges(1)
    proxy.release()
    await Promise.all([ofRows.joined(2), ofRoom.joined(2)])
    await sql(`insert into ${name} (id) values (3)`)
    await ofRows.receivesChanges(2)
    await anon().channel(room).httpSend('again', {})
    await ofRoom.receivesBroadcast('again')
    assert.deepEqual(ofRows.ids(), [1, 3])
    assert.deepEqual(ofRows.statuses, ['SUBSCRIBED', 'CHANNEL_ERROR', 'SUBSCRIBED'])
    await ofRoom.channel.track({ n: 2 })
    await eventually(() => 'cut' in watcher.channel.presenceState(), 'present again')
  })

  test('reconnects: the client replaces a connection that transmits nothing', async () => {
    const { project, as, anon } = fixture()
    const room = topic()
    const beats: string[] = []
    const client = as(
      project.anon_key,
      { ...soon, heartbeatIntervalMs: 600, heartbeatCallback: status => void beats.push(status) },
      proxy.url,
    )
    const one = await newSubscriber(client, room).join()
    const before = proxy.connections
    proxy.hold()
    await eventually(() => beats.includes('timeout'), 'a heartbeat without an answer')
    proxy.release()
    await one.joined(2)
    assert.ok(proxy.connections > before, 'the client has opened another connection')
    // On a slow machine the client may replace the new connection, too.
    const channel = anon().channel(room)
    for (let n = 0; one.events().length < 2; n++) {
      assert.ok(n < 100, 'two of a hundred messages')
      await channel.httpSend(`again ${n}`, {})
      const sentAt = performance.now()
      const isLost = () => performance.now() > sentAt + 500
      await eventually(() => one.events().includes(`again ${n}`) || isLost(), 'the message or its loss')
    }
    // Nothing is delivered twice, even if the old connection still delivers.
    assert.equal(new Set(one.events()).size, one.events().length)
  })

  test('reconnects: a join without a reply in time is TIMED_OUT, and succeeds later', async () => {
    const { project, as } = fixture()
    proxy.hold()
    const one = newSubscriber(as(project.anon_key, soon, proxy.url)).subscribe(200)
    await one.reachesStatus('TIMED_OUT')
    proxy.release()
    await one.reachesStatus('SUBSCRIBED')
  })
}

/** Runs in one client form only, because it starts two platforms. */
export function endingServerTests(fixture: () => Fixture): void {
  test('reconnects: a server closes its sockets at shutdown, and clients find the next one on the port', async context => {
    const { platform, project, as, sql, table } = fixture()
    const name = await table()
    const first = await startPlatform({ beside: platform })
    const running = new Set([first])
    context.after(() => Promise.all([...running].map(each => each.stop())))
    const one = await rows(as(project.service_role_key, soon, first.url), { table: name })
    await sql(`insert into ${name} (id) values (1)`)
    await one.receivesChanges(1)
    running.delete(first)
    await first.stop()
    await eventually(() => one.reasons.length > 0, 'the end of the connection')
    assert.match(one.reasons[0]!, /socket closed: 1001/)
    const settings = { PLATFORM_PORT: new URL(first.url).port }
    running.add(await startPlatform({ beside: platform, settings }))
    await one.joined(2)
    await sql(`insert into ${name} (id) values (2)`)
    await one.receivesChanges(2)
    assert.deepEqual(one.ids(), [1, 2])
  })
}
