import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedSync } from './filesystem-sync.ts'

/** Syncs that end on request. */
function controlled() {
  const started: { directory: string; end(failure?: Error): void }[] = []
  const syncs = new SharedSync(
    directory =>
      new Promise((resolve, reject) => {
        started.push({ directory, end: failure => (failure ? reject(failure) : resolve()) })
      }),
  )
  return { syncs, started }
}
const turn = () => new Promise(resolve => setImmediate(resolve))

test('calls during a sync share the next sync and wait for it', async () => {
  const { syncs, started } = controlled()
  const ended: string[] = []
  const ask = (who: string) => syncs.sync('a').then(() => ended.push(who))
  const all = [ask('first'), ask('second'), ask('third')]
  await turn()
  assert.equal(started.length, 1)
  started[0]!.end()
  await turn()
  assert.deepEqual([started.length, ended], [2, ['first']])
  all.push(ask('late'))
  started[1]!.end()
  await turn()
  assert.deepEqual([started.length, ended], [3, ['first', 'second', 'third']])
  started[2]!.end()
  await Promise.all(all)
  assert.equal(ended.at(-1), 'late')
})

test('directories do not wait for each other', async () => {
  const { syncs, started } = controlled()
  const both = [syncs.sync('a'), syncs.sync('b')]
  assert.deepEqual(
    started.map(({ directory }) => directory),
    ['a', 'b'],
  )
  for (const { end } of started) end()
  await Promise.all(both)
})

test('a failure rejects the calls that share the sync, and the next sync runs', async () => {
  const { syncs, started } = controlled()
  const first = syncs.sync('a')
  const second = syncs.sync('a')
  started[0]!.end(new Error('EIO'))
  await assert.rejects(first, /EIO/)
  await turn()
  started[1]!.end()
  await second
  const third = syncs.sync('a')
  assert.equal(started.length, 3)
  started[2]!.end()
  await third
})
