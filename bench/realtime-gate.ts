// Ten thousand random cases of policies, claims and changes: batched policy checks for many subscribers against an oracle
// that checks each row and each subscriber alone. Options: --cases, --seed, --first (the number of the first
// case), --max-failures.
import { parseArgs } from 'node:util'
import { guardedSettings, openDatabase } from '../apps/server/src/kernel/postgres/database.ts'
import { runPolicyCheckFuzz } from '../apps/server/test/fuzz/policy-check-fuzz.ts'
import { openPolicyCheckFuzz } from '../apps/server/test/fuzz/policy-checks-under-test.ts'
import { report } from './measure.ts'
import { onStage, projectsAt, refOf, startMain } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    cases: { type: 'string', default: '10000' },
    seed: { type: 'string', default: new Date().toISOString().slice(0, 10) },
    first: { type: 'string', default: '0' },
    'max-failures': { type: 'string', default: '10' },
  },
})
const { seed } = given

await onStage(async stage => {
  const engine = await stage.engine()
  const platform = await startMain(stage, engine.env)
  const { id } = await projectsAt(platform.url, engine.adminToken).create({ body: { name: 'bench' } })
  const ref = await refOf(engine.address, id)
  const control = openDatabase(engine.address, 'plinth', guardedSettings, () => {})
  const fuzz = await openPolicyCheckFuzz(engine.address, engine.controlPlaneSecret, control, { id, ref })
  const since = performance.now()
  const { failures, ...counts } = await runPolicyCheckFuzz({
    ...fuzz,
    seed,
    cases: Number(given.cases),
    first: Number(given.first),
    maxFailures: Number(given['max-failures']),
  })
  fuzz.close()
  await control.close()
  await platform.stop()
  for (const failure of failures) console.error(`${failure}\n`)
  report({
    bench: 'realtime-gate',
    subject: `cases in which policy checks and oracle differ, of ${counts.cases} with seed ${seed}`,
    target: { atMost: 0 },
    measured: failures.length,
    unit: 'cases',
    ...counts,
    seconds: Math.round((performance.now() - since) / 1000),
  })
  if (failures.length > 0 || counts.cases < Number(given.cases)) process.exitCode = 1
})
