// Messages through a queue while somebody keeps a transaction open, so that nothing that was deleted can be cleared away:
// throughput at the end of it against the quiet minute before. Options: --minutes (of it), --seconds (of a measurement).
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { sql } from '../apps/server/src/kernel/postgres/sql.ts'
import { report } from './measure.ts'
import { stageQueues } from './queue-stage.ts'
import { onStage } from './stage.ts'

const { values: given } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, seconds: { type: 'string', default: '20' } },
})
const seconds = Number(given.seconds)
const atLeast = 0.65

await onStage(async stage => {
  const { platform, address, database, single, load } = await stageQueues(stage)
  await load(single, 5)
  const quiet = await load(single, seconds)
  const { held, dead } = await withClient(address, database, guardedSettings, async session => {
    await session.script('begin isolation level repeatable read; select txid_current()')
    await load(single, Math.max(1, Number(given.minutes) * 60 - seconds))
    const held = await load(single, seconds)
    const dead = await withClient(address, database, guardedSettings, other =>
      other.row<{ n_dead_tup: string }>(
        sql`select n_dead_tup from pg_stat_all_tables where relname = 'q_single'`,
      ),
    )
    return { held, dead: Number(dead?.n_dead_tup) }
  })
  await sleep(100)
  await platform.stop()
  report({
    bench: 'queue-long-transaction',
    subject: `send, read and ack after ${given.minutes} minutes of a transaction left open`,
    target: { atLeast },
    measured: held['per_second']! / quiet['per_second']!,
    unit: 'of the throughput before',
    quiet,
    held,
    dead_rows: dead,
  })
})
