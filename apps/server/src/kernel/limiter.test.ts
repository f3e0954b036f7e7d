import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Refusal } from './errors.ts'
import { createLimiter, type Limiter } from './limiter.ts'

/** Tasks that end when the test calls `end`. `started` has their order. */
function tasks(limit: Limiter) {
  const started: string[] = []
  const ends = new Map<string, () => void>()
  return {
    started,
    run: (key: string, name: string) =>
      limit(key, () => {
        started.push(name)
        return new Promise<string>(resolve => ends.set(name, () => resolve(name)))
      }),
    async end(name: string) {
      ends.get(name)!()
      await turn()
    },
  }
}

test('at most `concurrency` tasks run, and the end of one starts the next', async () => {
  const { started, run, end } = tasks(createLimiter({ concurrency: 2 }))
  const results = ['1', '2', '3', '4'].map(name => run('a', name))
  await turn()
  assert.deepEqual(started, ['1', '2'])
  await end('2')
  assert.deepEqual(started, ['1', '2', '3'])
  await end('1')
  await end('3')
  await end('4')
  assert.deepEqual(await Promise.all(results), ['1', '2', '3', '4'])
})

test('waiting tasks of different keys start in rotation', async () => {
  const { started, run, end } = tasks(createLimiter({ concurrency: 1 }))
  for (const [key, name] of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map(name => [name[0]!, name] as const))
    void run(key, name)
  await turn()
  for (let at = 0; at < 6; at++) await end(started.at(-1)!)
  assert.deepEqual(started, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2'])
})

test('a key at its own limit waits while tasks of other keys start', async () => {
  const { started, run, end } = tasks(createLimiter({ concurrency: 3, perKey: 1 }))
  for (const name of ['a1', 'a2', 'b1', 'c1', 'd1']) void run(name[0]!, name)
  await turn()
  assert.deepEqual(started, ['a1', 'b1', 'c1'])
  await end('b1')
  assert.deepEqual(started, ['a1', 'b1', 'c1', 'd1'])
  await end('a1')
  assert.deepEqual(started, ['a1', 'b1', 'c1', 'd1', 'a2'])
})

test('a task that is added while another ends does not overtake waiting tasks', async () => {
  const { started, run, end } = tasks(createLimiter({ concurrency: 1 }))
  void run('a', 'a1')
  void run('b', 'b1')
  await turn()
  const ended = end('a1')
  void run('c', 'c1')
  await ended
  assert.deepEqual(started, ['a1', 'b1'])
})

test('tasks beyond maxWaiting are rejected, per key', async () => {
  const { run } = tasks(createLimiter({ concurrency: 1, maxWaiting: 1 }))
  void run('a', 'a1')
  void run('a', 'a2')
  await assert.rejects(run('a', 'a3'), (error: Refusal) => {
    assert.ok(error instanceof Refusal)
    assert.equal(error.code, 'pool_exhausted')
    assert.equal(error.headers['retry-after'], '1')
    return true
  })
  void run('b', 'b1')
})

test('the error of a rejected task can be chosen', async () => {
  const limit = createLimiter({ perKey: 1, maxWaiting: 0, rejection: () => new Error('busy') })
  void limit('a', () => new Promise(() => {}))
  await assert.rejects(
    limit('a', async () => {}),
    /busy/,
  )
})

test('a failed task lets the next one start, and its error reaches the caller', async () => {
  const limit = createLimiter({ concurrency: 1 })
  await assert.rejects(
    limit('a', async () => {
      throw new Error('failed')
    }),
    /failed/,
  )
  assert.equal(await limit('a', async () => 'next'), 'next')
})
