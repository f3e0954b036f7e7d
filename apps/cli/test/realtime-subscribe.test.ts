// Watching a project from the command line, through a real platform.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { signJwt } from '../../server/src/kernel/crypto/jwt.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { brittle } from './brittle.ts'
import { begin, workplace } from './plinth.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
  await script(`
    create table todos (id bigint primary key, title text);
    create policy all_see on todos for select using (true)`)
})
after(() => platform.stop())

async function script(text: string): Promise<void> {
  const ref = await platform.refOf(project.id)
  await platform.app.databases.asOwner({ ref }, session => session.script(text))
}
const broadcast = (topic: string, event: string, payload: unknown) =>
  platform.call('POST', `/v1/realtime/${project.id}/api/broadcast`, {
    apikey: project.anon_key,
    body: { messages: [{ topic, event, payload }] },
  })

const patienceSeconds = 30
async function until(what: string, isSo: () => boolean, said = () => ''): Promise<void> {
  for (const end = Date.now() + patienceSeconds * 1000; !isSo(); await sleep(20))
    assert.ok(Date.now() < end, `not within ${patienceSeconds} seconds: ${what}; instead: ${said()}`)
}

const cwd = workplace()
function watch(args: string[], url = platform.url, env: Record<string, string> = {}) {
  const child = begin(['realtime', 'subscribe', ...args], {
    cwd,
    env: {
      PLATFORM_URL: url,
      PLATFORM_PROJECT: project.id,
      PLATFORM_REALTIME_TOKEN: project.anon_key,
      ...env,
    },
  })
  const closed = once(child, 'close')
  const watcher = {
    stdout: '',
    stderr: '',
    lines: () => watcher.stdout.split('\n').filter(Boolean),
    /** Without what is said about the channel itself. */
    heard: () =>
      watcher
        .lines()
        .map(line => JSON.parse(line))
        .filter(each => each.kind !== 'system'),
    all: () => watcher.stdout + watcher.stderr,
    says: (what: RegExp) => until(String(what), () => what.test(watcher.all()), watcher.all),
    async ended() {
      await until('it has ended', () => child.exitCode !== null || child.signalCode !== null, watcher.all)
      await closed
      return [child.exitCode, child.signalCode]
    },
    async interrupt() {
      child.kill('SIGINT')
      return watcher.ended()
    },
  }
  child.stdout.setEncoding('utf8').on('data', chunk => (watcher.stdout += chunk))
  child.stderr.setEncoding('utf8').on('data', chunk => (watcher.stderr += chunk))
  child.stdin.end()
  after(() => child.kill('SIGKILL'))
  return watcher
}
const subscribed = /Subscribed to PostgreSQL/
const failure = async (watcher: ReturnType<typeof watch>) => {
  const [code] = await watcher.ended()
  assert.equal(code, 1, watcher.all())
  return JSON.parse(watcher.lines().at(-1)!).error
}

test('each change is one line of JSON, and Ctrl-C ends it with 0', async () => {
  const watcher = watch(['--channel', 'todos'])
  await watcher.says(subscribed)
  await script(`insert into todos values (9007199254740993, 'one')`)
  await script(`update todos set title = 'two'`)
  await script(`delete from todos`)
  await until('three changes', () => watcher.heard().length === 3)
  const columns = [
    { name: 'id', type: 'unknown' },
    { name: 'title', type: 'unknown' },
  ]
  const [inserted, updated, deleted] = watcher.heard()
  assert.ok(!Number.isNaN(Date.parse(inserted.commit_timestamp)))
  delete inserted.commit_timestamp
  assert.ok(watcher.stdout.includes('"id":9007199254740993'), 'a large id lost digits')
  delete inserted.new.id
  assert.deepEqual(inserted, {
    kind: 'change',
    schema: 'public',
    table: 'todos',
    eventType: 'INSERT',
    new: { title: 'one' },
    old: null,
    columns,
    errors: null,
  })
  assert.deepEqual([updated.eventType, updated.old.title, updated.new.title], ['UPDATE', 'one', 'two'])
  assert.deepEqual([deleted.eventType, Object.keys(deleted.old), deleted.new], ['DELETE', ['id'], null])
  assert.deepEqual(await watcher.interrupt(), [0, null])
  assert.equal(watcher.lines().filter(line => line.includes('"ok"') && !line.includes('system')).length, 0)
})

test('for people each change is a line of text, without what could steer a terminal', async () => {
  const watcher = watch(['--channel', 'public:todos:id=eq.5', '-o', 'text'])
  await watcher.says(subscribed)
  // JSON escapes what stands below a space, and leaves these.
  await script(`insert into todos values (4, 'other'), (5, 'a' || chr(155) || '2J' || chr(8238))`)
  await broadcast('public:todos:id=eq.5', 'be\x1b[2Jll', 1)
  await watcher.says(/broadcast {2}be/)
  await watcher.says(/INSERT {2}public\.todos {2}\{"id":5,/)
  assert.ok(!watcher.stdout.includes('other'))
  for (const steering of ['\x1b', '\x9b', '\u202e']) assert.ok(!watcher.stdout.includes(steering))
  await script('delete from todos')
  await watcher.says(/DELETE {2}public\.todos {2}\{"id":5\}/)
  assert.deepEqual(await watcher.interrupt(), [0, null])
})

test('messages of a channel are printed, of a table’s own as of any other', async () => {
  const [room, table] = [watch(['--channel', 'realtime:room-1']), watch(['--channel', 'todos'])]
  await Promise.all([room, table].map(each => each.says(/Joined realtime:/)))
  await broadcast('room-1', 'say', { text: 'hello' })
  await broadcast('public:todos', 'note', [1])
  for (const [watcher, event, payload] of [
    [room, 'say', { text: 'hello' }],
    [table, 'note', [1]],
  ] as const) {
    await until('the message', () => watcher.heard().length > 0)
    assert.deepEqual(watcher.heard(), [{ kind: 'broadcast', event, payload, bytes_base64: null }])
    assert.deepEqual(await watcher.interrupt(), [0, null])
  }
})

test('a credential that is not the project’s ends it with what to do', async () => {
  const wrong = await failure(watch(['--channel', 'todos', '--token', 'nonsense']))
  assert.equal(wrong.code, 'unauthorized')
  assert.match(wrong.suggestion, /the anon key, the service_role key or a user’s JWT of the project/)
  const stranger = await platform.createProject()
  assert.equal(
    (await failure(watch(['--channel', 'todos', '--token', stranger.anon_key]))).code,
    'unauthorized',
  )
  await platform.projects.suspend({ params: { id: stranger.id } })
  const suspended = await failure(
    watch(['--channel', 'todos', '--project', stranger.id, '--token', stranger.anon_key]),
  )
  assert.equal(suspended.code, 'project_suspended')
  assert.match(suspended.suggestion, /projects resume/)
})

test('a channel that may not be joined ends it with what to do', async () => {
  const refused = await failure(watch(['--channel', 'realtime:secret', '--private']))
  assert.equal(refused.code, 'join_refused')
  assert.match(refused.message, /Unauthorized/)
  assert.match(refused.suggestion, /policy on realtime\.messages/)
})

test('a table that is not there ends it; a channel that only looks like one goes on', async () => {
  const missing = await failure(watch(['--channel', 'nowhere']))
  assert.equal(missing.code, 'subscription_refused')
  const channel = watch(['--channel', 'realtime:chat:room'])
  await channel.says(/Joined realtime:chat:room/)
  await broadcast('chat:room', 'say', 1)
  await until('the message', () => channel.heard().length > 0)
  assert.deepEqual(await channel.interrupt(), [0, null])
})

test('a connection that is lost is said and made anew', async () => {
  const wire = await brittle(platform.url, [])
  const watcher = watch(['--channel', 'todos'], wire.url)
  await watcher.says(subscribed)
  wire.cut()
  await watcher.says(/warning: The connection was lost: .* Trying again in 1 s/)
  await until('subscribed again', () => watcher.stdout.split('Subscribed to PostgreSQL').length === 3)
  await script(`insert into todos values (100, 'after')`)
  await until('the change', () => watcher.heard().length === 1)
  assert.deepEqual(await watcher.interrupt(), [0, null])
})

test('Ctrl-C while it waits for the next attempt ends it with 0', async () => {
  const wire = await brittle(platform.url, [])
  const watcher = watch(['--channel', 'todos'], wire.url)
  await watcher.says(subscribed)
  wire.cut()
  await watcher.says(/Trying again/)
  assert.deepEqual(await watcher.interrupt(), [0, null])
})

test('a JWT that expires ends it, and says that a new one is needed', async () => {
  const claims = { role: 'authenticated', sub: crypto.randomUUID(), exp: Math.floor(Date.now() / 1000) + 4 }
  const tenant = (await platform.app.directory.find(project.id))!
  const watcher = watch(['--channel', 'todos', '--token', signJwt(claims, tenant.jwtSecret)])
  await watcher.says(/Joined/)
  const expired = await failure(watcher)
  assert.equal(expired.code, 'channel_closed')
  assert.match(expired.message, /expired/)
  assert.match(expired.suggestion, /a new one/)
})
