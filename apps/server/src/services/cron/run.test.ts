import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retryLater } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { AsOwner } from '#src/tenancy/owners.ts'
import { runJob } from './run.ts'

test('cron: a run that is stopped while it waits ends at once', async () => {
  const stop = new AbortController()
  let asked = 0
  const asOwner: AsOwner = async () => {
    asked++
    stop.abort()
    throw retryLater('pool_exhausted', 'Too many statements', 1)
  }
  const outcome = await runJob({ ref: 'p_x' } as Tenant, 'select 1', stop.signal, {
    databases: { asOwner },
    timeoutMs: 60_000,
    saveBackend: () => assert.fail('it has no session'),
    endBackend: () => assert.fail('it has no session'),
  })
  assert.deepEqual(outcome, { status: 'failed', message: 'the platform was stopped' })
  assert.equal(asked, 1)
})
