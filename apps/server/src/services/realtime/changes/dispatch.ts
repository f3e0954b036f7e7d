// Sends a batch of changes to all subscribers that may see them. Each change is matched once per group, checked in one query
// per table and role for all callers, and encoded once for all that see the same. Each subscriber gets the changes in order.
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Role } from '@plinth/contract/route.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ChangeSubscriber } from '../subscriber.ts'
import type { Conditions } from './conditions.ts'
import { type Change, encodeChange } from './encode.ts'
import type { Group, Groups } from './groups.ts'
import { type ConditionResults, matches, mayReceive } from './matching.ts'
import type { CheckedCaller, CheckResult, PolicyChecks } from './policy-checks.ts'

/** One change for the members of a group with one role. */
interface Delivery {
  change: Change
  match: { ids: readonly number[]; select: readonly string[] | undefined }
  /** The positions of its rows in the row set that is checked. Undefined if no policy check is needed. */
  rows: { rowSet: RowSet; newAt: number; oldAt: number | undefined } | undefined
  /** The row or its key cannot be read, so visibility cannot be checked. */
  isUnreadable: boolean
  withOld: Buffer | undefined
  withoutOld: Buffer | undefined
}

/** The rows of one table to check for the members of a group with one role. */
interface RowSet {
  readonly relid: string
  readonly command: 'select' | 'selectByKey'
  readonly rows: string[]
}

type Plan = readonly Delivery[]
/** `members` are those at the time the changes were read. */
type Plans = Map<Group, { members: readonly ChangeSubscriber[]; byRole: ReadonlyMap<Role, Plan> }>
/** By row set, then by claims. */
type CheckResults = Map<RowSet, Map<string, CheckResult>>

/** After this time the loop yields, so that other work of the process can run. */
const maxTurnMs = 10

function createYielder() {
  let since = performance.now()
  return async (): Promise<void> => {
    if (performance.now() - since < maxTurnMs) return
    await nextTurn()
    since = performance.now()
  }
}

export interface DispatchOutcome {
  /** Subscribers whose policies failed, with the name of the table. */
  readonly failed: Map<ChangeSubscriber, string>
  /** Subscribers whose policies or filters could not be checked in time. */
  readonly dropped: Set<ChangeSubscriber>
}

export async function dispatch(
  policyChecks: PolicyChecks,
  conditions: Conditions,
  tenant: Tenant,
  groups: Groups,
  changes: readonly Change[],
): Promise<DispatchOutcome> {
  const { results, unevaluated } = await conditions(tenant, groups, changes)
  const plans: Plans = new Map()
  const yieldIfDue = createYielder()
  for (const group of groups) {
    if (group.bindings.length === 0) continue
    const byRole = new Map<Role, Plan>()
    for (const role of rolesIn(group)) {
      const plan = planFor(group, role, changes, results)
      if (plan.length > 0) byRole.set(role, plan)
      await yieldIfDue()
    }
    if (byRole.size > 0) plans.set(group, { members: [...group.members], byRole })
  }
  const checked = await checkVisibility(policyChecks, tenant, plans)
  const outcome = await deliver(plans, checked)
  for (const { members } of unevaluated) for (const member of members) outcome.dropped.add(member)
  return outcome
}

const rolesIn = ({ members }: Group): Set<Role> => {
  const roles = new Set<Role>()
  for (const { caller } of members) roles.add(caller.role)
  return roles
}

function planFor(group: Group, role: Role, changes: readonly Change[], results: ConditionResults): Plan {
  const rowSets = new Map<string, RowSet>()
  const plan: Delivery[] = []
  for (const change of changes) {
    if (!mayReceive(change, role)) continue
    const matched = group.bindings.filter(parsed => matches(parsed, change, role, results))
    if (matched.length === 0) continue
    const needsCheck = role !== 'service_role' && change.event !== 'DELETE'
    const isUnreadable = change.isUnreadable || (needsCheck && change.newRow === undefined)
    const rows = needsCheck && !isUnreadable ? addRows(rowSets, change) : undefined
    // Bindings with different columns need different frames.
    for (const bindings of Map.groupBy(matched, ({ binding }) => binding.select?.join('\0')).values()) {
      const ids = [...new Set(bindings.map(({ binding }) => binding.id))]
      const { select } = bindings[0]!.binding
      plan.push({
        change,
        match: { ids, select },
        rows,
        isUnreadable,
        withOld: undefined,
        withoutOld: undefined,
      })
    }
  }
  return plan
}

function addRows(
  rowSets: Map<string, RowSet>,
  { relid, newRow, oldRow, isKeyOnly }: Change,
): Delivery['rows'] {
  const key = isKeyOnly ? `${relid} by key` : relid
  const rowSet = rowSets.get(key) ?? { relid, command: isKeyOnly ? 'selectByKey' : 'select', rows: [] }
  rowSets.set(key, rowSet)
  return {
    rowSet,
    newAt: rowSet.rows.push(newRow!) - 1,
    oldAt: oldRow === undefined ? undefined : rowSet.rows.push(oldRow) - 1,
  }
}

/** Checks every row set for its callers, once for callers with equal claims. */
async function checkVisibility(
  policyChecks: PolicyChecks,
  tenant: Tenant,
  plans: Plans,
): Promise<CheckResults> {
  const checks = new Map<
    string,
    {
      relid: string
      role: 'anon' | 'authenticated'
      command: RowSet['command']
      callers: CheckedCaller[]
      /** The row set of each caller. */
      rowSets: RowSet[]
    }
  >()
  for (const { members, byRole } of plans.values())
    for (const [role, plan] of byRole) {
      if (role === 'service_role') continue
      const rowSets = new Set(plan.flatMap(({ rows }) => rows?.rowSet ?? []))
      if (rowSets.size === 0) continue
      const userIds = new Map<string, string>()
      for (const { caller } of members) if (caller.role === role) userIds.set(caller.claims, caller.userId)
      for (const rowSet of rowSets) {
        const { relid, command } = rowSet
        const key = `${role} ${command} ${relid}`
        const check = checks.get(key) ?? { relid, role, command, callers: [], rowSets: [] }
        checks.set(key, check)
        for (const [claims, userId] of userIds) {
          check.callers.push({ claims, userId, rows: rowSet.rows })
          check.rowSets.push(rowSet)
        }
      }
    }
  const results: CheckResults = new Map()
  await Promise.all(
    checks.values().map(async ({ relid, role, command, callers, rowSets }) => {
      const found = await policyChecks.check(tenant, { relid, role, command }, callers)
      for (const [index, rowSet] of rowSets.entries()) {
        const byClaims = results.get(rowSet) ?? new Map<string, CheckResult>()
        byClaims.set(callers[index]!.claims, found[index]!)
        results.set(rowSet, byClaims)
      }
    }),
  )
  return results
}

async function deliver(plans: Plans, results: CheckResults): Promise<DispatchOutcome> {
  const outcome: DispatchOutcome = { failed: new Map(), dropped: new Set() }
  const yieldIfDue = createYielder()
  for (const [group, { members, byRole }] of plans)
    for (const member of members) {
      if (!group.members.has(member)) continue
      const { role, claims } = member.caller
      for (const delivery of byRole.get(role) ?? []) {
        const frame = frameFor(group, role, delivery, results, claims, member, outcome)
        if (frame) member.send(frame)
      }
      await yieldIfDue()
    }
  return outcome
}

function frameFor(
  group: Group,
  role: Role,
  delivery: Delivery,
  results: CheckResults,
  claims: string,
  member: ChangeSubscriber,
  { failed, dropped }: DispatchOutcome,
): Buffer | undefined {
  const { change, match, rows } = delivery
  let showsOld = true
  if (delivery.isUnreadable) {
    failed.set(member, change.table.name)
    return
  }
  if (rows) {
    // Undefined if the member's token was refreshed during the check: its new claims were not checked.
    const result = results.get(rows.rowSet)?.get(claims)
    const visibility = result?.[rows.newAt]
    if (visibility === 'x') failed.set(member, change.table.name)
    else if (visibility !== '1' && visibility !== '0') dropped.add(member)
    if (visibility !== '1') return
    showsOld = rows.oldAt !== undefined && result![rows.oldAt] === '1'
  }
  const side = showsOld ? 'withOld' : 'withoutOld'
  delivery[side] ??= encodeChange(group, change, role, match, showsOld)
  return delivery[side]
}
