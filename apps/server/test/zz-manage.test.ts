import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let other: TestPlatform
before(async () => {
  platform = await startPlatform()
  other = await startPlatform({ beside: platform })
})
after(async () => {
  await other.stop()
  await platform.stop()
})

test('switching on node A counts for listeners of node B', async () => {
  const project = await platform.createProject()
  const ref = await platform.refOf(project.id)
  const script = (text: string) => platform.app.databases.asOwner({ ref }, s => s.script(text))
  await script('create table t (id int primary key); create table fence (id serial primary key)')
  for (const at of [other]) {
    await script('delete from t')
    const heard: string[] = []
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/v1/realtime/${project.id}/socket/websocket?token=${project.service_role_key}&vsn=2.0.0`)
    socket.onmessage = ({ data }) => heard.push(String(data))
    await new Promise(r => (socket.onopen = r))
    socket.send(JSON.stringify(['1', '1', 'realtime:x', 'phx_join', { config: { postgres_changes: [{ event: '*', schema: 'public', table: 't' }, { event: '*', schema: 'public', table: 'fence' }] } }]))
    const until = async (what: string, so: () => boolean, ms = 30_000) => {
      const t0 = Date.now()
      while (!so()) { assert.ok(Date.now() - t0 < ms, what + heard.join('\n')); await sleep(5) }
      return Date.now() - t0
    }
    await until('sub', () => heard.some(h => h.includes('Subscribed')))
    const put = async (body: object) => assert.equal((await platform.call('PUT', `/api/v1/projects/${project.id}/realtime/tables/t`, { token: platform.adminToken, body })).status, 200)
    await script('insert into t values (1)')
    await until('1', () => heard.some(h => h.includes('"table":"t"')))
    await put({ cdc_enabled: false })
    heard.length = 0
    await script('insert into t values (2)')
    await script('insert into fence default values')
    await until('fence', () => heard.some(h => h.includes('"table":"fence"')))
    console.log('off at once:', !heard.some(h => h.includes('"table":"t"')))
    await put({ cdc_enabled: true })
    heard.length = 0
    await script('insert into t values (3)')
    await script('insert into fence default values')
    await until('fence', () => heard.some(h => h.includes('"table":"fence"')))
    console.log('on at once:', heard.some(h => h.includes('"table":"t"')))
    const t0 = Date.now()
    let n = 10
    while (!heard.some(h => h.includes('"table":"t"')) && Date.now() - t0 < 20_000) { await script(`insert into t values (${n++})`); await sleep(100) }
    console.log('on after ms', Date.now() - t0)
    socket.close()
  }
})
