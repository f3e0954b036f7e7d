import assert from 'node:assert/strict'
import { test } from 'node:test'
import { engineSettings } from '#src/kernel/postgres/engine/settings.ts'
import { lockBounds, lockWarnings } from './lock-bounds.ts'

const defaults = { perTransaction: 64, connections: 100, prepared: 0 }

test('lock bounds: on a server with default settings a session may hold an eighth of the lock table, a project a quarter', () => {
  assert.deepEqual(lockBounds(defaults), { session: 800, project: 1600, worthCounting: 100 })
  assert.deepEqual(lockBounds({ ...defaults, prepared: 100 }), {
    session: 1600,
    project: 3200,
    worthCounting: 200,
  })
})

test('lock bounds: the settings of the embedded server give the maximum bounds', () => {
  const embedded = {
    perTransaction: Number(engineSettings['max_locks_per_transaction']),
    connections: Number(engineSettings['max_connections']),
    prepared: 0,
  }
  assert.deepEqual(lockBounds(embedded), { session: 20_000, project: 60_000, worthCounting: 1000 })
  assert.deepEqual(lockWarnings(embedded), [])
})

test('lock bounds: a warning for a small lock table names the settings and a sufficient value', () => {
  const [warning] = lockWarnings(defaults)
  assert.match(warning!, /6400 locks.*max_locks_per_transaction 64.*max_connections 100/)
  const recommended = Number(/max_locks_per_transaction to (\d+)/.exec(warning!)?.[1])
  assert.deepEqual(lockWarnings({ ...defaults, perTransaction: recommended }), [])
})
