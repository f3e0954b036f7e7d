// Rows over HTTP as anon under row-level security, through the whole platform, against pgbench in pipeline mode sending
// the same statements to the same Postgres. The statements are first read from the log of Postgres.
// Options: --generations, --rounds, --seconds, --patience (seconds to wait for an idle machine before each run),
// --only=byKey,page,embed,insert, --profile=<directory>.
import { parseArgs } from 'node:util'
import { compare, interleave, report, type Sample } from './measure.ts'
import { pgbench, type Reference } from './pgbench.ts'
import { hiddenItem, type RowsStage, requestOf, sendOnce, shapes, stageRows } from './rows-stage.ts'
import { asPgbench, readLastUnit, type SentStatement, withStatementLog } from './sent-sql.ts'
import { engineIn, onStage, type StagedServer } from './stage.ts'
import { loaded } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    generations: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '4' },
    seconds: { type: 'string', default: '2' },
    patience: { type: 'string', default: '5' },
    only: { type: 'string', default: 'byKey,page,embed,insert' },
    profile: { type: 'string' },
  },
})
type Subject = keyof typeof shapes
const subjects = given.only.split(',') as Subject[]
const generations = Number(given.generations)
const roundSeconds = Number(given.seconds)
const connections = 32
const warmUpSeconds = 3
const marker = 4321

interface SubjectDetails {
  name: string
  atLeast: number
  excellent: number
  rows: number
  /** The shortest SQL with the same answer, as written by hand. */
  byHand: string
}
const subjectDetails: Record<Subject, SubjectDetails> = {
  byKey: {
    name: 'one row by primary key',
    atLeast: 0.45,
    excellent: 0.5,
    rows: 1,
    byHand: `select coalesce(json_agg(t), '[]') from (select * from items where id = :id::bigint) t`,
  },
  page: {
    name: 'a page of 100 rows',
    atLeast: 0.65,
    excellent: 0.7,
    rows: 100,
    byHand: `select coalesce(json_agg(t), '[]')
      from (select * from items where id >= :id::bigint order by id limit 100) t`,
  },
  embed: {
    name: 'a parent with ten embedded children',
    atLeast: 0.5,
    excellent: 0.6,
    rows: 1,
    byHand: `select coalesce(json_agg(t), '[]') from (
      select p.id, p.name, p.n,
             (select coalesce(json_agg(c), '[]')
                from (select id, name, n from children where parent_id = p.id) c) as children
        from parents p where p.id = :id::bigint) t`,
  },
  insert: {
    name: 'insert of one row with representation',
    atLeast: 0.4,
    excellent: 0.5,
    rows: 1,
    byHand: `with t as (
        insert into entries (owner, name, body, n)
        select owner, name, body, n from json_populate_record(null::entries, :body::json) returning *)
      select coalesce(json_agg(t), '[]') from t`,
  },
}

/**
 * Reads share a transaction, sixteen in each of two pipelines, which is the fastest mode of pgbench. Each insert has its
 * own transaction on both sides: a shared one would share the flush to disk.
 */
const pipelines = { reads: { depth: 16, clients: 2 }, writes: { depth: 1, clients: 16 } }

await onStage(async stage => {
  const rows = await stageRows(stage)
  const sent = await readSent(rows)
  const samples: Partial<
    Record<Subject, Record<'ours' | 'pgbench' | 'pgbenchWithReset' | 'pgbenchByHand', Sample[]>>
  > = {}
  for (let count = 0; count < generations; count++) {
    const profiling = given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : []
    const platform = await rows.start(profiling)
    for (const subject of subjects) {
      const more = await measure(rows, platform, subject, sent[subject]!)
      const known = samples[subject]
      if (!known) samples[subject] = more
      else for (const [name, list] of Object.entries(more)) known[name as keyof typeof more].push(...list)
    }
    await platform.stop()
  }
  for (const subject of subjects) {
    const { ours, pgbench, pgbenchWithReset, pgbenchByHand } = samples[subject]!
    const { name, atLeast, excellent } = subjectDetails[subject]
    reportResult(name, ours, pgbench, { target: { atLeast }, excellent })
    reportResult(`${name}, when pgbench also resets the session`, ours, pgbenchWithReset, {})
    reportResult(`${name}, when pgbench sends the shortest SQL for the same rows`, ours, pgbenchByHand, {})
  }
})

/** Repeated until the statement uses the pipelined connections. The last answer counts. */
async function readSent(rows: RowsStage): Promise<Partial<Record<Subject, SentStatement[]>>> {
  const platform = await rows.start()
  const { address } = engineIn(rows.dataDir)
  const sent = await withStatementLog(
    rows.dataDir,
    { address, database: rows.database },
    async readStatements => {
      const found: Partial<Record<Subject, SentStatement[]>> = {}
      for (const subject of subjects) {
        const request = requestOf(rows, shapes[subject])
        for (let count = 0; count < 8; count++) {
          const answer = await sendOnce(platform.url, request, marker)
          if (answer.length !== subjectDetails[subject].rows)
            throw new Error(`${subject} answered ${answer.length} rows`)
        }
        if (subject === 'byKey' && (await sendOnce(platform.url, request, hiddenItem)).length > 0)
          throw new Error('row-level security is not enforced')
        await sendOnce(platform.url, request, marker)
        found[subject] = await readLastUnit(readStatements)
      }
      return found
    },
  )
  await platform.stop()
  return sent
}

async function measure(rows: RowsStage, platform: StagedServer, subject: Subject, sent: SentStatement[]) {
  const shape = shapes[subject]
  const request = requestOf(rows, shape)
  const file = rows.file(`${subject}.lua`)
  const postgres = rows.postgres()
  const ours = (seconds = roundSeconds) =>
    loaded(platform, postgres.postmaster, request, { file, seconds, connections })
  const { unit, values } = asPgbench(sent, String(marker))
  const reference = (name: string, statements: string[]): (() => Promise<Sample>) => {
    const how: Reference = {
      file: rows.file(`${subject}-${name}.sql`),
      unit: statements,
      values: { ...values, ...('body' in shape && { body: shape.body }) },
      ...('ids' in shape && { ids: shape.ids }),
      ...(subject === 'insert' ? pipelines.writes : pipelines.reads),
      seconds: roundSeconds,
    }
    return () => pgbench(postgres, how)
  }
  const contenders = {
    // Its connections may have been closed during the runs of the others.
    ours: () => ours(1).then(() => ours()),
    pgbench: reference('plain', unit.map(withoutCleaning)),
    pgbenchWithReset: reference('cleaning', ['reset all', ...unit]),
    pgbenchByHand: reference('by-hand', [withoutCleaning(unit[0]!), subjectDetails[subject].byHand]),
  }
  await ours(warmUpSeconds)
  await contenders.pgbench()
  return interleave(Number(given.rounds), contenders, Number(given.patience) * 1000)
}

/** The target includes the settings of a caller, but not the release of locks. */
function withoutCleaning(sql: string): string {
  return sql.replace(/\s+and pg_advisory_unlock_all\(\) is not null/, '')
}

function reportResult(
  subject: string,
  ours: Sample[],
  against: Sample[],
  goal: { target?: { atLeast: number }; excellent?: number },
): void {
  const throughput = compare(ours, against, each => each['per_second']!)
  const cpu = compare(
    ours,
    against,
    each => (each['node_cpu_us'] ?? 0) + each['postgres_cpu_us']! + each['client_cpu_us']!,
  )
  report({
    bench: 'rows',
    subject,
    ...goal,
    measured: throughput.ratio,
    unit: 'of its throughput',
    range: throughput.range,
    cpu_ratio: cpu.ratio,
    cpu_ratio_range: cpu.range,
    ours: throughput.measured,
    pgbench: throughput.reference,
    rounds: throughput.rounds,
    generations,
    round_seconds: roundSeconds,
  })
}
