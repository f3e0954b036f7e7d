// A batch of changes to all who may hear of them: matched once for each group, judged once for each table and role with
// the claims of everybody, encoded once for all who see the same, sent in the order of the changes.
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Role } from '@plinth/contract/route.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber } from '../subscriber.ts'
import type { Conditions } from './conditions.ts'
import type { Asked, Gate, Verdict } from './gate.ts'
import type { Group, Groups } from './groups.ts'
import { type Answers, matches, mayHear } from './matching.ts'
import { type Change, tell } from './telling.ts'

/** One change, for the members of a group with one role. */
interface Telling {
  change: Change
  wish: { ids: readonly number[]; select: readonly string[] | undefined }
  /** Where its rows stand among those the gate is asked about; absent when it is not asked. */
  rows: { sheet: Sheet; newAt: number; oldAt: number | undefined } | undefined
  /** Nobody can be judged on it, or its key cannot be read. */
  isUnreadable: boolean
  withOld: Buffer | undefined
  withoutOld: Buffer | undefined
}

/** The rows of one table that the members of a group with one role are judged on. */
interface Sheet {
  readonly relid: string
  readonly command: 'select' | 'selectByKey'
  readonly rows: string[]
}

type Plan = readonly Telling[]
/** What everybody who was there when the changes were read is to hear. */
type Plans = Map<Group, { members: readonly ChangeSubscriber[]; byRole: ReadonlyMap<Role, Plan> }>
type Verdicts = Map<Sheet, Map<string, Verdict>>

/** Longer than this, others wait for their turn. */
const turnMs = 10

function createTurn() {
  let since = performance.now()
  return {
    async pass(): Promise<void> {
      if (performance.now() - since < turnMs) return
      await nextTurn()
      since = performance.now()
    },
  }
}

export interface Outcome {
  /** Subscribers whose policies failed, and on which table. */
  readonly failed: Map<ChangeSubscriber, string>
  /** Subscribers about whom nobody was free to ask. */
  readonly dropped: Set<ChangeSubscriber>
}

export async function dispatch(
  gate: Gate,
  conditions: Conditions,
  tenant: Tenant,
  groups: Groups,
  changes: readonly Change[],
): Promise<Outcome> {
  const { answers, unasked } = await conditions(tenant, groups, changes)
  const plans: Plans = new Map()
  const turn = createTurn()
  for (const group of groups) {
    if (group.wishes.length === 0) continue
    const byRole = new Map<Role, Plan>()
    for (const role of rolesIn(group)) {
      const plan = planFor(group, role, changes, answers)
      if (plan.length > 0) byRole.set(role, plan)
      await turn.pass()
    }
    if (byRole.size > 0) plans.set(group, { members: [...group.members], byRole })
  }
  const verdicts = await judge(gate, tenant, plans)
  const outcome = await deliver(plans, verdicts)
  for (const { members } of unasked) for (const member of members) outcome.dropped.add(member)
  return outcome
}

const rolesIn = ({ members }: Group): Set<Role> => {
  const roles = new Set<Role>()
  for (const { caller } of members) roles.add(caller.role)
  return roles
}

function planFor(group: Group, role: Role, changes: readonly Change[], answers: Answers): Plan {
  const sheets = new Map<string, Sheet>()
  const plan: Telling[] = []
  for (const change of changes) {
    if (!mayHear(change, role)) continue
    const matched = group.wishes.filter(wish => matches(wish, change, role, answers))
    if (matched.length === 0) continue
    const isGated = role !== 'service_role' && change.event !== 'DELETE'
    const isUnreadable = change.isUnreadable || (isGated && change.newRow === undefined)
    const rows = isGated && !isUnreadable ? placeRows(sheets, change) : undefined
    // Those who asked for other columns are told apart.
    for (const wishes of Map.groupBy(matched, ({ binding }) => binding.select?.join('\0')).values()) {
      const ids = [...new Set(wishes.map(({ binding }) => binding.id))]
      const { select } = wishes[0]!.binding
      plan.push({
        change,
        wish: { ids, select },
        rows,
        isUnreadable,
        withOld: undefined,
        withoutOld: undefined,
      })
    }
  }
  return plan
}

function placeRows(
  sheets: Map<string, Sheet>,
  { relid, newRow, oldRow, isKeyOnly }: Change,
): Telling['rows'] {
  const key = isKeyOnly ? `${relid} by key` : relid
  const sheet = sheets.get(key) ?? { relid, command: isKeyOnly ? 'selectByKey' : 'select', rows: [] }
  sheets.set(key, sheet)
  return {
    sheet,
    newAt: sheet.rows.push(newRow!) - 1,
    oldAt: oldRow === undefined ? undefined : sheet.rows.push(oldRow) - 1,
  }
}

/** Everybody who needs a verdict on a sheet is asked about on it, once for equal claims. */
async function judge(gate: Gate, tenant: Tenant, plans: Plans): Promise<Verdicts> {
  const questions = new Map<
    string,
    { relid: string; role: 'anon' | 'authenticated'; command: Sheet['command']; asked: Asked[]; on: Sheet[] }
  >()
  for (const { members, byRole } of plans.values())
    for (const [role, plan] of byRole) {
      if (role === 'service_role') continue
      const sheets = new Set(plan.flatMap(({ rows }) => rows?.sheet ?? []))
      if (sheets.size === 0) continue
      const callers = new Map<string, string>()
      for (const { caller } of members) if (caller.role === role) callers.set(caller.claims, caller.userId)
      for (const sheet of sheets) {
        const { relid, command } = sheet
        const key = `${role} ${command} ${relid}`
        const question = questions.get(key) ?? { relid, role, command, asked: [], on: [] }
        questions.set(key, question)
        for (const [claims, userId] of callers) {
          question.asked.push({ claims, userId, rows: sheet.rows })
          question.on.push(sheet)
        }
      }
    }
  const verdicts: Verdicts = new Map()
  await Promise.all(
    questions.values().map(async ({ relid, role, command, asked, on }) => {
      const found = await gate.judge(tenant, { relid, role, command }, asked)
      for (const [index, sheet] of on.entries()) {
        const known = verdicts.get(sheet) ?? new Map<string, Verdict>()
        known.set(asked[index]!.claims, found[index]!)
        verdicts.set(sheet, known)
      }
    }),
  )
  return verdicts
}

async function deliver(plans: Plans, verdicts: Verdicts): Promise<Outcome> {
  const outcome: Outcome = { failed: new Map(), dropped: new Set() }
  const turn = createTurn()
  for (const [group, { members, byRole }] of plans)
    for (const member of members) {
      if (!group.members.has(member)) continue
      const { role, claims } = member.caller
      for (const telling of byRole.get(role) ?? []) {
        const frame = frameFor(group, role, telling, verdicts, claims, member, outcome)
        if (frame) member.send(frame)
      }
      await turn.pass()
    }
  return outcome
}

function frameFor(
  group: Group,
  role: Role,
  telling: Telling,
  verdicts: Verdicts,
  claims: string,
  member: ChangeSubscriber,
  { failed, dropped }: Outcome,
): Buffer | undefined {
  const { change, wish, rows } = telling
  let showsOld = true
  if (telling.isUnreadable) {
    failed.set(member, change.table.name)
    return
  }
  if (rows) {
    // Whoever has new claims since the gate was asked is not known there.
    const verdict = verdicts.get(rows.sheet)?.get(claims)
    const isSeen = verdict?.[rows.newAt]
    if (isSeen === 'x') failed.set(member, change.table.name)
    else if (isSeen !== '1' && isSeen !== '0') dropped.add(member)
    if (isSeen !== '1') return
    showsOld = rows.oldAt !== undefined && verdict![rows.oldAt] === '1'
  }
  const side = showsOld ? 'withOld' : 'withoutOld'
  telling[side] ??= tell(group, change, role, wish, showsOld)
  return telling[side]
}
