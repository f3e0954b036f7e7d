// Subscriptions from the command line, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { signJwt } from '../../server/src/kernel/crypto/jwt.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { faultyProxy } from './faulty-proxy.ts'
import { begin, beginProcess, type Running, type RunOptions, temporaryDirectory } from './plinth.ts'

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

const deadlineSeconds = 120
async function until(what: string, isDone: () => boolean, output = () => ''): Promise<void> {
  for (const end = Date.now() + deadlineSeconds * 1000; !isDone(); await sleep(20))
    assert.ok(Date.now() < end, `not within ${deadlineSeconds} seconds: ${what}; instead: ${output()}`)
}

const cwd = temporaryDirectory()
function watch(args: string[], url = platform.url, start = begin) {
  const options = {
    cwd,
    env: {
      PLATFORM_URL: url,
      PLATFORM_PROJECT: project.id,
      PLATFORM_REALTIME_TOKEN: project.anon_key,
    },
  }
  const running = start(['realtime', 'subscribe', ...args], options)
  after(running.interrupt)
  const watcher = {
    stdout: running.stdout,
    lines: () => running.stdout().split('\n').filter(Boolean),
    /** Without messages about the channel itself. */
    events: () =>
      watcher
        .lines()
        .map(line => JSON.parse(line))
        .filter(each => each.kind !== 'system'),
    all: () => running.stdout() + running.stderr(),
    prints: (what: RegExp) => until(String(what), () => what.test(watcher.all()), watcher.all),
    hasEnded: running.hasEnded,
    async ended() {
      await until('it has ended', running.hasEnded, watcher.all)
      return running.ended
    },
    async interrupt() {
      running.interrupt()
      return watcher.ended()
    },
  }
  return watcher
}

/** As a separate process, which receives a real SIGINT. */
function beginAsProcess(args: string[], options?: RunOptions): Running {
  const child = beginProcess(args, options)
  let [stdout, stderr] = ['', '']
  let hasEnded = false
  child.stdout.setEncoding('utf8').on('data', chunk => (stdout += chunk))
  child.stderr.setEncoding('utf8').on('data', chunk => (stderr += chunk))
  child.stdin.end()
  const ended = new Promise<number>(resolve => {
    child.on('close', code => {
      hasEnded = true
      resolve(code ?? -1)
    })
  })
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    hasEnded: () => hasEnded,
    interrupt: () => child.kill('SIGINT'),
  }
}
const subscribed = /Subscribed to PostgreSQL/
const failure = async (watcher: ReturnType<typeof watch>) => {
  const code = await watcher.ended()
  assert.equal(code, 1, watcher.all())
  return JSON.parse(watcher.lines().at(-1)!).error
}

test('realtime subscribe: prints each change as one line of JSON, and Ctrl-C ends it with 0', async () => {
  const watcher = watch(['--channel', 'todos'], platform.url, beginAsProcess)
  await watcher.prints(subscribed)
  await script(`insert into todos values (9007199254740993, 'one')`)
  await script(`update todos set title = 'two'`)
  await script(`delete from todos`)
  await until('three changes', () => watcher.events().length === 3)
  const columns = [
    { name: 'id', type: 'unknown' },
    { name: 'title', type: 'unknown' },
  ]
  const [inserted, updated, deleted] = watcher.events()
  assert.ok(!Number.isNaN(Date.parse(inserted.commit_timestamp)))
  delete inserted.commit_timestamp
  assert.ok(watcher.stdout().includes('"id":9007199254740993'), 'a large id lost digits')
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
  assert.equal(await watcher.interrupt(), 0)
  assert.equal(watcher.lines().filter(line => line.includes('"ok"') && !line.includes('system')).length, 0)
})

test('realtime subscribe: prints each change as one line of text without control characters', async () => {
  const watcher = watch(['--channel', 'public:todos:id=eq.5', '-o', 'text'])
  await watcher.prints(subscribed)
  // JSON escapes characters below a space, but not these.
  await script(`insert into todos values (4, 'other'), (5, 'a' || chr(155) || '2J' || chr(8238))`)
  await broadcast('public:todos:id=eq.5', 'be\x1b[2Jll', 1)
  await watcher.prints(/broadcast {2}be/)
  await watcher.prints(/INSERT {2}public\.todos {2}\{"id":5,/)
  assert.ok(!watcher.stdout().includes('other'))
  for (const steering of ['\x1b', '\x9b', '\u202e']) assert.ok(!watcher.stdout().includes(steering))
  await script('delete from todos')
  await watcher.prints(/DELETE {2}public\.todos {2}\{"id":5\}/)
  assert.equal(await watcher.interrupt(), 0)
})

test('realtime subscribe: prints broadcasts, also on the channel of a table', async () => {
  const [room, table] = [watch(['--channel', 'realtime:room-1']), watch(['--channel', 'todos'])]
  await Promise.all([room, table].map(each => each.prints(/Joined realtime:/)))
  await broadcast('room-1', 'say', { text: 'hello' })
  await broadcast('public:todos', 'note', [1])
  for (const [watcher, event, payload] of [
    [room, 'say', { text: 'hello' }],
    [table, 'note', [1]],
  ] as const) {
    await until('the message', () => watcher.events().length > 0)
    assert.deepEqual(watcher.events(), [{ kind: 'broadcast', event, payload, bytes_base64: null }])
    assert.equal(await watcher.interrupt(), 0)
  }
})

test('realtime subscribe: fails with a suggestion when the credential belongs to another project', async () => {
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

test('realtime subscribe: fails with a suggestion when the channel cannot be joined', async () => {
  const refused = await failure(watch(['--channel', 'realtime:secret', '--private']))
  assert.equal(refused.code, 'join_refused')
  assert.match(refused.message, /Unauthorized/)
  assert.match(refused.suggestion, /policy on realtime\.messages/)
})

test('realtime subscribe: a missing table fails; a channel named like a table does not', async () => {
  const missing = await failure(watch(['--channel', 'nowhere']))
  assert.equal(missing.code, 'subscription_refused')
  const channel = watch(['--channel', 'realtime:chat:room'])
  await channel.prints(/Joined realtime:chat:room/)
  await broadcast('chat:room', 'say', 1)
  await until('the message', () => channel.events().length > 0)
  assert.equal(await channel.interrupt(), 0)
})

test('realtime subscribe: reconnects after a lost connection, with a warning', async () => {
  const proxy = await faultyProxy(platform.url, [])
  const watcher = watch(['--channel', 'todos'], proxy.url)
  await watcher.prints(subscribed)
  proxy.cut()
  await watcher.prints(/warning: The connection was lost: .* Reconnecting in 1 s/)
  await until('subscribed again', () => watcher.stdout().split('Subscribed to PostgreSQL').length === 3)
  await script(`insert into todos values (100, 'after')`)
  await until('the change', () => watcher.events().length === 1)
  assert.equal(await watcher.interrupt(), 0)
})

test('realtime subscribe: Ctrl-C while it waits to reconnect ends it with 0', async () => {
  const proxy = await faultyProxy(platform.url, [])
  const watcher = watch(['--channel', 'todos'], proxy.url)
  await watcher.prints(subscribed)
  proxy.cut()
  await watcher.prints(/Reconnecting/)
  assert.equal(await watcher.interrupt(), 0)
})

test('realtime subscribe: an expired JWT ends it and the message asks for a new one', async () => {
  const tenant = (await platform.app.directory.find(project.id))!
  let watcher: ReturnType<typeof watch>
  // On a busy machine a short-lived token may expire before the join; then a longer one is tried.
  for (let seconds = 4; ; seconds *= 4) {
    const exp = Math.floor(Date.now() / 1000) + seconds
    const claims = { role: 'authenticated', sub: crypto.randomUUID(), exp }
    watcher = watch(['--channel', 'todos', '--token', signJwt(claims, tenant.jwtSecret)])
    const hasJoined = () => /Joined/.test(watcher.all())
    await until('joined or refused', () => hasJoined() || watcher.hasEnded(), watcher.all)
    if (hasJoined()) break
    assert.ok(seconds < 256, watcher.all())
  }
  const expired = await failure(watcher)
  assert.equal(expired.code, 'channel_closed')
  assert.match(expired.message, /expired/)
  assert.match(expired.suggestion, /a new one/)
})
