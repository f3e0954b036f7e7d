// 300 random cases of policies, claims and changes; bench/realtime-gate.ts runs 10,000. Set PLINTH_FUZZ_SEED and
// PLINTH_FUZZ_CASES for other cases.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type FuzzReport, runPolicyCheckFuzz } from './fuzz/policy-check-fuzz.ts'
import {
  openPolicyCheckFuzz,
  type PolicyCheckFuzz,
  type PolicyChecksUnderTest,
} from './fuzz/policy-checks-under-test.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const seed = process.env['PLINTH_FUZZ_SEED'] ?? 'plinth'
const cases = Number(process.env['PLINTH_FUZZ_CASES'] ?? 300)

let platform: TestPlatform
let fuzz: PolicyCheckFuzz
let report: FuzzReport

before(async () => {
  console.log(`seed ${seed}, ${cases} cases`)
  platform = await startPlatform()
  const { id } = await platform.createProject()
  const { address, controlPlaneSecret, app } = platform
  fuzz = await openPolicyCheckFuzz(address, controlPlaneSecret, app.control, {
    id,
    ref: await platform.refOf(id),
  })
  report = await runPolicyCheckFuzz({ ...fuzz, seed, cases })
})
after(async () => {
  fuzz?.close()
  await platform?.stop()
})

describe('policy checks: a batch of changes for many subscribers', () => {
  it('shows each row to exactly the subscribers that see it in a plain SELECT', () => {
    assert.equal(report.failures.join('\n\n'), '')
    assert.equal(report.cases, cases)
  })

  it('covers visible rows, hidden rows and policies that raise', () => {
    const { checked, shown, raised } = report
    const isVaried = shown > checked / 5 && checked - shown - raised > checked / 5 && raised > checked / 100
    assert.ok(isVaried, JSON.stringify({ checked, shown, raised }))
  })
})

describe('policy checks: the comparison with the oracle', () => {
  it('detects a row that is shown wrongly and a row that is hidden wrongly', async () => {
    const wrong = (isShown: boolean): PolicyChecksUnderTest => ({
      check: async (_relid, changes, subscribers) =>
        changes.map(() => subscribers.map(() => ({ new: isShown, old: isShown }))),
    })
    const shown = await runPolicyCheckFuzz({
      ...fuzz,
      policyChecks: wrong(true),
      seed,
      cases: 20,
      maxFailures: 1,
    })
    assert.match(shown.failures[0]!, /alone hidden, in the batch shown/)
    const hidden = await runPolicyCheckFuzz({
      ...fuzz,
      policyChecks: wrong(false),
      seed,
      cases: 20,
      maxFailures: 1,
    })
    assert.match(hidden.failures[0]!, /alone shown, in the batch hidden/)
  })
})
