// Queues over HTTP with concurrent clients, a killed platform, and a database without the pgmq functions.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { call, type Reply, startPlatform, type TestPlatform, testServer } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' } })
})
after(() => platform.stop())

interface Queue {
  create(): Promise<Reply>
  drop(): Promise<Reply>
  list(): Promise<Reply>
  post(what: string, body?: unknown): Promise<Reply>
  get(what: string): Promise<Reply>
}

function queueAt(url: () => string, { id, service_role_key: token }: CreatedProject, name: string): Queue {
  const path = (rest: string) => `${url()}/v1/queue/${id}/queues${rest}`
  return {
    create: () => call(path(''), 'POST', { token, body: { name } }),
    drop: () => call(path(`/${name}`), 'DELETE', { token }),
    list: () => call(path(''), 'GET', { token }),
    post: (what, body) => retryWhenBusy(() => call(path(`/${name}/${what}`), 'POST', { token, body })),
    get: what => retryWhenBusy(() => call(path(`/${name}/${what}`), 'GET', { token })),
  }
}

/** There are more clients than connections. A request that waits too long for one is rejected before it runs. */
async function retryWhenBusy(ask: () => Promise<Reply>): Promise<Reply> {
  for (;;) {
    const reply = await ask()
    if (reply.status !== 429 || reply.body.code !== 'pool_exhausted') return reply
    await sleep(100)
  }
}
async function newQueue(): Promise<Queue> {
  const queue = queueAt(() => platform.url, await platform.createProject(), 'work')
  assert.equal((await queue.create()).status, 201)
  return queue
}
const numbers = (count: number) => Array.from({ length: count }, (_, at) => at + 1)

test('queues: fifty clients that pop get every message once', async () => {
  const queue = await newQueue()
  await queue.post('send_batch', { messages: numbers(600) })
  const popped: number[] = []
  const client = async () => {
    for (;;) {
      const { status, body } = await queue.post('pop')
      assert.equal(status, 200, JSON.stringify(body))
      if (body) popped.push(body.message)
      // Locked messages are skipped, so an empty answer does not mean an empty queue.
      else if ((await queue.get('metrics')).body.queue_length === 0) return
    }
  }
  await Promise.all(numbers(50).map(client))
  assert.deepEqual(
    popped.sort((a, b) => a - b),
    numbers(600),
  )
})

test('queues: concurrent readers get different messages', async () => {
  const queue = await newQueue()
  await queue.post('send_batch', { messages: numbers(200) })
  const read: number[] = []
  const client = async () => {
    for (let misses = 0; read.length < 200; ) {
      const { body } = await queue.post('read', { vt: 600, qty: 7 })
      read.push(...body.map((each: { message: number }) => each.message))
      if (body.length === 0) assert.ok(++misses < 1000, 'all messages are read')
    }
  }
  await Promise.all(numbers(10).map(client))
  assert.deepEqual(
    read.sort((a, b) => a - b),
    numbers(200),
  )
})

test('queues: concurrent archive, replay and ack of a message take effect once', async () => {
  const queue = await newQueue()
  const { msg_id } = (await queue.post('send', { message: 1 })).body
  const trues = async (what: string, field: string) => {
    const replies = await Promise.all(numbers(20).map(() => queue.post(what, { msg_id })))
    return replies.filter(({ status, body }) => status === 200 && body[field] === true).length
  }
  assert.equal(await trues('archive', 'archived'), 1)
  assert.equal(await trues('replay', 'replayed'), 1)
  assert.equal(await trues('ack', 'acked'), 1)
  const { queue_length } = (await queue.get('metrics')).body
  assert.deepEqual([queue_length, (await queue.get('archived')).body], [0, []])
})

test('queues: without the pgmq functions messages still work, and creating a queue asks for a retrofit', async () => {
  const project = await platform.createProject()
  const queue = queueAt(() => platform.url, project, 'work')
  await queue.create()
  const ref = await platform.refOf(project.id)
  await platform.asSuperuser(ref, session =>
    session.script(`
      do $$ declare f record; begin
        for f in select oid::regprocedure as call from pg_proc where pronamespace = 'pgmq'::regnamespace loop
          execute format('drop function %s cascade', f.call);
        end loop;
      end $$`),
  )
  for (const reply of [await queue.create(), await queue.drop()]) {
    assert.deepEqual([reply.status, reply.body.code], [409, 'retrofit_required'])
    assert.match(reply.body.message, /retrofit/)
    assert.match(reply.body.hint, /[Rr]estart/)
  }
  const { msg_id } = (await queue.post('send', { message: 'still here' })).body
  await queue.post('send_batch', { messages: [1, 2] })
  assert.equal((await queue.post('read', { vt: 60 })).body[0].message, 'still here')
  assert.deepEqual((await queue.post('archive', { msg_id })).body, { archived: true })
  assert.equal((await queue.get('archived')).body.length, 1)
  assert.equal((await queue.post('replay', { msg_id })).body.msg_id, msg_id)
  assert.equal((await queue.post('pop')).body.message, 'still here')
  assert.deepEqual((await queue.post('ack', { msg_id: msg_id + 1 })).body, { acked: true })
  assert.equal((await queue.get('metrics')).body.queue_length, 1)
  assert.equal((await queue.list()).body.length, 1)
})

test('queues: a queue with tables but without a list row works', async () => {
  const project = await platform.createProject()
  const queue = queueAt(() => platform.url, project, 'work')
  await queue.create()
  await platform.asSuperuser(await platform.refOf(project.id), session =>
    session.script('delete from pgmq.meta'),
  )
  assert.equal((await queue.post('send', { message: 1 })).status, 200)
  assert.equal((await queue.create()).status, 201)
  assert.equal((await queue.post('pop')).body.message, 1)
})

test('queues: a tenant that breaks its queue tables gets an error, and other projects do not', async () => {
  const project = await platform.createProject()
  const queue = queueAt(() => platform.url, project, 'work')
  await queue.create()
  const other = await newQueue()
  const tenant = (await platform.app.directory.find(project.id))!
  await platform.app.databases.asOwner(tenant, session =>
    session.script('alter table pgmq.q_work drop column read_ct'),
  )
  const { status, body } = await queue.post('read', { vt: 1 })
  assert.ok(status >= 400 && status < 500, JSON.stringify(body))
  assert.equal((await other.post('send', { message: 1 })).status, 200)
  assert.equal((await queue.drop()).status, 204)
})

test('queues: a queue with a dependent view is not dropped, and the error names it', async () => {
  const project = await platform.createProject()
  const queue = queueAt(() => platform.url, project, 'work')
  await queue.create()
  const tenant = (await platform.app.directory.find(project.id))!
  await platform.app.databases.asOwner(tenant, session =>
    session.script('create view waiting as select count(*) from pgmq.q_work'),
  )
  const { status, body } = await queue.drop()
  assert.deepEqual([status, body.code], [409, 'has_dependants'])
  assert.match(body.details, /waiting/)
  assert.equal((await queue.post('send', { message: 1 })).status, 200)
})

test('queues: every confirmed message is delivered after a crash at any time', async t => {
  const node = new KilledNode()
  t.after(() => node.remove())
  await node.start()
  const queue = queueAt(() => node.url, await node.createProject(), 'work')
  await queue.create()
  const sent = new Set<number>()
  const delivered = new Set<number>()
  /** Messages whose ack was answered. A crash can lose the answer of others. */
  const acked = new Set<number>()
  const redelivered = new Set<number>()
  let next = 0
  let isOver = false
  const tries = async (work: () => Promise<void>) => {
    while (!isOver) await work().catch(() => new Promise(resolve => setTimeout(resolve, 20)))
  }
  const producer = () =>
    tries(async () => {
      const number = ++next
      if ((await queue.post('send', { message: number })).status === 200) sent.add(number)
    })
  const consume = async () => {
    const { status, body } = await queue.post('read', { vt: 1, qty: 5 })
    if (status !== 200) return 0
    for (const { msg_id, message } of body) {
      delivered.add(message)
      if (acked.has(message)) redelivered.add(message)
      if ((await queue.post('ack', { msg_id })).status === 200) acked.add(message)
    }
    return body.length as number
  }
  const everybody = [
    producer(),
    producer(),
    tries(async () => void (await consume())),
    tries(async () => void (await consume())),
  ]
  for (let kills = 0; kills < 2; kills++) {
    const before = sent.size
    while (sent.size < before + 30) await new Promise(resolve => setTimeout(resolve, 10))
    await node.kill()
    await node.start()
  }
  isOver = true
  await Promise.all(everybody)
  for (;;) if ((await consume()) === 0 && (await queue.get('metrics')).body.queue_length === 0) break
  assert.deepEqual(
    [...sent].filter(number => !delivered.has(number)),
    [],
    'none is lost',
  )
  assert.deepEqual([...redelivered], [], 'no message is delivered again after its ack was answered')
})

/** A platform in its own process with its own control database. */
class KilledNode {
  url = ''
  readonly #control = `t_queue_${randomBytes(5).toString('hex')}`
  readonly #token = randomBytes(24).toString('hex')
  readonly #secret = randomBytes(24).toString('hex')
  readonly #cwd = mkdtempSync(join(tmpdir(), 'plinth-queue-'))
  #child: ChildProcess | undefined
  #project: CreatedProject | undefined

  async start(): Promise<void> {
    const { user, password, host, port } = testServer()
    const child = spawn(process.execPath, [fileURLToPath(new URL('../src/main.ts', import.meta.url))], {
      cwd: this.#cwd,
      env: {
        PATH: process.env['PATH'],
        TMPDIR: tmpdir(),
        PLATFORM_PORT: '0',
        PLATFORM_DISK_RESERVE_MB: '0',
        PLATFORM_ADMIN_TOKEN: this.#token,
        PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
        CONTROL_PLANE_SECRET: this.#secret,
        DATABASE_URL: `postgres://${user}:${password}@${encodeURIComponent(host)}:${port}/${this.#control}`,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child = child
    let output = ''
    await new Promise<void>(resolve => {
      child.once('exit', () => resolve())
      child.stderr!.setEncoding('utf8').on('data', text => {
        output += text
        if (/running at \S+\n/.test(output)) resolve()
      })
    })
    this.url = /running at (\S+)/.exec(output)?.[1] ?? assert.fail(`it should have started: ${output}`)
  }

  async createProject(): Promise<CreatedProject> {
    const { body } = await call(`${this.url}/api/v1/projects`, 'POST', {
      token: this.#token,
      body: { name: 'q' },
    })
    this.#project = body
    return body
  }

  async kill(): Promise<void> {
    this.#child!.kill('SIGKILL')
    await once(this.#child!, 'exit')
  }

  async remove(): Promise<void> {
    if (this.#project)
      await call(`${this.url}/api/v1/projects/${this.#project.id}`, 'DELETE', { token: this.#token })
    await this.kill()
    rmSync(this.#cwd, { recursive: true, force: true })
    await platform.asSuperuser('postgres', async session => {
      await session.script(`alter database ${this.#control}_template is_template false`)
      for (const name of [`${this.#control}_template`, this.#control])
        await session.script(`drop database if exists ${name} with (force)`)
    })
  }
}

test('queues: messages too large for one answer stay in the queue', async () => {
  const queue = await newQueue()
  const message = 'x'.repeat(9_000_000)
  for (let count = 0; count < 7; count++) assert.equal((await queue.post('send', { message })).status, 200)
  const { status, body } = await queue.post('read', { vt: 3600, qty: 7 })
  assert.equal(status, 400)
  assert.match(body.message, /read fewer/)
  const [first] = (await queue.post('read', { vt: 3600 })).body
  assert.equal(first.read_ct, 1)
  assert.equal((await queue.get('metrics')).body.queue_visible_length, 6)
})

test('queues: a queue that was dropped and created again is read from the beginning', async () => {
  const project = await platform.createProject()
  const queue = queueAt(() => platform.url, project, 'work')
  await queue.create()
  const ref = await platform.refOf(project.id)
  await platform.asSuperuser(ref, session =>
    session.script(
      `insert into pgmq.q_work (vt, message) select now() + interval '1 day', '0' from generate_series(1, 60000)`,
    ),
  )
  for (let reads = 0; reads < 5; reads++) await queue.post('read', { vt: 1 })
  await queue.drop()
  await queue.create()
  await queue.post('send', { message: 'new' })
  assert.equal((await queue.post('read', { vt: 1 })).body[0]?.message, 'new')
})

test('queues: creating and dropping a queue has a lock timeout', async () => {
  const project = await platform.createProject()
  const queue = queueAt(() => platform.url, project, 'work')
  await queue.create()
  const tenant = (await platform.app.directory.find(project.id))!
  await platform.app.databases.asOwner(tenant, async session => {
    await session.script('begin; lock table pgmq.q_work in access exclusive mode')
    const { status, body } = await queue.drop()
    assert.deepEqual([status, body.code], [409, 'object_busy'])
  })
  assert.equal((await queue.drop()).status, 204)
})
