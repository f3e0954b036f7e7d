import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Tenant } from './directory.ts'
import { createRelay, type RelayedTable } from './outbox-relay.ts'

const tenant = { id: 'a' } as Tenant

/** A table that never ends, because rows are added as fast as they are relayed. */
function endlessTable(onBatch: (number: number) => void, options: Partial<RelayedTable<number>>) {
  const control = { transaction: (work: () => unknown) => work() } as unknown as Database
  const relayed: number[] = []
  const relay = createRelay<number>(control, {
    findCursor: async () => ({ seen: '0' }),
    moveCursor: async () => true,
    read: async (_tenant, { seen }) => ({
      rows: [Number(seen)],
      cursor: { seen: String(Number(seen) + 1) },
      isFull: true,
    }),
    prepare: async (_tenant, rows) => ({
      insert: async () => void relayed.push(...rows),
      committed: () => onBatch(relayed.length),
    }),
    ...options,
  })
  return { relay, relayed }
}

test('outbox relay: a run ends with its turn, and the next continues', async () => {
  const { relay, relayed } = endlessTable(() => {}, { turnMs: 0 })
  equal(await relay.run(tenant), false)
  equal(await relay.run(tenant), false)
  deepEqual(relayed, [0, 1])
})

test('outbox relay: closing ends a run after its batch', async () => {
  const closing: Promise<void>[] = []
  const { relay, relayed } = endlessTable(number => number === 3 && closing.push(relay.close()), {})
  await relay.run(tenant)
  await Promise.all(closing)
  deepEqual(relayed, [0, 1, 2])
})
