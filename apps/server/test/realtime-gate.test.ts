// Three hundred random cases of policies, claims and changes; bench/realtime-gate.ts runs ten thousand.
// PLINTH_FUZZ_SEED and PLINTH_FUZZ_CASES choose others.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type GateFuzz, type GateUnderTest, openGateFuzz } from './fuzz/gate-under-test.ts'
import { type GateReport, runGateFuzz } from './fuzz/realtime-gate.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

const seed = process.env['PLINTH_FUZZ_SEED'] ?? 'plinth'
const cases = Number(process.env['PLINTH_FUZZ_CASES'] ?? 300)

let platform: TestPlatform
let fuzz: GateFuzz
let report: GateReport

before(async () => {
  console.log(`seed ${seed}, ${cases} cases`)
  platform = await startPlatform()
  const { id } = await platform.createProject()
  const { address, controlPlaneSecret, app } = platform
  fuzz = await openGateFuzz(address, controlPlaneSecret, app.control, { id, ref: await platform.refOf(id) })
  report = await runGateFuzz({ ...fuzz, seed, cases })
})
after(async () => {
  fuzz?.close()
  await platform?.stop()
})

describe('a batch of changes judged for many at once', () => {
  it('is shown to exactly those who see each row when it is asked for alone', () => {
    assert.equal(report.failures.join('\n\n'), '')
    assert.equal(report.cases, cases)
  })

  it('has rows that are shown, rows that are hidden and policies that raise', () => {
    const { judged, shown, raised } = report
    const isVaried = shown > judged / 5 && judged - shown - raised > judged / 5 && raised > judged / 100
    assert.ok(isVaried, JSON.stringify({ judged, shown, raised }))
  })
})

describe('what watches over it', () => {
  it('sees a row that is shown to somebody who would not see it, and one that is hidden', async () => {
    const wrong = (isShown: boolean): GateUnderTest => ({
      judge: async (_relid, changes, listeners) =>
        changes.map(() => listeners.map(() => ({ new: isShown, old: isShown }))),
    })
    const told = await runGateFuzz({ ...fuzz, gate: wrong(true), seed, cases: 20, maxFailures: 1 })
    assert.match(told.failures[0]!, /alone hidden, in the batch shown/)
    const hidden = await runGateFuzz({ ...fuzz, gate: wrong(false), seed, cases: 20, maxFailures: 1 })
    assert.match(hidden.failures[0]!, /alone shown, in the batch hidden/)
  })
})
