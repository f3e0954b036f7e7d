// The server is killed and started again on the same port.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, afterEach, before, describe, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { eventually } from '../eventually.ts'
import { StorageNode } from '../storage-node.ts'
import { newSubscriber, rows, topic } from './realtime-fixture.ts'
import { disconnectAll, shapes } from './realtime-shapes.ts'

export function killedServerTests(): void {
  describe('killed server', () => {
    const node = new StorageNode()
    let settings: Record<string, string>
    let project: CreatedProject
    before(async () => {
      settings = { PLATFORM_PORT: String(await freePort()) }
      await node.start({ settings })
      project = (await node.createProject({ rate_limit_service_role: 0, rate_limit_anon: 0 })).project
      await sql('create table public.notes (id int primary key, label text)')
    })
    afterEach(disconnectAll)
    after(() => node.remove())

    async function sql(script: string): Promise<void> {
      const reply = await fetch(`${node.url}/v1/rest/${project.id}/rpc/exec_sql`, {
        method: 'POST',
        headers: { authorization: `Bearer ${project.service_role_key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ sql: script }),
      })
      assert.ok(reply.ok, await reply.text())
    }

    test('killed server: every client joins its channels again, and receives rows, broadcasts and presence', async () => {
      const clients = shapes.map(shape =>
        shape.connect(node.url, project.id, project.service_role_key, { reconnectAfterMs: () => 100 }),
      )
      const room = topic()
      const config = (key: number) => ({ presence: { key: String(key), enabled: true } })
      const ofRows = await Promise.all(clients.map(client => rows(client, { table: 'notes' })))
      const ofRoom = await Promise.all(
        clients.map((client, key) => newSubscriber(client, room, config(key)).join()),
      )
      const track = async () => {
        for (const { channel } of ofRoom) assert.equal(await channel.track({}), 'ok')
        for (const { channel } of ofRoom)
          await eventually(
            () => Object.keys(channel.presenceState()).length === ofRoom.length,
            'all are there',
          )
      }
      await track()
      await sql(`insert into notes values (1, 'before')`)
      for (const each of ofRows) await each.receivesChanges(1)

      await node.kill()
      for (const each of [...ofRows, ...ofRoom]) await each.reachesStatus('CHANNEL_ERROR')
      await node.start({ settings })
      await Promise.all([...ofRows, ...ofRoom].map(each => each.joined(2)))
      await track()
      await sql(`insert into notes values (2, 'after')`)
      await ofRoom[0]!.channel.send({ type: 'broadcast', event: 'again' })
      for (const each of ofRows) {
        await each.receivesChanges(2)
        assert.deepEqual(each.ids(), [1, 2])
        assert.equal(each.statuses.at(-1), 'SUBSCRIBED')
      }
      for (const each of ofRoom.slice(1)) await each.receivesBroadcast('again')
    })
  })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
