// A case: a table with rows and policies, its subscribers, and a few statements that change it.
import { memberPolicies, type Policy, randomPolicies } from './policy-check-policies.ts'
import {
  columns,
  insertOf,
  oddText,
  quote,
  type Row,
  randomRow,
  type TableName,
  tableNames,
  teams,
  users,
} from './policy-check-table.ts'
import { createRandom, type Random } from './random.ts'

export interface Subscriber {
  role: 'anon' | 'authenticated' | 'service_role'
  /** JSON text. */
  claims: string
  userId: string
}

/** One row that a statement changes. */
export interface Expected {
  kind: 'INSERT' | 'UPDATE' | 'DELETE'
  oldId?: number
  newId?: number
}

export interface PolicyCheckCase {
  index: number
  table: TableName
  policies: Policy[]
  memberPolicy: string | undefined
  members: { team: number; person: string; level: number }[]
  /** GRANT and REVOKE statements for the roles. */
  grants: string[]
  rows: Row[]
  subscribers: Subscriber[]
  statements: { sql: string; changes: Expected[] }[]
  /** SET statements of the writing session. */
  settings: string[]
}

export function makePolicyCheckCase(seed: string, index: number): PolicyCheckCase {
  const random = createRandom(`${seed} ${index}`)
  const table = random.pick(tableNames)
  const rows = Array.from({ length: random.int(0, 4) }, (_, id) => randomRow(random, id + 1))
  return {
    index,
    table,
    policies: randomPolicies(random, table),
    memberPolicy: random.pick(memberPolicies),
    members: Array.from({ length: random.int(0, 8) }, () => ({
      team: random.pick(teams),
      person: random.pick(users),
      level: random.int(0, 3),
    })),
    grants: randomGrants(random, table),
    rows,
    subscribers: Array.from({ length: random.int(1, 7) }, () => randomSubscriber(random)),
    statements: randomStatements(random, table, rows),
    settings: random.chance(0.85) ? [] : [random.pick(writerSettings)],
  }
}

/** Settings that a writer may change, and that must not affect the policy checks. */
const writerSettings = [
  'set extra_float_digits = 0',
  `set intervalstyle = 'sql_standard'`,
  `set datestyle = 'SQL, DMY'`,
  `set timezone = 'Asia/Kathmandu'`,
  `set bytea_output = 'escape'`,
]

function randomGrants(random: Random, table: TableName): string[] {
  if (random.chance(0.85)) return []
  const role = random.pick(['anon', 'authenticated'])
  const revoke = `revoke all on ${quote(table)} from ${role};`
  return random.chance(0.5)
    ? [revoke]
    : [revoke, `grant select (id, ${quote(random.pick(columns).name)}) on ${quote(table)} to ${role};`]
}

function randomSubscriber(random: Random): Subscriber {
  const role = random.pick([
    'anon',
    'authenticated',
    'authenticated',
    'authenticated',
    'service_role',
  ] as const)
  const sub = role === 'authenticated' && random.chance(0.95) ? random.pick(users) : undefined
  const claims = {
    ...(random.chance(0.95) && { role }),
    ...(sub && { sub }),
    ...(random.chance(0.5) && { email: random.pick(['user1@example.com', 'a', oddText]) }),
    ...(random.chance(0.6) && { team: random.pick([0, 1, 2, '3', 'x', null]) }),
    ...(random.chance(0.3) && { mood: random.pick(['good', 'bad']) }),
    ...(random.chance(0.6) && {
      app_metadata: { level: random.int(0, 5), teams: random.sample(teams, random.int(0, 3)) },
    }),
  }
  return { role, claims: JSON.stringify(claims), userId: sub ?? '' }
}

function randomStatements(
  random: Random,
  table: TableName,
  rows: readonly Row[],
): PolicyCheckCase['statements'] {
  const ids = new Set(rows.map(({ id }) => id))
  let next = 100
  return Array.from({ length: random.int(1, 4) }, () => {
    const some = random.sample([...ids], random.int(1, 3))
    const fresh = () => Array.from({ length: random.int(1, 3) }, () => randomRow(random, next++))
    const inserted = (added: readonly Row[]): Expected[] =>
      added.map(({ id }) => ({ kind: 'INSERT' as const, newId: id }))
    const target = `where id in (${some.join(', ')})`
    const what =
      some.length === 0 ? 'insert' : random.pick(['insert', 'update', 'update', 'move', 'delete', 'upsert'])
    switch (what) {
      case 'update': {
        const changes = some.map(id => ({ kind: 'UPDATE' as const, oldId: id, newId: id }))
        const set = random
          .sample(columns, random.int(1, 5))
          .map(({ name, values }) => `${quote(name)} = ${random.pick(values)}`)
        return { sql: `update ${quote(table)} set ${set.join(', ')} ${target}`, changes }
      }
      case 'move': {
        const changes = some.map(id => ({ kind: 'UPDATE' as const, oldId: id, newId: id + 1000 }))
        for (const { oldId, newId } of changes) if (ids.delete(oldId)) ids.add(newId)
        return { sql: `update ${quote(table)} set id = id + 1000, n = n + 1 ${target}`, changes }
      }
      case 'delete': {
        for (const id of some) ids.delete(id)
        return {
          sql: `delete from ${quote(table)} ${target}`,
          changes: some.map(id => ({ kind: 'DELETE' as const, oldId: id })),
        }
      }
      case 'upsert': {
        const added = [...fresh(), randomRow(random, some[0]!)]
        for (const { id } of added) ids.add(id)
        const updated = { kind: 'UPDATE' as const, oldId: some[0]!, newId: some[0]! }
        return {
          sql: `${insertOf(table, added)} on conflict (id) do update set n = excluded.n, who = excluded.who, flag = excluded.flag`,
          changes: [...inserted(added.slice(0, -1)), updated],
        }
      }
      default: {
        const added = fresh()
        for (const { id } of added) ids.add(id)
        return { sql: insertOf(table, added), changes: inserted(added) }
      }
    }
  })
}
