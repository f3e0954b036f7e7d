// Random policies: on every type of column, on claims, through subqueries and functions, some of which raise.
import { columns, quote, type TableName, users } from './policy-check-table.ts'
import type { Random } from './random.ts'

export interface Policy {
  name: string
  isPermissive: boolean
  command: 'ALL' | 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'
  roles: readonly string[]
  using: string
}

const uid = (random: Random) =>
  random.pick([
    'auth.uid()',
    '(select auth.uid())',
    `(auth.jwt() ->> 'sub')::uuid`,
    `nullif(current_setting('request.jwt.claims', true)::json ->> 'sub', '')::uuid`,
    `nullif(current_setting('request.user_id', true), '')::uuid`,
  ])

/** Conditions name the table only where a subquery needs it. */
const atoms: readonly ((random: Random, table: string) => string)[] = [
  random => {
    const { name, values } = random.pick(columns)
    const operator = random.pick(['=', '<>', 'is distinct from', 'is not distinct from'])
    return `${quote(name)} ${operator} ${random.pick(values)}`
  },
  random => {
    const { name, values } = random.pick(
      columns.filter(({ type }) => /int$|numeric|float|text$|timestamptz|date/.test(type)),
    )
    return `${quote(name)} ${random.pick(['<', '<=', '>', '>='])} ${random.pick(values)}`
  },
  (random, table) =>
    `${random.pick([`${quote(table)}.`, ''])}${quote(random.pick(columns).name)} is ${random.pick(['', 'not '])}null`,
  random => `who = ${uid(random)}`,
  random => `who = ${uid(random)}`,
  random => `${uid(random)} = any (array[who, '${users[0]}'])`,
  random => `${uid(random)} is not null`,
  random => `flag is ${random.pick(['true', 'not true', 'false', 'unknown'])}`,
  () => 'flag',
  random => `n in (${random.sample([0, 1, 2, 3, 4, 5], 3).join(', ')})`,
  random => `n between ${random.int(-1, 2)} and ${random.int(2, 5)}`,
  random => `twice > ${random.int(0, 8)}`,
  random => `doc ->> 'k' = '${random.pick(['a', '1'])}'`,
  random => `doc @> '${random.pick(['{"k":"a"}', '{"list":[1]}', '[]', 'null'])}'`,
  random => `doc ${random.pick(['?', '->'])} 'k' is ${random.pick(['not null', 'null'])}`,
  () => `jsonb_typeof(doc) = 'null'`,
  () => `'a' = any (tags)`,
  random => `tags ${random.pick(['@>', '<@', '&&'])} array['a', 'b']`,
  () => `array_length(nums, 1) = 2`,
  () => `nums[1] = 1`,
  () => `cardinality(tags) = 0`,
  () => `length(padded) = 2`,
  () => `word = padded`,
  () => `(spot).x = 1`,
  () => `during @> 2`,
  random => `word ${random.pick(['like', 'not like', '~'])} '${random.pick(['a%', '%', '^[ab]$'])}'`,
  () => `price = trunc(price)`,
  random => `word = auth.jwt() ->> '${random.pick(['email', 'team', 'nothing'])}'`,
  () => `word = auth.email()`,
  random => `auth.role() = '${random.pick(['anon', 'authenticated'])}'`,
  () => `auth.jwt() -> 'app_metadata' -> 'teams' @> to_jsonb(n)`,
  // Raises for claims whose team is no number.
  () => `n = (auth.jwt() ->> 'team')::int`,
  () => `(auth.jwt() -> 'app_metadata' ->> 'level')::int >= n`,
  random => `current_user::text = '${random.pick(['anon', 'authenticated'])}'`,
  (random, table) =>
    `exists (select 1 from members m where m.team = ${quote(table)}.n and m.person = ${uid(random)})`,
  random => `n in (select team from members where person = ${uid(random)})`,
  (random, table) =>
    `exists (select from members ${quote(table)}_1 where ${quote(table)}_1.level > n and person = who and ${random.pick(['true', 'flag'])})`.replaceAll(
      `${quote(table)}_1`,
      'alike',
    ),
  random => `n not in (select team from members where level = ${random.int(0, 3)})`,
  random => `n <= (select max(level) from members where person = ${uid(random)})`,
  random => `n = any (array(select team from members where person = ${uid(random)}))`,
  () => `is_member(n)`,
  () => `(select is_member(2))`,
  () => `tolerates(n)`,
  random => `likes(who, ${random.pick([`auth.jwt() ->> 'mood'`, `(select auth.jwt() ->> 'mood')`])})`,
  random => `${random.int(1, 6)} / n >= 1`,
  () => `word::int > 1`,
]

/** Only for the table whose row type they use. */
const wholeRow = [
  'is_fine(checked)',
  'is_fine(checked.*)',
  'checked is not null',
  `checked.* is distinct from null`,
]

export function randomExpression(random: Random, table: TableName, depth = 2): string {
  const inner = () => randomExpression(random, table, depth - 1)
  if (depth > 0 && random.chance(0.55))
    return random.pick([
      () => `(${inner()} and ${inner()})`,
      () => `(${inner()} or ${inner()})`,
      () => `(not ${inner()})`,
      () => `coalesce(${inner()}, ${random.pick(['true', 'false'])})`,
      () => `case when ${inner()} then ${inner()} else ${inner()} end`,
      () => `((${inner()}) is ${random.pick(['true', 'not true', 'not false'])})`,
    ])()
  if (random.chance(0.05)) return random.pick(['true', 'false', 'null::boolean'])
  if (table === 'checked' && random.chance(0.05)) return random.pick(wholeRow)
  return `(${random.pick(atoms)(random, table)})`
}

const roleLists = [['public'], ['authenticated'], ['anon'], ['anon', 'authenticated'], ['service_role']]

export function randomPolicies(random: Random, table: TableName): Policy[] {
  return Array.from({ length: random.pick([0, 1, 1, 1, 2, 2, 3, 4]) }, (_, index) => ({
    name: `${random.pick(['a', 'm', 'z'])}${index}`,
    // The first policy shows some rows, so that there is something to compare.
    isPermissive: index === 0 ? !random.chance(0.1) : random.chance(0.6),
    command: random.pick([
      'SELECT',
      'SELECT',
      'ALL',
      index === 0 ? 'SELECT' : random.pick(['INSERT', 'UPDATE', 'DELETE']),
    ]),
    roles: random.pick(index === 0 ? [['public'], ['authenticated'], ['anon', 'authenticated']] : roleLists),
    using: randomExpression(random, table),
  }))
}

export const memberPolicies: readonly (string | undefined)[] = [
  'person = auth.uid()',
  'person = (select auth.uid())',
  'true',
  undefined,
  'level > 1',
  `team::text = auth.jwt() ->> 'team'`,
  'team = any (select 1) or is_member(team)',
]

export function policyScript(table: string, { name, isPermissive, command, roles, using }: Policy): string {
  const check = command === 'INSERT' ? `with check (${using})` : `using (${using})`
  return `create policy ${quote(name)} on ${quote(table)} as ${isPermissive ? 'permissive' : 'restrictive'} for ${command} to ${roles.join(', ')} ${check};`
}
