import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPlatform, type TestPlatform } from './harness.ts'
import { authProject } from './signed-up.ts'

let platform: TestPlatform
before(async () => { platform = await startPlatform() })
after(() => platform.stop())

test('the statements of docs/realtime.md work', async () => {
  const project = await authProject(platform)
  const ref = await platform.refOf(project.id)
  const script = (text: string) => platform.app.databases.asOwner({ ref }, s => s.script(text))
  const doc = readFileSync(new URL('../../../docs/realtime.md', import.meta.url), 'utf8')
  const sqls = [...doc.matchAll(/```sql\n(.*?)```/gs)].map(m => m[1]!)
  const ann = await project.signUp('ann@example.com')
  await script(`create table messages (id serial primary key, room_id text, body text);
    create table room_members (user_id uuid, room_id text); insert into room_members values ('${ann.user.id}', '1');
    create policy own on room_members for select using (user_id = auth.uid())`)
  const ws = new WebSocket(`${platform.url.replace('http', 'ws')}/v1/realtime/${project.id}/socket/websocket?token=${ann.access_token}&vsn=2.0.0`)
  ws.onmessage = ({ data }) => console.log(String(data))
  await new Promise(r => (ws.onopen = r))
  const join = (t: string) => ws.send(JSON.stringify(['1', '1', 'realtime:' + t, 'phx_join', { config: { private: true } }]))
  join('room:1')
  await sleep(500)
  await script(sqls[1]!)
  for (let i = 0; i < 4; i++) { join('room:1'); await sleep(700) }
  join('room:2'); await sleep(500)
  await script(sqls[0]!)
  await script(`insert into messages (room_id, body) values ('1', 'hi'), ('2', 'no')`)
  await sleep(700)
  ws.close()
  for (const l of platform.logged.filter(l => l.includes('realtime') || l.includes('"warn"') || l.includes('"error"')).slice(-5)) console.log(l.slice(0, 600))
})
