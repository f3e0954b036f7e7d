import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Budget, usageOf } from './usage.ts'

test('budget of a worker: calls and time add CPU time, and a worker that spins exceeds it', () => {
  const budget = new Budget(256, 0)
  budget.addCall()
  assert.equal(budget.spend({ cpuMs: 3000, memoryMb: 50 }, 1000), undefined)
  assert.equal(budget.spend({ cpuMs: 4050, memoryMb: 50 }, 2000), undefined)
  assert.equal(budget.spend({ cpuMs: 4500, memoryMb: 50 }, 2500), 'cpu')
})

test('budget of a worker: it cannot be saved without end', () => {
  const budget = new Budget(256, 0)
  for (let call = 0; call < 1000; call++) budget.addCall()
  assert.equal(budget.spend({ cpuMs: 9900, memoryMb: 50 }, 0), undefined)
  assert.equal(budget.spend({ cpuMs: 10_100, memoryMb: 50 }, 0), 'cpu')
})

test('budget of a worker: memory above the quota, beside that of Deno itself', () => {
  const budget = new Budget(128, 0)
  assert.equal(budget.spend({ cpuMs: 0, memoryMb: 200 }, 0), undefined)
  assert.equal(budget.spend({ cpuMs: 0, memoryMb: 209 }, 0), 'memory')
})

test('usage: this process has used CPU time and memory, and an ended process has none', async () => {
  const usage = await usageOf(process.pid)
  assert.ok(usage && usage.cpuMs > 0 && usage.memoryMb > 10)
  assert.equal(await usageOf(2 ** 22 + 1), undefined)
})
