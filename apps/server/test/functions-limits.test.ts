// Limits of functions: what breaks one gets its status, and other projects notice nothing.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type FunctionsApi, saying } from '../../../conformance/functions.ts'
import { assertDataError } from '../../../conformance/wire.ts'
import { eventually } from './eventually.ts'
import { type FunctionsPlatform, startFunctionsPlatform } from './functions-platform.ts'

let it: FunctionsPlatform
let calm: FunctionsApi
before(async () => {
  it = await startFunctionsPlatform({
    // A worker that spins gets little CPU time on a busy machine, and must be ended for that and not for its time.
    RUNTIME_REQUEST_TIMEOUT_MS: '120000',
    RUNTIME_WORKER_BACKOFF_START_MS: '300',
    RUNTIME_WORKER_BACKOFF_CAP_MS: '600',
  })
  calm = await it.createProject({ function_invocations_per_minute: 1_000_000 })
  await calm.deploy('calm', saying('calm'))
})
after(() => it.stop())

/** Runs the work while another project is called all the time. */
async function whileOthersCall<T>(work: () => Promise<T>): Promise<T> {
  let isOver = false
  const calling = (async () => {
    for (let calls = 0; !isOver || calls < 3; calls++) assert.equal((await calm.call('calm')).text, 'calm')
  })()
  try {
    return await work()
  } finally {
    isOver = true
    await calling
  }
}

/** The worker has crashed, so calls are refused for a moment. */
async function untilBack(project: FunctionsApi, name: string): Promise<void> {
  await eventually(async () => (await project.call(name)).status === 200, 'the project answers again')
}

const breaking: [string, string, string][] = [
  ['JavaScript memory', 'WORKER_LIMIT', 'const kept = []; for (;;) kept.push({ a: [kept.length, 1, 2] })'],
  ['buffers', 'WORKER_LIMIT', 'const kept = []; for (;;) kept.push(new Uint8Array(10_000_000).fill(1))'],
  [
    'strings',
    'WORKER_LIMIT',
    `const kept = []; for (;;) kept.push('x'.repeat(1_000_000) + kept.length + Math.random()), kept.at(-1).charCodeAt(5)`,
  ],
  ['the CPU', 'WORKER_LIMIT', 'for (;;) {}'],
  ['regular expressions', 'WORKER_LIMIT', `/(a+)+$/.test('a'.repeat(60) + 'b')`],
  ['the process', 'WORKER_ERROR', 'Deno.exit(0)'],
]
for (const [what, code, statement] of breaking)
  test(`limits: a function that uses up ${what} is ended, and its project is back after a moment`, async () => {
    const own = await it.createProject({ function_memory_mb: 64 })
    await own.deploy('breaking', `Deno.serve(() => { ${statement}; return new Response('x') })`)
    await own.deploy('fine', saying('fine'))
    const reply = await whileOthersCall(() => own.call('breaking'))
    assertDataError(reply, code as 'WORKER_LIMIT' | 'WORKER_ERROR')
    assert.equal(reply.headers.get('x-relay-error'), 'true')
    await untilBack(own, 'fine')
  })

test('limits: timers, sockets, output and files without end harm only their own project', async () => {
  const quick = await startFunctionsPlatform({
    RUNTIME_REQUEST_TIMEOUT_MS: '3000',
    RUNTIME_WORKER_BACKOFF_START_MS: '100',
    RUNTIME_WORKER_BACKOFF_CAP_MS: '100',
  })
  try {
    const [own, neighbour] = [
      await quick.createProject({ function_memory_mb: 64 }),
      await quick.createProject(),
    ]
    await neighbour.deploy('calm', saying('calm'))
    await own.deploy('fine', saying('fine'))
    await own.deploy(
      'timers',
      `
      const fork = () => { setTimeout(fork, 0); setTimeout(fork, 0) }
      Deno.serve(() => { fork(); return new Response('forked') })`,
    )
    await own.deploy(
      'sockets',
      `
      Deno.serve(async () => {
        const address = { transport: 'tcp', hostname: '198.41.0.4', port: 9 }
        const results = await Promise.allSettled(Array.from({ length: 3000 }, () => Deno.connect(address)))
        return Response.json(results.filter(({ status }) => status === 'rejected').length)
      })`,
    )
    await own.deploy(
      'output',
      `
      Deno.serve(() => { const line = new TextEncoder().encode('x'.repeat(10_000) + '\\n'); for (;;) Deno.stdout.writeSync(line) })`,
    )
    await own.deploy(
      'files',
      `
      Deno.serve(async () => {
        const directory = await Deno.makeTempDir()
        for (let number = 0; ; number++) await Deno.writeFile(directory + '/' + number, new Uint8Array(10_000_000))
      })`,
    )
    for (const name of ['timers', 'sockets', 'output', 'files']) {
      const reply = await own.call(name)
      assert.ok([200, 500, 503, 504, 546].includes(reply.status), `${name}: ${reply.status} ${reply.text}`)
      assert.equal((await neighbour.call('calm')).text, 'calm')
      await untilBack(own, 'fine')
    }
  } finally {
    await quick.stop()
  }
})

test('limits: files that are deleted and kept open count as well', async () => {
  const own = await it.createProject()
  await own.deploy(
    'hidden',
    `
    const kept = []
    Deno.serve(async () => {
      const bytes = new Uint8Array(1_000_000)
      for (let n = 0; n < 8; n++) {
        const path = await Deno.makeTempFile()
        const file = await Deno.open(path, { write: true })
        await Deno.remove(path)
        for (let written = 0; written < 60_000_000; written += bytes.length) await file.write(bytes)
        kept.push(file)
      }
      await new Promise(() => {})
    })`,
  )
  assertDataError(await own.call('hidden'), 'WORKER_LIMIT')
})

test('limits: calls of a function to itself add nothing to its CPU time', async () => {
  const own = await it.createProject({ function_concurrency: 50 })
  await own.deploy(
    'itself',
    `
    Deno.serve(async req => {
      if (new URL(req.url).searchParams.has('short')) return new Response('short')
      const headers = { apikey: Deno.env.get('SUPABASE_SERVICE_ROLE_KEY') }
      const url = Deno.env.get('SUPABASE_URL') + '/functions/v1/itself?short'
      for (;;) {
        await (await fetch(url, { headers })).text()
        for (const since = performance.now(); performance.now() - since < 200; );
      }
    })`,
  )
  assertDataError(await own.call('itself'), 'WORKER_LIMIT')
})

test('limits: a crashed worker starts again after a pause, which Retry-After names', async () => {
  const own = await it.createProject()
  await own.deploy(
    'crashing',
    `Deno.serve(req => { if (req.method === 'DELETE') Deno.exit(1); return new Response('up') })`,
  )
  assert.equal((await own.call('crashing')).text, 'up')
  assertDataError(await own.call('crashing', { method: 'DELETE' }), 'WORKER_ERROR')
  const refused = await own.call('crashing')
  assertDataError(refused, 'WORKER_BACKOFF')
  assert.equal(refused.headers.get('retry-after'), '1')
  await untilBack(own, 'crashing')
  assertDataError(await own.call('crashing', { method: 'DELETE' }), 'WORKER_ERROR')
  await own.deploy('crashing', saying('repaired'))
  assert.equal((await own.call('crashing')).text, 'repaired')
})

test('limits: a function that sends nothing in time is 504, and one that stops in between is cut off', async () => {
  const slow = await startFunctionsPlatform({ RUNTIME_REQUEST_TIMEOUT_MS: '700' })
  try {
    const own = await slow.createProject()
    await own.deploy(
      'waiting',
      `Deno.serve(req => new Promise(resolve => {
      if (req.method === 'GET') resolve(new Response('quick'))
    }))`,
    )
    const late = await own.call('waiting')
    assertDataError(late, 'IDLE_TIMEOUT')
    assert.equal(late.headers.get('x-relay-error'), 'true')
    assert.equal((await own.call('waiting', { method: 'GET' })).text, 'quick')
    await own.deploy(
      'stopping',
      `Deno.serve(() => new Response(new ReadableStream({
      async start(controller) {
        for (let part = 0; part < 6; part++) {
          controller.enqueue(new TextEncoder().encode('part ' + part + ','))
          await new Promise(resolve => setTimeout(resolve, 300))
        }
      }
    })))`,
    )
    await assert.rejects(own.call('stopping'))
    const reply = await fetch(`${slow.url}/v1/functions/${own.project.id}/stopping`, {
      headers: { apikey: own.project.service_role_key },
    })
    let received = ''
    await assert.rejects(async () => {
      for await (const chunk of reply.body!) received += Buffer.from(chunk)
    })
    assert.equal(received, 'part 0,part 1,part 2,part 3,part 4,part 5,')
  } finally {
    await slow.stop()
  }
})

test('limits: the quotas of calls per minute and of calls at once are 429', async () => {
  const own = await it.createProject({ function_invocations_per_minute: 3 })
  await own.deploy('counted', saying('x'))
  const statuses: number[] = []
  for (let call = 0; call < 4; call++) statuses.push((await own.call('counted')).status)
  assert.deepEqual(statuses, [200, 200, 200, 429])
  const refused = await own.call('counted')
  assertDataError(refused, 'FUNCTION_RATE_LIMIT')
  assert.ok(Number(refused.headers.get('retry-after')) > 0)
  assert.match(refused.body.hint, /function_invocations_per_minute/)

  const narrow = await it.createProject({ function_concurrency: 2 })
  await narrow.deploy(
    'held',
    `
    const waiting = []
    Deno.serve(req => {
      if (req.method === 'DELETE') { for (const resolve of waiting.splice(0)) resolve(new Response('released')); return new Response('x') }
      return new Promise(resolve => waiting.push(resolve))
    })`,
  )
  const held = narrow.call('held')
  await eventually(
    async () => (await narrow.logs('held')).some(({ event }) => event === 'start'),
    'one call runs',
  )
  const second = narrow.call('held')
  await eventually(
    async () => (await narrow.logs('held')).filter(({ event }) => event === 'start').length === 2,
    'two calls run',
  )
  assertDataError(await narrow.call('held'), 'FUNCTION_CONCURRENCY')
  await it.manage('PATCH', `/projects/${narrow.project.id}`, { quotas: { function_concurrency: 3 } })
  assert.equal((await narrow.call('held', { method: 'DELETE' })).text, 'x')
  assert.deepEqual([(await held).text, (await second).text], ['released', 'released'])
})

test('limits: an answer that is larger than the quota is 546, or is cut off', async () => {
  const own = await it.createProject({ function_response_mb: 1 })
  await own.deploy(
    'large',
    `
    Deno.serve(req => {
      const size = Number(new URL(req.url).searchParams.get('size'))
      if (req.method === 'GET') return new Response(new Uint8Array(size))
      const chunk = new Uint8Array(100_000)
      let sent = 0
      return new Response(new ReadableStream({ pull(c) { c.enqueue(chunk); if ((sent += chunk.length) >= size) c.close() } }))
    })`,
  )
  assert.equal((await own.call('large?size=1000000', { method: 'GET' })).bytes.length, 1_000_000)
  assert.equal((await own.call('large?size=1000000')).bytes.length, 1_000_000)
  const over = await own.call('large?size=1100000', { method: 'GET' }).catch(() => undefined)
  assert.ok(over === undefined || over.status === 546)
  await assert.rejects(own.call('large?size=5000000'))
  assert.equal((await own.call('large?size=10')).bytes.length, 100_000)
})
