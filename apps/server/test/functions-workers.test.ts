// The workers of functions: when they start and stop, and how the modes of isolation differ.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { type FunctionsApi, saying } from '../../../conformance/functions.ts'
import { eventually } from './eventually.ts'
import { type FunctionsPlatform, startFunctionsPlatform } from './functions-platform.ts'

async function withPlatform(
  settings: Record<string, string>,
  work: (it: FunctionsPlatform) => Promise<void>,
): Promise<void> {
  const it = await startFunctionsPlatform(settings)
  try {
    await work(it)
  } finally {
    await it.stop()
  }
}

/** The number of this process's children that run Deno. */
function denoProcesses(): number {
  const { stdout } = spawnSync('ps', ['-o', 'args=', '--ppid', String(process.pid)], { encoding: 'utf8' })
  return stdout.split('\n').filter(line => /\bdeno run\b/.test(line)).length
}

/** The first worker of an installation is followed by one that fills a cache, and ends at once. */
const untilProcesses = (count: number) =>
  eventually(() => denoProcesses() === count, `${count} Deno processes`)

const counting = 'let calls = 0; Deno.serve(() => new Response(String(++calls)))'

test('workers: a platform without calls starts no Deno process, and one that stops leaves none', async () => {
  await withPlatform({}, async it => {
    const own = await it.createProject()
    await own.deploy('counting', counting)
    assert.equal(denoProcesses(), 0)
    assert.deepEqual(await it.health(), { status: 'ok', workers: 0, projects: [] })
    assert.equal((await own.call('counting')).text, '1')
    assert.equal((await own.call('counting')).text, '2')
    await untilProcesses(1)
    assert.deepEqual(await it.health(), { status: 'ok', workers: 1, projects: [own.project.id] })
  })
  assert.equal(denoProcesses(), 0)
})

test('workers: beyond the most workers, the least recently used one makes room', async () => {
  await withPlatform({ RUNTIME_MAX_WORKERS: '2' }, async it => {
    const projects: FunctionsApi[] = []
    for (let number = 0; number < 3; number++) {
      const own = await it.createProject()
      await own.deploy('counting', counting)
      projects.push(own)
    }
    const [a, b, c] = projects as [FunctionsApi, FunctionsApi, FunctionsApi]
    await a.call('counting')
    await b.call('counting')
    assert.equal((await a.call('counting')).text, '2')
    assert.equal((await c.call('counting')).text, '1')
    assert.deepEqual((await it.health()).projects.sort(), [a.project.id, c.project.id].sort())
    assert.equal((await a.call('counting')).text, '3')
    assert.equal((await b.call('counting')).text, '1')
  })
})

test('workers: projects whose calls never end do not keep the workers from others', async () => {
  await withPlatform({ RUNTIME_MAX_WORKERS: '2', PLATFORM_SHUTDOWN_GRACE_MS: '200' }, async it => {
    const slow = await Promise.all([it.createProject(), it.createProject()])
    for (const own of slow) await own.deploy('hanging', 'Deno.serve(() => new Promise(() => {}))')
    const hanging = slow.map(own => own.call('hanging'))
    await eventually(async () => (await it.health()).workers === 2, 'both workers are in use')
    const own = await it.createProject()
    await own.deploy('quick', saying('quick'))
    assert.equal((await own.call('quick')).text, 'quick')
    const [first] = await Promise.race(hanging.map(async (each, index) => [index, await each] as const))
    assert.ok(first === 0 || first === 1)
    await it.manage('DELETE', `/projects/${slow[0]!.project.id}`, { confirm: slow[0]!.project.name })
  })
})

test('workers: an idle worker is stopped, and one with calls or background work is not', async () => {
  await withPlatform({ RUNTIME_WORKER_IDLE_MS: '400' }, async it => {
    const own = await it.createProject()
    await own.deploy('counting', counting)
    await own.deploy(
      'background',
      `
      Deno.serve(() => { EdgeRuntime.waitUntil(new Promise(resolve => setTimeout(() => { console.log('finished'); resolve() }, 2000))); return new Response('x') })`,
    )
    await own.call('counting')
    await eventually(async () => (await it.health()).workers === 0, 'the worker is stopped')
    assert.equal((await own.call('counting')).text, '1')
    await own.call('background')
    await own.untilLogged('background', /finished/)
  })
})

test('workers: per invocation, nothing survives a call', async () => {
  await withPlatform({ PLATFORM_EDGE_ISOLATION: 'per-invocation' }, async it => {
    const own = await it.createProject()
    await own.deploy(
      'state',
      `
      let calls = 0
      Deno.serve(async req => {
        const before = { calls: ++calls, global: globalThis.kept, proto: ({}).kept, file: null, cache: null }
        globalThis.kept = 1
        Object.prototype.kept = 1
        const directory = Deno.env.get('X') ?? (await Deno.makeTempDir())
        before.file = directory.length > 0
        const cache = await caches.open('x')
        before.cache = (await cache.match('https://a.test/')) !== undefined
        await cache.put('https://a.test/', new Response('x'))
        EdgeRuntime.waitUntil(new Promise(resolve => setTimeout(() => { console.log('after the answer'); resolve() }, 200)))
        return Response.json(before)
      })`,
    )
    for (let call = 0; call < 3; call++) {
      const { body } = await own.call('state')
      assert.deepEqual([body.calls, body.global, body.proto, body.cache], [1, undefined, undefined, false])
      await untilProcesses(0)
    }
    assert.deepEqual(await it.health(), { status: 'ok', mode: 'per-invocation', workers: 0, projects: [] })
    await own.untilLogged('state', /after the answer/)
    const stream = await own.deploy(
      'stream',
      `Deno.serve(() => new Response(new ReadableStream({ async start(c) {
      for (let part = 0; part < 3; part++) { c.enqueue(new TextEncoder().encode('part ')); await new Promise(r => setTimeout(r, 50)) } c.close() } })))`,
    )
    assert.equal(stream.version, 1)
    assert.equal((await own.call('stream')).text, 'part part part ')
    const replies = await Promise.all(Array.from({ length: 5 }, () => own.call('state')))
    assert.deepEqual(
      replies.map(({ status }) => status),
      [200, 200, 200, 200, 200],
    )
    await untilProcesses(0)
  })
})

test('workers: an unknown mode warns and is taken as per-project', async () => {
  await withPlatform({ PLATFORM_EDGE_ISOLATION: 'per-thread' }, async it => {
    const own = await it.createProject()
    await own.deploy('counting', counting)
    await own.call('counting')
    assert.equal((await own.call('counting')).text, '2')
    assert.ok(
      it.platform.logged.some(
        line => line.includes('PLATFORM_EDGE_ISOLATION') && line.includes('per-thread'),
      ),
    )
  })
})

test('workers: without the supervisor all projects share one worker, each with its own secrets, and the start warns', async () => {
  await withPlatform({ RUNTIME_SUPERVISOR: 'off' }, async it => {
    assert.ok(it.platform.logged.some(line => line.includes('RUNTIME_SUPERVISOR is off')))
    const code = `
      globalThis.calls ??= 0
      Deno.serve(req => Response.json({ calls: ++globalThis.calls, mine: Deno.env.get('MINE'), given: req.platform.secrets.MINE }))`
    const projects = await Promise.all([it.createProject(), it.createProject()])
    for (const [number, own] of projects.entries()) {
      await it.manage('POST', `/projects/${own.project.id}/secrets`, {
        name: 'MINE',
        value: `value ${number}`,
      })
      await own.deploy('shared', code)
    }
    for (const [number, own] of projects.entries()) {
      const mine = `value ${number}`
      assert.deepEqual((await own.call('shared')).body, { calls: number + 1, mine, given: mine })
    }
    await untilProcesses(1)
    assert.equal((await it.health()).workers, 1)
    for (const own of projects)
      await own.deploy(
        'printing',
        `Deno.serve(() => { console.log('mine is ' + Deno.env.get('MINE')); return new Response('x') })`,
      )
    for (const own of projects) await own.call('printing')
    for (const own of projects) {
      await own.untilLogged('printing', /mine is \*\*\*/)
      const printed = (await own.logs('printing')).filter(({ event }) => event === 'output')
      assert.deepEqual(
        printed.map(({ message }) => message),
        ['mine is ***'],
      )
    }
  })
})
