// Compares the gate, which judges a batch of changes for many listeners at once, with the oracle, which asks for each
// row and each listener alone. The test runs 300 cases, bench/realtime-gate.ts runs 10,000.
import { type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { type Expected, type GateCase, makeGateCase } from './gate-cases.ts'
import { type GateOracle, gateOracle, type Verdicts } from './gate-oracle.ts'
import { policyScript } from './gate-policies.ts'
import { insertOf, quote } from './gate-table.ts'
import type { Captured, GatePlace, GateUnderTest, Shown } from './gate-under-test.ts'

export interface GateReport {
  cases: number
  judged: number
  shown: number
  raised: number
  /** Of which a plain select says nothing. */
  unplannable: number
  failures: string[]
}

export interface GateRun {
  place: GatePlace
  gate: GateUnderTest
  seed: string
  cases: number
  first?: number
  maxFailures?: number
}

export async function runGateFuzz({
  place: { superuser, owner, database },
  gate,
  seed,
  cases,
  first = 0,
  maxFailures = 10,
}: GateRun): Promise<GateReport> {
  const report: GateReport = { cases: 0, judged: 0, shown: 0, raised: 0, unplannable: 0, failures: [] }
  await withClient(superuser, database, { session_replication_role: 'replica' }, watcher =>
    withClient(owner, database, {}, async writer => {
      const oracle = gateOracle(watcher)
      for (let index = first; index < first + cases && report.failures.length < maxFailures; index++) {
        const one = makeGateCase(seed, index)
        const complaint = await judgeCase(one, { watcher, writer, oracle, gate }, report)
        report.cases++
        if (complaint) report.failures.push(`${describe(one, seed)}\n${complaint}`)
      }
    }),
  )
  return report
}

interface Tools {
  watcher: OwnSession
  writer: OwnSession
  oracle: GateOracle
  gate: GateUnderTest
}

async function judgeCase(
  one: GateCase,
  { watcher, writer, oracle, gate }: Tools,
  report: GateReport,
): Promise<string | undefined> {
  await setUp(one, watcher, writer)
  const expected: Judged[] = []
  for (const { sql: text, changes } of one.statements) {
    const idsOf = (side: 'oldId' | 'newId') => changes.flatMap(each => each[side] ?? [])
    const before = {
      rows: await oracle.rows(one.table),
      verdicts: await oracle.verdicts(one.table, idsOf('oldId'), one.listeners),
    }
    await writer.script(text)
    const after = {
      rows: await oracle.rows(one.table),
      verdicts: await oracle.verdicts(one.table, idsOf('newId'), one.listeners),
    }
    expected.push(...changes.map(change => ({ change, before, after })))
  }
  const captured = await readCaptured(watcher)
  const ordered = inOrder(expected, captured)
  if (typeof ordered === 'string') return ordered
  const shown = await gate.judge(captured[0]!.relid, captured, one.listeners)
  return differences(one, ordered, shown, report)
}

interface Moment {
  rows: Map<number, string>
  verdicts: Verdicts
}
interface Judged {
  change: Expected
  before: Moment
  after: Moment
}

async function setUp(one: GateCase, watcher: OwnSession, writer: OwnSession): Promise<void> {
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

/** What was expected of each captured change, or what is wrong with what was captured. */
function inOrder(expected: readonly Judged[], captured: readonly Captured[]): Judged[] | string {
  const left = [...expected]
  const ordered: Judged[] = []
  for (const { event, new: after, old } of captured) {
    const [newRow, oldRow] = [after, old].map(text => (text === undefined ? undefined : JSON.parse(text)))
    const place = left.findIndex(
      ({ change }) => change.kind === event && change.newId === newRow?.id && change.oldId === oldRow?.id,
    )
    if (place < 0) return `captured, and nobody did it: ${event} ${after} ${old}`
    const [found] = left.splice(place, 1)
    const { change, before, after: then } = found!
    const isSame = (text: string | undefined, rows: Map<number, string>, id: number | undefined) =>
      id === undefined || text === rows.get(id)
    if (!isSame(after, then.rows, change.newId) || !isSame(old, before.rows, change.oldId))
      return `captured otherwise than it was: ${event} ${after} ${old}`
    ordered.push(found!)
  }
  return left.length > 0 ? `not captured: ${JSON.stringify(left.map(({ change }) => change))}` : ordered
}

/** Verdicts of the oracle on what a change shows. Of a DELETE only the key is ever told, and not by policies. */
function sidesOf({ change, before, after }: Judged): { side: 'new' | 'old'; verdicts: string[] }[] {
  const { kind, newId, oldId } = change
  if (kind === 'DELETE') return []
  const now = { side: 'new' as const, verdicts: after.verdicts.get(newId!)! }
  return oldId === undefined ? [now] : [now, { side: 'old', verdicts: before.verdicts.get(oldId)! }]
}

function differences(
  one: GateCase,
  ordered: readonly Judged[],
  shown: Shown,
  report: GateReport,
): string | undefined {
  const found = ordered.flatMap((judged, at) =>
    sidesOf(judged).flatMap(({ side, verdicts }) =>
      verdicts.flatMap((verdict, who) => {
        count(report, verdict)
        const isShown = shown[at]![who]![side]
        if (verdict === 'unplannable' || isShown === (verdict === 'shown')) return []
        const { role, claims } = one.listeners[who]!
        const does = isShown ? 'shown' : 'hidden'
        return `${judged.change.kind} ${side}: alone ${verdict}, in the batch ${does}, to ${role} ${claims}: ${rowOf(judged, side)}`
      }),
    ),
  )
  return found.length > 0 ? found.slice(0, 3).join('\n') : undefined
}

function count(report: GateReport, verdict: string): void {
  report.judged++
  if (verdict === 'shown') report.shown++
  else if (verdict === 'unplannable') report.unplannable++
  else if (verdict !== 'hidden') report.raised++
}

const rowOf = ({ change, before, after }: Judged, side: 'new' | 'old') =>
  side === 'new' ? after.rows.get(change.newId!) : before.rows.get(change.oldId!)

function describe(one: GateCase, seed: string): string {
  return [
    `case ${one.index} of seed ${seed}, on ${one.table}:`,
    `  members: ${one.memberPolicy ?? 'no policy'}; ${one.members.map(each => Object.values(each).join(' ')).join(', ')}`,
    ...one.policies.map(policy => `  ${policyScript(one.table, policy)}`),
    ...[...one.grants, ...one.settings].map(each => `  ${each}`),
  ].join('\n')
}
