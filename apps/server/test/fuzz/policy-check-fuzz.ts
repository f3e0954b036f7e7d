// Compares the policy checks, which check a batch of changes for many subscribers at once, with the oracle, which checks
// each row for each subscriber alone. The test runs 300 cases, bench/realtime-gate.ts runs 10,000.
import { type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { type Expected, makePolicyCheckCase, type PolicyCheckCase } from './policy-check-cases.ts'
import { type PolicyCheckOracle, policyCheckOracle, type Results } from './policy-check-oracle.ts'
import { policyScript } from './policy-check-policies.ts'
import { insertOf, quote } from './policy-check-table.ts'
import type { Captured, FuzzDatabase, PolicyChecksUnderTest, Shown } from './policy-checks-under-test.ts'

export interface FuzzReport {
  cases: number
  checked: number
  shown: number
  raised: number
  /** Cases for which the oracle's SELECT cannot be planned. */
  unplannable: number
  failures: string[]
}

export interface FuzzRun {
  database: FuzzDatabase
  policyChecks: PolicyChecksUnderTest
  seed: string
  cases: number
  first?: number
  maxFailures?: number
}

export async function runPolicyCheckFuzz({
  database: { superuser, owner, database },
  policyChecks,
  seed,
  cases,
  first = 0,
  maxFailures = 10,
}: FuzzRun): Promise<FuzzReport> {
  const report: FuzzReport = { cases: 0, checked: 0, shown: 0, raised: 0, unplannable: 0, failures: [] }
  await withClient(superuser, database, { session_replication_role: 'replica' }, watcher =>
    withClient(owner, database, {}, async writer => {
      const oracle = policyCheckOracle(watcher)
      for (let index = first; index < first + cases && report.failures.length < maxFailures; index++) {
        const one = makePolicyCheckCase(seed, index)
        const difference = await checkCase(one, { watcher, writer, oracle, policyChecks }, report)
        report.cases++
        if (difference) report.failures.push(`${describe(one, seed)}\n${difference}`)
      }
    }),
  )
  return report
}

interface Tools {
  watcher: OwnSession
  writer: OwnSession
  oracle: PolicyCheckOracle
  policyChecks: PolicyChecksUnderTest
}

async function checkCase(
  one: PolicyCheckCase,
  { watcher, writer, oracle, policyChecks }: Tools,
  report: FuzzReport,
): Promise<string | undefined> {
  await setUp(one, watcher, writer)
  const expected: ExpectedChange[] = []
  for (const { sql: text, changes } of one.statements) {
    const idsOf = (side: 'oldId' | 'newId') => changes.flatMap(each => each[side] ?? [])
    const before = {
      rows: await oracle.rows(one.table),
      results: await oracle.results(one.table, idsOf('oldId'), one.subscribers),
    }
    await writer.script(text)
    const after = {
      rows: await oracle.rows(one.table),
      results: await oracle.results(one.table, idsOf('newId'), one.subscribers),
    }
    expected.push(...changes.map(change => ({ change, before, after })))
  }
  const captured = await readCaptured(watcher)
  const ordered = inOrder(expected, captured)
  if (typeof ordered === 'string') return ordered
  const shown = await policyChecks.check(captured[0]!.relid, captured, one.subscribers)
  return differences(one, ordered, shown, report)
}

interface Moment {
  rows: Map<number, string>
  results: Results
}
interface ExpectedChange {
  change: Expected
  before: Moment
  after: Moment
}

async function setUp(one: PolicyCheckCase, watcher: OwnSession, writer: OwnSession): Promise<void> {
  const table = `public.${quote(one.table)}`
  const policies = await watcher.rows<{ name: string; tab: string }>(
    raw(`select polname as name, polrelid::regclass::text as tab from pg_policy
          where polrelid in ('${table}'::regclass, 'public.members'::regclass)`),
  )
  const members = one.members.map(({ team, person, level }) => `(${team}, '${person}', ${level})`)
  await watcher.script(
    [
      ...policies.map(({ name, tab }) => `drop policy ${quote(name)} on ${tab};`),
      `grant select, insert, update, delete on ${table} to anon, authenticated;`,
      `truncate public.members, ${table};`,
      `delete from platform.changes;`,
    ].join('\n'),
  )
  await writer.script(
    [
      'set search_path = public, extensions;',
      ...(one.memberPolicy ? [`create policy seen on members for select using (${one.memberPolicy});`] : []),
      ...one.policies.map(policy => policyScript(one.table, policy)),
      ...one.grants,
      ...(members.length > 0 ? [`insert into members values ${members.join(', ')};`] : []),
      ...(one.rows.length > 0 ? [`${insertOf(one.table, one.rows)};`] : []),
    ].join('\n'),
  )
  await watcher.script('delete from platform.changes')
  await writer.script(['reset all', 'set search_path = public, extensions', ...one.settings].join(';'))
}

async function readCaptured(watcher: OwnSession): Promise<Captured[]> {
  const rows = await watcher.rows<Record<keyof Captured, string | null>>(
    sql`select id::text, relid::text, kind as event, new, old, new_row as "newRow", old_row as "oldRow"
          from platform.changes order by id`,
  )
  const events = { I: 'INSERT', U: 'UPDATE', D: 'DELETE' } as const
  return rows.map(row => ({
    id: row.id!,
    relid: row.relid!,
    event: events[row.event as 'I'],
    new: row.new ?? undefined,
    old: row.old ?? undefined,
    newRow: row.newRow ?? undefined,
    oldRow: row.oldRow ?? undefined,
  }))
}

/** The expectation for each captured change, or a message if the captured changes are wrong. */
function inOrder(
  expected: readonly ExpectedChange[],
  captured: readonly Captured[],
): ExpectedChange[] | string {
  const left = [...expected]
  const ordered: ExpectedChange[] = []
  for (const { event, new: after, old } of captured) {
    const [newRow, oldRow] = [after, old].map(text => (text === undefined ? undefined : JSON.parse(text)))
    const position = left.findIndex(
      ({ change }) => change.kind === event && change.newId === newRow?.id && change.oldId === oldRow?.id,
    )
    if (position < 0) return `captured without a matching statement: ${event} ${after} ${old}`
    const [found] = left.splice(position, 1)
    const { change, before, after: then } = found!
    const isSame = (text: string | undefined, rows: Map<number, string>, id: number | undefined) =>
      id === undefined || text === rows.get(id)
    if (!isSame(after, then.rows, change.newId) || !isSame(old, before.rows, change.oldId))
      return `captured with different rows: ${event} ${after} ${old}`
    ordered.push(found!)
  }
  return left.length > 0 ? `not captured: ${JSON.stringify(left.map(({ change }) => change))}` : ordered
}

/** The oracle's results for the rows of a change. A DELETE has none: it shows only the key, without a policy check. */
function sidesOf({ change, before, after }: ExpectedChange): { side: 'new' | 'old'; results: string[] }[] {
  const { kind, newId, oldId } = change
  if (kind === 'DELETE') return []
  const now = { side: 'new' as const, results: after.results.get(newId!)! }
  return oldId === undefined ? [now] : [now, { side: 'old', results: before.results.get(oldId)! }]
}

function differences(
  one: PolicyCheckCase,
  ordered: readonly ExpectedChange[],
  shown: Shown,
  report: FuzzReport,
): string | undefined {
  const found = ordered.flatMap((checked, at) =>
    sidesOf(checked).flatMap(({ side, results }) =>
      results.flatMap((result, who) => {
        count(report, result)
        const isShown = shown[at]![who]![side]
        if (result === 'unplannable' || isShown === (result === 'shown')) return []
        const { role, claims } = one.subscribers[who]!
        const does = isShown ? 'shown' : 'hidden'
        return `${checked.change.kind} ${side}: alone ${result}, in the batch ${does}, to ${role} ${claims}: ${rowOf(checked, side)}`
      }),
    ),
  )
  return found.length > 0 ? found.slice(0, 3).join('\n') : undefined
}

function count(report: FuzzReport, result: string): void {
  report.checked++
  if (result === 'shown') report.shown++
  else if (result === 'unplannable') report.unplannable++
  else if (result !== 'hidden') report.raised++
}

const rowOf = ({ change, before, after }: ExpectedChange, side: 'new' | 'old') =>
  side === 'new' ? after.rows.get(change.newId!) : before.rows.get(change.oldId!)

function describe(one: PolicyCheckCase, seed: string): string {
  return [
    `case ${one.index} of seed ${seed}, on ${one.table}:`,
    `  members: ${one.memberPolicy ?? 'no policy'}; ${one.members.map(each => Object.values(each).join(' ')).join(', ')}`,
    ...one.policies.map(policy => `  ${policyScript(one.table, policy)}`),
    ...[...one.grants, ...one.settings].map(each => `  ${each}`),
  ].join('\n')
}
