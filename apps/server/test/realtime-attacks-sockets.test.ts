// Random bytes, oversized presence and malformed upgrades on realtime sockets.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '#test/fuzz/random.ts'
import { attackStage } from '#test/realtime-attack-stage.ts'
import { RawSocket } from '#test/realtime-raw.ts'

const { stage, projectWith } = attackStage()

test('realtime attacks: random bytes on a socket do not stop the platform', async () => {
  const { project } = await projectWith()
  const seeds = [
    '[]',
    '{}',
    'null',
    '1',
    '""',
    '[null,null,"realtime:a","phx_join",null]',
    '["1","1","realtime:a","phx_join",{"config":[]}]',
    '["1","1","realtime:__proto__","phx_join",{"config":{"postgres_changes":[null,1,"x",[],{"event":"*","schema":"public","filter":{}}],"broadcast":{"replay":{"since":1e999}},"presence":{"key":{"a":1}}}}]',
    '["1","1","realtime:b","phx_join",{"config":{"private":"true","broadcast":{"replay":{"since":-1e300,"limit":-5}}}}]',
    '["1","2","realtime:a","access_token",{"access_token":{"a":1}}]',
    '["1","2","realtime:a","access_token",{"access_token":"a.b.c"}]',
    '["1","2","realtime:a","presence",{"event":"track","payload":{"phx_ref":"x","__proto__":{"a":1}}}]',
    '["1","2","realtime:a","presence",{"event":"untrack"}]',
    '["1","2","realtime:a","presence",[]]',
    '["1","2","realtime:a","broadcast",null]',
    '["1","2","realtime:a","broadcast",{"event":"a","payload":1e400}]',
    '["1","2","realtime:a","phx_leave",{}]',
    '[1e400,1,"phoenix","heartbeat",{}]',
    '["1","1","phoenix","phx_join",{}]',
    `[null,null,"realtime:a","phx_join",${'['.repeat(50000)}${']'.repeat(50000)}]`,
    `["9","9","realtime:deep","phx_join",{"config":{"postgres_changes":[{"event":"*","schema":"public","x":${'['.repeat(50000)}${']'.repeat(50000)}}]}}]`,
    `["9","9","realtime:deep","broadcast",{"event":"e","payload":${'{"a":'.repeat(20000)}1${'}'.repeat(20000)}}]`,
  ]
  const { int } = createRandom('bytes')
  const random = (most: number) => int(0, most - 1)
  for (let round = 0; round < 300; round++) {
    const socket = await RawSocket.open(stage.platform, project)
    socket.send('["1","1","realtime:a","phx_join",{"config":{"presence":{"enabled":true}}}]')
    for (let at = 0; at < 6; at++) {
      const seed = seeds[random(seeds.length)]!
      if (socket.ended) break
      switch (random(5)) {
        case 0:
          socket.send(seed)
          break
        case 1: {
          const bytes = Buffer.from(seed.slice(0, 200))
          bytes[random(bytes.length)] = random(256)
          socket.connection.send(bytes, { binary: false })
          break
        }
        case 2:
          socket.send(
            Buffer.from([
              3,
              random(256),
              random(4),
              random(20),
              random(20),
              random(3),
              random(3),
              ...Array.from({ length: random(100) }, () => random(256)),
            ]),
          )
          break
        case 3: {
          const topic = Buffer.from('realtime:a')
          socket.send(
            Buffer.concat([
              Buffer.from([3, 0, 0, topic.length, 1, 0, random(2)]),
              topic,
              Buffer.from('e'),
              Buffer.from([random(256), random(256)]),
            ]),
          )
          break
        }
        default:
          socket.send(seed)
          socket.connection.ping(Buffer.alloc(125))
      }
    }
    if (round % 3 === 0) socket.connection.terminate()
    else {
      await Promise.race([sleep(5), socket.end().catch(() => {})])
      socket.connection.close()
    }
  }
  const last = await RawSocket.open(stage.platform, project)
  await last.join('realtime:a')
  await last.close()
  assert.deepEqual(
    stage.platform.logged
      .filter(line => /could not be handled|uncaught|unhandled/i.test(line))
      .map(line => line.slice(0, 600))
      .slice(0, 3),
    [],
  )
})

test('realtime attacks: the presence state of a topic has a size limit', async () => {
  const { project } = await projectWith()
  const sockets: RawSocket[] = []
  const large = 'x'.repeat(60_000)
  for (let at = 0; at < 120; at++) {
    const socket = await RawSocket.open(stage.platform, project)
    sockets.push(socket)
    await socket.join('realtime:room', { presence: { key: `k${at}`, enabled: false } })
    socket.push('realtime:room', 'presence', { type: 'presence', event: 'track', payload: { large } })
    await socket.settled().catch(() => {})
  }
  const member = await RawSocket.open(stage.platform, project)
  await member.join('realtime:room', { presence: { enabled: true } })
  const [, , , , state] = await member.event('realtime:room', 'presence_state')
  assert.ok(JSON.stringify(state).length < 4 * 2 ** 20)
  for (let at = 0; at < 10; at++) {
    await member.settled()
    await sleep(20)
  }
  for (const socket of [...sockets, member]) socket.connection.terminate()
})

test('realtime attacks: a socket is paused while frames wait for a policy check', async () => {
  const { project } = await projectWith(`
    create policy slowly on realtime.messages for select using (pg_sleep(0.4) is not null);
    create policy all_of_them on realtime.messages for insert with check (true)`)
  const socket = await RawSocket.open(stage.platform, project)
  const ref = socket.push('realtime:room', 'phx_join', {
    config: { private: true, broadcast: { ack: true } },
  })
  const payload = 'x'.repeat(2_900_000)
  const sent = Array.from({ length: 20 }, () =>
    socket.push('realtime:room', 'broadcast', { type: 'broadcast', event: 'e', payload }),
  )
  assert.equal((await socket.answer(ref)).status, 'ok')
  assert.ok(socket.connection.bufferedAmount > 30_000_000, `only ${socket.connection.bufferedAmount} wait`)
  for (const each of sent) assert.equal((await socket.answer(each)).status, 'ok')
  await socket.close()
})

test('realtime attacks: malformed upgrade requests do not stop the platform', async () => {
  const { project } = await projectWith()
  const { hostname, port } = new URL(stage.platform.url)
  const path = `/v1/realtime/${project.id}/socket/websocket?token=${project.anon_key}`
  const upgrade = [
    'connection: Upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
  ]
  const requests: string[][] = [
    [`GET ${path} HTTP/1.1`, ...upgrade.slice(0, 3)],
    [`GET ${path} HTTP/1.1`, ...upgrade.slice(0, 2), 'sec-websocket-version: 7', upgrade[3]!],
    [`GET ${path} HTTP/1.1`, ...upgrade.slice(0, 3), 'sec-websocket-key: x'],
    [`POST ${path} HTTP/1.1`, 'content-length: 5', ...upgrade],
    [`GET http://evil${path} HTTP/1.1`, ...upgrade],
    [`GET /v1/realtime/%zz/socket/websocket?token=%zz HTTP/1.1`, ...upgrade],
    [`GET /v1/%00/realtime/v1/websocket?apikey=${'a'.repeat(8000)} HTTP/1.1`, ...upgrade],
    [
      `GET /v1/realtime/${project.id}/socket/websocket HTTP/1.1`,
      ...upgrade,
      `authorization: Bearer ${'a.'.repeat(3000)}`,
    ],
    [
      `GET ${path} HTTP/1.1`,
      ...upgrade,
      'sec-websocket-protocol: a,,b',
      'sec-websocket-extensions: permessage-deflate; x="',
    ],
    [`GET ${path} HTTP/1.1`, 'connection: Upgrade', 'upgrade: h2c, websocket'],
    [`GET ${path} HTTP/1.0`, ...upgrade],
  ]
  for (const lines of requests)
    for (const isCut of [false, true]) {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.write(`${[lines[0], 'host: x', ...lines.slice(1)].join('\r\n')}\r\n\r\n`)
      if (isCut) setImmediate(() => socket.resetAndDestroy())
      else await Promise.race([once(socket, 'data'), once(socket, 'close'), sleep(2000)])
      socket.destroy()
    }
  const last = await RawSocket.open(stage.platform, project)
  await last.settled()
  await last.close()
})
