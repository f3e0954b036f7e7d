// Rows by key and pages as anon against @supabase/lite on the same Postgres, with the same table and policies.
// It has its own database, because it creates schemas and grants that our projects do not allow.
// Options: --rounds, --seconds.
import { parseArgs } from 'node:util'
import { report } from './measure.ts'
import { compareThroughput, createDatabase } from './reference-server.ts'
import { hiddenItem, items, requestOf, sendOnce, shapes, stageRows } from './rows-stage.ts'
import { engineIn, onStage } from './stage.ts'
import { installLite, startLite } from './supabase-lite.ts'

const { values: given } = parseArgs({
  options: { rounds: { type: 'string', default: '4' }, seconds: { type: 'string', default: '3' } },
})
const roundSeconds = Number(given.seconds)
const database = 'lite'

const subjects = {
  byKey: { name: 'one row by primary key', rows: 1, atLeast: 10, excellent: 15 },
  page: { name: 'a page of 100 rows', rows: 100, atLeast: 5, excellent: 7 },
} as const

await onStage(async stage => {
  await installLite()
  const rows = await stageRows(stage)
  const platform = await rows.start()
  const { address, postmaster } = engineIn(rows.dataDir)
  await createDatabase(address, database, items)
  const lite = await startLite(stage.dataDir('lite'), address, database)
  try {
    const liteTarget = { anon: lite.anon, path: (rest: string) => `/rest/v1/${rest}` }
    for (const [name, { name: subject, rows: expected, atLeast, excellent }] of Object.entries(subjects)) {
      const shape = shapes[name as keyof typeof subjects]
      const sides = {
        ours: { server: platform, request: requestOf(rows, shape) },
        reference: { server: lite, request: requestOf(liteTarget, shape) },
      }
      for (const { server, request } of Object.values(sides)) {
        const answer = await sendOnce(server.url, request, 4321)
        const [first] = await sendOnce(server.url, request, hiddenItem)
        if (answer.length !== expected || (first as { id: number } | undefined)?.id === hiddenItem)
          throw new Error(`${server.url} returned unexpected rows`)
      }
      const { ratio, range, measured, reference, rounds } = await compareThroughput(sides, {
        rounds: Number(given.rounds),
        seconds: roundSeconds,
        postmaster,
        file: rows.file,
      })
      report({
        bench: 'rows-lite',
        subject: `${subject}, against @supabase/lite 0.10.0`,
        target: { atLeast },
        measured: ratio,
        unit: 'times its throughput',
        excellent,
        range,
        ours: measured,
        lite: reference,
        rounds,
        round_seconds: roundSeconds,
      })
    }
  } finally {
    await lite.stop()
  }
})
