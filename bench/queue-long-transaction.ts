// Messages through a queue while a transaction stays open, so that deleted rows cannot be vacuumed: throughput at the end
// of it against the minute before. Options: --minutes (of the transaction), --seconds (of a measurement).
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
  const { duringTransaction, dead } = await withClient(address, database, guardedSettings, async session => {
    await session.script('begin isolation level repeatable read; select txid_current()')
    await load(single, Math.max(1, Number(given.minutes) * 60 - seconds))
    const duringTransaction = await load(single, seconds)
    const dead = await withClient(address, database, guardedSettings, other =>
      other.row<{ n_dead_tup: string }>(
        sql`select n_dead_tup from pg_stat_all_tables where relname = 'q_single'`,
      ),
    )
    return { duringTransaction, dead: Number(dead?.n_dead_tup) }
  })
  await sleep(100)
  await platform.stop()
  report({
    bench: 'queue-long-transaction',
    subject: `send, read and ack after a transaction was open for ${given.minutes} minutes`,
    target: { atLeast },
    measured: duringTransaction['per_second']! / quiet['per_second']!,
    unit: 'of the throughput before',
    quiet,
    during_transaction: duringTransaction,
    dead_rows: dead,
  })
})
